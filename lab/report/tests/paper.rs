// SPDX-License-Identifier: GPL-2.0-only
//! The paper's evaluation: every figure of the table stands on the page, ours beside it, losses beside gains, at any width.
#[path = "../../results/tests/sample/mod.rs"]
mod sample;

use ceasefire_base::{Error, Kind};
use ceasefire_report::paper::{html, render};
use ceasefire_report::publish;
use ceasefire_report::table::Options;
use ceasefire_results::paper::figures::{Evaluation, Figure, Work, EVALUATIONS};
use ceasefire_results::paper::{Measured, Paper, SCHEMA};
use ceasefire_results::schema::{Control, Results, Row, Tlb, Unmeasured};
use ceasefire_results::stats::Spread;

const KERNELS: [(&str, Option<&str>); 3] = [("vanilla", None), ("k", Some("off")), ("k", Some("full"))];

fn spread(median: f64) -> Option<Spread> {
    Some(Spread { median, min: median * 0.99, max: median * 1.01 })
}

/// Invented: the changed kernel keeps 2 % of what it receives, and pays 5 % more and twice the walks.
fn rows_of(work: &Work, kernel: (&str, Option<&str>)) -> Vec<Row> {
    let is_changed = kernel.1 == Some("full");
    let kept = if is_changed { 0.02 } else { 1.0 };
    let paid = if is_changed { 1.05 } else { 1.0 };
    let mut rows = Vec::new();
    for point in work.points {
        for &vcpus in work.vcpus {
            for threads in work.threads_at(vcpus) {
                for workload in work.workloads {
                    let others = f64::from(threads.saturating_sub(1));
                    rows.push(Row {
                        workload: workload.to_string(),
                        kernel: kernel.0.into(),
                        mode: kernel.1.map(String::from),
                        vcpus,
                        threads,
                        nodes: work.nodes.unwrap_or(1),
                        repeats: 5,
                        unit: "page".into(),
                        kernel_args: (!work.kernel_args.is_empty()).then(|| work.kernel_args.into()),
                        units: 100,
                        cost: work.cost,
                        set: point.set_words(),
                        tlb: point.tlb.map(Into::into),
                        sent_per_unit: if work.cost { None } else { spread(others.min(1.0) * kept) },
                        received_per_unit: if work.cost { None } else { spread(others * kept) },
                        walks_per_unit: spread(if is_changed { 4.0 } else { 2.0 }),
                        reads_local_user_per_unit: work.nodes.and_then(|_| spread(1.0)),
                        reads_remote_user_per_unit: work.nodes.and_then(|_| spread(3.0 * kept)),
                        extra: work
                            .nodes
                            .map(|_| ("page_table_kib".to_string(), 400.0))
                            .into_iter()
                            .collect(),
                        instructions_per_unit: if work.cost { spread(1000.0 * paid) } else { None },
                        cycles_modelled_per_unit: if work.cost { spread(2000.0 * paid) } else { None },
                        ..Row::default()
                    });
                }
            }
        }
    }
    rows
}

fn measured(figure: &'static Figure) -> Measured {
    let labels = ["vanilla", "k (off)", "k (full)"].map(String::from);
    let mut results = Results::new(sample::environment(&["vanilla", "k"]));
    for kernel in KERNELS {
        for work in figure.works.iter().filter(|work| !(work.skips_off && kernel.1 == Some("off"))) {
            results.rows.extend(rows_of(work, kernel));
        }
    }
    for work in figure.works.iter().filter(|work| work.also.is_some()) {
        results.rows.extend(rows_of(work, ("k", work.also)));
    }
    let commands = vec!["ceasefire lab run 'a b'".to_string()];
    Measured::new(figure, results, &labels, commands).expect("reportable")
}

fn paper(ids: &[&str]) -> Paper {
    of(&EVALUATIONS[0], ids)
}

