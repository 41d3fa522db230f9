// SPDX-License-Identifier: GPL-2.0-only
//! The published table of what a kernel gains or loses where CPUs interrupt each other.

use crate::numbers::{figure, median, prose_percent};
use crate::publish::{condition, hashes, minus, unmeasured, wrapped};
use crate::rows::{in_order, kernels, list};
use crate::summary;
use ceasefire_base::text::{clean, count, width};
use ceasefire_base::{Error, Result};
use ceasefire_results::net::{Change, Verdict};
use ceasefire_results::schema::{Condition, Results, Row, Unmeasured, CONDITIONS, SHAPE};
use ceasefire_results::stats::Spread;

/// As long as a line of a document may be.
const ROW_COLUMNS: usize = 120;

/// What `ceasefire lab run --cost` has measured on several vCPUs.
pub(crate) fn is_net(results: &Results) -> bool {
    let is_net = |row: &Row| row.cost && row.cycles_net_per_unit.is_some();
    !results.rows.is_empty() && results.rows.iter().all(is_net)
}

fn signed(value: f64) -> String {
    let text = minus(&figure(value));
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

/// `−2,365 [−2,401, −2,300]`
fn change(spread: Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(signed);
    if min == max {
        median
    } else {
        format!("{median} [{min}, {max}]")
    }
}

/// Refused where no row has a partner.
pub(crate) fn net_table(results: &Results) -> Result<String> {
    let rows = in_order(results, true);
    let labels = kernels(&rows);
    let base = labels.first().cloned().unwrap_or_default();
    let names = Names::of(&rows);
    let mut alone = unpaired(results, &rows, &labels, &names);
    let mut compared = Vec::new();
    for (base, row) in pairs(&rows, &base) {
        match (Change::between(base, row), base.cycles_net_per_unit) {
            (Some(changed), Some(old)) => compared.push((base, row, changed, old.used.median)),
            _ => alone.push(format!("{} (not all that has a price was counted)", names.of_row(row))),
        }
    }
    if compared.is_empty() {
        let why = match alone.first() {
            Some(first) => format!("no row can be held against another: {first}"),
            None => "one kernel in one mode has nothing to be held against".into(),
        };
        return Err(Error::usage(why).remedy(
            "measure two kernels or modes in one run: ceasefire lab run --cost --cpus 8 --kernel NAME:MODE,NAME:MODE",
        ));
    }
    let boots = rows.iter().map(|row| row.boots).min().unwrap_or_default();
    let condition = condition(&results.environment, names.place(&rows), count(u64::from(boots), "boot"));
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(&results.environment)), ""));
    let others: Vec<String> = labels.iter().skip(1).map(|label| format!("`{label}`")).collect();
    let sentence = format!(
        "Cycles are changes per unit of work, {} against `{base}`, by medians: with all prices low, as used, and high. Worst: \
         what there is more of at its high price, what there is less of at its low one; with the ends, as far apart as any two \
         boots. A gain is below 0 at both of these ends. A loss is one by its medians alone. Where a row has no room, a loss is \
         shown without ends, a gain without its median.",
        list(&others)
    );
    text += &format!("\n{}", wrapped(&sentence, ""));
    let is_named = others.len() > 1;
    let name = if is_named { " kernel |" } else { "" };
    text += &format!(
        "\n| unit of |{name} kernel instructions | targets | cycles, low | used | high | worst | used, share | |\n\
         |---|{}---|---|---|---|---|---|---|---|\n",
        if is_named { "---|" } else { "" }
    );
    let mut bad = Vec::new();
    for (base, row, changed, old) in compared {
        let verdict = match changed.verdict() {
            Verdict::Gain => "gain",
            Verdict::Loss => "**loss**",
            Verdict::Unproved => "not proved",
        };
        if changed.verdict() != Verdict::Gain {
            let kernel = if is_named { format!(" in `{}`", row.kernel_label()) } else { String::new() };
            bad.push(format!("{}{kernel}", names.of_row(row)));
        }
        let name = if is_named { format!(" `{}` |", row.kernel_label()) } else { String::new() };
        let to = |get: fn(&Row) -> Option<Spread>| format!("{} to {}", median(get(base)), median(get(row)));
        let line = |worst: String| {
            format!(
                "| {} |{name} {} | {} | {} | {} | {} | {worst} | {} | {verdict} |",
                names.of_row(row),
                to(|row| row.kernel_instructions_per_unit),
                to(|row| row.received_irq_per_unit),
                signed(changed.low.median),
                signed(changed.used.median),
                signed(changed.high.median),
                prose_percent(changed.used.median / old * 100.0)
            )
        };
        let whole = line(change(changed.worst));
        // Where a line would be too long, what decides: of a loss the median, else the ends. The data have the rest.
        text += &match changed.verdict() {
            _ if width(&whole) <= ROW_COLUMNS => whole,
            Verdict::Loss => line(signed(changed.worst.median)),
            _ => line(format!("[{}, {}]", signed(changed.worst.min), signed(changed.worst.max))),
        };
        text.push('\n');
    }
    let mut words = match (bad.is_empty(), alone.is_empty()) {
        (true, true) => "No losses.".to_string(),
        (true, false) => "No losses in what is compared.".to_string(),
        (false, _) => format!("Losses, or gains not proved at every price: {}.", list(&bad)),
    };
    if !alone.is_empty() {
        words += &format!(" Not compared: {}.", alone.join("; "));
    }
    Ok(text + "\n" + &wrapped(&format!("{words} {}", unmeasured(results)), ""))
}

