// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own tests, judged, for a terminal.

use ceasefire_base::text::{count, pad_left, pad_right, width};
use ceasefire_results::selftest::{Report, Row};

/// One line a test, and the sum.
pub fn table(report: &Report) -> String {
    let name_width = report.tests.iter().map(|row| width(&row.name)).max().unwrap_or(0);
    let mut text = String::new();
    for row in &report.tests {
        let seconds = row.seconds.map_or_else(|| "-".into(), |seconds| format!("{seconds:.1} s"));
        let counts = row.got.map_or_else(|| "-".into(), |counts| counts.to_string());
        let verdict = match (&row.problem, row.wanted) {
            (Some(_), _) => "FAILED",
            (None, Some(_)) => "ok",
            (None, None) => "not judged",
        };
        text += &format!(
            "{}  {}  {}  {counts}\n",
            pad_right(&row.name, name_width),
            pad_right(verdict, 10),
            pad_left(&seconds, 8),
        );
        if let Some(problem) = &row.problem {
            text += &format!("{}{problem}\n", " ".repeat(name_width + 2));
        }
    }
    text + &sum(report)
}

fn sum(report: &Report) -> String {
    let judged = report.tests.iter().filter(|row| row.wanted.is_some());
    let (as_wanted, other): (Vec<&Row>, Vec<&Row>) = judged.partition(|row| row.problem.is_none());
    let subtests: u32 = as_wanted.iter().filter_map(|row| row.got).map(|counts| counts.total()).sum();
    let seconds: f64 = report.tests.iter().filter_map(|row| row.seconds).sum();
    let mode = report.mode.as_ref().map_or_else(String::new, |mode| format!(", mode {mode}"));
    format!(
        "{} with {} as wanted, {} not; {seconds:.0} s in the guest; kernel {}{mode}\n",
        count(as_wanted.len() as u64, "test"),
        count(u64::from(subtests), "subtest"),
        other.len(),
        report.kernel
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_results::protocol::{Selftest, SelftestEnd};
    use ceasefire_results::selftest::{judge, Counts, Wanted, SCHEMA};

    #[test]
    fn the_table_shows_each_test_and_the_sum() {
        let ended = |name: &str, line: &str, exit: i32| Selftest {
            name: name.into(),
            lines: vec!["1..1".into(), line.into()],
            end: Some(SelftestEnd { exit: Some(exit), signal: None, timed_out: false, ms: 1500 }),
        };
        let (good, bad) = (ended("good", "ok 1 a", 0), ended("bad-one", "not ok 1 a", 1));
        let wanted = Wanted { counts: Counts { pass: 1, ..Counts::default() }, exit: 0 };
        let report = Report {
            schema: SCHEMA,
            command: "ceasefire lab selftests".into(),
            kernel: "selftests-vanilla".into(),
            mode: Some("idle".into()),
            release: None,
            image_sha256: String::new(),
            cpus: 4,
            nodes: 2,
            memory_mib: 4096,
            boots: 1,
            tests: vec![
                judge(&good, "good", Some(&wanted), None),
                judge(&bad, "bad-one", Some(&wanted), None),
            ],
        };
        assert_eq!(report.failed().len(), 1);
        assert_eq!(
            table(&report),
            "good     ok             1.5 s  pass 1\n\
             bad-one  FAILED         1.5 s  fail 1\n\
             \x20        wanted pass 1, got fail 1 (failed: a)\n\
             1 test with 1 subtest as wanted, 1 not; 3 s in the guest; kernel selftests-vanilla, mode idle\n"
        );
        let json: serde_json::Value = serde_json::from_str(&report.to_json().expect("JSON")).expect("parses");
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["tests"][1]["got"]["fail"], 1);
    }
}
