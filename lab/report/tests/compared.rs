// SPDX-License-Identifier: GPL-2.0-only
//! Two files held against each other: partners, changes, and what counts as a regression.
#[path = "../../results/tests/sample/mod.rs"]
mod sample;

use ceasefire_report::table::Options;
use ceasefire_results::compare::{compare, parse_percent, Mapping};
use ceasefire_results::schema::{Results, Row};
use ceasefire_results::stats::Spread;

fn spread(min: f64, median: f64, max: f64) -> Option<Spread> {
    Some(Spread { median, min, max })
}

fn row(sent: Option<Spread>) -> Row {
    Row {
        workload: "munmap".into(),
        kernel: "vanilla".into(),
        vcpus: 8,
        nodes: 1,
        threads: 8,
        repeats: 3,
        unit: "call".into(),
        units: 100,
        sent_per_unit: sent,
        received_per_unit: spread(7.0, 7.0, 7.0),
        ..Row::default()
    }
}

fn file(rows: Vec<Row>) -> Results {
    let mut results = Results::new(Default::default());
    results.rows = rows;
    results
}

#[test]
fn regressions_are_rises_beyond_the_limit_and_the_spread() {
    let exactly = |value: f64| spread(value, value, value);
    for (old, new, limit, flagged, why) in [
        (exactly(1.0), exactly(1.2), 10.0, true, "a rise of 20 %"),
        (exactly(1.0), exactly(1.125), 12.5, false, "a rise of exactly the limit"),
        (exactly(1.0), exactly(1.13), 12.5, true, "just over the limit"),
        (exactly(1.0), exactly(0.5), 0.0, false, "a fall"),
        (exactly(0.0), exactly(0.001), 1000.0, true, "from zero to anything is infinite"),
        (exactly(0.0), exactly(0.0), 0.0, false, "nothing stays nothing"),
        (spread(0.9, 1.0, 1.3), spread(1.3, 1.5, 1.6), 10.0, false, "overlapping spreads prove nothing"),
        (spread(0.9, 1.0, 1.2), spread(1.3, 1.5, 1.6), 10.0, true, "spreads apart"),
        (spread(0.0, 0.0, 0.2), spread(0.1, 0.2, 0.3), 10.0, false, "from zero, but overlapping"),
    ] {
        let comparison = compare(&file(vec![row(old)]), &file(vec![row(new)]), &[]).expect("comparable");
        let found = comparison.over(limit);
        assert_eq!(!found.is_empty(), flagged, "{why}: {found:?}");
        if let Some(first) = found.first() {
            assert!(
                ceasefire_report::regression(first)
                    .starts_with("munmap, 8 threads, 8 vCPUs, vanilla: sent per call rose"),
                "{}",
                ceasefire_report::regression(first)
            );
        }
    }
}

#[test]
fn only_judged_figures_can_regress_and_the_worst_comes_first() {
    let mut worse = row(spread(2.0, 2.0, 2.0));
    worse.received_per_unit = spread(70.0, 70.0, 70.0);
    worse.requested_per_unit = spread(1000.0, 1000.0, 1000.0);
    let mut base = row(spread(1.0, 1.0, 1.0));
    base.requested_per_unit = spread(1.0, 1.0, 1.0);
    let (a, b) = (file(vec![base]), file(vec![worse]));
    let comparison = compare(&a, &b, &[]).expect("comparable");
    let figures: Vec<&str> = comparison.over(5.0).iter().map(|found| found.change.figure.as_str()).collect();
    assert_eq!(figures, ["received", "sent"]);
}

#[test]
fn rows_without_partner_and_half_measured_figures_are_named() {
    let mut other = row(None);
    other.workload = "mprotect".into();
    let mut more = row(spread(1.0, 1.0, 1.0));
    more.threads = 4;
    let a = file(vec![row(spread(1.0, 1.0, 1.0)), other]);
    let b = file(vec![row(None), more]);
    let comparison = compare(&a, &b, &[]).expect("comparable");
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!(comparison.only_a.iter().map(|name| name.workload.as_str()).collect::<Vec<_>>(), ["mprotect"]);
    assert_eq!(comparison.only_b.iter().map(|name| name.threads).collect::<Vec<_>>(), [4]);
    assert!(
        comparison.warnings.iter().any(|warning| warning.contains("only the first file measures sent")),
        "{:?}",
        comparison.warnings
    );
    let table = ceasefire_report::comparison(&comparison, &Options { width: 80, colour: false });
    assert!(
        table.contains("Only in the first file (1)") && table.contains("Only in the second file (1)"),
        "{table}"
    );
    let nothing = compare(&file(vec![row(None)]), &file(vec![]), &[]).expect_err("nothing in common");
    assert_eq!(nothing.kind.exit_code(), 2);
}

