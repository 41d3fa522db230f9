// SPDX-License-Identifier: GPL-2.0-only
//! The results for a terminal. One line per row where that fits, grouped by workload where it does not,
//! and stacked lines on a narrow screen. A number is never broken.

use crate::numbers::{figure, grouped, median, with_range, ABSENT};
use crate::rows::in_order;
use crate::rows::promises;
use ceasefire_base::text::{clean, command, count, flow, pad_left, pad_right, width, wrap, Paint};
use ceasefire_results::mechanism::{per_fault, Shown};
use ceasefire_results::schema::{Condition, Control, Results, Row, Unmeasured};
use ceasefire_results::Verdict;

pub use ceasefire_base::text::{use_colour, Options};

#[derive(Clone, Copy)]
struct Column<'a> {
    /// Two header lines.
    head: [&'a str; 2],
    /// In stacked lines.
    name: &'a str,
    get: Get<'a>,
}

#[derive(Clone, Copy)]
enum Get<'a> {
    Of(fn(&Row) -> String),
    /// A mechanism's own.
    Own(Shown<'a>),
}

impl Column<'_> {
    fn cell(&self, row: &Row) -> String {
        match self.get {
            Get::Of(get) => get(row),
            Get::Own(shown) => median(shown.get(row)),
        }
    }
}

/// Time, page walks, how far they read and elided pages come last, and only where a clock, a machine, several nodes or a
/// kernel tell them.
const COLUMNS: &[Column] = &[
    Column { head: ["", "requested"], name: "requested", get: Get::Of(|row| median(row.requested_per_unit)) },
    Column { head: ["", "sent"], name: "sent", get: Get::Of(|row| median(row.sent_per_unit)) },
    Column { head: ["", "received"], name: "received", get: Get::Of(|row| median(row.received_per_unit)) },
    Column { head: ["", NEEDED], name: NEEDED, get: Get::Of(|row| median(row.needed_per_unit)) },
    Column {
        head: ["targets", "/sent"],
        name: "targets/sent",
        get: Get::Of(|row| row.targets_per_shootdown().map_or_else(|| ABSENT.into(), figure)),
    },
    Column {
        head: ["kernel-", "range"],
        name: "kernel-range",
        get: Get::Of(|row| median(row.kernel_range_per_unit)),
    },
    Column {
        head: ["full", "flushes"],
        name: "full flushes",
        get: Get::Of(|row| median(row.local_full_per_unit)),
    },
    Column {
        head: ["other", "IPIs"],
        name: "other IPIs",
        get: Get::Of(|row| median(row.other_ipis_per_unit)),
    },
    Column {
        head: ["time", "(ns)"],
        name: TIME,
        get: Get::Of(|row| row.ns_per_unit.map_or_else(|| ABSENT.into(), with_range)),
    },
    Column { head: ["", WALKS], name: WALKS, get: Get::Of(|row| median(row.walks_per_unit)) },
    Column {
        head: ["remote", "PTEs %"],
        name: REMOTE,
        get: Get::Of(|row| row.remote_leaf_percent().map_or_else(|| ABSENT.into(), figure)),
    },
    Column {
        head: ["elided", "pages"],
        name: ELIDED,
        get: Get::Of(|row| median(row.elided.map(|elided| elided.pages))),
    },
];
const TIME: &str = "time (ns)";
const NEEDED: &str = "needed";
const WALKS: &str = "walks";
const REMOTE: &str = "remote PTEs %";
const ELIDED: &str = "elided pages";

fn columns_of<'a>(results: &'a Results, rows: &[&Row]) -> Vec<Column<'a>> {
    let is_counted = |column: &&Column| match column.name {
        TIME => rows.iter().any(|row| row.ns_per_unit.is_some()),
        NEEDED => rows.iter().any(|row| row.needed_per_unit.is_some()),
        WALKS => rows.iter().any(|row| row.walks_per_unit.is_some()),
        REMOTE => rows.iter().any(|row| row.reads_remote_leaf_per_unit.is_some()),
        ELIDED => rows.iter().any(|row| row.elided.is_some()),
        _ => true,
    };
    let mut columns: Vec<Column> = COLUMNS.iter().filter(is_counted).copied().collect();
    columns.extend(results.shown(|counter| counter.table).into_iter().map(|shown| {
        let title = shown.counter.title.as_str();
        let head = title.split_once(' ').map_or(["", title], |(first, rest)| [first, rest]);
        Column { head, name: title, get: Get::Own(shown) }
    }));
    columns
}

