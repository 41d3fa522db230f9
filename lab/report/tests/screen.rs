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

/// The same on a kernel that asks: three in a hundred of apache's targets hold the page, all of those of the shared workloads.
fn asked() -> Results {
    let mut results = demo();
    for row in results.rows.iter_mut().filter(|row| !row.control && !row.cost) {
        let share = match row.workload.as_str() {
            "munmap-shared" | "idle-shared" => 1.0,
            "apache" => 0.03,
            _ => 0.0,
        };
        row.needed_per_unit = row.received_per_unit.map(|Spread { median, min, max }| Spread {
            median: median * share,
            min: min * share,
            max: max * share,
        });
        let unasked = if row.workload == "apache" { 0.05 } else { 0.0 };
        row.unasked_per_unit = row.received_per_unit.and(exactly(unasked));
    }
    results
}

/// What may be published.
fn of_five_boots(mut results: Results) -> Results {
    for row in &mut results.rows {
        (row.boots, row.repeats) = (5, 5);
    }
    results
}

fn exactly(value: f64) -> Option<Spread> {
    Some(Spread { median: value, min: value, max: value })
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
    for width in 30..160 {
        for line in at(&demo(), width, false).lines() {
            assert!(line.chars().count() <= width && !line.ends_with(' '), "{width}: '{line}'");
        }
    }
    assert!(at(&demo(), 100, true).contains("\x1b[32m"));
}

#[test]
fn what_was_needed_and_what_is_avoided_still_fit_the_screen() {
    let text = at(&asked(), 100, false);
    expect_file!["golden/screen-needed-100.txt"].assert_eq(&text);
    assert!(text.lines().count() <= 40, "{text}");
    expect_file!["golden/screen-needed-40.txt"].assert_eq(&at(&asked(), 40, false));
    for width in 30..160 {
        for line in at(&asked(), width, false).lines() {
            assert!(line.chars().count() <= width && !line.ends_with(' '), "{width}: '{line}'");
        }
    }
}

