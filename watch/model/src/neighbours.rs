// SPDX-License-Identifier: GPL-2.0-only
//! Which shootdowns could have been one. **Neighbours** are flushes of one thread, from one kernel stack (and one user
//! stack, where those were taken), of one class, with no other flush of that thread between them, that begin within a
//! window of time after the first of them; where asked, each range must also begin where the last one ends, or end
//! where it begins. One flush in their stead would be put off by at most that window. Whether a kernel may put it off
//! is not known here: what is counted is what could be saved at most.
//!
//! Write-back knows its next pages. So its neighbours ([`Range::Ascending`]) are found by another rule: single pages of
//! one thread, class and cause, each behind the last, begun within that time after the last, up to a window of pages.

use crate::counts::{figures, Figure};
use crate::{Cause, Class, Kind, Shootdown};
use std::collections::{BTreeMap, HashMap};

/// Threads whose last flush is remembered; beyond, the longest silent are forgotten.
const OPEN_MAX: usize = 16_384;
/// Stacks told apart; further ones are added up as one.
const STACKS_MAX: usize = 8_192;
/// Linux flushes more 4 KiB pages than this all at once (`tlb_single_page_flush_ceiling`).
pub const CEILING_PAGES: u64 = 33;
/// Pages that write-back would flush at once: as many as kernel `batch` does.
pub const WINDOW_PAGES: u64 = 248;
const PAGE: u64 = 4_096;

const MASK_WORDS: usize = 16;

/// What is asked of the ranges of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// Nothing: also those far apart, and full flushes.
    Any,
    /// They touch: both ranged, without a gap and without overlap.
    Touching,
    /// Single pages that are made clean, each behind the last; where addresses were not seen, one after the other.
    Ascending,
}

impl Range {
    pub fn name(self) -> &'static str {
        match self {
            Range::Any => "any range",
            Range::Touching => "touching",
            Range::Ascending => "write-back",
        }
    }

    /// Is it asked of flushes for this cause?
    fn is_about(self, cause: &Cause) -> bool {
        self != Range::Ascending || cause.is_write_back()
    }
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
    last_ns: u64,
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
            last_ns: shootdown.start_ns,
            mask: [0; MASK_WORDS],
        };
        run.add(shootdown);
        run
    }

    fn add(&mut self, shootdown: &Shootdown) {
        let wait_ns = shootdown.latencies.map_or(0, |times| times.wait_ns);
        self.shootdowns += 1;
        self.last_ns = shootdown.start_ns;
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

    /// From when on the time runs in which the next one must begin.
    fn since_ns(&self, range: Range) -> u64 {
        match range {
            Range::Any | Range::Touching => self.first.start_ns,
            Range::Ascending => self.last_ns,
        }
    }

    fn takes(&self, next: &Shootdown, range: Range, within_ns: u64) -> bool {
        let (first, since_ns) = (&self.first, self.since_ns(range));
        let is_soon = next.start_ns >= since_ns && next.start_ns - since_ns <= within_ns;
        let is_same_cause = (first.class, &first.cause) == (next.class, &next.cause);
        let is_same_stack = (first.kernel_stack, first.user_stack) == (next.kernel_stack, next.user_stack);
        let is_next = || match range {
            Range::Any => is_same_stack,
            Range::Touching => is_same_stack && self.touches(next),
            Range::Ascending => self.ascends(next),
        };
        is_soon && is_same_cause && is_next()
    }

    fn touches(&self, next: &Shootdown) -> bool {
        match (self.address, self.end, bounds(next)) {
            (Some(address), Some(end), Some((from, to))) => from == end || to == address,
            _ => false,
        }
    }

    fn ascends(&self, next: &Shootdown) -> bool {
        let is_single = |pages: Option<u64>| pages.map_or(true, |pages| pages == 1);
        let is_behind = match (self.end, bounds(next)) {
            (Some(end), Some((from, _))) => from >= end,
            (None, None) => (self.first.kind, next.kind) == (Kind::Unknown, Kind::Unknown),
            _ => false,
        };
        is_behind && is_single(self.first.pages) && is_single(next.pages) && self.shootdowns < WINDOW_PAGES
    }

    /// Would one flush for all be one of everything? So it is if one of them was full already.
    fn is_full(&self, range: Range) -> bool {
        let span = || Some((self.end?.saturating_sub(self.address?)) / PAGE);
        match range {
            Range::Any | Range::Touching => self.pages.map_or(true, |pages| pages > CEILING_PAGES),
            Range::Ascending => span().unwrap_or(self.shootdowns) > CEILING_PAGES,
        }
    }

    /// Pages that one shootdown flushed.
    pub fn factor(&self) -> Option<f64> {
        self.pages.map(|pages| pages as f64 / self.shootdowns.max(1) as f64)
    }
}

