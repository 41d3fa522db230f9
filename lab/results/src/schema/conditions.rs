// SPDX-License-Identifier: GPL-2.0-only
//! What decides a row's counts beside kernel, mode, workload and threads, and in which words it is shown.

use super::Row;

/// One setting of the machine, the kernel's command line or the workload.
pub struct Condition {
    pub name: &'static str,
    /// `None` where the row does not tell.
    pub words: fn(&Row) -> Option<String>,
    /// Shown wherever a row has it: not having it is the rule.
    pub is_extra: bool,
}

const fn always(name: &'static str, words: fn(&Row) -> Option<String>) -> Condition {
    Condition { name, words, is_extra: false }
}

const fn extra(name: &'static str, words: fn(&Row) -> Option<String>) -> Condition {
    Condition { name, words, is_extra: true }
}

/// vCPUs and nodes.
pub const SHAPE: &str = "processors";

/// In the order in which they are shown.
pub const CONDITIONS: &[Condition] = &[
    always(SHAPE, |row| Some(row.shape())),
    always("accelerator", |row| row.accel.clone()),
    always("thread mode", |row| row.thread_mode.as_ref().map(|mode| format!("threads {mode}"))),
    always("slice", |row| row.slice_us.map(|slice| format!("slice {slice} µs"))),
    always("CPU model", |row| row.cpu.as_ref().map(|cpu| format!("-cpu {cpu}"))),
    always("TLBs", |row| row.tlb.as_ref().map(|tlb| format!("TLBs {tlb}"))),
    always("page-table levels", |row| row.la57.map(|on| if on { "5 levels" } else { "4 levels" }.into())),
    always("huge pages", |row| row.thp.as_ref().map(|thp| format!("THP {thp}"))),
    always("PTI", |row| row.pti.map(|on| format!("PTI {}", on_off(on)))),
    always("PCID", |row| row.pcid.map(|on| format!("PCID {}", on_off(on)))),
    extra("kernel arguments", |row| row.kernel_args.clone()),
    extra("settings", |row| row.set.clone()),
    extra("program", |row| row.program.clone()),
    extra("observer", |row| row.recorded.then(|| "recorded".into())),
];

fn on_off(on: bool) -> &'static str {
    if on {
        "on"
    } else {
        "off"
    }
}

impl Condition {
    /// A row that does not tell is not taken for another one, unless telling is the exception.
    pub fn differs(&self, a: &Row, b: &Row) -> bool {
        match ((self.words)(a), (self.words)(b)) {
            (Some(a), Some(b)) => a != b,
            (None, None) => false,
            _ => self.is_extra,
        }
    }

    /// What a row has beyond the rule.
    pub fn extras(row: &Row) -> impl Iterator<Item = String> + '_ {
        CONDITIONS
            .iter()
            .filter(|condition| condition.is_extra)
            .filter_map(|condition| (condition.words)(row))
    }

    /// The conditions worth a word: those in which rows differ, and extras that any row has.
    pub fn telling(rows: &[&Row]) -> Vec<&'static Condition> {
        let is_told = |condition: &&Condition| {
            let mut told = rows.iter().filter_map(|row| (condition.words)(row));
            told.next().is_some_and(|first| condition.is_extra || told.any(|words| words != first))
        };
        CONDITIONS.iter().filter(is_told).collect()
    }
}

impl Row {
    /// The same conditions: what differs between two such rows is the kernel's doing.
    pub fn is_alike(&self, other: &Row) -> bool {
        CONDITIONS.iter().all(|condition| !condition.differs(self, other))
    }

    /// The same work on the same machine.
    pub fn is_same_work(&self, other: &Row) -> bool {
        (&self.workload, self.threads, self.cost, self.seed)
            == (&other.workload, other.threads, other.cost, other.seed)
            && self.is_alike(other)
    }
}