const GAP: usize = 2;

pub fn render(results: &Results, options: &Options) -> String {
    let mut lines = Vec::new();
    counts(results, options, &mut lines);
    cost(results, options, &mut lines);
    controls(results, options, &mut lines);
    missing(results, options, &mut lines);
    if let Some(again) = &results.environment.command {
        lines.push(String::new());
        title("Again", Paint::Strong, options, &mut lines);
        lines.extend(command(again, 2, options.columns()));
    }
    while lines.first().is_some_and(|line| line.is_empty()) {
        lines.remove(0);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// What tells rows apart beside workload and threads, where the file holds more than one of it.
struct Variants {
    kernel: bool,
    conditions: Vec<&'static Condition>,
}

impl Variants {
    fn of(rows: &[&Row]) -> Variants {
        Variants {
            kernel: rows.iter().any(|row| row.kernel_label() != rows[0].kernel_label()),
            conditions: Condition::telling(rows),
        }
    }

    fn label(&self, row: &Row) -> String {
        let kernel = self.kernel.then(|| row.kernel_label());
        let words = self.conditions.iter().filter_map(|condition| (condition.words)(row));
        let parts: Vec<String> = kernel.into_iter().chain(words).map(|part| clean(&part)).collect();
        parts.join(", ")
    }
}

fn title(text: &str, paint: Paint, options: &Options, lines: &mut Vec<String>) {
    lines.extend(wrap(text, "", 2, options.columns()).iter().map(|line| options.paint(paint, line)));
}

fn counts(results: &Results, options: &Options, lines: &mut Vec<String>) {
    let rows = in_order(results, false);
    if rows.is_empty() {
        return;
    }
    let variants = Variants::of(&rows);
    let columns = options.columns();
    let figures = columns_of(results, &rows);
    let boots = rows.iter().map(|row| row.boots).max().unwrap_or(1);
    let of = if boots > 1 { format!(" in {boots} boots") } else { String::new() };
    let text = format!("Counts per unit of work (median of the repeats{of})");
    title(&text, Paint::Strong, options, lines);
    let fits = |table: &[(String, Option<Paint>)]| table.iter().all(|(line, _)| width(line) <= columns);
    let mut table = one_line(&rows, &variants, &figures);
    let mut rows = rows;
    if !fits(&table) {
        // Under a heading per kernel and machine, its thread counts stand together.
        let headings: Vec<String> = rows.iter().map(|row| heading(row, &variants)).collect();
        let first = |row: &Row| headings.iter().position(|known| *known == heading(row, &variants));
        rows.sort_by_cached_key(|row| first(row));
        table = by_workload(&rows, &variants, &figures, columns);
    }
    // Stacked lines leave out what was not measured; a table must show a mark for it.
    let is_stacked = !fits(&table);
    if is_stacked {
        table = stacked(&rows, &variants, &figures, columns);
    }
    lines.extend(table.into_iter().map(|(line, paint)| match paint {
        Some(paint) => options.paint(paint, line.trim_end()),
        None => line.trim_end().to_string(),
    }));
    let mut legend = Vec::new();
    if let Some(sentence) = checked_sentence(&rows) {
        let paint =
            if rows.iter().any(|row| row.violations.unwrap_or(0) > 0) { Paint::Bad } else { Paint::Good };
        lines.extend(wrap(&sentence, "", 2, columns).iter().map(|line| options.paint(paint, line)));
    }
    if rows.iter().any(|row| row.noisy) {
        legend.push("~ sent or received spreads over 10 % between repeats.".to_string());
    }
    if !is_stacked && rows.iter().any(|row| figures.iter().any(|column| column.cell(row) == ABSENT)) {
        legend.push("- not measured, or nothing sent to divide by.".to_string());
    }
    for sentence in legend {
        lines.extend(wrap(&sentence, "", 2, columns).iter().map(|line| options.paint(Paint::Quiet, line)));
    }
}

/// What a debug kernel's questions to the machine came to; `None` where none was asked.
pub(crate) fn checked_sentence(rows: &[&Row]) -> Option<String> {
    let sum = |get: fn(&Row) -> Option<u64>| -> Option<u64> {
        rows.iter().filter_map(|row| get(row)).reduce(u64::saturating_add)
    };
    let (checked, wrong) = (sum(|row| row.checked)?, sum(|row| row.violations).unwrap_or(0));
    Some(format!(
        "{} elisions were checked against the machine's TLBs: {} wrong.",
        grouped(checked as f64),
        match wrong {
            0 => "none".to_string(),
            wrong => grouped(wrong as f64),
        }
    ))
}

fn mark(row: &Row) -> &'static str {
    if row.noisy {
        "~"
    } else {
        ""
    }
}

fn paint_of(row: &Row) -> Option<Paint> {
    row.noisy.then_some(Paint::Doubt)
}

fn one_line(rows: &[&Row], variants: &Variants, figures: &[Column]) -> Vec<(String, Option<Paint>)> {
    let mut heads: Vec<[String; 2]> = vec![
        ["", "workload"].map(String::from),
        ["", "threads"].map(String::from),
        ["", "unit"].map(String::from),
    ];
    let has_label = rows.iter().any(|row| !variants.label(row).is_empty());
    if has_label {
        heads.insert(1, ["", "on"].map(String::from));
    }
    let left: Vec<usize> = if has_label { vec![0, 1, 3] } else { vec![0, 2] };
    heads.extend(figures.iter().map(|column| column.head.map(String::from)));
    heads.push([String::new(), String::new()]);
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![clean(&row.workload)];
            if has_label {
                cells.push(variants.label(row));
            }
            cells.extend([row.threads.to_string(), clean(&row.unit)]);
            cells.extend(figures.iter().map(|column| column.cell(row)));
            cells.push(mark(row).into());
            cells
        })
        .collect();
    let paints: Vec<Option<Paint>> = rows.iter().map(|row| paint_of(row)).collect();
    align(&heads, &body, &paints, &left)
}

