// SPDX-License-Identifier: GPL-2.0-only
//! Columns: the first to the left, numbers to the right.

/// Rows of equal length under a head; columns named in `left` are words.
pub fn render(head: &[&str], left: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.enumerate() {
            let width = widths.get(column).copied().unwrap_or(0);
            text.push_str("  ");
            match left.contains(&column) {
                true => text.push_str(&format!("{cell:width$}")),
                false => text.push_str(&format!("{cell:>width$}")),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows =
            [vec!["munmap".to_string(), "1".to_string()], vec!["cow".to_string(), "1,000".to_string()]];
        assert_eq!(
            super::render(&["cause", "sent"], &[0], &rows),
            "  cause    sent\n  munmap      1\n  cow     1,000\n"
        );
    }
}