#[test]
fn kernels_are_mapped_by_the_user_or_where_there_is_no_choice() {
    let kernel = |name: &str, mode: Option<&str>| {
        let mut row = row(spread(1.0, 1.0, 1.0));
        row.kernel = name.into();
        row.mode = mode.map(String::from);
        row
    };
    let vanilla = file(vec![kernel("vanilla", None)]);
    let abis = file(vec![kernel("abis", Some("full"))]);
    let both =
        file(vec![kernel("vanilla", None), kernel("abis", Some("full")), kernel("abis", Some("idle"))]);
    assert_eq!(compare(&vanilla, &abis, &[]).expect("one each").rows.len(), 1);
    assert_eq!(compare(&both, &both, &[]).expect("by name").rows.len(), 3);
    let mapping = [Mapping::parse("vanilla=abis:idle").expect("a mapping")];
    let comparison = compare(&both, &both, &mapping).expect("mapped");
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!(comparison.rows[0].b.mode.as_deref(), Some("idle"));
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty(), "other kernels were not asked for");
    let wrong = [Mapping::parse("vanilla=abis:fast").expect("a mapping")];
    let error = compare(&both, &both, &wrong).expect_err("no such mode");
    assert!(error.remedy.as_deref().is_some_and(|remedy| remedy.contains("abis:full")), "{error:?}");
    for text in ["", "vanilla", "=abis", "vanilla=", "vanilla:=abis"] {
        assert_eq!(Mapping::parse(text).expect_err(text).kind.exit_code(), 2);
    }
}

#[test]
fn a_file_against_itself_changes_nothing() {
    let results = sample::two_kernels();
    let comparison = compare(&results, &results, &[]).expect("comparable");
    assert_eq!(comparison.rows.len(), results.rows.len());
    assert!(comparison.over(0.0).is_empty() && comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    assert!(comparison.rows.iter().flat_map(|row| &row.changes).all(|change| change.percent == Some(0.0)));
}

#[test]
fn doubts_are_said_and_failed_controls_refuse() {
    let a = sample::one_kernel();
    let mut b = sample::one_kernel();
    b.environment.workloads = Some("other".into());
    b.rows[10].checksum = Some("other".into());
    let comparison = compare(&a, &b, &[]).expect("comparable");
    assert!(comparison.warnings.iter().any(|warning| warning.contains("sources differ")));
    assert!(comparison.warnings.iter().any(|warning| warning.contains("checksums differ")));
    b.controls[0].ok = Some(false);
    let error = compare(&a, &b, &[]).expect_err("a failed control");
    assert!(error.message.contains("the second file") && error.kind.exit_code() == 1, "{error}");
}

#[test]
fn the_table_fits_and_the_json_names_its_schema() {
    let results = sample::two_kernels();
    let mapping = [Mapping::parse("vanilla=abis:full").expect("a mapping")];
    let comparison = compare(&results, &results, &mapping).expect("comparable");
    for width in [30, 40, 80, 120] {
        let table = ceasefire_report::comparison(&comparison, &Options { width, colour: false });
        assert!(table.lines().all(|line| line.chars().count() <= width), "{width}:\n{table}");
    }
    let table = ceasefire_report::comparison(&comparison, &Options { width: 80, colour: false });
    assert!(table.contains("-94.0 %") && table.contains("Unchanged in every figure ("), "{table}");
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json().expect("writes")).expect("JSON");
    assert_eq!(json["schema"], "ceasefire.compare/1");
    assert!(json["rows"][0]["changes"][0]["percent"].is_number());
}

#[test]
fn limits_are_numbers_of_zero_or_more() {
    assert_eq!(parse_percent("5"), Ok(5.0));
    assert_eq!(parse_percent("2.5 %"), Ok(2.5));
    for text in ["", "-1", "five", "NaN", "inf", "1e999"] {
        assert_eq!(parse_percent(text).expect_err(text).kind.exit_code(), 2, "{text}");
    }
}

