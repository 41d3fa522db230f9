// SPDX-License-Identifier: GPL-2.0-only
//! What a window says about each cause, in the figures that advice rests on.

use crate::{SHARE_MIN, TARGETS_MIN};
use ceasefire_watch_model::user::object;
use ceasefire_watch_model::{Batching, Cause, Class, Counts, Range, Saving, Site, Snapshot, Tally, Task};
use ceasefire_watch_record::{Environment, Process};
use ceasefire_watch_views::numbers::{count, time};
use std::collections::BTreeMap;

/// Whose code asked for it, from user stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Most came from within this object: the C library, or an allocator.
    Library(String),
    /// Most came from here, by way of the C library's thin call.
    Code(String),
    Unknown,
}

/// One cause of one class.
pub struct CauseFacts<'a> {
    pub class: Class,
    pub cause: Cause,
    pub tally: Tally,
    pub handler_ns: u64,
    /// Of its class's targets.
    pub share: f64,
    pub full: u64,
    /// Who sent most of it, with its targets.
    pub sender: Option<(Task, u64)>,
    pub process: Option<&'a Process>,
    pub caller: Caller,
}

pub struct Facts<'a> {
    pub window: &'a Snapshot,
    pub environment: &'a Environment,
    pub events: Option<&'a [Batching]>,
    pub processes: &'a [Process],
    /// Largest first; only those worth a word.
    pub causes: Vec<CauseFacts<'a>>,
}

impl<'a> Facts<'a> {
    pub fn of(
        window: &'a Snapshot,
        environment: &'a Environment,
        processes: &'a [Process],
        events: Option<&'a [Batching]>,
    ) -> Facts<'a> {
        let mut sums: BTreeMap<(Class, Cause), (Tally, u64, u64)> = BTreeMap::new();
        let mut totals: BTreeMap<Class, u64> = BTreeMap::new();
        let is_of_memory = |site: &&Site| site.class != Class::Own && site.cause != Cause::Wakeup;
        for site in window.sites.iter().filter(is_of_memory) {
            let sum = sums.entry((site.class, site.cause.clone())).or_default();
            sum.0.add(&site.tally);
            sum.1 = sum.1.saturating_add(site.handler_ns);
            if site.kind.is_full() {
                sum.2 = sum.2.saturating_add(site.tally.shootdowns);
            }
            let total = totals.entry(site.class).or_default();
            *total = total.saturating_add(site.tally.targets);
        }
        let mut causes: Vec<CauseFacts<'a>> = Vec::new();
        for ((class, cause), (tally, handler_ns, full)) in sums {
            let share = tally.targets as f64 / totals.get(&class).copied().unwrap_or(0).max(1) as f64;
            if tally.targets < TARGETS_MIN || share < SHARE_MIN {
                continue;
            }
            let sender = main_sender(window, class, &cause);
            let process = sender
                .as_ref()
                .and_then(|(task, _)| processes.iter().find(|process| Some(process.tgid) == task.process()));
            let caller = main_caller(window, class, &cause);
            causes.push(CauseFacts { class, cause, tally, handler_ns, share, full, sender, process, caller });
        }
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.tally.targets));
        Facts { window, environment, events, processes, causes }
    }

    pub fn setting(&self, path: &str) -> Option<&str> {
        self.environment.settings.get(path).map(String::as_str)
    }

    /// The chosen word of a setting such as `always [madvise] never`.
    pub fn chosen(&self, path: &str) -> Option<&str> {
        let text = self.setting(path)?;
        text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
    }

    /// Shootdowns that a process sent for a cause, however few: `causes` leaves out what is not worth a word.
    pub fn sent_by(&self, tgid: u32, class: Class, cause: &Cause) -> u64 {
        let senders = self.window.senders.iter();
        let senders = senders.filter(|s| (s.class, s.task.tgid) == (class, tgid) && s.cause == *cause);
        senders.map(|sender| sender.tally.shootdowns).fold(0, u64::saturating_add)
    }

    /// What batching all of a cause's neighbours would save, where every shootdown is known.
    pub fn saving(&self, class: Class, cause: &Cause, range: Range) -> Option<Saving> {
        let batching = self.events?.iter().find(|batching| batching.neighbours.range == range)?;
        let mut sum = Saving::default();
        for ((of_class, of, _), saving) in &batching.places {
            if (*of_class, of) == (class, cause) {
                sum.merge(saving);
            }
        }
        Some(sum)
    }
}