/// Rows by what tells them from the usual one, which is the first of those where most rows were measured.
struct Names<'a>(Option<&'a Row>);

impl<'a> Names<'a> {
    fn of(rows: &[&'a Row]) -> Names<'a> {
        let alike = |row: &Row| rows.iter().filter(|other| place(other) == place(row)).count();
        Names(rows.iter().rev().max_by_key(|row| alike(row)).copied())
    }

    /// `` `munmap pages=8` (2 nodes) ``
    fn of_row(&self, row: &Row) -> String {
        let name = format!("`{}`", summary::name(row));
        let Some(usual) = self.0 else { return name };
        let mut words = Vec::new();
        for (number, usual, noun) in [
            (row.threads, usual.threads, "thread"),
            (row.vcpus, usual.vcpus, "vCPU"),
            (row.nodes, usual.nodes, "node"),
        ] {
            words.extend((number != usual).then(|| count(u64::from(number), noun)));
        }
        let is_telling = |condition: &&Condition| {
            !condition.is_extra && condition.name != SHAPE && condition.differs(row, usual)
        };
        words.extend(CONDITIONS.iter().filter(is_telling).filter_map(|condition| (condition.words)(row)));
        match words.is_empty() {
            true => name,
            false => format!("{name} ({})", words.join(", ")),
        }
    }

    fn place(&self, rows: &[&Row]) -> Option<String> {
        let usual = self.0?;
        let is_everywhere = rows.iter().all(|row| place(row) == place(usual));
        Some(place(usual) + if is_everywhere { "" } else { " unless said otherwise" })
    }
}

fn place(row: &Row) -> String {
    format!("{} on {}", count(u64::from(row.threads), "thread"), row.shape())
}

fn partner<'a>(rows: &[&'a Row], row: &Row, label: &str) -> Option<&'a Row> {
    rows.iter().find(|other| other.kernel_label() == label && row.is_same_work(other)).copied()
}

/// Each row with the baseline's of the same work.
fn pairs<'a>(rows: &[&'a Row], base: &str) -> Vec<(&'a Row, &'a Row)> {
    let others = rows.iter().filter(|row| row.kernel_label() != base);
    others.filter_map(|row| Some((partner(rows, row, base)?, *row))).collect()
}

/// Rows that a kernel has alone, each with the reason.
fn unpaired(results: &Results, rows: &[&Row], labels: &[String], names: &Names) -> Vec<String> {
    let Some((base, others)) = labels.split_first() else { return Vec::new() };
    let mut list = Vec::new();
    for row in rows {
        let wanted = if row.kernel_label() == *base { others } else { std::slice::from_ref(base) };
        for label in wanted.iter().filter(|label| partner(rows, row, label).is_none()) {
            list.push(format!("{} ({})", names.of_row(row), why_alone(results, rows, row, label)));
        }
    }
    list
}

fn why_alone(results: &Results, rows: &[&Row], row: &Row, label: &str) -> String {
    let is_it = |entry: &&Unmeasured| {
        let of = Row {
            kernel: entry.kernel.clone().unwrap_or_default(),
            mode: entry.mode.clone(),
            ..Row::default()
        };
        entry.workload == row.workload
            && (of.kernel.is_empty() || of.kernel_label() == label)
            && entry.threads.map_or(true, |threads| threads == row.threads)
            && entry.vcpus.map_or(true, |vcpus| vcpus == row.vcpus)
            && entry.nodes.map_or(true, |nodes| nodes == row.nodes)
    };
    let reason = |entry: &Unmeasured| clean(entry.reason.trim_end_matches('.'));
    if let Some(entry) = results.failed.iter().find(is_it) {
        return format!("failed in `{label}`: {}", reason(entry));
    }
    if let Some(entry) = results.skipped.iter().find(is_it) {
        return format!("skipped in `{label}`: {}", reason(entry));
    }
    let is_near = |other: &&&Row| {
        other.kernel_label() == label && (&other.workload, other.threads) == (&row.workload, row.threads)
    };
    let Some(near) = rows.iter().find(is_near) else { return format!("not measured in `{label}`") };
    let mut differing: Vec<String> = CONDITIONS
        .iter()
        .filter(|condition| condition.differs(row, near))
        .map(|it| it.name.to_string())
        .collect();
    if row.seed != near.seed {
        differing.push("seed".into());
    }
    format!("in `{label}` it differs in {}", list(&differing))
}
