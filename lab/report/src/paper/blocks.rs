// SPDX-License-Identifier: GPL-2.0-only
//! A paper's evaluation in documents: its claims, and for each figure what each kernel counted.

use super::found;
use crate::held::held;
use crate::numbers::{figure as number, in_cell, prose_percent, ABSENT};
use crate::publish::{condition, hashes, minus, wrapped, Blocks};
use ceasefire_base::text::count;
use ceasefire_results::paper::figures::{Axis, Evaluation, Figure, Quantity, Work, EVALUATIONS};
use ceasefire_results::paper::{with_others, Loss, Measured, Paper};
use ceasefire_results::schema::{self, Row};

/// Of each figure.
const LOSSES_SHOWN: usize = 6;

/// What it is kept as, without an ending; the names of its blocks begin with it.
pub(crate) fn stem(evaluation: &Evaluation) -> String {
    match evaluation.id {
        id if id == EVALUATIONS[0].id => "paper".into(),
        id => format!("paper-{id}"),
    }
}

/// STEM-table has the claims, and STEM-FIGURE what was counted.
pub(crate) fn blocks(paper: &Paper) -> Blocks {
    let stem = stem(paper.table());
    let mut blocks = Blocks::from([(format!("{stem}-table"), claims(paper))]);
    for measured in &paper.figures {
        let Some(figure) = paper.table().figure(&measured.id) else { continue };
        if !measured.rows.is_empty() {
            blocks.insert(format!("{stem}-{}", figure.id), counted(paper, figure, measured));
        }
    }
    blocks
}

/// What the blocks are made of: of a row its conditions and what figures show.
pub(crate) fn reduced(paper: &mut Paper) {
    let table = paper.table();
    for measured in &mut paper.figures {
        measured.commands.clear();
        let Some(figure) = table.figure(&measured.id) else { continue };
        for row in &mut measured.rows {
            let full = std::mem::take(row);
            let has = |quantity: Quantity| figure.plots.contains(&quantity);
            let is_priced = has(Quantity::PricedReads);
            let is_named =
                |quantity: &Quantity| matches!(quantity, Quantity::TablePages | Quantity::Counted(_));
            let is_named = figure.plots.iter().any(is_named);
            *row = Row {
                received_per_unit: full.received_per_unit.filter(|_| has(Quantity::Received)),
                sent_per_unit: full.sent_per_unit.filter(|_| has(Quantity::Sent) || has(Quantity::Targets)),
                instructions_per_unit: full.instructions_per_unit.filter(|_| has(Quantity::Instructions)),
                cycles_modelled_per_unit: full.cycles_modelled_per_unit.filter(|_| has(Quantity::Cycles)),
                reads_local_user_per_unit: full.reads_local_user_per_unit.filter(|_| is_priced),
                reads_remote_user_per_unit: full
                    .reads_remote_user_per_unit
                    .filter(|_| is_priced || has(Quantity::RemoteReads)),
                extra: if is_named { full.extra } else { Default::default() },
                mechanisms: if is_named { full.mechanisms } else { Default::default() },
                workload: full.workload,
                kernel: full.kernel,
                mode: full.mode,
                vcpus: full.vcpus,
                nodes: full.nodes,
                threads: full.threads,
                repeats: full.repeats,
                boots: full.boots,
                seed: full.seed,
                cost: full.cost,
                unit: full.unit,
                units: full.units,
                tlb: full.tlb,
                set: full.set,
                kernel_args: full.kernel_args,
                ..Row::default()
            };
        }
    }
}

fn begun(paper: &Paper, place: Option<String>) -> String {
    let condition = condition(&paper.environment, place, paper.times());
    wrapped(&format!("Condition: {condition}."), "")
}

fn claims(paper: &Paper) -> String {
    let mut text = begun(paper, None);
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(&paper.environment)), ""));
    text += "\n| figure | what | kernel | the paper | here |\n|---|---|---|---|---|\n";
    let entries = paper
        .figures
        .iter()
        .flat_map(|measured| measured.compared.iter().map(move |entry| (&measured.id, entry)));
    for (id, entry) in entries {
        let here = minus(&found(entry));
        let here = if entry.is_reached() == Some(false) { format!("**{here}**") } else { here };
        let aside = if entry.is_aside { " (beside it)" } else { "" };
        text += &format!(
            "| {id} | {}, {}{aside} | {} | {} | {here} |\n",
            entry.workload,
            entry.quantity,
            entry.kernel,
            prose_percent(entry.paper_percent)
        );
    }
    let missing = |of: fn(&Measured) -> usize| paper.figures.iter().map(of).sum::<usize>() as u64;
    let rows = count(missing(|measured| measured.skipped.len()), "row");
    let failed = missing(|measured| measured.failed.len());
    let words = format!("{} {rows} skipped, {failed} failed.", held(&paper.controls));
    text + &format!("\n{}", wrapped(&words, ""))
}

