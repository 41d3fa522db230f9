// SPDX-License-Identifier: GPL-2.0-only
//! Which shootdowns could have been one. **Neighbours** are flushes of one thread, from one kernel stack (and one user
//! stack, where those were taken), of one class, with no other flush of that thread between them, that begin within a
//! window of time after the first of them; where asked, each range must also begin where the last one ends, or end
//! where it begins. One flush in their stead would be put off by at most that window. Whether a kernel may put it off
//! is not known here: what is counted is what could be saved at most.

use crate::{Cause, Class, Shootdown};
use std::collections::{BTreeMap, HashMap};

/// Threads whose last flush is remembered; beyond, the longest silent are forgotten.
const OPEN_MAX: usize = 16_384;
/// Stacks told apart; further ones are added up as one.
const STACKS_MAX: usize = 8_192;
/// Linux flushes more 4 KiB pages than this all at once (`tlb_single_page_flush_ceiling`).
pub const CEILING_PAGES: u64 = 33;

const MASK_WORDS: usize = 16;

/// What is asked of the ranges of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// Nothing: also those far apart, and full flushes.
    Any,
    /// They touch: both ranged, without a gap and without overlap.
    Touching,
}

/// One or more neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub first: Shootdown,
    pub shootdowns: u64,
    pub targets: u64,
    /// CPUs that were a target at least once, or the most of one shootdown if that is more.
    pub cpus: u64,
    /// Sum; none if one of them was full.
    pub pages: Option<u64>,
    /// Sum and greatest of the initiator's wait.
    pub wait_ns: u64,
    pub wait_ns_max: u64,
    /// Lowest address, and the end.
    pub address: Option<u64>,
    end: Option<u64>,
    mask: [u64; MASK_WORDS],
}

impl Run {
    fn new(shootdown: &Shootdown) -> Run {
        let mut run = Run {
            first: shootdown.clone(),
            shootdowns: 0,
            targets: 0,
            cpus: 0,
            pages: Some(0),
            wait_ns: 0,
            wait_ns_max: 0,
            address: shootdown.address,
            end: shootdown.address,
            mask: [0; MASK_WORDS],
        };
        run.add(shootdown);
        run
    }

    fn add(&mut self, shootdown: &Shootdown) {
        let wait_ns = shootdown.latencies.map_or(0, |times| times.wait_ns);
        self.shootdowns += 1;
        self.targets = self.targets.saturating_add(shootdown.targets.into());
        for cpu in &shootdown.target_cpus {
            if let Some(word) = self.mask.get_mut(*cpu as usize / 64) {
                *word |= 1 << (cpu % 64);
            }
        }
        let named = self.mask.iter().map(|word| u64::from(word.count_ones())).sum();
        self.cpus = self.cpus.max(shootdown.targets.into()).max(named);
        self.pages = self.pages.zip(shootdown.pages).map(|(sum, pages)| sum.saturating_add(pages));
        self.wait_ns = self.wait_ns.saturating_add(wait_ns);
        self.wait_ns_max = self.wait_ns_max.max(wait_ns);
        if let Some((from, to)) = bounds(shootdown) {
            self.address = self.address.map(|address| address.min(from));
            self.end = self.end.map(|end| end.max(to));
        }
    }

    fn takes(&self, next: &Shootdown, range: Range, within_ns: u64) -> bool {
        let first = &self.first;
        let is_soon = next.start_ns >= first.start_ns && next.start_ns - first.start_ns <= within_ns;
        let is_same_place = (first.class, first.kernel_stack, first.user_stack)
            == (next.class, next.kernel_stack, next.user_stack)
            && first.cause == next.cause;
        let touches = || match (self.address, self.end, bounds(next)) {
            (Some(address), Some(end), Some((from, to))) => from == end || to == address,
            _ => false,
        };
        is_soon && is_same_place && (range == Range::Any || touches())
    }

    /// Pages that one shootdown flushed.
    pub fn factor(&self) -> Option<f64> {
        self.pages.map(|pages| pages as f64 / self.shootdowns.max(1) as f64)
    }
}

fn bounds(shootdown: &Shootdown) -> Option<(u64, u64)> {
    let from = shootdown.address?;
    Some((from, from.saturating_add(shootdown.pages?.saturating_mul(4096))))
}

