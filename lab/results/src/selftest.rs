// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own tests: how many subtests of each kind one reported, and whether that is what was wanted.
//!
//! Most speak KTAP (Documentation/dev-tools/ktap.rst); uffd-unit-tests ends with a line of its own, khugepaged names its
//! cases; of the rest the exit code is all there is, and counts as one subtest.

use crate::protocol::{Selftest, SelftestEnd};
use ceasefire_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

pub const SCHEMA: &str = "ceasefire.selftests/1";
/// kselftest.h: the whole test was skipped.
const EXIT_SKIP: i32 = 4;
/// Of the failed subtests of one test, in a sentence.
const NAMES_SHOWN: usize = 3;
const UFFD_SUMMARY: &str = "Userfaults unit tests: ";
const KHUGEPAGED_CASE: &str = "Run test: ";

/// Subtests by outcome, as kselftest.h counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counts {
    pub pass: u32,
    pub fail: u32,
    pub skip: u32,
    pub xfail: u32,
    pub xpass: u32,
    pub error: u32,
}

impl Counts {
    pub fn total(&self) -> u32 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    fn named(&self) -> [(&'static str, u32); 6] {
        [
            ("pass", self.pass),
            ("fail", self.fail),
            ("skip", self.skip),
            ("xfail", self.xfail),
            ("xpass", self.xpass),
            ("error", self.error),
        ]
    }

    fn field(&mut self, name: &str) -> Option<&mut u32> {
        Some(match name {
            "pass" => &mut self.pass,
            "fail" => &mut self.fail,
            "skip" => &mut self.skip,
            "xfail" => &mut self.xfail,
            "xpass" => &mut self.xpass,
            "error" => &mut self.error,
            _ => return None,
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let some: Vec<String> = self
            .named()
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        formatter.write_str(if some.is_empty() { "no subtests".into() } else { some.join(", ") }.as_str())
    }
}

/// What the words of one test come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    pub counts: Counts,
    /// Names of failed subtests.
    pub failed: Vec<String>,
    /// The test contradicts itself: its plan or its totals are not what it reported.
    pub contradiction: Option<String>,
}

/// Counts the subtests of a test that ended.
pub fn tally(lines: &[String], end: &SelftestEnd) -> Tally {
    let mut tally = Tally::default();
    let (mut plan, mut totals) = (None, None);
    for line in lines {
        if let Some((kind, name)) = result_line(line) {
            if let Some(count) = tally.counts.field(kind) {
                *count += 1;
            }
            if matches!(kind, "fail" | "error") {
                tally.failed.push(name.to_string());
            }
        } else if let Some(number) = line.strip_prefix("1..") {
            plan = number.split_whitespace().next().and_then(|number| number.parse::<u32>().ok()).or(plan);
        } else if let Some(text) = line.strip_prefix("# Totals: ") {
            totals = parse_totals(text);
        }
    }
    let counts = tally.counts;
    if counts == Counts::default() {
        return Tally { counts: without_ktap(lines, end), ..tally };
    }
    tally.contradiction = if plan.is_some_and(|plan| plan != counts.total()) {
        Some(format!("it planned {} subtests and reported {}", plan.unwrap_or(0), counts.total()))
    } else {
        totals
            .filter(|totals| *totals != counts)
            .map(|totals| format!("its totals say {totals}, its lines {counts}"))
    };
    tally
}

/// `ok 3 name`, `not ok 4 # error why`, `ok 5 name # SKIP why`; a line further in belongs to a subtest's own report.
fn result_line(line: &str) -> Option<(&'static str, &str)> {
    let (is_ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<u32>().ok()?;
    let directive = text.rfind("# ").map_or("", |at| &text[at + 2..]);
    let says = |word: &str| {
        directive.split_whitespace().next() == Some(word) || text.contains(&format!("# {word} "))
    };
    let kind = match is_ok {
        _ if says("SKIP") => "skip",
        true if says("XFAIL") => "xfail",
        true if says("XPASS") => "xpass",
        true => "pass",
        false if says("error") => "error",
        false => "fail",
    };
    Some((kind, text))
}

/// `pass:12 fail:4 xfail:3 xpass:0 skip:0 error:0`
fn parse_totals(text: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    for word in text.split_whitespace() {
        let (name, number) = word.split_once(':')?;
        *counts.field(name)? = number.parse().ok()?;
    }
    Some(counts)
}

fn without_ktap(lines: &[String], end: &SelftestEnd) -> Counts {
    let uffd = lines.iter().rev().find_map(|line| line.strip_prefix(UFFD_SUMMARY)).and_then(parse_uffd);
    if let Some(counts) = uffd {
        return counts;
    }
    let cases = lines.iter().filter(|line| line.starts_with(KHUGEPAGED_CASE)).count();
    let cases = u32::try_from(cases).unwrap_or(u32::MAX).max(1);
    match end.exit {
        Some(0) => Counts { pass: cases, ..Counts::default() },
        Some(EXIT_SKIP) => Counts { skip: 1, ..Counts::default() },
        _ => Counts { pass: cases - 1, fail: 1, ..Counts::default() },
    }
}

/// `pass=95, skip=0, fail=0 (total=95)`
fn parse_uffd(text: &str) -> Option<Counts> {
    let (parts, total) = text.split_once(" (total=")?;
    let mut counts = Counts::default();
    for part in parts.split(", ") {
        let (name, number) = part.split_once('=')?;
        *counts.field(name)? = number.trim().parse().ok()?;
    }
    let total: u32 = total.trim_end().strip_suffix(')')?.parse().ok()?;
    (counts.total() == total).then_some(counts)
}

/// One test beside what was wanted of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    /// Program and arguments.
    pub run: String,
    /// None: not judged, because it does not pass on an unchanged kernel.
    pub wanted: Option<Counts>,
    pub got: Option<Counts>,
    pub exit: Option<i32>,
    pub seconds: Option<f64>,
    /// Why it is not as wanted.
    pub problem: Option<String>,
}

/// What a test is judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub counts: Counts,
    pub exit: i32,
}

/// `died`: how the guest ended, for a test that was running then.
pub fn judge(test: &Selftest, run: &str, wanted: Option<&Wanted>, died: Option<&str>) -> Row {
    let mut row = Row {
        name: test.name.clone(),
        run: run.to_string(),
        wanted: wanted.map(|wanted| wanted.counts),
        got: None,
        exit: None,
        seconds: None,
        problem: None,
    };
    let Some(end) = &test.end else {
        row.problem = Some(died.unwrap_or("the guest ended while it ran").to_string());
        return row;
    };
    let found = tally(&test.lines, end);
    row.got = Some(found.counts);
    row.exit = end.exit;
    row.seconds = Some(end.ms as f64 / 1000.0);
    row.problem = problem(&found, end, wanted);
    row
}

fn problem(found: &Tally, end: &SelftestEnd, wanted: Option<&Wanted>) -> Option<String> {
    let seconds = end.ms / 1000;
    if end.timed_out {
        return Some(format!("no end within {seconds} s, stopped; so far {}", found.counts));
    }
    let wanted = wanted?;
    if let Some(signal) = end.signal {
        return Some(format!("killed by signal {signal} after {}", found.counts));
    }
    if found.counts != wanted.counts {
        let names: Vec<&str> = found.failed.iter().take(NAMES_SHOWN).map(String::as_str).collect();
        let named = if names.is_empty() { String::new() } else { format!(" (failed: {})", names.join("; ")) };
        return Some(format!("wanted {}, got {}{named}", wanted.counts, found.counts));
    }
    if end.exit != Some(wanted.exit) {
        return Some(format!("wanted exit code {}, got {}", wanted.exit, end.exit.unwrap_or(-1)));
    }
    found.contradiction.clone()
}

/// All tests of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub command: String,
    pub kernel: String,
    pub mode: Option<String>,
    pub release: Option<String>,
    pub image_sha256: String,
    pub cpus: u32,
    pub nodes: u32,
    pub memory_mib: u32,
    /// Boots it took: one, and one more for each test that the guest did not survive.
    pub boots: u32,
    pub tests: Vec<Row>,
}