/// Two header lines, then the body; columns in `left` are flush left, the others flush right.
fn align(
    heads: &[[String; 2]],
    body: &[Vec<String>],
    paints: &[Option<Paint>],
    left: &[usize],
) -> Vec<(String, Option<Paint>)> {
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(index, head)| {
            let cells = body.iter().filter_map(|cells| cells.get(index)).map(|cell| width(cell));
            cells.chain(head.iter().map(|line| width(line))).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (index, cell) in cells.enumerate() {
            let columns = widths.get(index).copied().unwrap_or(0);
            if columns == 0 {
                continue;
            }
            if !text.is_empty() {
                text.push_str(&" ".repeat(if cell == "~" || columns == 1 { 1 } else { GAP }));
            }
            text.push_str(&if left.contains(&index) {
                pad_right(cell, columns)
            } else {
                pad_left(cell, columns)
            });
        }
        text
    };
    let mut lines: Vec<(String, Option<Paint>)> = (0..2)
        .map(|level| line(&mut heads.iter().map(|head| head[level].as_str())))
        .filter(|text| !text.trim().is_empty())
        .map(|text| (text.trim_end().to_string(), Some(Paint::Quiet)))
        .collect();
    for (cells, paint) in body.iter().zip(paints) {
        lines.push((line(&mut cells.iter().map(String::as_str)).trim_end().to_string(), *paint));
    }
    lines
}

fn heading(row: &Row, variants: &Variants) -> String {
    let label = variants.label(row);
    let on = if label.is_empty() { String::new() } else { format!(", {label}") };
    format!("{}{on} (per {})", clean(&row.workload), clean(&row.unit))
}

fn by_workload(
    rows: &[&Row],
    variants: &Variants,
    figures: &[Column],
    columns: usize,
) -> Vec<(String, Option<Paint>)> {
    let mut heads: Vec<[String; 2]> = vec![["", "threads"].map(String::from)];
    heads.extend(figures.iter().map(|column| column.head.map(String::from)));
    heads.push([String::new(), String::new()]);
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![row.threads.to_string()];
            cells.extend(figures.iter().map(|column| column.cell(row)));
            cells.push(mark(row).into());
            cells
        })
        .collect();
    let paints: Vec<Option<Paint>> = rows.iter().map(|row| paint_of(row)).collect();
    let table = align(&heads, &body, &paints, &[]);
    let head_lines = table.len() - rows.len();
    let mut lines: Vec<(String, Option<Paint>)> = table[..head_lines].to_vec();
    let mut last = String::new();
    for (row, line) in rows.iter().zip(&table[head_lines..]) {
        let title = heading(row, variants);
        if title != last {
            lines.extend(wrap(&title, "", 2, columns).into_iter().map(|line| (line, Some(Paint::Strong))));
            last = title;
        }
        lines.push(line.clone());
    }
    lines
}

