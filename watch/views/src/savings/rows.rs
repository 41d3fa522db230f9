// SPDX-License-Identifier: GPL-2.0-only
//! What each process flushed, by cause and stack, and how many pages at a time.

use crate::numbers::{count, ratio};
use crate::table;
use ceasefire_watch_model::neighbours::Origin;
use ceasefire_watch_model::{Cause, Class, Counts, Histogram, Kind, Savings, Sender, Site, Snapshot, Task};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unicode_width::UnicodeWidthStr;

/// Frames of a row's stack: the innermost that are not the same in all.
const FRAMES: usize = 3;

#[derive(Debug, Clone, Default)]
pub struct Row<'a> {
    /// None: several.
    pub process: Option<(u32, String)>,
    pub cause: Option<&'a Cause>,
    pub frames: Option<&'a [String]>,
    pub pages: u64,
    pub shootdowns: u64,
    /// Those whose pages are known.
    pub ranged: u64,
    pub full: u64,
    /// Pages of one ranged shootdown; none where several processes share a stack and only counts were taken.
    pub distribution: Option<Histogram>,
    /// Shootdowns that one for several neighbours would save at most; none where only counts were taken.
    pub saved: Option<u64>,
}

/// Process, cause, frames: two calls in one function look alike.
type Key<'a> = (u32, &'a Cause, Option<&'a [String]>);

impl Row<'_> {
    fn add(&mut self, pages: u64, shootdowns: u64, kind: Kind) {
        let ranged = if kind == Kind::Ranged { shootdowns } else { 0 };
        let full = if kind.is_full() { shootdowns } else { 0 };
        for (sum, more) in [
            (&mut self.pages, pages),
            (&mut self.shootdowns, shootdowns),
            (&mut self.ranged, ranged),
            (&mut self.full, full),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    pub fn factor(&self) -> String {
        ratio(self.pages, self.ranged)
    }

    pub fn is_write_back(&self) -> bool {
        self.cause.is_some_and(Cause::is_write_back)
    }
}

/// Of everything of a class, whoever sent it.
pub fn total<'a>(window: &'a Snapshot, savings: Option<&Savings>, class: Class) -> Row<'a> {
    let mut sum = Row { saved: savings.map(|savings| savings.saved(class)), ..Row::default() };
    let mut pages = Histogram::default();
    for site in window.sites.iter().filter(|site| site.class == class) {
        sum.add(site.tally.pages, site.tally.shootdowns, site.kind);
        pages.merge(&site.pages);
    }
    sum.distribution = Some(pages);
    sum
}

/// Whoever sent most comes first.
pub fn rows<'a>(window: &'a Snapshot, savings: Option<&Savings>, class: Class) -> Vec<Row<'a>> {
    let senders = || window.senders.iter().filter(|sender| sender.class == class);
    let sites: HashMap<_, &Site> = window.sites.iter().map(|site| (site.key(), site)).collect();
    let mut of_site: HashMap<_, BTreeSet<u32>> = HashMap::new();
    for sender in senders() {
        of_site.entry(sender.site_key()).or_default().insert(sender.task.tgid);
    }
    let mut parts: BTreeMap<Key<'a>, Vec<&'a Sender>> = BTreeMap::new();
    for sender in senders() {
        let frames = sender.kernel_stack.and_then(|id| window.stacks.kernel.get(&id)).map(Vec::as_slice);
        parts.entry((sender.task.tgid, &sender.cause, frames)).or_default().push(sender);
    }
    let names = names(window);
    let mut rows: Vec<Row<'a>> = Vec::new();
    for ((tgid, cause, frames), senders) in parts {
        let process = Some((tgid, names.get(&tgid).cloned().unwrap_or_default()));
        let mut row = Row { process, cause: Some(cause), frames, ..Row::default() };
        senders.iter().for_each(|one| row.add(one.tally.pages, one.tally.shootdowns, one.kind));
        let keys: BTreeSet<_> = senders.iter().map(|sender| sender.site_key()).collect();
        let own = keys.iter().map(|key| match of_site.get(key) {
            Some(processes) if processes.len() == 1 => sites.get(key).map(|site| &site.pages),
            _ => None,
        });
        let stacks: BTreeSet<Option<u32>> = senders.iter().map(|sender| sender.kernel_stack).collect();
        let origins = stacks.into_iter().map(|stack| (tgid, (class, cause.clone(), stack)));
        let origins: Vec<Origin> = origins.collect();
        row.distribution = own.collect::<Option<Vec<_>>>().map(merged).or_else(|| {
            let seen: Vec<_> = origins.iter().filter_map(|origin| savings?.pages.get(origin)).collect();
            (!seen.is_empty()).then(|| merged(seen))
        });
        row.saved = savings.map(|savings| {
            let seen = origins.iter().filter_map(|origin| savings.rule(cause).origins.get(origin));
            let all = seen.map(|saving| saving.saved_shootdowns).fold(0, u64::saturating_add);
            // Threads that have ended are counted under their name, not under their process.
            all.min(row.shootdowns)
        });
        rows.push(row);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.shootdowns));
    rows
}

