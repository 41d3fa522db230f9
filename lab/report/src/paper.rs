// SPDX-License-Identifier: GPL-2.0-only
//! A paper's evaluation for a reader: one page, or words for a terminal.
pub(crate) mod blocks;
mod page;
mod words;

pub use page::html;
pub use words::render;

use crate::numbers::{figure as number, percent};
use ceasefire_results::paper::Compared;

/// `-98.1 %`, or why there is no number.
pub(crate) fn found(entry: &Compared) -> String {
    match (entry.percent, entry.baseline, entry.here) {
        (Some(change), ..) => percent(change),
        (None, Some(old), Some(new)) if old.median == 0.0 && new.median == 0.0 => "0 in both".into(),
        (None, Some(old), Some(new)) if old.median == 0.0 => format!("from 0 to {}", number(new.median)),
        _ => "not measured".into(),
    }
}
