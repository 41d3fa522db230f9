// SPDX-License-Identifier: GPL-2.0-only
//! How much work a trial did: a better remedy shortens the run, so a rate would hide it.

use ceasefire_base::{Error, Result};
use regex_lite::Regex;

#[derive(Debug, Clone)]
pub enum Units {
    /// Every run does as much.
    Fixed(u64),
    /// Matches in what it prints.
    Matches(Regex),
}

impl Units {
    pub fn new(fixed: Option<u64>, pattern: Option<&str>) -> Result<Units> {
        match (fixed, pattern) {
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

    /// Of a run's output, which may be binary. Lines are matched one by one.
    pub fn count(&self, output: &[u8]) -> u64 {
        match self {
            Units::Fixed(units) => *units,
            Units::Matches(regex) => {
                let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                lines.map(|line| regex.find_iter(&String::from_utf8_lossy(line)).count() as u64).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_given_or_found_in_the_output() {
        assert_eq!(Units::new(Some(60), None).expect("good").count(b""), 60);
        assert_eq!(Units::new(None, None).expect("good").count(b"x"), 1);
        let rounds = Units::new(None, Some("^round [0-9]+$")).expect("good");
        assert_eq!(rounds.count(b"round 1\nround 2\nother\nround x\n"), 2);
        let words = Units::new(None, Some("ab")).expect("good");
        assert_eq!(words.count(b"abab\xff\0ab"), 3);
        assert!(Units::new(Some(0), None).is_err());
        assert!(Units::new(None, Some("(")).expect_err("bad").message.contains("no regular expression"));
    }
}