/// Finds runs in a stream of shootdowns.
#[derive(Debug, Clone)]
pub struct Neighbours {
    pub range: Range,
    pub within_ns: u64,
    /// By thread; the idle threads of all CPUs share their number.
    open: HashMap<(u32, u32), Run>,
}

impl Neighbours {
    pub fn new(range: Range, within_ns: u64) -> Neighbours {
        Neighbours { range, within_ns, open: HashMap::new() }
    }

    /// Runs that this one ends.
    pub fn take(&mut self, next: &Shootdown) -> Vec<Run> {
        let thread = (next.task.tid, if next.task.tid == 0 { next.cpu } else { 0 });
        if let Some(run) = self.open.get_mut(&thread) {
            if run.takes(next, self.range, self.within_ns) {
                run.add(next);
                return Vec::new();
            }
        }
        let mut ended: Vec<Run> = self.open.insert(thread, Run::new(next)).into_iter().collect();
        if self.open.len() > OPEN_MAX {
            ended.extend(self.ended_before(next.start_ns));
            if self.open.len() > OPEN_MAX / 2 {
                ended.extend(self.rest());
            }
        }
        ended
    }

    /// Runs to which nothing can be added any more, oldest first.
    pub fn ended_before(&mut self, now_ns: u64) -> Vec<Run> {
        let within_ns = self.within_ns;
        let mut ended = Vec::new();
        self.open.retain(|_, run| {
            let is_open = run.first.start_ns.saturating_add(within_ns) >= now_ns;
            if !is_open {
                ended.push(run.clone());
            }
            is_open
        });
        ended.sort_by_key(|run| run.first.start_ns);
        ended
    }

    /// All that are left, oldest first.
    pub fn rest(&mut self) -> Vec<Run> {
        let mut rest: Vec<Run> = self.open.drain().map(|(_, run)| run).collect();
        rest.sort_by_key(|run| run.first.start_ns);
        rest
    }
}

/// What one flush for each run would have saved, for one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Saving {
    pub shootdowns: u64,
    pub targets: u64,
    pub wait_ns: u64,
    /// Runs of two or more.
    pub runs: u64,
    pub saved_shootdowns: u64,
    pub saved_targets: u64,
    pub saved_wait_ns: u64,
    /// Of those runs, how many would be full flushes: over the ceiling, or one of them was full already.
    pub full_runs: u64,
}

impl Saving {
    fn add(&mut self, run: &Run) {
        let mut sums = [
            (&mut self.shootdowns, run.shootdowns),
            (&mut self.targets, run.targets),
            (&mut self.wait_ns, run.wait_ns),
        ];
        sums.iter_mut().for_each(|(sum, more)| **sum = sum.saturating_add(*more));
        if run.shootdowns < 2 {
            return;
        }
        self.runs += 1;
        self.saved_shootdowns = self.saved_shootdowns.saturating_add(run.shootdowns - 1);
        self.saved_targets = self.saved_targets.saturating_add(run.targets.saturating_sub(run.cpus));
        self.saved_wait_ns = self.saved_wait_ns.saturating_add(run.wait_ns - run.wait_ns_max);
        self.full_runs += u64::from(run.pages.map_or(true, |pages| pages > CEILING_PAGES));
    }
}

/// Where: class, cause, kernel stack.
pub type Place = (Class, Cause, Option<u32>);

/// What batching would save, by place, for one idea of neighbours.
#[derive(Debug, Clone)]
pub struct Batching {
    pub neighbours: Neighbours,
    pub places: BTreeMap<Place, Saving>,
    pub totals: BTreeMap<Class, Saving>,
}

impl Batching {
    pub fn new(range: Range, within_ns: u64) -> Batching {
        Batching {
            neighbours: Neighbours::new(range, within_ns),
            places: BTreeMap::new(),
            totals: BTreeMap::new(),
        }
    }

    /// Of all places of a class.
    pub fn total(&self, class: Class) -> Saving {
        self.totals.get(&class).copied().unwrap_or_default()
    }

    pub fn take(&mut self, shootdown: &Shootdown) {
        for run in self.neighbours.take(shootdown) {
            self.add(&run);
        }
    }

    /// No more will come.
    pub fn end(&mut self) {
        for run in self.neighbours.rest() {
            self.add(&run);
        }
    }