fn bounds(shootdown: &Shootdown) -> Option<(u64, u64)> {
    let from = shootdown.address?;
    Some((from, from.saturating_add(shootdown.pages?.saturating_mul(PAGE))))
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
        let (range, within_ns) = (self.range, self.within_ns);
        let mut ended = Vec::new();
        self.open.retain(|_, run| {
            let is_open = run.since_ns(range).saturating_add(within_ns) >= now_ns;
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

figures!(Saving: shootdowns, targets, wait_ns, runs, saved_shootdowns, saved_targets, saved_wait_ns, full_runs);

impl Saving {
    pub fn merge(&mut self, more: &Saving) {
        self.plus(more);
    }

    fn of(run: &Run, range: Range) -> Saving {
        let sent = Saving {
            shootdowns: run.shootdowns,
            targets: run.targets,
            wait_ns: run.wait_ns,
            ..Saving::default()
        };
        match run.shootdowns {
            0 | 1 => sent,
            several => Saving {
                runs: 1,
                saved_shootdowns: several - 1,
                saved_targets: run.targets.saturating_sub(run.cpus),
                saved_wait_ns: run.wait_ns - run.wait_ns_max,
                full_runs: u64::from(run.is_full(range)),
                ..sent
            },
        }
    }
}

/// Where: class, cause, kernel stack.
pub type Place = (Class, Cause, Option<u32>);
/// Whose: a process, and the place. Process 0 are the idle tasks.
pub type Origin = (u32, Place);

/// What batching would save, by place, for one idea of neighbours.
#[derive(Debug, Clone)]
pub struct Batching {
    pub neighbours: Neighbours,
    pub places: BTreeMap<Place, Saving>,
    /// Those of the first so many processes and places; no further ones are told apart.
    pub origins: BTreeMap<Origin, Saving>,
    pub totals: BTreeMap<Class, Saving>,
}

impl Batching {
    pub fn new(range: Range, within_ns: u64) -> Batching {
        Batching {
            neighbours: Neighbours::new(range, within_ns),
            places: BTreeMap::new(),
            origins: BTreeMap::new(),
            totals: BTreeMap::new(),
        }
    }

    /// Of all places of a class.
    pub fn total(&self, class: Class) -> Saving {
        self.totals.get(&class).copied().unwrap_or_default()
    }

    pub fn take(&mut self, shootdown: &Shootdown) {
        if !self.neighbours.range.is_about(&shootdown.cause) {
            return;
        }
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
        let saving = Saving::of(run, self.neighbours.range);
        let place = (run.first.class, run.first.cause.clone(), run.first.kernel_stack);
        if let Some(sum) = told_apart(&mut self.origins, (run.first.task.tgid, place.clone())) {
            sum.merge(&saving);
        }
        match told_apart(&mut self.places, place) {
            Some(sum) => sum.merge(&saving),
            None => {
                self.places.entry((run.first.class, Cause::NoStack, None)).or_default().merge(&saving);
            }
        }
        self.totals.entry(run.first.class).or_default().merge(&saving);
    }
}

/// None where there are as many as are told apart, and this is a further one.
pub(crate) fn told_apart<K: Ord, V: Default>(sums: &mut BTreeMap<K, V>, key: K) -> Option<&mut V> {
    let is_room = sums.len() < STACKS_MAX || sums.contains_key(&key);
    is_room.then(|| sums.entry(key).or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Kind, Latencies, Task};

    pub(crate) fn flush(start_ns: u64, tid: u32, stack: u32, address: u64, pages: Option<u64>) -> Shootdown {
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

    fn cleaned(start_ns: u64, page: u64) -> Shootdown {
        Shootdown { cause: Cause::WriteBack, ..flush(start_ns, 7, 1, page * PAGE, Some(1)) }
    }

    #[test]
    fn write_back_goes_on_behind_the_last_page_in_time() {
        let runs = |flushes: &[Shootdown]| runs(Range::Ascending, flushes);
        // Gaps are allowed, and another stack; the time counts from the last.
        let other_stack = Shootdown { kernel_stack: Some(2), ..cleaned(1500, 20) };
        assert_eq!(runs(&[cleaned(0, 1), cleaned(900, 2), other_stack, cleaned(2501, 21)]), [3, 1]);
        // The same page again, one before it, another cause, another thread.
        assert_eq!(runs(&[cleaned(0, 5), cleaned(1, 5), cleaned(2, 4)]), [1, 1, 1]);
        let synced = Shootdown { cause: Cause::Msync, ..cleaned(1, 2) };
        assert_eq!(runs(&[cleaned(0, 1), synced, cleaned(2, 3)]), [1, 1, 1]);
        let mut elsewhere = cleaned(1, 2);
        elsewhere.task.tid = 8;
        assert_eq!(runs(&[cleaned(0, 1), elsewhere, cleaned(2, 3)]), [2, 1]);
        // Several pages at once are batched already; a full flush has no range.
        let several = Shootdown { pages: Some(2), ..cleaned(1, 2) };
        assert_eq!(runs(&[cleaned(0, 1), several, cleaned(2, 4)]), [1, 1, 1]);
        let full = Shootdown { cause: Cause::WriteBack, ..flush(1, 7, 1, 0, None) };
        assert_eq!(runs(&[cleaned(0, 1), full.clone(), full, cleaned(2, 2)]), [1, 1, 1, 1]);
        // What was flushed could not be read: one after the other is all that is known.
        let unseen = |ns| Shootdown { address: None, pages: None, kind: Kind::Unknown, ..cleaned(ns, 0) };
        assert_eq!(runs(&[unseen(0), unseen(1), unseen(2), cleaned(3, 1)]), [3, 1]);
    }

    #[test]
    fn write_back_has_a_window_and_leaves_other_causes_alone() {
        let mut batching = Batching::new(Range::Ascending, 1000);
        (0..WINDOW_PAGES + 33).for_each(|page| batching.take(&cleaned(page, page)));
        batching.take(&flush(2000, 7, 1, 0, Some(1)));
        batching.end();
        let total = batching.total(Class::User);
        assert_eq!((total.shootdowns, total.saved_shootdowns), (WINDOW_PAGES + 33, WINDOW_PAGES + 31));
        // 33 pages side by side are flushed one by one, a window is not.
        assert_eq!((total.runs, total.full_runs), (2, 1));
        // Two pages so far apart that one flush for both is one of everything.
        let mut batching = Batching::new(Range::Ascending, 1000);
        [1, 100].into_iter().for_each(|page| batching.take(&cleaned(page, page)));
        batching.end();
        assert_eq!(batching.total(Class::User).full_runs, 1);
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
        let place = (Class::User, Cause::Munmap, Some(1));
        assert_eq!(batching.places.get(&place), Some(&expected));
        assert_eq!(batching.origins.get(&(7, place)), Some(&expected));
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