impl Report {
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::failed(format!("the report cannot be written as JSON: {error}")))
    }

    pub fn failed(&self) -> Vec<&Row> {
        self.tests.iter().filter(|row| row.problem.is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(exit: i32) -> SelftestEnd {
        SelftestEnd { exit: Some(exit), signal: None, timed_out: false, ms: 1500 }
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    fn counts(pass: u32, fail: u32, skip: u32, xfail: u32) -> Counts {
        Counts { pass, fail, skip, xfail, ..Counts::default() }
    }

    const MIXED: &str =
        "TAP version 13\n1..6\n# RUN a\nok 1 a works\nnot ok 2 b breaks\nok 3 # XFAIL c - overlapping\n\
         ok 4 # SKIP no swap\nok 5 d # SKIP no device\n    ok 9 nested\nok 6 e: a # in its name\n\
         # Totals: pass:2 fail:1 xfail:1 xpass:0 skip:2 error:0\n";

    #[test]
    fn ktap_lines_are_counted_by_outcome() {
        let found = tally(&lines(MIXED), &end(1));
        assert_eq!(found.counts, counts(2, 1, 2, 1));
        assert_eq!(found.failed, ["b breaks"]);
        assert_eq!(found.contradiction, None);
        let odd = tally(
            &lines("ok 1 # XPASS x\nnot ok 2 # error setup\nok\nok then\nok x y\nnot okay 3\n"),
            &end(1),
        );
        assert_eq!(odd.counts, Counts { xpass: 1, error: 1, ..Counts::default() });
    }

    #[test]
    fn a_lost_line_or_a_wrong_total_is_a_contradiction() {
        for lost in ["ok 1 a works\n", "not ok 2 b breaks\n", "ok 4 # SKIP no swap\n"] {
            let found = tally(&lines(&MIXED.replace(lost, "")), &end(0));
            assert_eq!(
                found.contradiction.as_deref(),
                Some("it planned 6 subtests and reported 5"),
                "{lost}"
            );
        }
        let found = tally(&lines(&MIXED.replace("pass:2 fail:1", "pass:3 fail:0")), &end(0));
        assert!(found.contradiction.is_some_and(|why| why.starts_with("its totals say pass 3, skip 2")));
        let found = tally(&lines(&MIXED.replace("1..6\n", "")), &end(0));
        assert_eq!(found.contradiction, None, "not every test has a plan");
    }

    #[test]
    fn tests_without_ktap_are_counted_by_what_they_do_say() {
        let uffd =
            "Testing poison on anon... done\nUserfaults unit tests: pass=62, skip=7, fail=1 (total=70)\n";
        assert_eq!(tally(&lines(uffd), &end(1)).counts, counts(62, 1, 7, 0));
        let cut = "Testing poison on anon... done\nUserfaults unit tests: pass=6";
        assert_eq!(tally(&lines(cut), &end(0)).counts, counts(1, 0, 0, 0), "no sum that can be trusted");
        let khugepaged = "Run test: a (khugepaged:anon)\n OK\nRun test: b (madvise:anon)\n OK\n";
        assert_eq!(tally(&lines(khugepaged), &end(0)).counts, counts(2, 0, 0, 0));
        assert_eq!(tally(&lines(khugepaged), &end(1)).counts, counts(1, 1, 0, 0));
        assert_eq!(tally(&[], &end(0)).counts, counts(1, 0, 0, 0));
        assert_eq!(tally(&[], &end(4)).counts, counts(0, 0, 1, 0));
        assert_eq!(tally(&lines("1..0 # SKIP no device\n"), &end(4)).counts, counts(0, 0, 1, 0));
        assert_eq!(
            tally(&[], &SelftestEnd { signal: Some(11), ..end(0) }.without_exit()).counts,
            counts(0, 1, 0, 0)
        );
    }

    impl SelftestEnd {
        fn without_exit(mut self) -> SelftestEnd {
            self.exit = None;
            self
        }
    }

    fn judged(text: &str, end: Option<SelftestEnd>, wanted: &Wanted) -> Option<String> {
        let test = Selftest { name: "t".into(), lines: lines(text), end };
        judge(&test, "t", Some(wanted), Some("the guest's kernel complained: WARNING")).problem
    }

    #[test]
    fn every_difference_is_a_failure_that_says_both() {
        let wanted = Wanted { counts: counts(2, 1, 2, 1), exit: 1 };
        assert_eq!(judged(MIXED, Some(end(1)), &wanted), None);
        assert_eq!(judged(MIXED, Some(end(0)), &wanted).as_deref(), Some("wanted exit code 1, got 0"));
        assert_eq!(
            judged(&MIXED.replace("ok 1 a works", "not ok 1 a broke"), Some(end(1)), &wanted).as_deref(),
            Some("wanted pass 2, fail 1, skip 2, xfail 1, got pass 1, fail 2, skip 2, xfail 1 (failed: a broke; b breaks)")
        );
        // A pass that became a skip is a difference, too.
        assert!(judged(&MIXED.replace("ok 1 a works", "ok 1 # SKIP a"), Some(end(1)), &wanted).is_some());
        let killed = SelftestEnd { signal: Some(11), ..end(1) }.without_exit();
        assert!(
            judged(MIXED, Some(killed), &wanted).is_some_and(|why| why.starts_with("killed by signal 11"))
        );
        let late = SelftestEnd { timed_out: true, ..end(1) };
        assert!(judged(MIXED, Some(late), &wanted).is_some_and(|why| why.starts_with("no end within 1 s")));
        assert_eq!(judged(MIXED, None, &wanted).as_deref(), Some("the guest's kernel complained: WARNING"));
        let lost = MIXED.replace("ok 1 a works\n", "").replace("ok 6", "ok 5 z\nok 6");
        assert!(judged(&lost.replace("1..6", "1..7"), Some(end(1)), &wanted)
            .is_some_and(|why| why.contains("planned")));
    }
}
