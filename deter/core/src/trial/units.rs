// SPDX-License-Identifier: GPL-2.0-only
//! How much work a trial did: a better remedy shortens the run, so a rate would hide it.

use super::state::Hash;
use ceasefire_base::{Error, Result};
use regex_lite::Regex;
use std::io::{self, Read};

/// Of a line no more is looked at: what is printed may be binary, and larger than memory.
const LINE_MAX: usize = 1 << 20;
const CHUNK: usize = 64 << 10;

#[derive(Debug, Clone)]
pub enum Units {
    /// Every run does as much.
    Fixed(u64),
    /// Matches in what it prints; where a match has a group with a number, that counts.
    Matches { regex: Regex, label: String, is_asked_for: bool },
}

impl Units {
    /// `client`: what a server's work is asked for with; of some it is known how they say how much that was.
    pub fn new(fixed: Option<u64>, pattern: Option<&str>, client: Option<&str>) -> Result<Units> {
        let known = client.filter(|_| pattern.is_none()).and_then(known);
        match (fixed, pattern.or(known.as_ref().map(|(pattern, _)| *pattern))) {
            (Some(0), _) => Err(Error::usage("--units 0: nothing to divide by").remedy("--units 1 or more")),
            (Some(units), _) => Ok(Units::Fixed(units)),
            (None, None) => Ok(Units::Fixed(1)),
            (None, Some(pattern)) => {
                let regex = Regex::new(pattern).map_err(|error| {
                    Error::usage(format!("--unit '{pattern}' is no regular expression: {error}"))
                        .remedy("such as --unit '^round [0-9]+$' (a line is matched by itself)")
                })?;
                let is_asked_for = known.is_none();
                let label = known.map_or_else(|| pattern.to_string(), |(_, label)| label);
                Ok(Units::Matches { regex, label, is_asked_for })
            }
        }
    }

    /// A number; the pattern that was given; "redis-benchmark's count of requests".
    pub fn label(&self) -> String {
        match self {
            Units::Fixed(units) => units.to_string(),
            Units::Matches { label, .. } => label.clone(),
        }
    }

    /// A client's own way to say how much it did, which it does not have in every mode.
    pub fn is_guess(&self) -> bool {
        matches!(self, Units::Matches { is_asked_for: false, .. })
    }

    /// What is not in an output that must have it, as the end of a sentence; None where nothing is looked for.
    pub fn lack(&self) -> Option<String> {
        match self {
            Units::Fixed(_) => None,
            Units::Matches { label, is_asked_for: true, .. } => Some(format!("matches --unit '{label}'")),
            Units::Matches { label, .. } => Some(format!("has {label}")),
        }
    }

    /// Of a run's output, which may be binary: how many, and its hash. Lines are matched one by one.
    pub fn read(&self, mut output: impl Read) -> io::Result<(u64, u64)> {
        let (mut sum, mut hash, mut line) = (0u64, Hash::default(), Vec::new());
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = match output.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let chunk = &buffer[..length];
            hash.add(chunk);
            let Units::Matches { regex, .. } = self else {
                if length == 0 {
                    break;
                }
                continue;
            };
            for (at, part) in chunk.split(|byte| *byte == b'\n').enumerate() {
                if at > 0 {
                    sum = sum.saturating_add(count(regex, &line));
                    line.clear();
                }
                line.extend_from_slice(&part[..part.len().min(LINE_MAX - line.len())]);
            }
            if length == 0 {
                sum = sum.saturating_add(count(regex, &line));
                break;
            }
        }
        let Units::Fixed(units) = self else { return Ok((sum, hash.value())) };
        Ok((*units, hash.value()))
    }
}

fn count(regex: &Regex, line: &[u8]) -> u64 {
    if line.is_empty() {
        return 0;
    }
    let line = String::from_utf8_lossy(line);
    let found = regex.captures_iter(&line).map(|found| found.get(1).map_or(1, number));
    found.fold(0, u64::saturating_add)
}

/// Each client prints it in this way: what it counts, and how.
const CLIENTS: [(&str, &str, &str); 5] = [
    ("ab", "requests", "^Complete requests: +([0-9]+)"),
    ("pgbench", "transactions", "^number of transactions actually processed: ([0-9]+)"),
    ("redis-benchmark", "requests", "^ *([0-9]+) requests completed in"),
    ("sysbench", "events", "^ *total number of events: +([0-9]+)"),
    ("wrk", "requests", "^ *([0-9]+) requests in"),
];

/// The first command of these in a shell's line: its pattern, and what that finds.
fn known(client: &str) -> Option<(&'static str, String)> {
    commands(client).iter().find_map(|command| {
        let name = command.rsplit('/').next()?;
        let (name, what, pattern) = CLIENTS.iter().find(|(client, _, _)| *client == name)?;
        Some((*pattern, format!("{name}'s count of {what}")))
    })
}

