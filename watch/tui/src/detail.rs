// SPDX-License-Identifier: GPL-2.0-only
//! One row from near: its history, its causes and counterparts, its stacks.

use crate::look::Look;
use crate::rows::{per_second, Key, Windows};
use ceasefire_watch_model::{Class, Counts, Histogram, Pair, Sender, Site, Snapshot, Task};
use ceasefire_watch_views::names::Names;
use ceasefire_watch_views::numbers::{count, max_us, time};
use ceasefire_watch_views::stat::{classed, Caused};
use ceasefire_watch_views::table;
use std::collections::{BTreeMap, BTreeSet};

/// Counterparts and stacks shown.
const MOST: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Head,
    Plain,
}

pub type Lines = Vec<(Ink, String)>;

pub fn title(key: &Key, windows: &Windows) -> String {
    let total = &windows.total;
    match key {
        Key::Cause(class, cause) => format!("cause {}", classed(cause.clone(), *class)),
        Key::Sender(class, tid) => format!("sender {}", classed(name(total, *tid), *class)),
        Key::Victim(class, tid, cpu) => {
            format!("victim {} on CPU {cpu}", classed(name(total, *tid), *class))
        }
    }
}

/// `history`: targets of each interval and its length in ns, oldest first.
pub fn lines(key: &Key, windows: &Windows, history: &[(u64, u64)], look: Look) -> Lines {
    let mut lines = Lines::new();
    past(&mut lines, key, history, look);
    match key {
        Key::Sender(class, tid) => sender(&mut lines, &windows.total, *class, *tid),
        Key::Victim(class, tid, cpu) => victim(&mut lines, &windows.total, *class, *tid, *cpu),
        Key::Cause(class, cause) => of_cause(&mut lines, &windows.total, *class, cause),
    }
    lines
}

fn name(window: &Snapshot, tid: u32) -> String {
    Names::of(window).known(tid).map_or_else(|| format!("thread {tid}"), str::to_string)
}

fn head(lines: &mut Lines, text: &str) {
    if !lines.is_empty() {
        lines.push((Ink::Plain, String::new()));
    }
    lines.push((Ink::Head, text.to_string()));
}

fn plain(lines: &mut Lines, text: &str) {
    lines.extend(text.lines().map(|line| (Ink::Plain, line.to_string())));
}

fn past(lines: &mut Lines, key: &Key, history: &[(u64, u64)], look: Look) {
    let rates: Vec<u64> = history.iter().map(|(targets, ns)| per_second(*targets, *ns)).collect();
    let most = rates.iter().copied().max().unwrap_or(0);
    let what = if matches!(key, Key::Victim(..)) { "interruptions/s" } else { "received/s" };
    head(lines, &format!("history of {what}, at most {}", count(most)));
    plain(lines, &format!("|{}|", look.bars(&rates)));
}

/// Whose thread it is.
fn of(lines: &mut Lines, task: &Task) {
    match task.is_others() {
        true => plain(lines, "threads that have ended, added up by name"),
        false => plain(lines, &format!("process {}, cgroup {}", task.tgid, task.cgroup)),
    }
}

fn sender(lines: &mut Lines, total: &Snapshot, class: Class, tid: u32) {
    let mine: Vec<&Sender> =
        total.senders.iter().filter(|sender| sender.class == class && sender.task.tid == tid).collect();
    if let Some(sender) = mine.first() {
        of(lines, &sender.task);
    }
    let mut causes: BTreeMap<String, ceasefire_watch_model::Tally> = BTreeMap::new();
    for sender in &mine {
        causes.entry(sender.cause.to_string()).or_default().add(&sender.tally);
    }
    let rows = causes.iter().map(|(cause, tally)| {
        vec![cause.clone(), count(tally.shootdowns), count(tally.targets), count(tally.pages)]
    });
    section(lines, "causes", &["cause", "sent", "received", "pages"], rows.collect());
    let pairs = total.pairs.iter().filter(|pair| pair.class == class && pair.sender_tid == tid);
    counterparts(lines, "victims", total, pairs.map(|pair| ((pair.victim_tid, pair.victim_cpu), pair)));
    stacks(lines, total, &mine);
}

fn victim(lines: &mut Lines, total: &Snapshot, class: Class, tid: u32, cpu: u32) {
    let is_it = |victim: &&ceasefire_watch_model::Victim| {
        (victim.class, victim.task.tid, victim.cpu) == (class, tid, cpu)
    };
    if let Some(victim) = total.victims.iter().find(is_it) {
        of(lines, &victim.task);
        head(lines, "stolen by handlers");
        plain(
            lines,
            &format!(
                "  {} in {} interruptions{}, max us {}",
                time(victim.stolen_ns),
                count(victim.interruptions),
                quantiles(&victim.stolen),
                max_us(victim.greatest())
            ),
        );
    }
    let to_it = |pair: &&Pair| (pair.class, pair.victim_tid, pair.victim_cpu) == (class, tid, cpu);
    let pairs = total.pairs.iter().filter(to_it).map(|pair| ((pair.sender_tid, pair.sender_cpu), pair));
    let places: BTreeSet<(u32, u32)> = pairs.clone().map(|(place, _)| place).collect();
    counterparts(lines, "senders", total, pairs);
    let theirs: Vec<&Sender> = total
        .senders
        .iter()
        .filter(|sender| sender.class == class && places.contains(&(sender.task.tid, sender.cpu)))
        .collect();
    stacks(lines, total, &theirs);
}

