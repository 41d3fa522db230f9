// SPDX-License-Identifier: GPL-2.0-only
//! Text that makes do with the width there is.

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

/// As many of the parts as fit, from the first on.
pub fn fitting(parts: &[String], between: &str, width: usize) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let gap = if text.is_empty() { "" } else { between };
        if text.width() + gap.width() + part.width() > width {
            break;
        }
        text.push_str(gap);
        text.push_str(part);
    }
    text
}

/// Lines of at most this width, broken between words; a longer word is broken, too.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width.max(1)).word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_are_left_out() {
        let parts = ["one", "", "two", "three"].map(String::from);
        assert_eq!(fitting(&parts, "  ", 80), "one  two  three");
        assert_eq!(fitting(&parts, "  ", 8), "one  two");
        assert_eq!(fitting(&parts, "  ", 2), "");
    }

    #[test]
    fn lines_never_exceed_their_width_and_lose_nothing() {
        let text = "saw 10,000,000 of 10,000,001 user targets (99.99 %); averyveryverylongword end";
        for width in 1..100 {
            let lines = wrapped(text, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            assert_eq!(letters(&lines.concat()), letters(text), "{width}");
        }
    }
}
