// SPDX-License-Identifier: GPL-2.0-only
//! What of a program's output explains its failure.

use std::collections::VecDeque;

/// Lines kept to explain a failure.
const TAIL_LINES: usize = 400;
/// A line longer than this is cut: some programs print megabytes without a newline.
const LINE_BYTES_MAX: usize = 64 << 10;

/// How programs say that the disk is full.
pub(super) const DISK_FULL: [&str; 3] =
    ["No space left on device", "Disk quota exceeded", "don't have enough free space"];

/// Signs of a line that explains a failure.
const TELLING: [&str; 14] = [
    "error:",
    "Error:",
    "ERROR",
    "E: ",
    "fatal",
    "FAILED",
    "cannot ",
    "can't ",
    "No such file",
    "not found",
    "undefined reference",
    "No rule to make",
    "denied",
    "Unable to",
];

#[derive(Default)]
pub(super) struct Tail {
    pub(super) lines: VecDeque<String>,
}

impl Tail {
    pub(super) fn push(&mut self, line: &str) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_string());
    }

    pub(super) fn says(&self, phrases: &[&str]) -> bool {
        self.lines.iter().any(|line| phrases.iter().any(|phrase| line.contains(phrase)))
    }

    /// At most three lines that say why: the first errors, or else the last words.
    pub(super) fn meaningful(&self) -> Vec<String> {
        let trimmed = || self.lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let shorten = |line: &str| -> String { line.chars().take(200).collect() };
        // "make[1]: *** … Error 1" only says that something below failed.
        let telling: Vec<String> = trimmed()
            .filter(|line| TELLING.iter().any(|sign| line.contains(sign)) && !line.contains("] Error "))
            .take(3)
            .map(shorten)
            .collect();
        if !telling.is_empty() {
            return telling;
        }
        let all: Vec<&str> = trimmed().collect();
        all.iter().skip(all.len().saturating_sub(3)).map(|line| shorten(line)).collect()
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' {
                if !self.rest.is_empty() {
                    take(&String::from_utf8_lossy(&self.rest));
                    self.rest.clear();
                }
            } else if self.rest.len() < LINE_BYTES_MAX {
                self.rest.push(byte);
            }
        }
    }
}
