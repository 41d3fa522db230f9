// SPDX-License-Identifier: GPL-2.0-only
//! The published table of several vCPUs' costs: what it says of each pair of rows, what it refuses, and that nothing is
//! left out unsaid.

use ceasefire_base::Error;
use ceasefire_report::publish;
use ceasefire_report::table::{render, Options};
use ceasefire_results::schema::{Net, Results, Row, Unmeasured};
use ceasefire_results::stats::Spread;
use std::fs;

fn exactly(value: f64) -> Spread {
    Spread { median: value, min: value, max: value }
}

fn row(workload: &str, mode: &str, net: [f64; 3]) -> Row {
    let zero = Some(exactly(0.0));
    let [low, used, high] = net.map(exactly);
    Row {
        workload: workload.into(),
        kernel: "abis".into(),
        mode: Some(mode.into()),
        vcpus: 8,
        nodes: 1,
        threads: 8,
        repeats: 5,
        boots: 5,
        unit: "call".into(),
        units: 100,
        seed: 1,
        cost: true,
        received_irq_per_unit: Some(exactly(if mode == "off" { 7.0 } else { 0.0 })),
        kernel_instructions_per_unit: Some(exactly(if mode == "off" { 13_811.0 } else { 11_645.0 })),
        ipi_targets_per_unit: zero,
        walks_per_unit: zero,
        speculative_walks_per_unit: zero,
        assists_accessed_per_unit: zero,
        assists_dirty_per_unit: zero,
        cr3_flush_per_unit: zero,
        cr3_noflush_per_unit: zero,
        invlpg_per_unit: zero,
        invpcid_per_unit: zero,
        ipis_per_unit: zero,
        cycles_net_per_unit: Some(Net { low, used, high }),
        ..Row::default()
    }
}

fn off(workload: &str) -> Row {
    row(workload, "off", [16_000.0, 19_000.0, 22_000.0])
}

/// A gain at every price.
fn full(workload: &str) -> Row {
    row(workload, "full", [13_000.0, 13_500.0, 14_000.0])
}

fn file(rows: Vec<Row>) -> Results {
    let mut results = Results::new(Default::default());
    results.environment.commit = Some("0123abc".into());
    results.rows = rows;
    results
}

/// The page, or the refusal; then nothing was kept.
fn published(results: &Results) -> Result<String, Error> {
    let root = tempfile::tempdir().expect("a directory");
    let page = root.path().join("README.md");
    fs::write(&page, "<!-- figures: net-table -->\n<!-- end -->\n").expect("written");
    let json = results.to_json().expect("JSON");
    let files = publish::publish(root.path(), json.as_bytes(), "run", "net");
    if files.is_err() {
        assert!(!root.path().join("docs/measured/data/net.json").exists(), "kept, and refused");
    }
    files?;
    assert_eq!(publish::check(root.path()).expect("checked"), Vec::<String>::new());
    let text = fs::read_to_string(&page).expect("read");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    Ok(text)
}

/// Of one table; sentences are read in one line.
fn table(results: &Results) -> (Vec<String>, String) {
    let text = published(results).expect("published");
    let lines = text.lines().filter(|line| line.starts_with('|')).map(String::from).collect();
    (lines, text.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join(" "))
}

fn line<'a>(lines: &'a [String], start: &str) -> &'a str {
    let found: Vec<&String> = lines.iter().filter(|line| line.starts_with(&format!("| {start} |"))).collect();
    assert_eq!(found.len(), 1, "{start}: {lines:#?}");
    found[0]
}

