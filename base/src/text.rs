// SPDX-License-Identifier: GPL-2.0-only
//! Lines for a terminal of a given width: breaking between words, padding, colour.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Narrower than this no sentence can be laid out; wider terminals than this are not filled.
const WIDTH_MIN: usize = 24;
const WIDTH_MAX: usize = 160;

/// How to draw for one terminal.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub width: usize,
    pub colour: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Paint {
    Strong,
    Good,
    Bad,
    Doubt,
    Quiet,
}

impl Options {
    pub fn columns(&self) -> usize {
        self.width.clamp(WIDTH_MIN, WIDTH_MAX)
    }

    /// Colours a piece that is already padded: escape codes have no width.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.into();
        }
        let code = match paint {
            Paint::Strong => "1",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Doubt => "33",
            Paint::Quiet => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Colour only for a person: a terminal, no NO_COLOR, not a dumb one.
pub fn use_colour(is_tty: bool) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_tty && !is_set("NO_COLOR") && std::env::var_os("TERM").map_or(true, |term| term != "dumb")
}

/// Columns that a text takes, wide letters two.
pub fn width(text: &str) -> usize {
    text.width()
}

pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

pub fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Names and reasons come from logs: nothing in them may move a cursor or break a line.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `1 thread`, `8 threads`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Lays tokens out in lines of at most `columns`, the first line after `first`, the others after `rest`
/// blanks. Breaks between tokens; inside one only where it fits no line at all, then at its blanks first.
pub fn flow(tokens: &[String], first: &str, rest: usize, columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(rest.max(width(first))).max(1);
    let parts: Vec<String> = tokens
        .iter()
        .map(|token| match width(token) <= room {
            true => token.split_whitespace().collect::<Vec<_>>().join(BOUND),
            false => {
                token.split_whitespace().flat_map(|word| pieces(word, room)).collect::<Vec<_>>().join(" ")
            }
        })
        .collect();
    let indent = " ".repeat(rest);
    let options = textwrap::Options::new(columns)
        .initial_indent(first)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(&parts.join(" "), options).into_iter().map(|line| line.replace(BOUND, " ")).collect()
}

/// A blank at which no line ends.
const BOUND: &str = "\u{a0}";

/// The last resort for endless names; a number stands whole whatever the width.
fn pieces(word: &str, room: usize) -> Vec<String> {
    let is_number = word.chars().all(|c| c.is_ascii_digit() || ",.-+e%<()".contains(c));
    if is_number || width(word) <= room {
        return vec![word.to_string()];
    }
    let mut pieces = vec![String::new()];
    for c in word.chars() {
        if let Some(last) = pieces.last_mut().filter(|last| width(last) + c.width().unwrap_or(0) <= room) {
            last.push(c);
        } else {
            pieces.push(c.to_string());
        }
    }
    pieces
}

/// A sentence broken at its blanks.
pub fn wrap(text: &str, first: &str, rest: usize, columns: usize) -> Vec<String> {
    let tokens: Vec<String> = clean(text).split_whitespace().map(str::to_string).collect();
    flow(&tokens, first, rest, columns)
}

/// A shell command broken so that it can still be pasted: ` \` at line ends, never inside quotes.
pub fn command(text: &str, indent: usize, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut quote = None;
    for c in clean(text).chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == ' ' => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent);
    let mut is_fresh = true;
    for word in words.iter().filter(|word| !word.is_empty()) {
        // Two columns stay free for the continuation mark.
        if !is_fresh && width(&line) + 1 + width(word) + 2 > columns {
            line.push_str(" \\");
            lines.push(std::mem::replace(&mut line, " ".repeat(indent + 2)));
            is_fresh = true;
        }
        if !is_fresh {
            line.push(' ');
        }
        line.push_str(word);
        is_fresh = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_tokens_only() {
        let tokens: Vec<String> = ["sent 1,000,000", "received 7,000,000", "x"].map(String::from).to_vec();
        assert_eq!(flow(&tokens, "  ", 4, 24), ["  sent 1,000,000", "    received 7,000,000 x"]);
    }

    #[test]
    fn a_word_longer_than_a_line_is_broken_and_a_number_is_not() {
        let long = "x".repeat(30);
        assert!(wrap(&long, "", 2, 24).iter().all(|line| width(line) <= 24));
        let number = "123,456,789,012,345,678,901,234,567";
        assert_eq!(wrap(number, "", 2, 24), [number]);
    }

    #[test]
    fn commands_stay_pasteable() {
        let text = "ceasefire lab run 'a b c' --cpus 8 --threads 1,2,4,8 --repeats 3";
        let lines = command(text, 2, 30);
        assert!(lines.iter().all(|line| width(line) <= 30), "{lines:?}");
        let joined = lines.join("\n").replace("\\\n", " ");
        assert_eq!(
            joined.split_whitespace().collect::<Vec<_>>(),
            text.split_whitespace().collect::<Vec<_>>()
        );
        assert!(lines.iter().any(|line| line.contains("'a b c'")), "a quoted word stays whole: {lines:?}");
    }

    #[test]
    fn escape_codes_from_a_log_never_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