fn stacked(
    rows: &[&Row],
    variants: &Variants,
    figures: &[Column],
    columns: usize,
) -> Vec<(String, Option<Paint>)> {
    let mut lines = Vec::new();
    let mut last = String::new();
    for row in rows {
        let title = heading(row, variants);
        if title != last {
            lines.extend(wrap(&title, "", 2, columns).into_iter().map(|line| (line, Some(Paint::Strong))));
            last = title;
        }
        let threads = format!("{}:", count(u64::from(row.threads), "thread"));
        let mut tokens: Vec<String> = vec![format!("{threads} {}", mark(row)).trim_end().to_string()];
        let measured: Vec<(&str, String)> = figures
            .iter()
            .map(|column| (column.name, column.cell(row)))
            .filter(|(_, value)| value != ABSENT)
            .collect();
        let end = measured.len().saturating_sub(1);
        tokens.extend(
            measured.iter().enumerate().map(|(index, (name, value))| {
                format!("{name} {value}{}", if index == end { "" } else { "," })
            }),
        );
        lines.extend(flow(&tokens, "  ", 4, columns).into_iter().map(|line| (line, paint_of(row))));
    }
    lines
}

fn cost(results: &Results, options: &Options, lines: &mut Vec<String>) {
    let rows = in_order(results, true);
    if rows.is_empty() {
        return;
    }
    let variants = Variants::of(&rows);
    lines.push(String::new());
    // With several vCPUs the kernel's alone.
    let (one, several) = (
        rows.iter().any(|row| row.instructions_per_unit.is_some()),
        rows.iter().any(|row| row.instructions_per_unit.is_none()),
    );
    let words = match (one, several) {
        (true, true) => "Cost per unit of work (1 vCPU: all instructions; several: the kernel's)",
        (false, _) => "Cost per unit of work (the kernel's instructions)",
        (true, false) => "Cost per unit of work (1 vCPU, counted instructions)",
    };
    title(words, Paint::Strong, options, lines);
    for row in rows {
        let mut tokens = vec![format!("{}:", heading(row, &variants))];
        let counted = row.instructions_per_unit.or(row.kernel_instructions_per_unit);
        let whose = if row.instructions_per_unit.is_none() && several && one { "kernel " } else { "" };
        tokens.push(format!("{} {whose}instructions", median(counted)));
        if let Some(spread) = counted {
            tokens.push(format!("(spread {:.2} %)", spread.width_share() * 100.0));
        }
        for (spread, name) in [
            (row.cycles_modelled_per_unit, "cycles (model)"),
            (row.cycles_net_per_unit.map(|net| net.used), "cycles (net)"),
            (row.cycles_net_per_unit.and(row.received_irq_per_unit), "targets"),
            (row.faults_per_unit, "faults"),
            // What instructions hide.
            (row.walks_per_unit, "walks"),
            (row.assists_accessed_per_unit, "accessed assists"),
            (row.cr3_flush_per_unit, "flushing CR3 loads"),
            (row.cr3_noflush_per_unit, "other CR3 loads"),
            (row.invlpg_per_unit, "INVLPG"),
            (row.invpcid_per_unit, "INVPCID"),
        ] {
            if spread.is_some() {
                tokens.push(format!("{} {name}", median(spread)));
            }
        }
        for (count, words) in per_fault(row, &results.environment.mechanisms) {
            tokens.push(count.map_or(words.clone(), |count| format!("{} {words}", figure(count))));
        }
        lines.extend(flow(&tokens, "  ", 4, options.columns()));
    }
}