/// A loss is said to be one, at whichever price.
#[test]
fn costs_of_several_vcpus_are_published_net_of_interrupts() {
    let mut wide = full("wide");
    wide.cycles_net_per_unit.as_mut().expect("net").low.max = 16_001.0;
    // Where nothing is paid for waiting, it is no gain.
    let small = |mode: &str, net: [f64; 3]| row("small", mode, net);
    let mut corner = row("corner", "full", [15_900.0, 18_000.0, 20_000.0]);
    corner.walks_per_unit = Some(exactly(10.0));
    let mut results = file(vec![
        off("gain"),
        full("gain"),
        off("wide"),
        wide,
        small("off", [1_000.0, 2_000.0, 3_000.0]),
        small("full", [1_010.0, 1_900.0, 2_800.0]),
        off("corner"),
        corner,
    ]);
    // The least of them.
    results.rows[3].boots = 7;
    let text = render(&results, &Options { width: 100, colour: false });
    assert!(text.contains("Cost per unit of work (the kernel's instructions)"), "{text}");
    let (lines, words) = table(&results);
    assert!(words.contains("Condition: 8 threads on 8 vCPUs, median of 5 boots"), "{words}");
    let end = "| −3,000 | −5,500 | −8,000 | −3,000 | −28.9 % | gain |";
    assert_eq!(line(&lines, "`gain`"), format!("| `gain` | 13,811 to 11,645 | 7.00 to 0 {end}"));
    let end = "| −3,000 | −5,500 | −8,000 | −3,000 [−3,000, +1.00] | −28.9 % | not proved |";
    assert!(line(&lines, "`wide`").ends_with(end), "{lines:#?}");
    assert!(line(&lines, "`small`").ends_with("| +10.0 | −100 | −200 | +10.0 | −5.0 % | **loss** |"));
    // Less at all low, all used and all high prices: but ten walks more may be dear.
    assert!(line(&lines, "`corner`").ends_with("| −100 | −1,000 | −2,000 | +10.0 | −5.3 % | **loss** |"));
    assert!(words.contains("A loss is one by its medians alone"), "{words}");
    let bad =
        "Losses, or gains not proved at every price: `wide`, `small` and `corner`. 0 rows skipped, 0 failed.";
    assert!(words.contains(bad), "{words}");
    // No room for what decides nothing.
    let name = "a-workload";
    let far = Net { low: Spread { min: 999_999.0, ..exactly(1e6) }, used: exactly(1e6), high: exactly(1e6) };
    let (lines, _) = table(&file(vec![off(name), Row { cycles_net_per_unit: Some(far), ..full(name) }]));
    assert!(lines[2].contains("| +984,000 | +5163.2 % | **loss** |"), "{lines:#?}");
    let (_, words) = table(&file(vec![off("gain"), full("gain")]));
    assert!(words.contains("No losses. 0 rows skipped, 0 failed."), "{words}");
}

/// Rows of one name are told apart, and each is held against its own.
#[test]
fn shapes_and_settings_are_named_and_never_mixed() {
    let apart = |row: Row, by: f64| {
        let net = row.cycles_net_per_unit.map(|net| Net {
            low: exactly(net.low.median + by),
            used: exactly(net.used.median + by),
            high: exactly(net.high.median + by),
        });
        Row { cycles_net_per_unit: net, ..row }
    };
    let nodes = |row: Row| Row { nodes: 2, ..row };
    let pages = |row: Row| Row { set: Some("pages=8".into()), ..row };
    let few = |row: Row| Row { threads: 4, ..row };
    let (lines, words) = table(&file(vec![
        off("munmap"),
        full("munmap"),
        nodes(off("munmap")),
        nodes(apart(full("munmap"), 100.0)),
        pages(off("munmap")),
        pages(apart(full("munmap"), 200.0)),
        few(off("munmap")),
        few(apart(full("munmap"), 300.0)),
    ]));
    assert_eq!(lines.len(), 2 + 4, "{lines:#?}");
    assert!(words.contains("Condition: 8 threads on 8 vCPUs unless said otherwise, median"), "{words}");
    for (name, low) in [
        ("`munmap`", "−3,000"),
        ("`munmap` (2 nodes)", "−2,900"),
        ("`munmap pages=8`", "−2,800"),
        ("`munmap` (4 threads)", "−2,700"),
    ] {
        assert!(line(&lines, name).contains(&format!("7.00 to 0 | {low} |")), "{name}: {lines:#?}");
    }
}

