// SPDX-License-Identifier: GPL-2.0-only
//! The one sentence above a report: computed from the rows, with its condition, and nothing else.

use crate::numbers::{figure, prose_percent as percent, share};
use crate::rows::{list, shown};
use crate::summary::{Change, Summary};
use ceasefire_base::text::count;
use ceasefire_results::schema::{Results, Row};
use ceasefire_results::{stats, Avoided};
use std::collections::BTreeSet;

pub(crate) const SHOOTDOWN: &str =
    "A TLB shootdown is what a kernel does when it changes a mapping: the CPU that changes it interrupts \
     every other CPU that may still hold the old translation in its TLB, and waits for them.";

/// What this is about, in words for a reader who has never seen it; then the result, a sentence a variant.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let summary = Summary::of(results);
    match summary.labels.as_slice() {
        [] => vec!["No row of this file measures shootdowns.".into()],
        [_] => vec![alone(&shown(results))],
        [_, others @ ..] => (0..others.len()).map(|other| against(&summary, other)).collect(),
    }
}

/// What was compared, and in which unit.
pub(crate) fn subject(results: &Results) -> Option<String> {
    let summary = Summary::of(results);
    let workloads = count(summary.lines.len() as u64, "workload");
    let threads = summary.lines.iter().map(|line| line.base.threads).max()?;
    let threads = count(u64::from(threads), "thread");
    let received = "received counts the CPUs that were interrupted, per unit of a workload\u{2019}s work, such as one call of munmap";
    Some(match (&summary.kernel, summary.names.as_slice()) {
        (_, [one]) => format!("Here it is counted in {workloads} of up to {threads} on kernel {one}: {received}."),
        (Some(kernel), [baseline, ..]) => format!(
            "Here kernel {kernel} does the same work in its modes {}: {workloads} of up to {threads}. The baseline is \
             {baseline}; {received}.",
            list(&summary.names)
        ),
        (None, [baseline, ..]) => format!(
            "Here kernels {} do the same work: {workloads} of up to {threads}. The baseline is {baseline}; {received}.",
            list(&summary.names)
        ),
        (_, []) => return None,
    })
}

