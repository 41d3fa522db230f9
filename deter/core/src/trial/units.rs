// SPDX-License-Identifier: GPL-2.0-only
//! How much work a trial did: a better remedy shortens the run, so a rate would hide it.

use ceasefire_base::{Error, Result};
use regex_lite::Regex;

#[derive(Debug, Clone)]
pub enum Units {
    /// Every run does as much.
    Fixed(u64),
    /// Matches in what it prints; where a match has a group with a number, that counts.
    Matches(Regex),
}

impl Units {
    /// `client`: what a server's work is asked for with; of some it is known how they say how much that was.
    pub fn new(fixed: Option<u64>, pattern: Option<&str>, client: Option<&str>) -> Result<Units> {
        match (fixed, pattern.or_else(|| known(client?))) {
            (Some(0), _) => Err(Error::usage("--units 0: nothing to divide by").remedy("--units 1 or more")),
            (Some(units), _) => Ok(Units::Fixed(units)),
            (None, None) => Ok(Units::Fixed(1)),
            (None, Some(pattern)) => {
                let regex = Regex::new(pattern).map_err(|error| {
                    Error::usage(format!("--unit '{pattern}' is no regular expression: {error}"))
                        .remedy("such as --unit '^round [0-9]+$' (a line is matched by itself)")
                })?;
                Ok(Units::Matches(regex))
            }
        }
    }

    /// What is looked for in the output.
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Units::Fixed(_) => None,
            Units::Matches(regex) => Some(regex.as_str()),
        }
    }

    /// Of a run's output, which may be binary. Lines are matched one by one.
    pub fn count(&self, output: &[u8]) -> u64 {
        match self {
            Units::Fixed(units) => *units,
            Units::Matches(regex) => {
                let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let counts = lines.map(|line| {
                    let line = String::from_utf8_lossy(line);
                    regex
                        .captures_iter(&line)
                        .map(|found| found.get(1).map_or(1, number))
                        .fold(0, u64::saturating_add)
                });
                counts.fold(0, u64::saturating_add)
            }
        }
    }
}

/// Each client prints it in this way.
const CLIENTS: [(&str, &str); 5] = [
    ("ab", "^Complete requests: +([0-9]+)"),
    ("pgbench", "^number of transactions actually processed: ([0-9]+)"),
    ("redis-benchmark", "^ *([0-9]+) requests completed in"),
    ("sysbench", "^ *total number of events: +([0-9]+)"),
    ("wrk", "^ *([0-9]+) requests in"),
];

fn known(client: &str) -> Option<&'static str> {
    let names = client.split(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
    let mut found = names.filter_map(|name| CLIENTS.iter().find(|(client, _)| *client == name));
    found.next().map(|(_, pattern)| *pattern)
}

/// `1,234` and `1234`; a group for another reason is a match.
fn number(found: regex_lite::Match) -> u64 {
    found.as_str().replace([',', '_'], "").parse().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