#[test]
fn three_kernels_have_a_column() {
    let idle = |workload: &str, net| row(workload, "idle", net);
    let (lines, words) = table(&file(vec![
        off("munmap"),
        idle("munmap", [16_100.0, 19_100.0, 22_100.0]),
        full("munmap"),
        off("fork"),
        full("fork"),
    ]));
    assert!(words.contains("`abis (idle)` and `abis (full)` against `abis (off)`"), "{words}");
    let dashes = lines[1].matches("---").count();
    assert!(
        lines.iter().all(|line| line.matches(" | ").count() + 1 == dashes || line == &lines[1]),
        "{lines:#?}"
    );
    assert!(line(&lines, "`munmap` | `abis (idle)`")
        .ends_with("| +100 | +100 | +100 | +100 | +0.5 % | **loss** |"));
    assert!(line(&lines, "`munmap` | `abis (full)`").ends_with("| −28.9 % | gain |"), "{lines:#?}");
    assert!(words.contains("at every price: `munmap` in `abis (idle)`. Not compared: "), "{words}");
    assert!(
        words.contains("Not compared: `fork` (not measured in `abis (idle)`). 0 rows skipped"),
        "{words}"
    );
}

/// What was asked for and is not in the table is named, with the reason.
#[test]
fn rows_without_a_partner_are_named() {
    let pti = |row: Row, pti: bool| Row { pti: Some(pti), ..row };
    let mut lacking = full("lacking");
    lacking.ipis_per_unit = None;
    let mut results = file(vec![
        pti(off("gain"), false),
        pti(full("gain"), false),
        pti(off("munmap"), false),
        pti(full("munmap"), true),
        off("fork"),
        off("pipe"),
        off("migrate"),
        full("barrier"),
        off("lacking"),
        lacking,
        Row { seed: 2, ..off("seeded") },
        full("seeded"),
    ]);
    let unmeasured = |workload: &str, mode: &str, reason: &str| Unmeasured {
        workload: workload.into(),
        reason: reason.into(),
        kernel: Some("abis".into()),
        mode: Some(mode.into()),
        threads: Some(8),
        ..Default::default()
    };
    // Of another mode, and of other threads: neither is the reason.
    let other = Unmeasured { threads: Some(4), ..unmeasured("migrate", "full", "no") };
    results.failed =
        vec![unmeasured("fork", "full", "it was killed."), unmeasured("migrate", "idle", "no"), other];
    results.skipped = vec![unmeasured("pipe", "full", "no memory")];
    let (lines, words) = table(&results);
    assert_eq!(lines.len(), 2 + 1, "{lines:#?}");
    let all = [
        "No losses in what is compared. Not compared: `munmap` (in `abis (full)` it differs in PTI)",
        "`munmap` (PTI on) (in `abis (off)` it differs in PTI)",
        "`fork` (failed in `abis (full)`: it was killed)",
        "`pipe` (skipped in `abis (full)`: no memory)",
        "`migrate` (not measured in `abis (full)`)",
        "`barrier` (not measured in `abis (off)`)",
        "`seeded` (in `abis (full)` it differs in seed)",
        "`seeded` (in `abis (off)` it differs in seed)",
        "`lacking` (not all that has a price was counted). 1 row skipped, 3 failed.",
    ];
    assert!(words.contains(&all.join("; ")), "{words}");
}

#[test]
fn a_table_of_nothing_is_refused() {
    let refused = |rows: Vec<Row>| {
        let error = published(&file(rows)).expect_err("refused");
        assert_eq!(error.kind.exit_code(), 2);
        assert!(error.remedy.is_some(), "{error:?}");
        error.message
    };
    assert_eq!(
        refused(vec![off("munmap"), off("fork")]),
        "one kernel in one mode has nothing to be held against"
    );
    assert_eq!(
        refused(vec![off("munmap"), full("fork")]),
        "no row can be held against another: `munmap` (not measured in `abis (full)`)"
    );
    // A table of 1 vCPU's costs says so of all its rows.
    let alone = |row: Row| Row { vcpus: 1, threads: 1, cycles_net_per_unit: None, ..row };
    let uncounted = |row: Row| Row { cycles_net_per_unit: None, ..row };
    let mixed = vec![alone(off("munmap")), alone(full("munmap")), off("munmap"), full("munmap")];
    assert_eq!(refused(mixed), "munmap on 8 vCPUs is counted otherwise than rows of 1 vCPU");
    let lacking = vec![off("munmap"), full("munmap"), uncounted(off("fork")), full("fork")];
    assert_eq!(refused(lacking), "fork on 8 vCPUs has no net cycles, and this table is of 1 vCPU");
    let text = published(&file(vec![alone(off("munmap")), alone(full("munmap"))])).expect("published");
    assert!(text.contains("1 vCPU, median of 5 boots"), "{text}");
}