/// The largest, and how many more there are.
fn rose(losses: &[Loss]) -> String {
    let size = |loss: &Loss| loss.percent.unwrap_or(f64::INFINITY);
    let mut losses: Vec<&Loss> = losses.iter().collect();
    losses.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let words = |loss: &&Loss| {
        let title = schema::counter(&loss.figure).map_or(loss.figure.as_str(), |known| known.title);
        let threads = count(u64::from(loss.threads), "thread");
        let (old, new) = (number(loss.baseline.median), number(loss.here.median));
        format!("`{}`, {threads}: {title} {old} to {new} (`{}`)", loss.workload, loss.kernel)
    };
    let mut words: Vec<String> = losses.iter().take(LOSSES_SHOWN).map(words).collect();
    match losses.len() {
        0 => words.push("nothing".into()),
        all if all > LOSSES_SHOWN => words.push(format!("{} more in the data", all - LOSSES_SHOWN)),
        _ => {}
    }
    wrapped(&format!("What rose beside it: {}.", words.join("; ")), "")
}

/// A line for each workload, point and count, a column for each kernel.
fn counted(paper: &Paper, figure: &'static Figure, measured: &Measured) -> String {
    let labels = with_others(&paper.kernels, &measured.rows);
    let labels: Vec<&String> =
        labels.iter().filter(|label| measured.rows.iter().any(|row| row.kernel_label() == **label)).collect();
    let shape = measured.rows.first().map(Row::shape);
    let mut text = wrapped(&format!("{}; median of {}.", shape.unwrap_or_default(), paper.times()), "");
    let names: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    text += &format!("\n| {} | {} |\n|---|{}\n", what(figure), names.join(" | "), "---|".repeat(names.len()));
    for (shown, work, _) in figure.shown() {
        for quantity in figure.plots {
            for (place, rows) in places(figure, work, shown, measured) {
                let cell = |label: &&String| {
                    let row = rows.iter().find(|row| row.kernel_label() == **label);
                    row.and_then(|row| quantity.get(row)).map(in_cell)
                };
                let cells: Vec<Option<String>> = labels.iter().map(cell).collect();
                if cells.iter().all(Option::is_none) {
                    continue;
                }
                let cells: Vec<String> =
                    cells.into_iter().map(|cell| cell.unwrap_or_else(|| ABSENT.into())).collect();
                let words = quantity.words();
                let of_many = if figure.plots.len() > 1 { format!(", {words}") } else { String::new() };
                text += &format!("| `{shown}`{place}{of_many} | {} |\n", cells.join(" | "));
            }
        }
    }
    // Of shootdowns alone it is known what a rise means, and not every machine counts them.
    let is_counted = paper.controls.iter().any(|control| control.ok.is_some());
    match is_counted || !measured.losses.is_empty() {
        true => text + &format!("\n{}", rose(&measured.losses)),
        false => text,
    }
}

fn what(figure: &Figure) -> String {
    match figure.plots {
        [one] if one.is_of_run() => one.words().into(),
        [one] => format!("{} per unit", one.words()),
        _ => "per unit".into(),
    }
}

/// The rows of one workload, by what tells them apart within the figure.
fn places<'a>(
    figure: &Figure,
    work: &Work,
    shown: &str,
    measured: &'a Measured,
) -> Vec<(String, Vec<&'a Row>)> {
    let mut places: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in measured.rows.iter().filter(|row| work.is_of(row) && work.shown_of(row) == shown) {
        let place = match figure.axis {
            Axis::Workloads => String::new(),
            Axis::Vcpus => format!(", {} vCPUs", row.vcpus),
            Axis::Threads => format!(", {} threads", row.threads),
            Axis::Points(title) => {
                let point = work.points.iter().find(|point| point.is_of(row));
                point.map_or_else(String::new, |point| format!(", {title}: {}", point.at))
            }
        };
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, rows)) => rows.push(row),
            None => places.push((place, vec![row])),
        }
    }
    places
}