fn of(evaluation: &'static Evaluation, ids: &[&str]) -> Paper {
    let mut paper = Paper {
        schema: SCHEMA.into(),
        evaluation: evaluation.id.into(),
        is_of_boots: false,
        environment: sample::environment(&["vanilla", "k"]),
        repeats: 5,
        kernels: ["vanilla", "k (off)", "k (full)"].map(String::from).to_vec(),
        controls: Vec::new(),
        workloads: Vec::new(),
        figures: Vec::new(),
    };
    // Put in another order than the table's.
    for figure in evaluation.figures.iter().rev().filter(|figure| ids.is_empty() || ids.contains(&figure.id))
    {
        paper.put(measured(figure));
    }
    paper
}

/// Of a workload that sends nothing.
fn control(holds: bool) -> Control {
    Control {
        name: "zero".into(),
        expected: 0.0,
        measured: Some(if holds { 0.0 } else { 1.0 }),
        ok: Some(holds),
        source: "sent".into(),
        workload: "zero".into(),
        kernel: "vanilla".into(),
        mode: None,
        threads: 8,
        vcpus: 8,
        nodes: 1,
    }
}

#[test]
fn the_text_at_forty_columns_is_the_golden_one() {
    let text = render(&paper(&[]), &Options { width: 40, colour: false });
    expect_test::expect_file!["golden/paper-40.txt"].assert_eq(&text);
    for width in [30, 40, 80, 160] {
        let text = render(&paper(&[]), &Options { width, colour: false });
        assert!(
            text.lines().all(|line| line.chars().count() <= width && !line.ends_with(' ')),
            "{width}\n{text}"
        );
    }
}

#[test]
fn a_file_is_read_as_it_was_written_and_nothing_else_is() {
    let small = paper(&["figure-7"]);
    let text = small.to_json().expect("written");
    assert_eq!(Paper::from_json(text.as_bytes(), "x").expect("read"), small);
    // Written before rows told all of their conditions; the cli's test makes a page from it, too.
    let old = Paper::from_json(include_bytes!("golden/paper.json"), "x").expect("an old file is read");
    assert_eq!(old, small);
    for (wrong, fragment) in [
        (text.replace("ceasefire.paper/1", "ceasefire.paper/2"), "another form"),
        (text.replace("\"repeats\": 5", "\"repeats\": \"many\""), "not a file of the paper"),
        (text.replace("\"evaluation\": \"abis\"", "\"evaluation\": \"another\""), "is not known here"),
        ("{}".into(), "not a file of the paper"),
        (text.replacen("\"min\": 6.93", "\"min\": 8.93", 1), "contradicts"),
    ] {
        assert_ne!(wrong, text);
        let error = Paper::from_json(wrong.as_bytes(), "x").expect_err("refused");
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
    }
}