/// Words of a shell behind which a command stands.
const BEFORE: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "{", "!", "exec", "time", "env"];

/// Words that a shell would run, as far as that can be seen: what stands first.
fn commands(line: &str) -> Vec<String> {
    let (mut found, mut word, mut is_first, mut quote) = (Vec::new(), String::new(), true, None);
    for letter in line.chars().chain(['\n']) {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | ' ' | '\t') => {
                // What is set before a command, and words after which another one stands.
                let is_before = BEFORE.contains(&word.as_str()) || word.contains('=');
                if is_first && !word.is_empty() && !is_before {
                    found.push(std::mem::take(&mut word));
                    is_first = false;
                }
                is_first = is_first || !" \t".contains(letter);
                word.clear();
            }
            _ => word.push(letter),
        }
    }
    found
}

/// `1,234` and `1234`; a group for another reason is a match.
fn number(found: regex_lite::Match) -> u64 {
    found.as_str().replace([',', '_'], "").parse().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(pattern: Option<&str>, client: Option<&str>) -> Units {
        Units::new(None, pattern, client).expect("good")
    }

    impl Units {
        fn count(&self, output: &[u8]) -> u64 {
            self.read(output).expect("read").0
        }
    }

    #[test]
    fn a_client_is_a_command_and_no_word() {
        for (line, wanted) in [
            ("ab -n 5 http://x/", Some("ab's count of requests")),
            ("sleep 1; until /usr/bin/curl x; do :; done\n/usr/bin/wrk x", Some("wrk's count of requests")),
            ("while true; do ab x; done", Some("ab's count of requests")),
            ("sleep 1&&LANG=C pgbench -c 2", Some("pgbench's count of transactions")),
            ("curl http://x/ab", None),
            ("curl -o ab x", None),
            ("echo 'x; ab y' \"| wrk\"", None),
            ("", None),
        ] {
            let found = units(None, Some(line));
            assert_eq!(found.is_guess().then(|| found.label()).as_deref(), wanted, "{line}");
        }
        let quiet = units(None, Some("redis-benchmark -q"));
        assert_eq!(quiet.count(b"SET: 72992.70 requests per second\n"), 0);
        assert_eq!(quiet.lack().as_deref(), Some("has redis-benchmark's count of requests"));
        let asked = units(Some("^x"), Some("ab y"));
        assert!(!asked.is_guess() && asked.lack().is_some_and(|it| it.contains("--unit '^x'")));
    }

    /// Whatever is read at once: the same, and of a line that does not end no more than that is kept.
    #[test]
    fn an_output_is_read_in_parts() {
        struct Slowly<'a>(&'a [u8]);
        impl Read for Slowly<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = self.0.len().min(3).min(buffer.len());
                buffer[..length].copy_from_slice(&self.0[..length]);
                self.0 = &self.0[length..];
                Ok(length)
            }
        }
        let text = b"round 1\n\nround 22\nround";
        let rounds = units(Some("^round [0-9]+$"), None);
        assert_eq!(rounds.read(Slowly(text)).expect("read"), (2, super::super::state::hash(text)));
        assert_eq!(rounds.read(&text[..]).expect("read"), (2, super::super::state::hash(text)));
        let endless = vec![b'x'; 3 * LINE_MAX];
        assert_eq!(units(Some("x"), None).count(&endless), LINE_MAX as u64);
        assert_eq!(units(None, None).count(&endless), 1);
    }

    #[test]
    fn work_is_given_or_found_in_the_output() {
        assert_eq!(Units::new(Some(60), None, None).expect("good").count(b""), 60);
        assert_eq!(Units::new(None, None, None).expect("good").count(b"x"), 1);
        let rounds = Units::new(None, Some("^round [0-9]+$"), None).expect("good");
        assert_eq!(rounds.count(b"round 1\nround 2\nother\nround x\n"), 2);
        let words = Units::new(None, Some("ab"), None).expect("good");
        assert_eq!(words.count(b"abab\xff\0ab"), 3);
        let client = Units::new(None, Some("^Complete requests: +([0-9,]+)"), None).expect("good");
        assert_eq!(client.count(b"Server: x\nComplete requests:      20,000\nFailed requests: 0\n"), 20_000);
        assert_eq!(Units::new(None, Some("n=(.*)"), None).expect("good").count(b"n=x\nn=3\n"), 4);
        let named = Units::new(None, None, Some("sleep 1; /usr/bin/redis-benchmark -n 5")).expect("good");
        assert_eq!(named.count(b"====== SET ======\n  5 requests completed in 0.1 seconds\n"), 5);
        assert_eq!(Units::new(None, None, Some("curl x")).expect("good").count(b"x"), 1);
        assert!(Units::new(Some(0), None, None).is_err());
        assert!(Units::new(None, Some("("), None)
            .expect_err("bad")
            .message
            .contains("no regular expression"));
    }
}