fn controls(results: &Results, options: &Options, lines: &mut Vec<String>) {
    let columns = options.columns();
    let held = results.controls.iter().filter(|control| control.ok == Some(true)).count();
    let judged = results.controls.iter().filter(|control| control.ok.is_some()).count();
    let (summary, paint) = match results.verdict() {
        Verdict::NoControl => {
            ("No control ran: nothing here shows that these counts are right.".to_string(), Paint::Doubt)
        }
        Verdict::Failed(_) => (
            format!("{} of {judged} control figures are wrong: trust nothing above.", judged - held),
            Paint::Bad,
        ),
        Verdict::Partly(names) => (
            format!("{held} of {judged} control figures hold; {} could not be measured here.", names.len()),
            Paint::Doubt,
        ),
        Verdict::Proven => (format!("{held} of {judged} control figures hold."), Paint::Good),
    };
    lines.push(String::new());
    title("Controls", Paint::Strong, options, lines);
    lines.extend(wrap(&summary, "  ", 2, columns).iter().map(|line| options.paint(paint, line)));
    for group in promises(&results.controls) {
        control_line(group, options, lines);
    }
    let disagreements = results.disagreements().len();
    if disagreements > 0 {
        let sentence = format!(
            "{}: the interrupt row and the tracepoint differ by more than 1 %.",
            count(disagreements as u64, "row")
        );
        lines.extend(wrap(&sentence, "  ", 4, columns).iter().map(|line| options.paint(Paint::Doubt, line)));
    }
}

/// All sources of one promise on one line.
fn control_line(group: &[Control], options: &Options, lines: &mut Vec<String>) {
    let Some(first) = group.first() else { return };
    let (word, paint) = if group.iter().any(|control| control.ok == Some(false)) {
        ("FAILED", Paint::Bad)
    } else if group.iter().any(|control| control.ok.is_none()) {
        ("partly", Paint::Doubt)
    } else {
        ("ok", Paint::Good)
    };
    let mut tokens: Vec<String> = clean(&first.workload).split_whitespace().map(String::from).collect();
    tokens.push(format!("{}:", count(u64::from(first.threads), "thread")));
    let end = group.len() - 1;
    tokens.extend(group.iter().enumerate().map(|(index, control)| {
        let measured = control.measured.map_or_else(|| "not measured".into(), grouped);
        let stop = if index == end { "" } else { "," };
        format!("{} {measured} of {}{stop}", clean(&control.source), grouped(control.expected))
    }));
    let body = flow(&tokens, &pad_right("", 10), 10, options.columns());
    for (index, line) in body.into_iter().enumerate() {
        if index == 0 {
            lines.push(format!("  {}{}", options.paint(paint, &pad_right(word, 8)), &line[10..]));
        } else {
            lines.push(line);
        }
    }
}

fn missing(results: &Results, options: &Options, lines: &mut Vec<String>) {
    for (name, paint, list) in
        [("Skipped", Paint::Doubt, &results.skipped), ("Failed", Paint::Bad, &results.failed)]
    {
        if list.is_empty() {
            continue;
        }
        lines.push(String::new());
        title(&format!("{name} ({})", list.len()), paint, options, lines);
        for entry in list.iter() {
            lines.extend(wrap(&missing_sentence(entry), "  ", 4, options.columns()));
            for line in &entry.output {
                lines.extend(wrap(&clean(line), "    | ", 6, options.columns()));
            }
            if let Some(rerun) = &entry.rerun {
                lines.extend(command(rerun, 4, options.columns()));
            }
        }
    }
    if !results.problems.is_empty() {
        lines.push(String::new());
        title(
            &format!("Problems in the guest's log ({})", results.problems.len()),
            Paint::Doubt,
            options,
            lines,
        );
        for problem in &results.problems {
            lines.extend(wrap(problem, "  ", 4, options.columns()));
        }
    }
}

pub(crate) fn missing_sentence(entry: &Unmeasured) -> String {
    let mut place = entry.workload.clone();
    if let Some(threads) = entry.threads {
        place.push_str(&format!(", {}", count(u64::from(threads), "thread")));
    }
    if let Some(vcpus) = entry.vcpus {
        place.push_str(&format!(", {}", count(u64::from(vcpus), "vCPU")));
    }
    if let Some(set) = &entry.set {
        place.push_str(&format!(", {set}"));
    }
    if let Some(kernel) = &entry.kernel {
        let mode = entry.mode.as_ref().map_or_else(String::new, |mode| format!(" ({mode})"));
        place.push_str(&format!(", {kernel}{mode}"));
    }
    format!("{place}: {}", entry.reason)
}