impl CauseFacts<'_> {
    /// The figures every piece of advice begins with.
    pub fn figures(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} sent, {} received ({:.1} % of all {} targets), {} stolen in handlers, {} waited",
            count(self.tally.shootdowns),
            count(self.tally.targets),
            self.share * 100.0,
            self.class.name(),
            time(self.handler_ns),
            time(self.tally.wait_ns)
        )];
        if let Some((task, targets)) = &self.sender {
            let share = *targets as f64 * 100.0 / self.tally.targets.max(1) as f64;
            lines.push(format!("{share:.0} % of it by {}", who(task)));
        }
        lines
    }

    /// Pid for a command line.
    pub fn pid(&self) -> String {
        let process = self.sender.as_ref().and_then(|(task, _)| task.process());
        process.map_or("PID".into(), |tgid| tgid.to_string())
    }

    pub fn linked_library(&self, part: &str) -> Option<&str> {
        let libraries = &self.process?.libraries;
        libraries.iter().find(|name| name.contains(part)).map(String::as_str)
    }
}

pub fn who(task: &Task) -> String {
    match task.process() {
        Some(tgid) => format!("{} (process {tgid})", task.comm),
        None if task.is_others() => format!("several threads {}", task.comm).trim_end().into(),
        None => "the idle task".into(),
    }
}

/// By process; named by its thread that sent most.
fn main_sender(window: &Snapshot, class: Class, cause: &Cause) -> Option<(Task, u64)> {
    let mut sums: BTreeMap<u32, (u64, u64, &Task)> = BTreeMap::new();
    for sender in window.senders.iter().filter(|s| s.class == class && s.cause == *cause) {
        let sum = sums.entry(sender.task.tgid).or_insert((0, 0, &sender.task));
        sum.0 = sum.0.saturating_add(sender.tally.targets);
        if sender.tally.targets > sum.1 {
            (sum.1, sum.2) = (sender.tally.targets, &sender.task);
        }
    }
    let (targets, _, task) = sums.into_values().max_by_key(|(targets, _, _)| *targets)?;
    Some((task.clone(), targets))
}

/// The C library's own functions and its thin calls look alike but for what called them: two of its frames in a row
/// are its own doing (an allocator's), one is a thin call.
fn main_caller(window: &Snapshot, class: Class, cause: &Cause) -> Caller {
    let mut sums: Counts<(bool, &str)> = Counts::default();
    let mut all = 0u64;
    for sender in window.senders.iter().filter(|s| s.class == class && s.cause == *cause) {
        all = all.saturating_add(sender.tally.targets);
        let Some(frames) = sender.user_stack.and_then(|id| window.stacks.user.get(&id)) else { continue };
        let Some(key) = caller(frames) else { continue };
        sums.add(key, sender.tally.targets);
    }
    match sums.most().filter(|(_, targets)| *targets > all / 2) {
        Some(((true, object), _)) => Caller::Library(object.to_string()),
        Some(((false, frame), _)) => Caller::Code(frame.to_string()),
        _ => Caller::Unknown,
    }
}

fn caller(frames: &[String]) -> Option<(bool, &str)> {
    let is_libc =
        |name: &str| name.starts_with("libc.so") || name.starts_with("libc-2") || name.starts_with("ld-musl");
    let first = object(frames.first()?)?;
    let second = frames.get(1)?;
    let second_object = object(second)?;
    match is_allocator(second_object) || (is_libc(first) && is_libc(second_object)) {
        true => Some((true, second_object)),
        false => Some((false, second)),
    }
}

pub fn is_allocator(object: &str) -> bool {
    ["jemalloc", "tcmalloc", "mimalloc"].iter().any(|name| object.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn a_thin_call_is_told_from_the_librarys_own() {
        assert_eq!(caller(&frames("libc.so.6+0x1 libc.so.6+0x2 app+0x3")), Some((true, "libc.so.6")));
        assert_eq!(caller(&frames("libc.so.6+0x1 app+0x3 app+0x4")), Some((false, "app+0x3")));
        assert_eq!(caller(&frames("libc.so.6+0x1 libjemalloc.so.2+0x3")), Some((true, "libjemalloc.so.2")));
        let named = ["madvise (libc.so.6)", "pages_purge(void*) (libjemalloc.so.2)"].map(String::from);
        assert_eq!(caller(&named), Some((true, "libjemalloc.so.2")));
        assert_eq!(caller(&frames("0x1234 0x5")), None);
        assert_eq!(caller(&[]), None);
    }
}