/// One kernel: how many CPUs one shootdown interrupts, which is independent of every unit.
fn alone(rows: &[&Row]) -> String {
    let threads = rows.iter().map(|row| row.threads).max().unwrap_or(0);
    let widest: Vec<&&Row> = rows.iter().filter(|row| row.threads == threads).collect();
    let mut targets: Vec<(f64, &str)> =
        widest.iter().filter_map(|row| Some((row.targets_per_shootdown()?, row.workload.as_str()))).collect();
    targets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let silent: BTreeSet<&str> = widest
        .iter()
        .filter(|row| row.received_per_unit.is_some_and(|received| received.max == 0.0))
        .map(|row| row.workload.as_str())
        .collect();
    let at = format!("At {}", count(u64::from(threads), "thread"));
    let (Some(least), Some(most)) = (targets.first(), targets.last()) else {
        let rows = count(widest.len() as u64, "row");
        return if silent.len() == widest.len() {
            format!("{at}, no other CPU received a shootdown in any of {rows}.")
        } else {
            format!("{at}, shootdowns were received in {} of {rows}; how many were sent was not measured.", {
                widest.iter().filter(|row| row.received_per_unit.is_some_and(|r| r.max > 0.0)).count()
            })
        };
    };
    let values: Vec<f64> = targets.iter().map(|target| target.0).collect();
    let middle = stats::median(&values).map_or_else(String::new, figure);
    let mut sentence = if targets.len() == 1 {
        format!("{at}, one shootdown of {} interrupts {} other CPUs", least.1, figure(least.0))
    } else {
        format!(
            "{at}, one shootdown interrupts a median of {middle} other CPUs over {} (from {} in {} to {} in {})",
            count(targets.len() as u64, "row"),
            figure(least.0),
            least.1,
            figure(most.0),
            most.1
        )
    };
    // Of a user address space: kernel ranges are counted apart, and some of these cause nothing else.
    match silent.len() {
        0 => {}
        1..=3 => {
            sentence.push_str(&format!(
                "; {} caused none of a user address space",
                silent.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        n => sentence.push_str(&format!("; {n} workloads caused none of a user address space")),
    }
    sentence.push('.');
    sentence
}

/// One variant against the baseline: what became of shootdowns received, and where they may have moved to.
pub(crate) fn against(summary: &Summary, other: usize) -> String {
    let (baseline, name) = (&summary.names[0], &summary.names[other + 1]);
    let mut changes: Vec<(f64, &str)> = Vec::new();
    let (mut same, mut rose, mut zero) = (0u64, 0u64, 0u64);
    for line in &summary.lines {
        match line.change(other) {
            Some(Change::Percent(change)) => {
                changes.push((change, &line.name));
                rose += u64::from(change > 0.0);
            }
            Some(Change::Same) => {
                changes.push((0.0, &line.name));
                same += 1;
            }
            Some(Change::FromZero) => rose += 1,
            Some(Change::None) => zero += 1,
            None => {}
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = changes.iter().map(|change| change.0).collect::<Vec<_>>();
    let Some(middle) = stats::median(&all) else {
        return format!("Nothing received in {baseline} can be held against {name}.");
    };
    let place = summary.place().map_or_else(String::new, |place| format!(" at {place}"));
    let mut sentence = format!(
        "Against {baseline}, {name} changes the shootdowns received{place} by a median of {} over {}: fewer in {}, as many in \
         {same}, more in {rose}",
        percent(middle),
        count(all.len() as u64, "workload"),
        all.iter().filter(|change| **change < 0.0).count(),
    );
    if zero > 0 {
        sentence.push_str(&format!(
            "; {} {} none in either",
            count(zero, "workload"),
            if zero == 1 { "receives" } else { "receive" }
        ));
    }
    if let Some(words) = avoided(summary, other) {
        sentence.push_str(&format!(". {words}"));
    }
    let mut beside: Vec<(&str, u64)> = Vec::new();
    for title in summary.lines.iter().flat_map(|line| line.rises_of(other)).map(|rise| rise.counter.title) {
        match beside.iter_mut().find(|(known, _)| *known == title) {
            Some((_, workloads)) => *workloads += 1,
            None => beside.push((title, 1)),
        }
    }
    beside.sort_by_key(|(_, workloads)| std::cmp::Reverse(*workloads));
    let beside: Vec<String> = beside
        .into_iter()
        .map(|(title, number)| format!("{title} in {}", count(number, "workload")))
        .collect();
    match beside.is_empty() {
        true => format!("{sentence}. Nothing rose beside it: not other IPIs, full flushes, walks or faults."),
        false => format!("{sentence}. What rose beside it: {}.", list(&beside)),
    }
}

/// The part of it that nobody needed.
fn avoided(summary: &Summary, other: usize) -> Option<String> {
    let baseline = &summary.names[0];
    let told = || summary.lines.iter().filter(|line| !line.is_silent());
    let shares: Vec<f64> =
        told().filter_map(|line| line.avoided(other)).filter_map(Avoided::proved).collect();
    let all_needed =
        told().filter(|line| line.avoided(other) == Some(Avoided::NothingToAvoid)).count() as u64;
    let number = |is: &dyn Fn(f64) -> bool| shares.iter().filter(|percent| is(**percent)).count();
    let needed = format!("{baseline} needed every target in {}", count(all_needed, "workload"));
    let Some(middle) = stats::median(&shares) else {
        return (all_needed > 0).then_some(needed);
    };
    let mut sentence = format!(
        "It avoids a median of {} of the targets that {baseline} did not need, over {}: all in {}, some in {}, none in {}",
        share(middle).replace('-', "\u{2212}"),
        count(shares.len() as u64, "workload"),
        number(&|percent| percent >= 100.0),
        number(&|percent| percent > 0.0 && percent < 100.0),
        number(&|percent| percent <= 0.0),
    );
    if all_needed > 0 {
        sentence.push_str(&format!("; {needed}"));
    }
    Some(sentence)
}
