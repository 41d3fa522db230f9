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

/// The same within so many columns: where it does not fit, each row is its first cell, and the others below it.
pub fn fit(width: usize, head: &[&str], left: &[usize], rows: &[Vec<String>]) -> String {
    let table = render(head, left, rows);
    if table.lines().all(|line| line.width() <= width) {
        return table;
    }
    let below = |row: &Vec<String>| {
        let cells = head.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
        let cells: Vec<String> = cells.map(|(head, cell)| format!("{head}: {cell}")).collect();
        flow(width, "    ", cells.iter().map(String::as_str), ", ")
    };
    let first = |row: &Vec<String>| row.first().map_or(String::new(), |cell| format!("  {cell}\n"));
    rows.iter().map(|row| first(row) + &below(row)).collect()
}

/// Words in lines of so many columns; one that is longer has a line of its own.
pub fn flow<'a>(
    width: usize,
    indent: &str,
    words: impl IntoIterator<Item = &'a str>,
    between: &str,
) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for word in words {
        let fits = used + between.width() + word.width() <= width;
        match used {
            0 => text.push_str(indent),
            _ if fits => text.push_str(between),
            _ => text.push_str(&format!("{}\n{indent}", between.trim_end())),
        }
        used = if used > 0 && fits { used + between.width() } else { indent.width() } + word.width();
        text.push_str(word);
    }
    if used > 0 {
        text.push('\n');
    }
    text
}

/// Sentences in lines of so many columns.
pub fn paragraph(width: usize, indent: &str, text: &str) -> String {
    flow(width, indent, text.split_whitespace(), " ")
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

    #[test]
    fn what_is_too_wide_stands_below_its_row() {
        let row = |cells: [&str; 4]| cells.map(str::to_string).to_vec();
        let rows = [row(["munmap", "1,000", "", "5"]), row(["cow", "2", "100%", "3"])];
        let head = ["cause", "sent", "1", "targets"];
        assert_eq!(super::fit(40, &head, &[0], &rows), super::render(&head, &[0], &rows));
        assert_eq!(
            super::fit(24, &head, &[0], &rows),
            "  munmap\n    sent: 1,000,\n    targets: 5\n  cow\n    sent: 2, 1: 100%,\n    targets: 3\n"
        );
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(super::paragraph(9, "  ", "one two three and"), "  one two\n  three\n  and\n");
        assert_eq!(super::paragraph(9, "  ", "a-very-long-word b"), "  a-very-long-word\n  b\n");
        assert_eq!(super::paragraph(9, "  ", ""), "");
    }
}