    fn add(&mut self, run: &Run) {
        let place = (run.first.class, run.first.cause.clone(), run.first.kernel_stack);
        let is_known = self.places.contains_key(&place);
        let place = match is_known || self.places.len() < STACKS_MAX {
            true => place,
            false => (run.first.class, Cause::NoStack, None),
        };
        self.places.entry(place).or_default().add(run);
        self.totals.entry(run.first.class).or_default().add(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Latencies, Task};

    fn flush(start_ns: u64, tid: u32, stack: u32, address: u64, pages: Option<u64>) -> Shootdown {
        Shootdown {
            start_ns,
            class: Class::User,
            cause: Cause::Munmap,
            cpu: 0,
            task: Task { tgid: tid, tid, ..Task::default() },
            kernel_stack: Some(stack),
            user_stack: None,
            address: pages.map(|_| address),
            pages,
            entries: pages,
            kind: if pages.is_some() { Kind::Ranged } else { Kind::Whole },
            why_full: None,
            freed_tables: false,
            targets: 2,
            target_cpus: vec![1, 2],
            latencies: Some(Latencies { wait_ns: 10, ..Latencies::default() }),
            slowest: None,
        }
    }

    fn runs(range: Range, flushes: &[Shootdown]) -> Vec<u64> {
        let mut neighbours = Neighbours::new(range, 1000);
        let mut runs: Vec<Run> = flushes.iter().flat_map(|flush| neighbours.take(flush)).collect();
        runs.extend(neighbours.rest());
        runs.iter().map(|run| run.shootdowns).collect()
    }

    #[test]
    fn neighbours_share_thread_stack_window_and_touch_where_asked() {
        let next = |ns, page: u64| flush(ns, 7, 1, page * 4096, Some(1));
        let touching = [next(0, 10), next(100, 11), next(200, 9), next(300, 20)];
        assert_eq!(runs(Range::Touching, &touching), [3, 1]);
        assert_eq!(runs(Range::Any, &touching), [4]);
        // The window counts from the first, so nothing is put off for longer.
        assert_eq!(runs(Range::Any, &[next(0, 1), next(900, 2), next(1001, 3)]), [2, 1]);
        // The same page again overlaps: it does not touch.
        assert_eq!(runs(Range::Touching, &[next(0, 1), next(1, 1)]), [1, 1]);
        // Another stack between them ends the run; another thread does not.
        let other_stack = flush(50, 7, 2, 0, Some(1));
        assert_eq!(runs(Range::Any, &[next(0, 1), other_stack, next(99, 2)]), [1, 1, 1]);
        let other_thread = flush(50, 8, 1, 0, Some(1));
        assert_eq!(runs(Range::Any, &[next(0, 1), other_thread, next(99, 2)]), [2, 1]);
        // A full flush has no range.
        assert_eq!(runs(Range::Touching, &[next(0, 1), flush(9, 7, 1, 0, None)]), [1, 1]);
        // Clocks of a damaged record.
        assert_eq!(runs(Range::Any, &[next(500, 1), next(400, 2)]), [1, 1]);
    }

    #[test]
    fn a_saving_is_what_one_flush_would_leave_out() {
        let mut batching = Batching::new(Range::Touching, 1000);
        for page in 0..40 {
            batching.take(&flush(page, 7, 1, page * 4096, Some(1)));
        }
        batching.take(&flush(5000, 7, 1, 0, Some(1)));
        batching.take(&Shootdown { class: Class::KernelRange, ..flush(9000, 7, 2, 0, Some(1)) });
        batching.end();
        let expected = Saving {
            shootdowns: 41,
            targets: 82,
            wait_ns: 410,
            runs: 1,
            saved_shootdowns: 39,
            saved_targets: 78,
            saved_wait_ns: 390,
            full_runs: 1,
        };
        assert_eq!(batching.total(Class::User), expected);
        assert_eq!(batching.total(Class::KernelRange).shootdowns, 1);
        assert_eq!(batching.places.get(&(Class::User, Cause::Munmap, Some(1))), Some(&expected));
    }

    #[test]
    fn a_storm_of_threads_is_forgotten_in_time() {
        let mut neighbours = Neighbours::new(Range::Any, 1000);
        let mut ended = 0;
        for tid in 1..100_000 {
            ended += neighbours.take(&flush(0, tid, 1, 0, Some(1))).len();
            assert!(neighbours.open.len() <= OPEN_MAX);
        }
        assert_eq!(ended + neighbours.rest().len(), 99_999);
    }
}