fn merged(parts: Vec<&Histogram>) -> Histogram {
    let mut sum = Histogram::default();
    parts.into_iter().for_each(|part| sum.merge(part));
    sum
}

/// A process is called as its first thread, or as the one that sent most.
fn names(window: &Snapshot) -> HashMap<u32, String> {
    let mut sums: HashMap<u32, Counts<&Task>> = HashMap::new();
    for sender in &window.senders {
        let first = if sender.task.tid == sender.task.tgid { u64::MAX } else { 0 };
        let sum = sums.entry(sender.task.tgid).or_default();
        sum.add(&sender.task, sender.tally.shootdowns.max(first));
    }
    let name = |task: &Task| match task.tgid {
        0 => "idle".to_string(),
        _ if task.is_others() => format!("{} (others)", task.comm).trim_start().to_string(),
        tgid => format!("{} {tgid}", task.comm),
    };
    let most = |(tgid, sum): (u32, Counts<&Task>)| Some((tgid, name(sum.most()?.0)));
    sums.into_iter().filter_map(most).collect()
}

/// Rows, the rest of them, and all.
pub fn render(width: usize, rows: &[Row], total: &Row, top: usize) -> String {
    let (shown, rest) = rows.split_at(top.min(rows.len()));
    let left_over = |all: u64, part: fn(&Row) -> u64| {
        all.saturating_sub(shown.iter().map(part).fold(0, u64::saturating_add))
    };
    let others = Row {
        pages: left_over(total.pages, |row| row.pages),
        shootdowns: left_over(total.shootdowns, |row| row.shootdowns),
        ranged: left_over(total.ranged, |row| row.ranged),
        full: left_over(total.full, |row| row.full),
        saved: total.saved.map(|all| left_over(all, |row| row.saved.unwrap_or(0))),
        ..Row::default()
    };
    let mut lines: Vec<(String, &Row)> = Vec::new();
    for row in shown {
        lines.push((row.process.as_ref().map_or(String::new(), |(_, name)| name.clone()), row));
    }
    if others.shootdowns > 0 {
        // Also those of whom it is not known whose they were.
        let several = if rest.is_empty() { "others".into() } else { format!("others ({})", rest.len()) };
        lines.push((several, &others));
    }
    lines.push(("total".into(), total));
    let (mut head, mut cells) = columns(&lines);
    let render = |head: &[String], left: &[usize], cells: &[Vec<String>]| {
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        table::fit(width, &head, left, cells)
    };
    let text = render(&head, &[0, 1], &cells);
    let is_table = text.lines().count() == lines.len() + 1;
    // Stacks have what room there is left.
    let used = text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
    let room = width.saturating_sub(if is_table { used + 2 } else { "    stack: ,".len() });
    let ways = lines.iter().map(|(_, row)| cut(&telling(row.frames.unwrap_or_default()), room));
    let ways: Vec<String> = ways.collect();
    if ways.iter().any(|way| !way.is_empty()) {
        cells.iter_mut().zip(ways).for_each(|(row, way)| row.push(way));
        head.push("stack".into());
        return render(&head, &[0, 1, head.len() - 1], &cells);
    }
    // Where there is none, only what looks alike.
    let alike = |row: &Row| {
        let same = |(_, other): &&(String, &Row)| {
            (&row.process, row.cause) == (&other.process, other.cause) && row.process.is_some()
        };
        lines.iter().filter(same).count() > 1
    };
    let mut parts = text.split_inclusive('\n');
    let mut with_ways: String = parts.next().unwrap_or_default().into();
    for (line, (_, row)) in parts.zip(&lines) {
        with_ways.push_str(line);
        if alike(row) {
            let way = telling(row.frames.unwrap_or_default()).join(" < ");
            with_ways.push_str(&table::paragraph(width, "      ", &way));
        }
    }
    with_ways
}