#[test]
fn a_document_gets_its_claims_and_a_table_for_each_figure() {
    let published = |paper: &Paper, block: &str| -> Result<String, Error> {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(root.path().join("docs")).expect("a directory");
        let page = format!("<!-- figures: {block} -->\n<!-- end -->\n");
        std::fs::write(root.path().join("README.md"), page).expect("a page");
        publish::publish(root.path(), paper.to_json()?.as_bytes(), "run", "demo")?;
        assert_eq!(publish::check(root.path()).expect("checked"), Vec::<String>::new());
        Ok(std::fs::read_to_string(root.path().join("README.md")).expect("a page").replace('\n', " "))
    };
    let mut paper = of(&EVALUATIONS[1], &[]);
    paper.environment.commit = Some("0123456789ab".into());
    let error = published(&paper, "x").expect_err("repeats of one boot");
    assert!(error.message.contains("is of 5 repeats") && error.remedy.expect("one").contains("BOOTS=5"));
    paper.is_of_boots = true;
    let block = |name: &str| published(&paper, name).expect("published");
    let page = block("paper-numapte-table");
    assert!(
        page.contains("| spinners | munmap, received | k (full) | \u{2212}100.0 % | **\u{2212}98.0 %** |"),
        "{page}"
    );
    assert!(page.contains("median of 5 boots") && page.contains("0 rows skipped, 0 failed"), "{page}");
    let page = block("paper-numapte-spinners");
    for line in [
        "| received per unit | `vanilla` | `k (full)` |",
        "| `mprotect`, 13 threads | 12.0 [11.9, 12.1] | 0.240 [0.238, 0.242] |",
        "What rose beside it: `mprotect`, 1 thread: walks 2.00 to 4.00 (`k (full)`);",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    // A rise is shown; that nothing rose is said only of a machine that counts shootdowns.
    let mut quiet = paper.clone();
    quiet.figures.iter_mut().for_each(|figure| figure.losses.clear());
    let page = published(&quiet, "paper-numapte-spinners").expect("published");
    assert!(!page.contains("What rose"), "{page}");
    quiet.controls.push(control(true));
    let page = published(&quiet, "paper-numapte-spinners").expect("published");
    assert!(page.contains("What rose beside it: nothing."), "{page}");
    let page = block("paper-numapte-shared");
    assert!(page.contains("| `region, munmap`, other nodes that have read it: 3 | 15.0"), "{page}");
    let page = block("paper-numapte-walks");
    assert!(
        page.contains("| `gups`, PTE reads, priced in local ones | 5.50 [")
            && page.contains("`gups`, PTEs read on"),
        "{page}"
    );
    let page = block("paper-numapte-memory");
    assert!(
        page.contains("| pages of page tables | ") && page.contains("| `region, private` | 100 | 100 |"),
        "{page}"
    );
}

/// What was measured before `hardware` was what processors do is not published as today's.
#[test]
fn the_machine_of_an_old_evaluation_is_called_by_its_new_name() {
    let mut old = paper(&["figure-7"]);
    let qemu = old.environment.qemu.as_mut().expect("a machine");
    qemu.tlb = Some(Tlb {
        spec: "hardware".into(),
        access_bit: Some("intel".into()),
        model: true,
        ..Tlb::default()
    });
    let text = old.to_json().expect("written");
    let read = Paper::from_json(text.as_bytes(), "old").expect("read");
    let tlb = read.environment.qemu.as_ref().and_then(|qemu| qemu.tlb.as_ref()).expect("TLBs");
    assert_eq!((tlb.spec.as_str(), tlb.access_bit.as_deref()), ("adversary", Some("denied")));
    // The table of figures still finds its rows.
    assert_eq!(read.figures, old.figures);
    let page = html(&read).expect("a page");
    assert!(page.contains("adversary: access bits denied"), "{page}");
}

#[test]
fn every_figure_stands_on_the_page_with_claim_gain_and_loss() {
    for evaluation in EVALUATIONS {
        let page = html(&of(evaluation, &[])).expect("a page");
        for figure in evaluation.figures {
            assert!(
                page.contains(figure.title)
                    && page.contains(figure.unanswered.split(' ').next().expect("a word"))
            );
            for claim in figure.claims {
                assert!(page.contains(claim.words), "{}: {}", figure.id, claim.words);
            }
            for (name, ..) in figure.shown() {
                assert!(page.contains(name), "{}: {name}", figure.id);
            }
        }
        assert!(page.contains(evaluation.title));
        let all = of(evaluation, &[]);
        let claims = all.figures.iter().flat_map(|measured| &measured.compared);
        for claim in claims.filter(|claim| claim.kernel == "k (full)") {
            assert!(claim.percent.is_some(), "{}: {} {}", evaluation.id, claim.workload, claim.quantity);
        }
    }
    let page = html(&paper(&[])).expect("a page");
    for expected in [
        "\u{2212}98.0 %", // received
        "reached",
        "+5.0 %",         // modelled cycles
        "walks per page", // what rose
        "+100.0 %",
        "5 repeats",
        "ceasefire lab run 'a b'",
        "nothing is timed",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    for never in ["<script", "http://", "https://", "NaN", "inf "] {
        assert!(!page.contains(never), "{never}");
    }
    // The kernel that is off is shown in the pictures, and claims nothing.
    let paper = paper(&[]);
    let claimed = |kernel: &str| paper.figures.iter().flat_map(|m| &m.compared).any(|e| e.kernel == kernel);
    assert!(claimed("k (full)") && claimed("k (full-hw)") && !claimed("k (off)") && !claimed("vanilla"));
}

#[test]
fn what_is_short_or_not_measured_is_said() {
    let mut part = paper(&["figure-5"]);
    let entry = part.figures[0].compared.iter_mut().find(|e| e.workload == "migrate").expect("migrate");
    entry.percent = Some(-80.0);
    part.figures[0].failed.push(Unmeasured {
        workload: "mmap-read".into(),
        reason: "<the guest died>".into(),
        ..Unmeasured::default()
    });
    let page = html(&part).expect("a page");
    for expected in [
        "short by 12.0 points",
        "Not measured in this file",
        "ceasefire lab paper --only figure-8",
        "mmap-read: &lt;the guest died&gt;",
        "reaches 4 of the 5 figures",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    let text = render(&part, &Options { width: 100, colour: false });
    assert!(text.contains("not measured in this file") && text.contains("failed: mmap-read"), "{text}");
}

#[test]
fn a_failed_control_or_a_violation_makes_no_page() {
    let mut doubtful = paper(&["figure-5"]);
    doubtful.controls.push(control(false));
    assert_eq!(html(&doubtful).expect_err("refused").kind, Kind::Failed);
    let figure = &EVALUATIONS[0].figures[0];
    let mut results = Results::new(sample::environment(&["vanilla"]));
    results.rows = vec![Row { violations: Some(1), ..Row::default() }];
    assert!(Measured::new(figure, results, &["vanilla".into()], Vec::new()).is_err());
}

/// Names at the ends of curves that lie on each other.
#[test]
fn no_name_stands_over_another() {
    let page = html(&paper(&[])).expect("a page");
    let mut names = 0;
    for svg in page.split("<svg ").skip(1) {
        let svg = svg.split("</svg>").next().unwrap_or_default();
        let mut heights: Vec<f64> = svg
            .split("<text class=\"name ")
            .skip(1)
            .map(|text| {
                let y = text.split(" y=\"").nth(1).and_then(|rest| rest.split('"').next());
                y.and_then(|y| y.parse().ok()).expect("a height")
            })
            .collect();
        heights.sort_by(f64::total_cmp);
        names += heights.len();
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 12.0), "{heights:?}");
        assert!(heights.iter().all(|y| (8.0..=232.0).contains(y)), "{heights:?}");
    }
    assert!(names > 10, "the page names its curves");
}

#[test]
fn figures_of_another_kernel_do_not_stand_on_the_same_page() {
    let (one, mut other) = (paper(&["figure-5"]), paper(&["figure-7"]));
    assert!(one.is_same_condition(&other));
    other.environment.kernels[1].series = Some("another".into());
    assert!(!one.is_same_condition(&other));
}

#[test]
fn a_list_has_a_mean_of_changes_and_a_change_of_sums() {
    let row = |workload: &str, mode: Option<&str>, received: f64| Row {
        workload: workload.into(),
        kernel: if mode.is_some() { "k" } else { "vanilla" }.into(),
        mode: mode.map(String::from),
        vcpus: 8,
        threads: 8,
        nodes: 1,
        repeats: 5,
        unit: "MiB of input".into(),
        units: 16,
        tlb: Some("hardware".into()),
        received_per_unit: spread(received),
        ..Row::default()
    };
    let mut results = Results::new(sample::environment(&["vanilla", "k"]));
    results.rows = vec![
        row("app-xz", None, 100.0),
        row("app-pigz", None, 1.0),
        row("app-xz", Some("full"), 1.0),
        row("app-pigz", Some("full"), 2.0),
    ];
    let labels = ["vanilla", "k (full)"].map(String::from);
    let figure = EVALUATIONS[0].figure("figure-8").expect("known");
    let measured = Measured::new(figure, results, &labels, Vec::new()).expect("reportable");
    let found: Vec<Option<i64>> =
        measured.compared.iter().map(|entry| entry.percent.map(|p| (p * 10.0).round() as i64)).collect();
    assert_eq!(found, [Some(5), Some(-970)], "-99 and +100 % are 0.5; 101 becomes 3");
}