/// Modelled cycles are shown and not judged; a file without them, or with others' constants, is said once.
#[test]
fn modelled_cycles_are_compared_and_their_constants_too() {
    let exactly = |value: f64| spread(value, value, value);
    let modelled = |cycles: f64| Row { cycles_modelled_per_unit: exactly(cycles), ..row(exactly(1.0)) };
    let (a, b) = (file(vec![modelled(100.0)]), file(vec![modelled(150.0)]));
    let comparison = compare(&a, &b, &[]).expect("comparable");
    let text = ceasefire_report::comparison(&comparison, &Options { width: 100, colour: false });
    assert!(text.contains("cycles (model)") && text.contains("+50.0 %"), "{text}");
    assert!(comparison.over(0.0).is_empty() && comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    let none = file(vec![row(exactly(1.0)), Row { threads: 4, ..row(exactly(1.0)) }]);
    let both = file(vec![modelled(100.0), Row { threads: 4, ..modelled(100.0) }]);
    let comparison = compare(&none, &both, &[]).expect("comparable");
    assert_eq!(comparison.warnings, ["only one of the files has modelled cycles"]);
    let with_costs = |walk: f64, mut results: Results| {
        results.environment.cycle_costs.insert("page walk".into(), walk);
        results
    };
    let (old, new) = (with_costs(39.5, a.clone()), with_costs(50.0, b));
    let comparison = compare(&old, &new, &[]).expect("comparable");
    assert_eq!(comparison.warnings, ["the cycles are modelled with different constants"]);
    assert!(compare(&old, &a, &[]).expect("comparable").warnings.is_empty(), "a file without constants");
}

/// A file from before the machine counted walks is compared in everything else, and says so once.
#[test]
fn a_machine_that_counts_and_one_that_does_not_are_one_warning() {
    let exactly = |value: f64| spread(value, value, value);
    let counted = Row { walks_per_unit: exactly(8.0), invlpg_per_unit: exactly(1.0), ..row(exactly(1.0)) };
    let both = [counted.clone(), Row { threads: 4, ..counted.clone() }];
    let neither = [row(exactly(1.0)), Row { threads: 4, ..row(exactly(1.0)) }];
    let comparison = compare(&file(neither.to_vec()), &file(both.to_vec()), &[]).expect("comparable");
    assert_eq!(comparison.warnings, ["only one of the machines counts page walks"]);
    let more = Row { walks_per_unit: exactly(9.0), ..counted.clone() };
    let comparison = compare(&file(vec![counted]), &file(vec![more]), &[]).expect("comparable");
    let text = ceasefire_report::comparison(&comparison, &Options { width: 100, colour: false });
    assert!(text.contains("walks") && text.contains("+12.5 %"), "{text}");
}

/// A file of before a counter was there lacks that alone.
#[test]
fn a_file_that_lacks_some_of_the_machines_counters_is_one_warning() {
    let exactly = |value: f64| spread(value, value, value);
    let old = Row { walks_per_unit: exactly(8.0), nodes: 2, ..row(exactly(1.0)) };
    let new = Row {
        reads_local_leaf_per_unit: exactly(6.0),
        reads_remote_leaf_per_unit: exactly(2.0),
        ..old.clone()
    };
    let comparison = compare(&file(vec![old]), &file(vec![new.clone()]), &[]).expect("comparable");
    assert_eq!(comparison.warnings, ["one of the files has fewer of the machine's counters"]);
    let nearer = Row { reads_remote_leaf_per_unit: exactly(1.0), ..new.clone() };
    let comparison = compare(&file(vec![new]), &file(vec![nearer]), &[]).expect("comparable");
    let text = ceasefire_report::comparison(&comparison, &Options { width: 100, colour: false });
    assert!(text.contains("remote PTE reads") && text.contains("-50.0 %"), "{text}");
}

/// The share is of what the first file's kernel did not need; where nobody was asked nothing is said about it.
#[test]
fn a_comparison_says_how_much_of_the_needless_is_avoided() {
    let exactly = |value: f64| spread(value, value, value);
    let asked = |received: Option<Spread>, needed: f64| Row {
        received_per_unit: received,
        needed_per_unit: exactly(needed),
        unasked_per_unit: exactly(0.0),
        ..row(exactly(1.0))
    };
    let of = |a: Row, b: Row| {
        let comparison = compare(&file(vec![a]), &file(vec![b]), &[]).expect("comparable");
        let json: serde_json::Value =
            serde_json::from_str(&comparison.to_json().expect("writes")).expect("JSON");
        let text = ceasefire_report::comparison(&comparison, &Options { width: 100, colour: false });
        let line = text.lines().find(|line| line.trim().starts_with("avoided")).unwrap_or("").to_string();
        let row = &json["rows"][0];
        (row["avoidable"].as_f64(), row["avoided_percent"].as_f64(), line, comparison.warnings)
    };
    for (a, b, avoidable, percent, line) in [
        // What the second needs plays no part.
        (asked(exactly(8.0), 4.0), asked(exactly(5.0), 1.0), 4.0, Some(75.0), "75.0 % of the 4.00"),
        (asked(exactly(8.0), 4.0), asked(exactly(10.0), 4.0), 4.0, Some(-50.0), "-50.0 % of the 4.00"),
        (asked(exactly(7.0), 7.0), asked(exactly(9.0), 7.0), 0.0, None, ""),
        (asked(exactly(7.0), 0.0), asked(exactly(7.0), 0.0), 7.0, Some(0.0), ""),
    ] {
        let (found, share, said, warnings) = of(a, b);
        assert_eq!((found, share), (Some(avoidable), percent), "{line}");
        match line {
            "" => assert_eq!(said, ""),
            line => assert_eq!(said, format!("  avoided: {line} targets that nobody needed")),
        }
        assert!(warnings.is_empty(), "{warnings:?}");
    }
    let (_, _, said, _) = of(asked(spread(6.0, 8.0, 9.0), 4.0), asked(spread(7.0, 7.5, 8.5), 4.0));
    assert_eq!(said, "  avoided: 12.5 % of the 4.00 targets that nobody needed =");
    let plain = || Row { received_per_unit: exactly(3.0), ..row(exactly(1.0)) };
    assert_eq!(of(plain(), plain()), (None, None, String::new(), vec![]), "two files without it");
    let (found, share, said, warnings) = of(plain(), asked(exactly(1.0), 1.0));
    assert_eq!((found, share, said.as_str()), (None, None, ""));
    assert_eq!(warnings, ["only one of the kernels asks which targets were needed"]);
}

/// With and without an argument of the kernel are two rows; a file that has one of them alone is compared, and says so.
#[test]
fn rows_of_other_kernel_arguments_are_told_apart() {
    let exactly = |value: f64| spread(value, value, value);
    let with = |value: f64| Row { kernel_args: Some("x=0".into()), ..row(exactly(value)) };
    let both = |one: f64, other: f64| file(vec![row(exactly(one)), with(other)]);
    let comparison =
        compare(&both(1.0, 5.0), &file(vec![with(5.0), row(exactly(2.0))]), &[]).expect("comparable");
    let found: Vec<_> = comparison.over(1.0).iter().map(|one| ceasefire_report::regression(one)).collect();
    assert_eq!(
        found,
        ["munmap, 8 threads, 8 vCPUs, vanilla: sent per call rose from 1.00 to 2.00 (+100.0 %)"]
    );
    assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    let json = comparison.to_json().expect("JSON");
    assert!(json.contains("\"conditions\": [\n          \"x=0\"\n"), "{json}");

    let comparison =
        compare(&file(vec![row(exactly(1.0))]), &file(vec![with(5.0)]), &[]).expect("comparable");
    assert_eq!(comparison.warnings, ["rows differ in kernel arguments: none and x=0"]);
    let table = ceasefire_report::comparison(&comparison, &Options { width: 80, colour: false });
    assert!(table.contains("munmap, 8 threads, 8 vCPUs, vanilla, x=0"), "{table}");

    let (table, page) = (
        ceasefire_report::table::render(&both(1.0, 5.0), &Options { width: 120, colour: false }),
        ceasefire_report::page::html(&both(1.0, 5.0)).expect("a page"),
    );
    assert!(table.contains("munmap    x=0"), "{table}");
    assert!(page.contains("condition</th>") && page.contains(">x=0</td>"));
}