/// As many of its frames as there is room for.
fn cut(frames: &[&str], room: usize) -> String {
    let ways = (1..=frames.len()).rev().map(|most| frames[..most].join(" < "));
    ways.into_iter().find(|way| way.width() <= room).unwrap_or_default()
}

fn columns(lines: &[(String, &Row)]) -> (Vec<String>, Vec<Vec<String>>) {
    let used = |bucket: &usize| {
        let mut known = lines.iter().filter_map(|(_, row)| row.distribution.as_ref());
        known.any(|pages| pages.buckets.get(*bucket).is_some_and(|count| *count > 0))
    };
    let buckets: Vec<usize> = (0..ceasefire_watch_model::histogram::BUCKETS).filter(used).collect();
    let has_full = lines.iter().any(|(_, row)| row.full > 0);
    let has_saved = lines.iter().any(|(_, row)| row.saved.is_some());
    let mut head: Vec<String> = ["process", "cause", "pages", "sent", "factor"].map(String::from).to_vec();
    head.extend(buckets.iter().map(|bucket| span(*bucket)));
    head.extend(has_full.then(|| "full".to_string()));
    head.extend(has_saved.then(|| "saved".to_string()));
    let cells = lines.iter().map(|(name, row)| {
        let cause = row.cause.map_or(String::new(), Cause::to_string);
        let mut cells = vec![name.clone(), cause, count(row.pages), count(row.shootdowns), row.factor()];
        cells.extend(buckets.iter().map(|bucket| share(row, *bucket)));
        cells.extend(has_full.then(|| count(row.full)));
        cells.extend(has_saved.then(|| row.saved.map_or("-".into(), |saved| format!("<={}", count(saved)))));
        cells
    });
    (head, cells.collect())
}

/// Pages of a bucket.
fn span(bucket: usize) -> String {
    match Histogram::bounds(bucket) {
        (least, u64::MAX) => format!("{least}+"),
        (least, greatest) if least == greatest => least.to_string(),
        (least, greatest) => format!("{least}-{greatest}"),
    }
}

/// Of the ranged shootdowns; nothing where there is none.
fn share(row: &Row, bucket: usize) -> String {
    let Some(pages) = row.distribution.as_ref() else { return "-".into() };
    let (part, all) = (pages.buckets.get(bucket).copied().unwrap_or(0), pages.count());
    match part as f64 * 100.0 / all.max(1) as f64 {
        _ if part == 0 => String::new(),
        small if small < 1.0 => "<1%".into(),
        // Not all, as long as there is something else.
        large if part < all => format!("{:.0}%", large.min(99.0)),
        _ => "100%".into(),
    }
}

/// The innermost frames that not all shootdowns have.
pub fn telling(frames: &[String]) -> Vec<&str> {
    let is_shared = |frame: &&String| {
        const SHARED: [&str; 8] = [
            "smp_call_function",
            "on_each_cpu",
            "flush_tlb",
            "native_flush",
            "tlb_f",
            "arch_tlbbatch",
            "ptep_clear_flush",
            "pmdp_huge_clear_flush",
        ];
        SHARED.iter().any(|stem| frame.starts_with(stem))
    };
    frames.iter().skip_while(is_shared).take(FRAMES).map(String::as_str).collect()
}
