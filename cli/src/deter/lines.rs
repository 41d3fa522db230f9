// SPDX-License-Identifier: GPL-2.0-only
//! Sentences in the width that there is.

use super::COLUMNS;
use crate::terminal;
use ceasefire_base::exec::print_line;
use ceasefire_base::text;
use std::io::Write;

/// A sentence behind `first`, its further lines that many columns to the right.
pub fn say(first: &str, sentence: &str) {
    for line in text::wrap(sentence, first, text::width(first), columns()) {
        print_line(line.trim_end());
    }
}

/// A comment of a shell: each line is one.
pub fn comment(sentence: &str) {
    for line in text::wrap(sentence, "", 0, columns().saturating_sub(2)) {
        print_line(&format!("# {}", line.trim_end()));
    }
}

/// On stderr; nobody may be reading.
pub fn warn(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "ceasefire: {sentence}");
}

pub fn columns() -> usize {
    terminal::width(COLUMNS)
}
