// SPDX-License-Identifier: GPL-2.0-only
//! Does a trial of remedies become its table, and is one that must not be published refused?

use ceasefire_report::publish;
use serde_json::{json, Value};
use std::fs;

fn row(remedy: &str, verdict: &str, flushes: f64) -> Value {
    let range = json!({"min": flushes, "median": flushes, "max": flushes * 1.1});
    json!({
        "remedy": remedy, "verdict": verdict, "trials": 3, "flushes_per_unit": range, "received_per_unit": range,
        "rss_kib": {"min": 1000.0, "median": 1000.0, "max": 1000.0}, "faults_per_unit": null, "seconds": null, "says": []
    })
}

fn trial() -> Value {
    let result = json!({
        "schema": "ceasefire.deter-try/1", "command": ["./churn"], "repeats": 3, "counter": "observer", "found": "keep",
        "is_too_few": false, "is_output_compared": true, "notes": ["of this machine"],
        "rows": [row("keep", "best", 0.04), row("other", "ties", 0.041), row("cpu", "fewer-received", 4.0),
            row("cache", "no-change", 4.1), row("none", "baseline", 4.0), row("bad", "worse", 8.0)]
    });
    let mut few = result.clone();
    few["found"] = Value::Null;
    few["is_too_few"] = true.into();
    few["rows"] = json!([row("none", "baseline", 0.0), row("keep", "no-change", 0.0)]);
    json!({
        "schema": "ceasefire.deter-trial/1", "date": "2026-11-28", "commit": "0123abcdef", "kernel": "6.18.44", "cpus": 2,
        "processor": "AMD EPYC", "programs": [
            {"name": "churn", "about": "C", "unit": "round", "version": "2.36", "result": result},
            {"name": "nginx", "about": "two workers", "unit": "request", "version": "1.22", "result": few},
            {"name": "memcached", "about": "", "unit": "request", "version": "", "skip": "it is not installed"}
        ]
    })
}

/// The page's text, or the refusal.
fn published(trial: &Value) -> Result<String, ceasefire_base::Error> {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(root.path().join("docs/use")).expect("made");
    fs::write(root.path().join("README.md"), "").expect("written");
    let page = root.path().join("docs/use/deter.md");
    fs::write(&page, "<!-- figures: deter-table -->\n<!-- end -->\n").expect("written");
    publish::publish(root.path(), trial.to_string().as_bytes(), "trial.json", "demo")?;
    assert_eq!(publish::check(root.path()).expect("checked"), Vec::<String>::new());
    let kept = fs::read_to_string(root.path().join("docs/measured/data/deter.json")).expect("kept");
    assert!(!kept.contains("./churn") && !kept.contains("of this machine"), "{kept}");
    assert!(publish::publish(root.path(), kept.as_bytes(), "again", "demo").expect("the same").is_empty());
    Ok(fs::read_to_string(&page).expect("read"))
}

#[test]
fn a_trial_becomes_a_table_and_a_line_a_program() {
    let text = published(&trial()).expect("published");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "on 2026-11-28 at commit 0123abc: Linux 6.18.44, 2 CPUs (AMD EPYC), 3 rounds",
        "| churn (round) | 4.00 (4.00-4.40) | keep | 0.040 (0.040-0.044) | -99.0 % | 4.00 to 0.040 | +0 % |",
        "| nginx (request) | 0 (0-0) | nothing helps |",
        "**churn** (C; 2.36): ties with the best: other; fewer received, as many flushes: cpu; no effect: cache; worse: bad",
        "**nginx** (two workers; 1.22): too few flushes to need a remedy; no effect: keep.",
        "**memcached** was not tried: it is not installed.",
    ] {
        assert!(one_line.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn what_is_not_fit_to_be_published_is_refused() {
    let refused = |change: &dyn Fn(&mut Value), fragment: &str| {
        let mut bad = trial();
        change(&mut bad);
        let error = published(&bad).expect_err(fragment);
        assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
    };
    refused(&|bad| bad["commit"] = "0123abc-dirty".into(), "not measured at a commit");
    refused(&|bad| bad["programs"][0]["result"]["repeats"] = 1.into(), "1 rounds of churn");
    refused(&|bad| bad["programs"][0]["result"]["counter"] = "proc".into(), "no flushes of churn");
    refused(&|bad| bad["programs"][0]["result"]["is_output_compared"] = false.into(), "outputs of churn");
    refused(
        &|bad| bad["programs"][0]["result"]["rows"][0]["verdict"] = "changed-output".into(),
        "outputs of churn",
    );
    refused(&|bad| drop(bad["programs"][0]["result"]["rows"][0]["remedy"].take()), "no trial of remedies");
}