/// Rows come kernel by kernel, and each setting is held against itself; what the first kernel has not is held against
/// nothing.
#[test]
fn costs_of_several_settings_are_held_against_their_own() {
    let of = |row: Row, set: &str, instructions: f64| Row {
        vcpus: 1,
        threads: 1,
        cycles_net_per_unit: None,
        set: Some(set.into()),
        instructions_per_unit: Some(exactly(instructions)),
        ..row
    };
    let (lines, _) = table(&file(vec![
        of(off("numa"), "op=munmap", 100.0),
        of(off("numa"), "op=mprotect", 10.0),
        of(full("numa"), "op=munmap", 110.0),
        of(full("numa"), "op=mprotect", 30.0),
        of(full("numa"), "op=mremap", 50.0),
    ]));
    assert!(
        line(&lines, "`numa op=munmap`").starts_with("| `numa op=munmap` | 100 | +10.0 % |"),
        "{lines:#?}"
    );
    assert!(
        line(&lines, "`numa op=mprotect`").starts_with("| `numa op=mprotect` | 10.0 | +200.0 % |"),
        "{lines:#?}"
    );
    assert!(line(&lines, "`numa op=mremap`").starts_with("| `numa op=mremap` | - | - |"), "{lines:#?}");
}

/// On one page, but not in one column.
#[test]
fn costs_of_one_and_of_several_vcpus_are_shown_apart() {
    let alone = |row: Row, instructions: f64| Row {
        vcpus: 1,
        threads: 1,
        cycles_net_per_unit: None,
        kernel_instructions_per_unit: None,
        instructions_per_unit: Some(exactly(instructions)),
        ..row
    };
    let several = vec![off("munmap"), full("munmap")];
    let mut both = vec![alone(off("munmap"), 10_802.0), alone(full("munmap"), 10_910.0)];
    both.extend(several.clone());
    let page = |rows: &[Row]| {
        let html = ceasefire_report::page::html(&file(rows.to_vec())).expect("a page");
        let costs = &html[html.find(">Cost<").expect("costs")..];
        costs.split("<h2").next().expect("a part").to_string()
    };
    let screen = |rows: &[Row]| render(&file(rows.to_vec()), &Options { width: 160, colour: false });
    let html = page(&both);
    let (one, more) = html.split_once("Instructions of the kernel per unit of work").expect("two tables");
    for (part, head, other, figures) in [
        (one, ">instructions</th>", ">kernel instructions</th>", [">10,802</td>", ">10,910</td>"]),
        (more, ">kernel instructions</th>", ">instructions</th>", [">13,811</td>", ">11,645</td>"]),
    ] {
        assert!(part.contains(head) && !part.contains(other), "{part}");
        assert!(figures.iter().all(|figure| part.contains(figure)), "{part}");
    }
    assert!(one.contains("<td>+1.0 %</td>") && more.contains("<td>−15.7 %</td>"), "{one} {more}");
    assert!(!page(&several).contains("at one vCPU") && !page(&both[..2]).contains("cycles (net)"));
    let text = screen(&both);
    assert!(text.contains("(1 vCPU: all instructions; several: the kernel's)"), "{text}");
    assert!(text.contains("10,802 instructions") && text.contains("13,811 kernel instructions"), "{text}");
    assert!(screen(&both[..2]).contains("(1 vCPU, counted instructions)"));
    assert!(screen(&several).contains("13,811 instructions"));
}
