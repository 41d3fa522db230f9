// SPDX-License-Identifier: GPL-2.0-only
//! May these rows be shown as results? Controls, elisions found wrong, sources that disagree.

use crate::mechanism::Described;
use crate::schema::{Results, Row};
use ceasefire_base::{Error, Result};

/// A control may be off by this share; a promise of zero must be met exactly.
pub const CONTROL_SHARE: f64 = 0.01;

/// Whether the figures may be shown as results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every control that ran could be judged from both sources and held.
    Proven,
    /// Controls held, but some of their figures cannot be measured here (named).
    Partly(Vec<String>),
    /// No control ran: the figures stand alone.
    NoControl,
    /// No report: these controls failed.
    Failed(Vec<String>),
}

/// A measured total against its promise: within 1 %, and zero exactly zero.
pub fn holds(expected: f64, measured: f64) -> bool {
    if expected == 0.0 {
        measured == 0.0
    } else {
        (measured - expected).abs() <= CONTROL_SHARE * expected
    }
}

impl Results {
    pub fn verdict(&self) -> Verdict {
        let named = |wanted: Option<bool>| -> Vec<String> {
            self.controls.iter().filter(|c| c.ok == wanted).map(|c| c.name.clone()).collect()
        };
        let failed = named(Some(false));
        if !failed.is_empty() {
            return Verdict::Failed(failed);
        }
        if !self.controls.iter().any(|c| c.ok == Some(true)) {
            return Verdict::NoControl;
        }
        match named(None) {
            unjudged if unjudged.is_empty() => Verdict::Proven,
            unjudged => Verdict::Partly(unjudged),
        }
    }

    /// No report if a control failed or an elision was found wrong: one sentence naming them, exit code 1.
    pub fn reportable(&self) -> Result<()> {
        if let Verdict::Failed(names) = self.verdict() {
            let shown = names.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
            let more = names.len().saturating_sub(3);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(Error::failed(format!("no report, because a control failed: {shown}{rest}"))
                .remedy("the counts cannot be trusted here: run `ceasefire lab run control` alone and look at its figures"));
        }
        if let Some(row) = self.rows.iter().find(|row| row.violations.unwrap_or(0) > 0) {
            return Err(Error::failed(format!(
                "no report, because {} at {} threads on {} skipped {} flushes that were needed",
                row.workload,
                row.threads,
                row.kernel_label(),
                row.violations.unwrap_or(0)
            ))
            .remedy("this kernel corrupts memory: see the warnings in its console log"));
        }
        // In some workloads nobody holds what is flushed (a fault has dropped it): another row of the kernel may show
        // that the question is right.
        let described = Described::of(&self.environment.mechanisms);
        let is_proven = |of: &Row, site: &str| {
            let same = self.rows.iter().filter(|row| row.kernel == of.kernel);
            same.into_iter().any(|row| described.found_holders(row, site))
        };
        let wrong = self.rows.iter().find_map(|row| {
            row.asked_wrongly.iter().find(|site| !is_proven(row, site)).map(|site| (row, site))
        });
        if let Some((row, site)) = wrong {
            return Err(Error::failed(format!(
                "no report, because {} at {} threads on {} asked wrongly at {site}: no sample of the flushes kept there ever found a holder",
                row.workload,
                row.threads,
                row.kernel_label(),
            ))
            .remedy("where others can hold what is flushed, the machine was asked wrongly; where nobody can, add a workload in which they do: munmap-shared"));
        }
        Ok(())
    }

    /// Rows whose two sources of "received" differ by more than the controls may.
    pub fn disagreements(&self) -> Vec<&Row> {
        self.rows
            .iter()
            .filter(|row| row.has_two_sources())
            .filter(|row| match (row.received_per_unit, row.received_irq_per_unit) {
                (Some(tracepoint), Some(interrupts)) => !holds(interrupts.median, tracepoint.median),
                _ => false,
            })
            .collect()
    }
}
