// SPDX-License-Identifier: GPL-2.0-only
//! What a tour ends in, the picture and what is published: golden, from a demo's results as they were written before rows
//! told all of their conditions and mechanisms had names.

use ceasefire_report::table::Options;
use ceasefire_report::{picture, publish, screen, Files};
use ceasefire_results::schema::Unmeasured;
use ceasefire_results::stats::Spread;
use ceasefire_results::Results;
use expect_test::expect_file;
use std::fs;
use std::path::Path;

const OLD: &[u8] = include_bytes!("golden/demo-old.json");

fn demo() -> Results {
    Results::from_json(OLD, "demo-old.json").expect("an old file is read")
}

fn at(results: &Results, width: usize, colour: bool) -> String {
    let files = Files { page: Path::new("out/report.html"), data: Path::new("out/results.json") };
    screen(results, &files, &Options { width, colour })
}

#[test]
fn a_tour_ends_in_one_screen() {
    let text = at(&demo(), 100, false);
    expect_file!["golden/screen-100.txt"].assert_eq(&text);
    assert!(text.lines().count() <= 40 && !text.contains('\x1b'), "{text}");
    expect_file!["golden/screen-40.txt"].assert_eq(&at(&demo(), 40, false));
    for width in [30, 40, 60, 72, 80, 100, 160] {
        for line in at(&demo(), width, false).lines() {
            assert!(line.chars().count() <= width && !line.ends_with(' '), "{width}: '{line}'");
        }
    }
    assert!(at(&demo(), 100, true).contains("\x1b[32m"));
}

/// Any kernel and any modes, and whatever went wrong.
#[test]
fn the_screen_names_no_mechanism_and_hides_nothing() {
    let mut results = demo();
    for row in &mut results.rows {
        row.kernel = "toy".into();
        row.mode = row.mode.as_deref().map(|mode| mode.replace("full", "on"));
    }
    results.rows.retain(|row| row.mode.as_deref() != Some("idle"));
    results.skipped.push(Unmeasured { workload: "x".into(), reason: "no".into(), ..Unmeasured::default() });
    results.controls[0].ok = None;
    for row in
        results.rows.iter_mut().filter(|row| row.mode.as_deref() == Some("on") && row.workload == "munmap")
    {
        row.received_per_unit = Some(Spread { median: 70.0, min: 70.0, max: 70.0 });
        row.violations = Some(2);
    }
    let text = at(&results, 100, true);
    for expected in [
        "kernel toy: change against off",
        "\x1b[31mmunmap              7.00   70.0  +900.0 %",
        "1 skipped, 0 failed",
        "5 hold, 1 could not be measured",
        "2 wrong",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    results.rows.retain(|row| row.mode.as_deref() == Some("off"));
    let text = at(&results, 100, false);
    assert!(text.starts_with("TLB shootdowns received, 8 threads on 8 vCPUs, kernel toy\n"), "{text}");
    assert!(picture(&results).expect_err("nothing to compare").kind.exit_code() == 2);
}

#[test]
fn the_picture_is_the_golden_one_and_says_its_condition() {
    let drawn = picture(&demo()).expect("a picture");
    expect_file!["golden/demo.svg"].assert_eq(&drawn);
    for words in
        ["as a share of mode off", "8 threads on 8 vCPUs, median of 3 repeats", "2026-11-25", "munmap-shared"]
    {
        assert!(drawn.contains(words), "{words}");
    }
}

/// Idempotent, and a figure that was changed by hand is found.
#[test]
fn figures_are_published_once_and_checked() {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    let (readme, page) = (root.join("README.md"), root.join("docs/measured/demo.md"));
    fs::create_dir_all(page.parent().expect("a folder")).expect("made");
    let block = |name: &str| format!("<!-- figures: {name} -->\n<!-- end -->\n");
    fs::write(&readme, format!("# X\n\n{}\ny\n{}", block("headline"), block("gain"))).expect("written");
    fs::write(&page, block("demo-table")).expect("written");
    assert_eq!(publish::check(root).expect("checked"), Vec::<String>::new(), "nothing is kept yet");
    let error = publish::publish(root, OLD, "old").expect_err("of no commit");
    assert!(error.message.contains("at which commit"), "{error}");
    let mut results = demo();
    results.environment.commit = Some("0123abc".into());
    let json = results.to_json().expect("JSON");
    let changed = publish::publish(root, json.as_bytes(), "demo").expect("published");
    assert_eq!(changed.len(), 4, "{changed:?}");
    let text = fs::read_to_string(&readme).expect("read") + &fs::read_to_string(&page).expect("read");
    expect_file!["golden/published.txt"].assert_eq(&text);
    assert!(publish::publish(root, json.as_bytes(), "demo").expect("published").is_empty());
    assert_eq!(publish::check(root).expect("checked"), Vec::<String>::new());
    let text = fs::read_to_string(&readme).expect("read");
    fs::write(&readme, text.replace("0.975", "0.5")).expect("written");
    assert_eq!(publish::check(root).expect("checked"), ["README.md: headline, gain"]);
    assert!(fs::metadata(root.join("docs/measured/data/demo.json")).expect("kept").len() < 300_000);
}

/// What this checkout publishes comes from the results that it keeps: `ceasefire lab publish` writes it anew.
#[test]
fn no_published_figure_is_kept_by_hand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(publish::check(&root).expect("checked"), Vec::<String>::new(), "run: ceasefire lab publish");
}
