// SPDX-License-Identifier: GPL-2.0-only
//! Who sent how many, why, and what it cost: the counts of a window.

use crate::numbers::{count, max_us, mean_us, ratio, time};
use crate::{honesty, table, verdict};
use ceasefire_watch_model::{Class, Counts, Site, Snapshot, Tally, Task};
use std::collections::BTreeMap;

pub fn render(window: &Snapshot, what: &str, top: usize) -> String {
    let mut text = verdict::render(window);
    text.push_str(&format!("\n TLB shootdowns {what} ({}):\n\n", time(window.window_ns)));
    text.push_str(&counts(window));
    for (title, part) in [
        ("causes", causes(window, top)),
        ("senders", senders(window, top)),
        ("victims", victims(window, top)),
        ("other cross calls", calls(window, top)),
    ] {
        if !part.is_empty() {
            text.push_str(&format!("\n {title}\n{part}"));
        }
    }
    text.push_str(&honesty::block(&window.coverage));
    text
}

fn counts(window: &Snapshot) -> String {
    let seconds = window.window_ns as f64 / 1e9;
    let rate = |n: u64| if seconds > 0.0 { format!("{:.0}/s", n as f64 / seconds) } else { String::new() };
    let mut rows = Vec::new();
    for class in [Class::User, Class::KernelRange] {
        let Some(seen) = window.coverage.class(class) else { continue };
        if class == Class::KernelRange && seen.queued == 0 {
            continue;
        }
        let name = if class == Class::User { "" } else { "kernel-range " };
        if let Some(requests) = seen.requests {
            rows.push(vec![count(requests), "flush requests".into(), rate(requests), String::new()]);
        }
        rows.push(vec![count(seen.shootdowns), format!("{name}sent"), rate(seen.shootdowns), String::new()]);
        let per = format!("{} targets per shootdown", ratio(seen.queued, seen.shootdowns));
        rows.push(vec![count(seen.queued), format!("{name}received"), rate(seen.queued), per]);
    }
    let lines = table::render(&["", "", "", ""], &[1, 3], &rows);
    lines.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_string())
}

/// A cause's sites added up.
#[derive(Default)]
pub struct Caused {
    pub tally: Tally,
    pub full: u64,
    pub delivery_ns: u64,
    pub handler_ns: u64,
    /// Of whole system calls, where they are timed.
    pub call_ns: u64,
}

impl Caused {
    pub fn add(&mut self, site: &Site) {
        self.tally.add(&site.tally);
        let full = if site.kind.is_full() { site.tally.shootdowns } else { 0 };
        for (sum, more) in [
            (&mut self.full, full),
            (&mut self.delivery_ns, site.delivery_ns),
            (&mut self.handler_ns, site.handler_ns),
            (&mut self.call_ns, site.call_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Which part of the calls is the wait for others to flush. The rounding of times may make it a little more than all.
    pub fn share_of_call(&self) -> Option<f64> {
        (self.call_ns > 0).then(|| (self.tally.wait_ns as f64 / self.call_ns as f64).min(1.0))
    }

    /// A full one has no pages.
    pub fn ranged(&self) -> u64 {
        self.tally.shootdowns.saturating_sub(self.full)
    }

    pub fn pages_each(&self) -> String {
        ratio(self.tally.pages, self.ranged())
    }
}

pub fn caused(window: &Snapshot) -> BTreeMap<(Class, String), Caused> {
    let mut sums: BTreeMap<_, Caused> = BTreeMap::new();
    for site in window.sites.iter().filter(|site| site.class != Class::Own) {
        sums.entry((site.class, site.cause.to_string())).or_default().add(site);
    }
    sums
}

fn causes(window: &Snapshot, top: usize) -> String {
    let mut sums: Vec<_> = caused(window).into_iter().filter(|((class, _), _)| class.is_flush()).collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.tally.targets));
    let has_calls = sums.iter().any(|(_, sum)| sum.call_ns > 0);
    let rows: Vec<Vec<String>> = sums
        .iter()
        .take(top)
        .map(|((class, cause), sum)| {
            let tally = &sum.tally;
            let times = |sum: u64, n: u64| if window.has_latencies { mean_us(sum, n) } else { "-".into() };
            let mut row = vec![
                classed(cause.clone(), *class),
                count(tally.shootdowns),
                count(tally.targets),
                sum.pages_each(),
                count(sum.full),
                times(sum.delivery_ns, tally.targets),
                times(sum.handler_ns, tally.targets),
                times(tally.wait_ns, tally.shootdowns),
                if window.has_latencies { max_us(tally.greatest()) } else { "-".into() },
            ];
            if has_calls {
                row.push(sum.share_of_call().map_or("-".into(), |share| format!("{:.0} %", share * 100.0)));
            }
            row
        })
        .collect();
    let mut head = vec![
        "cause",
        "sent",
        "received",
        "pages each",
        "full",
        "delivery us",
        "handler us",
        "wait us",
        "wait max us",
    ];
    if has_calls {
        head.push("of its call");
    }
    table::render(&head, &[0], &rows)
}

pub fn task(task: &Task) -> String {
    match task.tid {
        0 => "idle".to_string(),
        _ if task.is_others() => format!("{} (others)", task.comm).trim_start().to_string(),
        tid => format!("{} {tid}", task.comm),
    }
}

fn process(task: &Task) -> String {
    match task.is_others() {
        true => "-".to_string(),
        false => task.tgid.to_string(),
    }
}

/// Classes are never summed; the rarer one is named.
pub fn classed(name: String, class: Class) -> String {
    match class {
        Class::User => name,
        other => format!("{name} ({})", other.name()),
    }
}

/// What a thread sent.
#[derive(Default)]
pub struct Sent {
    pub task: Task,
    pub tally: Tally,
    causes: Counts<String>,
}

impl Sent {
    pub fn mostly(&self) -> String {
        self.causes.most().map_or_else(String::new, |(cause, _)| cause.clone())
    }
}

pub fn sent(window: &Snapshot) -> BTreeMap<(Class, u32), Sent> {
    let mut sums: BTreeMap<_, Sent> = BTreeMap::new();
    for sender in window.senders.iter().filter(|sender| sender.class != Class::Own) {
        let sum = sums.entry((sender.class, sender.task.tid)).or_default();
        sum.task = sender.task.clone();
        sum.tally.add(&sender.tally);
        sum.causes.add(sender.cause.to_string(), sender.tally.targets);
    }
    sums
}

fn senders(window: &Snapshot, top: usize) -> String {
    let mut sums: Vec<_> = sent(window).into_iter().filter(|((class, _), _)| class.is_flush()).collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.tally.targets));
    let rows: Vec<Vec<String>> = sums
        .iter()
        .take(top)
        .map(|((class, _), sum)| {
            vec![
                classed(task(&sum.task), *class),
                process(&sum.task),
                count(sum.tally.shootdowns),
                count(sum.tally.targets),
                if window.has_latencies { time(sum.tally.wait_ns) } else { "-".into() },
                sum.mostly(),
            ]
        })
        .collect();
    table::render(&["thread", "process", "sent", "received", "waited", "mostly"], &[0, 5], &rows)
}

