// SPDX-License-Identifier: GPL-2.0-only
//! What to change, with the figures that speak for it. A piece of advice needs evidence from the window it is given
//! for; what the window cannot show is said to be unknown, and how to find it out.
mod facts;
mod heap;
mod rules;
mod runtime;
mod shape;
#[cfg(test)]
mod tests;

pub use facts::Facts;

use ceasefire_watch_model::{Batching, Class, Snapshot, SCHEMA};
use ceasefire_watch_record::{Environment, Process};
use ceasefire_watch_views::{honesty, verdict};
use serde_json::{json, Value};

/// A cause with fewer targets is not spoken about: chance would decide.
pub const TARGETS_MIN: u64 = 100;
/// Nor one with a smaller share of its class.
pub const SHARE_MIN: f64 = 0.01;

#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    pub class: Class,
    /// What it is about: a cause, or a property of several.
    pub subject: String,
    /// An imperative.
    pub change: String,
    /// Figures of this window.
    pub evidence: Vec<String>,
    pub command: String,
    /// What it costs, or when it is wrong.
    pub caution: String,
}

/// Largest effect first. `events`: neighbours, any range and touching, where every shootdown is known.
pub fn advise(
    window: &Snapshot,
    environment: &Environment,
    processes: &[Process],
    events: Option<&[Batching]>,
) -> Vec<Advice> {
    let facts = Facts::of(window, environment, processes, events);
    let mut all: Vec<Advice> = facts.causes.iter().flat_map(|cause| rules::about(cause, &facts)).collect();
    all.extend(shape::about(&facts));
    all
}

pub fn render(all: &[Advice], window: &Snapshot) -> String {
    let mut text = verdict::render(window);
    for (number, advice) in all.iter().enumerate() {
        text.push_str(&format!(
            "\n{}. {} ({}): {}\n",
            number + 1,
            advice.subject,
            advice.class.name(),
            advice.change
        ));
        for line in &advice.evidence {
            text.push_str(&format!("     because  {line}\n"));
        }
        text.push_str(&format!("     command  {}\n     but      {}\n", advice.command, advice.caution));
    }
    match all.is_empty() {
        true => text.push_str(&format!(
            "no advice: no cause had {TARGETS_MIN} targets and {:.0} % of its class\n",
            SHARE_MIN * 100.0
        )),
        false => text.push_str("\nNone of this was tried here: change one thing, record again, compare.\n"),
    }
    text.push_str(&honesty::block(&window.coverage));
    text
}

pub fn json(all: &[Advice], window: &Snapshot) -> String {
    let rows: Vec<Value> = all
        .iter()
        .map(|advice| {
            json!({
                "class": advice.class.name(), "subject": advice.subject, "change": advice.change,
                "evidence": advice.evidence, "command": advice.command, "caution": advice.caution,
            })
        })
        .collect();
    json!({"schema": SCHEMA, "verb": "advice", "advice": rows, "coverage": window.coverage}).to_string()
}