/// Each word of the column, and a row of a machine that was not asked.
#[test]
fn the_avoided_share_says_what_is_proved() {
    let mut results = asked();
    let of_full = |results: &mut Results, workload: &str, received: Option<Spread>| {
        let is_it = |row: &&mut ceasefire_results::schema::Row| {
            row.workload == workload && row.mode.as_deref() == Some("full")
        };
        results.rows.iter_mut().filter(is_it).for_each(|row| row.received_per_unit = received);
    };
    of_full(&mut results, "munmap", exactly(0.001));
    of_full(&mut results, "msync-mt", exactly(14.0));
    of_full(&mut results, "munmap-shared", exactly(8.0));
    of_full(&mut results, "barrier", exactly(13.99));
    for row in results.rows.iter_mut().filter(|row| row.workload == "mmap-read") {
        row.needed_per_unit = None;
    }
    let text = at(&results, 100, false);
    for expected in [
        "munmap 7.00 0 7.00 none 0.001 99.9 %",
        "msync-mt 7.00 0 7.00 none 14.0 -100.0 %",
        "munmap-shared 7.00 7.00 7.00 - 8.00 more",
        "barrier 14.0 0 14.0 none 14.0 none",
        "mmap-read 0.587 - 0.019 0.014",
    ] {
        let is_it = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") == expected;
        assert!(text.lines().any(is_it), "{expected}:\n{text}");
    }
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

#[test]
fn the_picture_marks_what_was_needed() {
    let (without, with) = (picture(&demo()).expect("a picture"), picture(&asked()).expect("a picture"));
    assert!(!without.contains("class=\"needed\"") && with.contains(">needed by off</text>"));
    let drawn = asked().rows.iter().filter(|row| row.mode.as_deref() == Some("off")).count();
    let marks = with.matches("class=\"needed\"").count();
    assert!(marks > 5 && marks <= drawn, "{marks}");
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
    let error = publish::publish(root, OLD, "old", "demo").expect_err("of no commit");
    assert!(error.message.contains("at which commit"), "{error}");
    let mut results = demo();
    results.environment.commit = Some("0123abc".into());
    results.environment.commit = Some("0123abc-dirty".into());
    let json = results.to_json().expect("JSON");
    let error = publish::publish(root, json.as_bytes(), "demo", "demo").expect_err("of no commit");
    assert!(error.message.contains("no commit holds"), "{error}");
    results.environment.commit = Some("0123abc".into());
    let json = results.to_json().expect("JSON");
    let error = publish::publish(root, json.as_bytes(), "demo", "demo").expect_err("of one boot");
    assert!(error.message.contains("at least 5 boots"), "{error}");
    let json = of_five_boots(results).to_json().expect("JSON");
    let error = publish::publish(root, json.as_bytes(), "demo", "../x").expect_err("no name");
    assert!(error.message.contains("cannot be kept as"), "{error}");
    let changed = publish::publish(root, json.as_bytes(), "demo", "demo").expect("published");
    assert_eq!(changed.len(), 4, "{changed:?}");
    let text = fs::read_to_string(&readme).expect("read") + &fs::read_to_string(&page).expect("read");
    expect_file!["golden/published.txt"].assert_eq(&text);
    assert!(publish::publish(root, json.as_bytes(), "demo", "demo").expect("published").is_empty());
    assert_eq!(publish::check(root).expect("checked"), Vec::<String>::new());
    let text = fs::read_to_string(&readme).expect("read");
    fs::write(&readme, text.replace("0.975", "0.5")).expect("written");
    assert_eq!(publish::check(root).expect("checked"), ["README.md: headline, gain"]);
    assert!(fs::metadata(root.join("docs/measured/data/demo.json")).expect("kept").len() < 300_000);

    // Any other results fill a table of their own name.
    fs::write(&page, block("demo-table") + &block("more-table")).expect("written");
    publish::publish(root, json.as_bytes(), "run", "more").expect("published");
    let text = fs::read_to_string(&page).expect("read");
    let tables: Vec<&str> = text.split("<!-- end -->").collect();
    assert!(tables[1].lines().count() > 10 && tables[1].contains("5 boots"), "{text}");
    assert_eq!(tables[0].replace("demo-table", ""), tables[1].trim_start().replace("more-table", ""));
}

#[test]
fn what_is_published_has_what_was_needed() {
    let root = tempfile::tempdir().expect("a directory");
    let page = root.path().join("README.md");
    let blocks =
        ["headline", "gain", "demo-table"].map(|name| format!("<!-- figures: {name} -->\n<!-- end -->\n"));
    fs::write(&page, blocks.concat()).expect("written");
    let mut results = asked();
    results.environment.commit = Some("0123abc".into());
    let json = of_five_boots(results).to_json().expect("JSON");
    publish::publish(root.path(), json.as_bytes(), "demo", "demo").expect("published");
    let text = fs::read_to_string(&page).expect("read");
    expect_file!["golden/published-needed.txt"].assert_eq(&text);
    assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
}

#[test]
fn costs_are_published_as_shares_of_the_first_kernel() {
    let root = tempfile::tempdir().expect("a directory");
    let page = root.path().join("README.md");
    fs::write(&page, "<!-- figures: cost-table -->\n<!-- end -->\n").expect("written");
    let mut results = of_five_boots(demo());
    results.environment.commit = Some("0123abc".into());
    results.environment.command = Some("ceasefire lab run --out /a/b --cost".into());
    let most = results.rows.iter().map(|row| row.threads).max();
    results.rows.retain(|row| Some(row.threads) == most && !row.control);
    for row in &mut results.rows {
        let instructions = if row.mode.as_deref() == Some("off") { 1000.0 } else { 1015.0 };
        row.cost = true;
        (row.vcpus, row.nodes) = (1, 1);
        row.instructions_per_unit = exactly(instructions);
        row.cycles_modelled_per_unit = None;
    }
    let json = results.to_json().expect("JSON");
    publish::publish(root.path(), json.as_bytes(), "run", "cost").expect("published");
    let text = fs::read_to_string(&page).expect("read");
    assert!(text.contains("1 vCPU, median of 5 boots"), "{text}");
    assert!(text.contains("`ceasefire lab run --cost`"), "where results lay is not kept: {text}");
    assert!(text.contains("| `munmap` | 1,000 | +1.5 % |"), "{text}");
    assert_eq!(publish::check(root.path()).expect("checked"), Vec::<String>::new());
}

/// The tour's own screen, as long as it is today.
#[test]
fn the_published_demo_fits_one_screen() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measured/data/demo.json");
    let results = Results::from_json(&fs::read(path).expect("read"), "demo.json").expect("results");
    for width in [100, 120] {
        let text = at(&results, width, false);
        assert!(text.lines().count() <= 40, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(text.contains("avoided") && text.contains("accessed assists"), "{width}:\n{text}");
    }
}

/// What this checkout publishes comes from the results that it keeps: `ceasefire lab publish` writes it anew.
#[test]
fn no_published_figure_is_kept_by_hand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(publish::check(&root).expect("checked"), Vec::<String>::new(), "run: ceasefire lab publish");
}