fn of_cause(lines: &mut Lines, total: &Snapshot, class: Class, cause: &str) {
    let sites: Vec<&Site> =
        total.sites.iter().filter(|site| site.class == class && site.cause.to_string() == cause).collect();
    if let Some(site) = sites.first() {
        head(lines, site.cause.about());
    }
    let mut sum = Caused::default();
    let mut times = [Histogram::default(), Histogram::default(), Histogram::default()];
    let mut why_full: Counts<&str> = Counts::default();
    for site in &sites {
        sum.add(site);
        for (time, part) in times.iter_mut().zip([&site.delivery, &site.handler, &site.wait]) {
            time.merge(part);
        }
        if let Some(why) = site.why_full {
            why_full.add(why.name(), site.tally.shootdowns);
        }
    }
    plain(
        lines,
        &format!(
            "  {} sent, {} received, {} pages each",
            count(sum.tally.shootdowns),
            count(sum.tally.targets),
            sum.pages_each()
        ),
    );
    for (why, shootdowns) in why_full.iter() {
        plain(lines, &format!("  {} full: {why}", count(shootdowns)));
    }
    for (name, time) in ["delivery", "handler", "wait"].iter().zip(&times).filter(|(_, t)| t.count() > 0) {
        plain(lines, &format!("  {name}{}", quantiles(time)));
    }
    let mine: Vec<&Sender> = total
        .senders
        .iter()
        .filter(|sender| sender.class == class && sender.cause.to_string() == cause)
        .collect();
    let senders = mine.iter().map(|sender| (sender.task.tid, sender.tally.targets));
    let senders = senders.collect::<Counts<_>>().largest(MOST).into_iter();
    let names = Names::of(total);
    let rows = senders.map(|(tid, targets)| vec![names.get(tid), count(targets)]);
    section(lines, "senders", &["thread", "received"], rows.collect());
    stacks(lines, total, &mine);
}

fn quantiles(histogram: &Histogram) -> String {
    match (histogram.quantile(0.5), histogram.quantile(0.99)) {
        (Some(half), Some(most)) => format!(", p50 < {}, p99 < {}", time(half), time(most)),
        _ => String::new(),
    }
}

fn section(lines: &mut Lines, title: &str, columns: &[&str], rows: Vec<Vec<String>>) {
    if !rows.is_empty() {
        head(lines, title);
        plain(lines, &table::render(columns, &[0], &rows));
    }
}

/// Each pair goes with thread and CPU of its other side.
fn counterparts<'a>(
    lines: &mut Lines,
    title: &str,
    total: &Snapshot,
    pairs: impl Iterator<Item = ((u32, u32), &'a Pair)>,
) {
    let names = Names::of(total);
    let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (place, pair) in pairs {
        let sum = sums.entry(place).or_default();
        *sum = (sum.0 + pair.interruptions, sum.1 + pair.stolen_ns);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (interruptions, _))| std::cmp::Reverse(*interruptions));
    let row = |((tid, cpu), (interruptions, stolen_ns)): ((u32, u32), (u64, u64))| {
        vec![names.get(tid), cpu.to_string(), count(interruptions), time(stolen_ns)]
    };
    let rows = sums.into_iter().take(MOST).map(row).collect();
    section(lines, title, &["thread", "CPU", "interrupts", "stolen"], rows);
}

fn stacks(lines: &mut Lines, total: &Snapshot, senders: &[&Sender]) {
    // By name: two calls in one function look alike.
    let mut sums: BTreeMap<_, (String, u64)> = BTreeMap::new();
    for sender in senders {
        let kernel = sender.kernel_stack.and_then(|id| total.stacks.kernel.get(&id));
        let user = sender.user_stack.and_then(|id| total.stacks.user.get(&id));
        let sum = sums.entry((kernel, user)).or_default();
        *sum = (sender.cause.to_string(), sum.1 + sender.tally.targets);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (_, targets))| std::cmp::Reverse(*targets));
    for (place, ((kernel, user), (cause, targets))) in sums.into_iter().take(MOST).enumerate() {
        head(lines, &format!("stack {}: {cause}, {} received", place + 1, count(targets)));
        if kernel.or(user).is_none() {
            plain(lines, "  no stack was taken");
        }
        kernel.into_iter().flatten().for_each(|frame| plain(lines, &format!("  {frame}")));
        user.into_iter().flatten().for_each(|frame| plain(lines, &format!("  user {frame}")));
    }
}
