// SPDX-License-Identifier: GPL-2.0-only
//! Does the paper's evaluation run, go on where it was stopped, and write its page?

mod common;
use common::{ceasefire, succeed, Scratch};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

fn logs(out: &Path) -> Vec<(String, SystemTime)> {
    let mut files: Vec<(String, SystemTime)> = fs::read_dir(out.join("logs"))
        .expect("logs")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".jsonl"))
        .map(|entry| {
            let changed = entry.metadata().and_then(|data| data.modified()).expect("a time");
            (entry.file_name().to_string_lossy().into_owned(), changed)
        })
        .collect();
    files.sort();
    files
}

/// A kernel that is off: what is looked at is the way from boots to the page, not a gain.
#[test]
#[ignore = "more boots: make test-longer"]
fn one_figure_is_measured_once_and_shown() {
    let out = Scratch::new("paper");
    let dir = out.0.to_string_lossy().into_owned();
    let args = [
        "lab",
        "paper",
        "--only",
        "figure-5",
        "--repeats",
        "1",
        "--kernel",
        "vanilla,abis:idle",
        "--out",
        &dir,
    ];
    let said = succeed(&mut ceasefire(&args));
    assert!(said.stdout.contains("vm-scalability: six cases (figure-5)"), "{}", said.stdout);
    let text = fs::read_to_string(out.0.join("paper.json")).expect("paper.json");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["schema"], "ceasefire.paper/1");
    let rows = json["figures"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 12, "six cases on two kernels");
    let case = |name: &str| rows.iter().filter(|row| row["workload"] == name).count();
    for name in ["migrate", "cow-mt-seq", "cow-mt-rand", "mmap-read", "msync-mt", "anon-r-seq"] {
        assert_eq!(case(name), 2, "{name}");
    }
    let page = fs::read_to_string(out.0.join("paper.html")).expect("paper.html");
    assert!(page.contains("Not measured in this file") && page.contains("</html>"));

    // As after Ctrl-C: one boot has no verdict, and the others have.
    let before = logs(&out.0);
    assert_eq!(before.len(), 16, "two controls and six cases on two kernels");
    let (lost, _) = before.first().expect("a log");
    let path = out.0.join("logs").join(lost);
    let whole = fs::read_to_string(&path).expect("a log");
    fs::write(&path, &whole[..whole.len() / 2]).expect("cut short");
    succeed(&mut ceasefire(&args));
    let after = logs(&out.0);
    let kept = before.iter().filter(|log| after.contains(log)).count();
    assert_eq!(kept, before.len() - 1, "only what was lost is measured again: {after:?}");
}
