// SPDX-License-Identifier: GPL-2.0-only
//! Does `deter try` rank by requests that the observer counts? Runs on this machine, as root.

mod common;
use common::{ceasefire, may_watch, root, run, skip, Scratch};
use serde_json::Value;
use std::process::Command;

fn tried(args: &[&str]) -> Option<Value> {
    if !may_watch() {
        return None;
    }
    let mut all = vec!["deter", "try", "-q", "--json", "--repeats", "3"];
    all.extend(args);
    let said = run(&mut ceasefire(&all));
    assert!(said.code == 0 || said.code == 3, "{}: {}", said.code, said.stderr);
    let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
    if found["counter"] == "proc" && found["notes"].to_string().contains("cgroup") {
        skip("watch cgroup filter", "no cgroup v2 that we may write to");
        return None;
    }
    assert_eq!((&found["counter"], &found["ranked_by"]), (&"observer".into(), &"flushes_per_unit".into()));
    Some(found)
}

fn churn(scratch: &Scratch) -> String {
    let program = scratch.0.join("churn");
    let source = root().join("deter/trial/programs/churn.c");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(cc).args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("a C compiler").success());
    program.to_string_lossy().into_owned()
}

fn flushes(found: &Value, remedy: &str) -> (String, f64) {
    let rows = found["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["remedy"] == remedy).unwrap_or_else(|| panic!("{remedy}: {found}"));
    (
        row["verdict"].as_str().expect("a word").into(),
        row["flushes_per_unit"]["median"].as_f64().expect("counted"),
    )
}

#[test]
fn a_remedy_is_found_and_one_without_effect_is_called_so() {
    let scratch = Scratch::new("ranked");
    let program = churn(&scratch);
    let with =
        ["--unit", "^round", "--with", "glibc-keep,glibc-stack-cache,one-cpu", "--", &program, "2", "50"];
    let Some(found) = tried(&with) else { return };
    let (_, none) = flushes(&found, "none");
    assert!(none >= 1.0, "{found}");
    let (verdict, kept) = flushes(&found, "glibc-keep");
    assert!(verdict == "best" && kept <= none * 0.1, "{found}");
    assert_eq!(flushes(&found, "glibc-stack-cache").0, "no-change", "{found}");
    // As many are asked for, whoever is there to be interrupted.
    let (verdict, one) = flushes(&found, "one-cpu");
    assert!(verdict != "best" && one >= none * 0.9, "{found}");
    let causes = found["causes_flushes"].as_object().expect("causes");
    assert!(
        causes.keys().any(|cause| cause.starts_with("madvise") || cause == "munmap" || cause == "brk"),
        "{found}"
    );
}

/// One thread has nobody to ask: what it gives back is no request that can reach others.
#[test]
fn a_single_thread_needs_no_remedy() {
    let script = "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); done; echo total";
    let with = ["--unit", "total", "--with", "glibc-keep", "--", "sh", "-c", script];
    let Some(found) = tried(&with) else { return };
    assert_eq!((&found["is_too_few"], &found["found"]), (&true.into(), &Value::Null), "{found}");
}
