// SPDX-License-Identifier: GPL-2.0-only
//! A guest log for people and for programs (`ceasefire.log/1`): what one boot said, and how it ended.

use crate::protocol::{GuestLog, Run, Unmeasured};
use ceasefire_base::{Error, Result};
use serde_json::json;

const SCHEMA: &str = "ceasefire.log/1";

impl GuestLog {
    /// A few lines: the machine, every run, what is missing, the end. Ends with a newline.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        if let Some(boot) = &self.boot {
            let nodes = if boot.nodes > 1 { format!(" in {} nodes", boot.nodes) } else { String::new() };
            text +=
                &format!("Linux {} on {} CPUs{nodes}, {} counters\n", boot.release, boot.cpus, boot.counters);
        }
        for run in &self.runs {
            text += &format!("  {}\n", sentence(run));
        }
        for (word, list) in [("skipped", &self.skips), ("FAILED", &self.fails)] {
            for one in list {
                text += &format!("  {word} {}: {}\n", label(one), one.reason);
                for line in &one.output {
                    text += &format!("    | {line}\n");
                }
            }
        }
        for problem in &self.problems {
            text += &format!("  problem: {problem}\n");
        }
        text + &self.outcome.sentence() + "\n"
    }

    pub fn to_json(&self) -> Result<String> {
        let unmeasured = |list: &[Unmeasured]| -> Vec<serde_json::Value> {
            list.iter()
                .map(|u| {
                    json!({
                        "workload": u.workload, "threads": u.threads, "reason": u.reason, "output": u.output,
                    })
                })
                .collect()
        };
        let runs: Vec<serde_json::Value> = self
            .runs
            .iter()
            .map(|run| {
                json!({
                    "workload": run.workload, "threads": run.threads, "repeat": run.repeat, "seed": run.seed,
                    "unit": run.unit, "units": run.units, "checksum": run.checksum,
                    "counters": run.counters, "mechanisms": run.mechanisms, "extra": run.extra, "duration_ns": run.duration_ns,
                })
            })
            .collect();
        let value = json!({
            "schema": SCHEMA,
            "complete": self.outcome.is_complete(),
            "outcome": self.outcome.sentence(),
            "release": self.boot.as_ref().map(|boot| &boot.release),
            "cpus": self.boot.as_ref().map(|boot| boot.cpus),
            "nodes": self.boot.as_ref().map(|boot| boot.nodes),
            "mode": self.boot.as_ref().and_then(|boot| boot.mode.as_ref()),
            "runs": runs,
            "skips": unmeasured(&self.skips),
            "fails": unmeasured(&self.fails),
            "problems": self.problems,
        });
        serde_json::to_string_pretty(&value)
            .map_err(|error| Error::failed(format!("the log cannot be written as JSON: {error}")))
    }
}

fn label(one: &Unmeasured) -> String {
    match one.threads {
        Some(threads) => format!("{} at {threads} threads", one.workload),
        None => one.workload.clone(),
    }
}

fn sentence(run: &Run) -> String {
    let count = |name: &str| run.counter(name).map_or("-".to_string(), |count| count.to_string());
    format!(
        "{} at {} threads, repeat {}: {} x {}, sent {}, received {} (interrupt row {})",
        run.workload,
        run.threads,
        run.repeat + 1,
        run.units,
        run.unit,
        count("sent"),
        count("received"),
        count("received_irq"),
    )
}

#[cfg(test)]
mod tests {
    use crate::parse_log;

    const LOG: &[u8] = br#"{"kind":"boot","protocol":1,"release":"6.12.1","cpus":4,"nodes":2,"counters":"ceasefire"}
{"kind":"run","workload":"munmap","threads":4,"repeat":0,"unit":"call","units":10,"checksum":"00","counters":{"sent":10,"received":30,"received_irq":null}}
{"kind":"skip","workload":"migrate","threads":4,"reason":"needs 2 NUMA nodes"}
"#;

    #[test]
    fn a_summary_tells_runs_skips_and_the_end() {
        let text = parse_log(LOG).summary();
        assert!(text.contains("Linux 6.12.1 on 4 CPUs in 2 nodes"), "{text}");
        assert!(
            text.contains("munmap at 4 threads, repeat 1: 10 x call, sent 10, received 30 (interrupt row -)"),
            "{text}"
        );
        assert!(text.contains("skipped migrate at 4 threads: needs 2 NUMA nodes"), "{text}");
        assert!(text.trim_end().ends_with("without a verdict, so nothing it counted is used"), "{text}");
    }

    #[test]
    fn a_program_that_failed_has_the_last_words() {
        let text =
            br#"{"kind":"fail","workload":"program","threads":2,"reason":"exit code 3","output":["a\tb","c"]}
"#;
        let log = parse_log(text);
        let shown = log.summary();
        assert!(
            shown.contains("FAILED program at 2 threads: exit code 3\n    | a\u{fffd}b\n    | c\n"),
            "{shown}"
        );
        let json: serde_json::Value = serde_json::from_str(&log.to_json().expect("written")).expect("JSON");
        assert_eq!(json["fails"][0]["output"][1], "c");
        let many = format!(
            "{{\"kind\":\"fail\",\"workload\":\"w\",\"reason\":\"r\",\"output\":[{}\"last\"]}}\n",
            "\"x\",".repeat(1000)
        );
        assert_eq!(parse_log(many.as_bytes()).fails[0].output.len(), 20);
    }

    #[test]
    fn the_json_form_has_a_schema_and_every_run() {
        let value: serde_json::Value =
            serde_json::from_str(&parse_log(LOG).to_json().expect("written")).expect("JSON");
        assert_eq!(value["schema"], "ceasefire.log/1");
        assert_eq!(value["complete"], false);
        assert_eq!(value["runs"][0]["counters"]["received"], 30);
        assert_eq!(value["runs"][0]["counters"]["received_irq"], serde_json::Value::Null);
    }
}
