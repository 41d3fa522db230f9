// SPDX-License-Identifier: GPL-2.0-only
//! How much room there is.

use std::io::IsTerminal;

/// Columns of standard output, or what COLUMNS says; no terminal has `otherwise`.
pub fn width(otherwise: usize) -> usize {
    if let Some(columns) = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok()) {
        return columns.max(20);
    }
    match std::io::stdout().is_terminal() {
        true => ceasefire_base::progress::terminal_width(),
        false => otherwise,
    }
}
