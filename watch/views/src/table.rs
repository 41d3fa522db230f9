// SPDX-License-Identifier: GPL-2.0-only
//! Columns: the first to the left, numbers to the right.

use unicode_width::UnicodeWidthStr;

/// To so many columns of a terminal: words stand left, numbers right.
pub fn pad(text: &str, columns: usize, is_words: bool) -> String {
    let gap = " ".repeat(columns.saturating_sub(text.width()));
    if is_words {
        format!("{text}{gap}")
    } else {
        format!("{gap}{text}")
    }
}

/// Rows of equal length under a head, where there are any; columns named in `left` are words.
pub fn render(head: &[&str], left: &[usize], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let lines = || std::iter::once(&head).chain(rows);
    let width = |column: usize| lines().filter_map(|line| line.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).enumerate();
        let pad = |(column, (cell, width)): (usize, (&String, &usize))| {
            format!("  {}", pad(cell, *width, left.contains(&column)))
        };
        let text: String = cells.map(pad).collect();
        format!("{}\n", text.trim_end())
    };
    lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows =
            [vec!["munmap".to_string(), "1".to_string()], vec!["長い".to_string(), "1,000".to_string()]];
        assert_eq!(
            super::render(&["cause", "sent"], &[0], &rows),
            "  cause    sent\n  munmap      1\n  長い    1,000\n"
        );
    }
}