fn victims(window: &Snapshot, top: usize) -> String {
    let mut sorted: Vec<_> = window.victims.iter().filter(|victim| victim.class.is_flush()).collect();
    sorted.sort_by_key(|victim| std::cmp::Reverse(victim.stolen_ns));
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .take(top)
        .map(|victim| {
            vec![
                classed(task(&victim.task), victim.class),
                process(&victim.task),
                victim.cpu.to_string(),
                count(victim.interruptions),
                time(victim.stolen_ns),
                max_us(victim.greatest()),
            ]
        })
        .collect();
    table::render(&["thread", "process", "CPU", "interruptions", "stolen", "max us"], &[0], &rows)
}

/// What CPUs have each other run besides flushes.
fn calls(window: &Snapshot, top: usize) -> String {
    let mut sums: BTreeMap<(String, &str), (Caused, Counts<String>)> = BTreeMap::new();
    for site in window.sites.iter().filter(|site| site.class == Class::CrossCall) {
        let name = site.function.as_deref().unwrap_or("-");
        sums.entry((site.cause.name().to_string(), name)).or_default().0.add(site);
    }
    for sender in window.senders.iter().filter(|sender| sender.class == Class::CrossCall) {
        let name = sender.function.as_deref().unwrap_or("-");
        if let Some((_, senders)) = sums.get_mut(&(sender.cause.name().to_string(), name)) {
            senders.add(task(&sender.task), sender.tally.targets);
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (sum, _))| std::cmp::Reverse(sum.tally.targets));
    let rows: Vec<Vec<String>> = sums
        .into_iter()
        .take(top)
        .map(|((cause, function), (sum, senders))| {
            let tally = &sum.tally;
            let times = |sum: u64, n: u64| if window.has_latencies { mean_us(sum, n) } else { "-".into() };
            let (by, of) = senders.most().map_or(("-".into(), 0), |(by, of)| (by.clone(), of));
            let share = (of as f64 * 100.0 / tally.targets.max(1) as f64).floor();
            vec![
                cause,
                function.to_string(),
                count(tally.shootdowns),
                count(tally.targets),
                times(sum.delivery_ns, tally.targets),
                times(sum.handler_ns, tally.targets),
                times(tally.wait_ns, tally.shootdowns),
                if of > 0 { format!("{by} ({share:.0} %)") } else { by },
            ]
        })
        .collect();
    let head = ["call", "function", "sent", "received", "delivery us", "handler us", "wait us", "mostly by"];
    table::render(&head, &[0, 1, 7], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair_of_classes, victim};
    use ceasefire_watch_model::{Maximum, Victim};

    #[test]
    fn a_thread_that_sends_for_two_classes_has_two_rows() {
        let text = senders(&pair_of_classes(), 9);
        assert!(
            text.contains("sender 1                       1     3         3    0 ns  munmap\n"),
            "{text}"
        );
        assert!(
            text.contains("sender 1 (kernel-range)        1     5         5    0 ns  vmalloc\n"),
            "{text}"
        );
        let text = victims(&pair_of_classes(), 9);
        assert!(text.contains("victim 2 (kernel-range)"), "{text}");
    }

    #[test]
    fn a_maximum_that_is_only_a_bound_is_shown_as_one() {
        let of =
            |says| Victim { stolen_ns_max: 1500, stolen_ns_max_is: says, ..victim(Class::User, 1, 2, 3) };
        let window = Snapshot {
            victims: vec![of(Maximum::Exact), of(Maximum::AtMost), of(Maximum::SinceStart)],
            ..Snapshot::default()
        };
        let text = victims(&window, 9);
        let last: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(last, ["us", "1.50", "<=1.50", "-"]);
    }
}
