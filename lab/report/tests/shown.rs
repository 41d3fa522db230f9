// SPDX-License-Identifier: GPL-2.0-only
//! The table and the report: they fit, they escape, they load nothing, they say only what the rows say.
#[path = "../../results/tests/sample/mod.rs"]
mod sample;

use ceasefire_report::page as report;
use ceasefire_report::table::{render, Options};
use ceasefire_results::schema::{Results, Tlb};
use ceasefire_results::stats::Spread;
use std::path::Path;

fn plain(width: usize) -> Options {
    Options { width, colour: false }
}

/// Every run of digits in a text: a broken number would change this list.
fn numbers(text: &str) -> Vec<String> {
    let mut numbers: Vec<String> = text
        .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .map(|word| word.trim_matches(['.', ',']).to_string())
        .filter(|word| word.chars().any(|c| c.is_ascii_digit()))
        .collect();
    numbers.sort();
    numbers.dedup();
    numbers
}

#[test]
fn tables_fit_every_width_and_break_no_number() {
    for results in [sample::one_kernel(), sample::two_kernels()] {
        let wide = numbers(&render(&results, &plain(160)));
        for width in [30, 40, 60, 80, 100, 120, 160] {
            let text = render(&results, &plain(width));
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert!(!line.ends_with(' '), "{width}: '{line}'");
            }
            assert_eq!(numbers(&text), wide, "at {width} columns");
        }
    }
}

#[test]
fn a_table_says_noise_controls_skips_and_how_to_run_again() {
    let text = render(&sample::two_kernels(), &plain(120));
    for expected in [
        "~ sent or received spreads over 10 % between repeats.",
        "72 of 72 control figures hold.",
        "exactly-n 8 threads: sent 1,000 of 1,000, received 7,000 of 7,000, received_irq 7,000 of 7,000",
        "Skipped (3)",
        "numa-balance, 8 threads, 8 vCPUs, vanilla: the machine has one node",
        "Failed (1)",
        "ceasefire lab run --workloads all",
        "instructions (spread 0.00 %)",
    ] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
}

/// What the machine counts stands beside the shootdowns where it is counted, and nowhere else.
#[test]
fn walks_stand_beside_the_counts_where_a_machine_counts_them() {
    let (without, with) = (sample::one_kernel(), sample::two_kernels());
    for width in [60, 100, 160] {
        assert!(!render(&without, &plain(width)).contains("walks"), "at {width} columns");
        assert!(render(&with, &plain(width)).contains("walks"), "at {width} columns");
    }
    let [without, with] = [&without, &with].map(|results| report::html(results).expect("a report"));
    assert!(!without.contains("What the TLBs did"));
    for expected in ["What the TLBs did", "CR3 loads, keeping", "their numbers stand beside"] {
        assert!(with.contains(expected), "{expected}");
    }
}

/// How far walks read stands beside their number where there are several nodes, and nowhere else.
#[test]
fn remote_reads_stand_beside_the_walks_where_there_are_several_nodes() {
    let (without, with) = (sample::two_kernels(), sample::two_nodes());
    for width in [60, 100, 160] {
        assert!(!render(&without, &plain(width)).contains("remote"), "at {width} columns");
        let text = render(&with, &plain(width));
        assert!(text.contains("remote") && text.contains("PTEs %"), "at {width} columns:\n{text}");
        assert!(text.contains("50.0") && text.contains("3.00"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
    let [without, with] = [&without, &with].map(|results| report::html(results).expect("a report"));
    for title in ["local reads", "remote reads", "local PTE reads", "remote PTE reads"] {
        let head = format!(">{title}</th>");
        assert!(!without.contains(&head) && with.contains(&head), "{title}");
    }
}

/// What was needed stands beside the targets where a kernel asked, and nowhere else: a row of a vanilla kernel has a dash.
#[test]
fn needed_targets_stand_where_a_kernel_asked() {
    let without = sample::two_kernels();
    let mut with = sample::two_kernels();
    for row in with.rows.iter_mut().filter(|row| row.mode.is_some() && !row.cost) {
        row.needed_per_unit = row.received_per_unit;
        row.unasked_per_unit = Some(Spread { median: 0.25, min: 0.25, max: 0.25 });
    }
    for width in [60, 100, 160] {
        assert!(!render(&without, &plain(width)).contains("needed"), "at {width} columns");
        let text = render(&with, &plain(width));
        assert!(text.contains("needed"), "at {width} columns:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
    let [without, with] = [&without, &with].map(|results| report::html(results).expect("a report"));
    assert!(!without.contains(">needed</th>") && !without.contains(">unasked</th>"));
    for expected in [">needed</th>", ">unasked</th>", "<dt>needed</dt>", "<dt>unasked</dt>"] {
        assert!(with.contains(expected), "{expected}");
    }
    // The baseline was not asked, so nobody knows what could have been avoided.
    assert!(!with.contains("It avoids a median") && !with.contains("needed by vanilla"));
}

#[test]
fn the_finding_says_how_much_of_the_needless_is_avoided() {
    let mut results = sample::two_kernels();
    for row in results.rows.iter_mut().filter(|row| row.mode.is_none() && !row.cost) {
        let part = if row.workload == "munmap-shared" { 1.0 } else { 0.5 };
        row.needed_per_unit = row.received_per_unit.map(|spread| Spread {
            median: spread.median * part,
            min: spread.min * part,
            max: spread.max * part,
        });
    }
    let html = report::html(&results).expect("a report");
    let words = "It avoids a median of";
    assert!(html.contains(words), "{}", &html[html.find("<h1>").expect("a title")..][..3000]);
}

/// In cost rows, and only where there is a model; the page says what it is not.
#[test]
fn modelled_cycles_stand_in_the_cost_rows() {
    let (without, with) = (sample::one_kernel(), sample::two_kernels());
    for width in [60, 100, 160] {
        assert!(!render(&without, &plain(width)).contains("(model)"), "at {width} columns");
    }
    let text = render(&with, &plain(160));
    // 2,986.04 instructions, then 6,990 × 39.5 + 1,350 × 600 + 43 × 173.5 + 1,000 × 230 + 5 × 375 + 1,001 × 600 over 1,000.
    assert!(text.contains("2,986 instructions (spread 0.00 %) 4,912 cycles (model)"), "{text}");
    let [without, with] = [&without, &with].map(|results| report::html(results).expect("a report"));
    assert!(!without.contains("cycles (model)</th>") && !without.contains("<dt>modelled cycles</dt>"));
    for expected in [
        "cycles (model)</th><th scope=\"col\">against baseline</th>",
        "two kernels on the same work and are not a time.",
        ">4,912</td><td>baseline</td>",
        // 55 instructions more and nothing else.
        ">4,967</td><td>+1.1 %</td>",
        "<dt>modelled cycles</dt><dd>CR3 load that flushes 173.5, CR3 load that keeps 173.5, INVLPG 230,",
    ] {
        assert!(with.contains(expected), "{expected}");
    }
}

/// Sites and reasons stand where an ABIS kernel counts them; what a debug kernel checked is said in a sentence.
#[test]
fn elisions_are_shown_where_a_kernel_counts_them() {
    let (without, with) = (sample::one_kernel(), sample::two_kernels());
    for width in [60, 100, 160] {
        assert!(!render(&without, &plain(width)).contains("elided"), "at {width} columns");
        assert!(render(&with, &plain(width)).contains("elided"), "at {width} columns");
    }
    let page = |results: &Results| report::html(results).expect("a report");
    assert!(!page(&without).contains("let off, and why</h3>"));
    let html = page(&with);
    for expected in [
        "let off, and why</h3>",
        "<th class=\"text\" scope=\"row\">clear_flush</th>",
        "per munmap call, 8 threads, abis (idle); 0.906 pages elided; 0.006 rounds forced; \
         45,056 bytes of software page tables</span>",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    assert!(!html.contains("scope=\"row\">migrate</th>"), "a site without a decision");
    assert!(!html.contains("checked against"));
    let log = sample::with_abis(&sample::log(1.0, None), true);
    let logs = [(sample::key("abis-debug", Some("idle")), ceasefire_results::parse_log(log.as_bytes()))];
    let debug = ceasefire_results::aggregate(Default::default(), &logs).expect("rows");
    let sentence = "122,400 elisions were checked against the machine's TLBs: none wrong.";
    assert!(page(&debug).contains(sentence), "{}", page(&debug));
    assert!(page(&debug).contains(">sampled held</th>"));
    assert!(render(&debug, &plain(100))
        .contains("122,400 elisions were checked against the machine's TLBs: none wrong."));
}

#[test]
fn the_page_says_what_the_tlbs_were_like() {
    let mut results = sample::one_kernel();
    let Some(qemu) = results.environment.qemu.as_mut() else { panic!("no machine") };
    qemu.tlb = Some(Tlb {
        spec: "hardware,seed=7".into(),
        model: true,
        oracle: true,
        access_bit: Some("dirty".into()),
        entries: Some(1536),
        ways: Some(12),
        psc: Some(64),
        speculation_us: Some(100),
        seed: Some(7),
        insert: Some(true),
        broadcast: Some("late".into()),
        broadcast_pages: Some(8),
    });
    let html = report::html(&results).expect("a report");
    let words = "hardware,seed=7: access bits dirty, 1536 entries of 12 ways, paging-structure cache of 64, \
                 a speculative walk every 100 µs, seed 7, insertion by the kernel, which no processor has, \
                 INVLPGB and TLBSYNC as AMD's processors have, late";
    assert!(html.contains(words), "{html}");
}

#[test]
fn colour_only_changes_escape_codes() {
    let results = sample::two_kernels();
    for width in [40, 80, 120] {
        let coloured = render(&results, &Options { width, colour: true });
        assert!(coloured.contains("\x1b["));
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some(start) = rest.find("\x1b[") {
            stripped.push_str(&rest[..start]);
            let end = rest[start..].find('m').expect("an escape code ends") + start;
            rest = &rest[end + 1..];
        }
        stripped.push_str(rest);
        assert_eq!(stripped, render(&results, &plain(width)));
    }
}

#[test]
fn nothing_hostile_reaches_the_page_or_the_terminal() {
    let results = sample::hostile();
    let html = report::html(&results).expect("a report");
    assert!(!html.contains("<script") && !html.contains("alert(1)</script>"), "unescaped");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let mut moving = sample::one_kernel();
    moving.rows[0].workload = "a\x1b[2Jb".into();
    moving.problems.push("c\x1b[2Jd".into());
    assert!(!render(&moving, &plain(80)).contains('\x1b'));
}

/// A tiny reader: every element that opens closes, in order, and every attribute is quoted.
fn check_nesting(html: &str) {
    const VOID: &[&str] = &["meta", "br", "!DOCTYPE"];
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        rest = &rest[end + 1..];
        let name: String =
            tag.trim_start_matches('/').chars().take_while(|c| c.is_alphanumeric() || *c == '!').collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "</{name}> closes something else");
        } else if !VOID.contains(&name.as_str()) && !tag.ends_with('/') {
            if name == "style" {
                let end = rest.find("</style>").expect("the style ends");
                rest = &rest[end..];
            }
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn report_file(name: &str, results: &Results) -> String {
    let html = report::html(results).expect("a report");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, &html).expect("the report is written");
    html
}

#[test]
fn the_report_is_whole_self_contained_and_spoken() {
    let mut bare = sample::one_kernel();
    bare.workloads.clear();
    bare.environment = Default::default();
    for (name, results) in [
        ("one-kernel.html", sample::one_kernel()),
        ("two-kernels.html", sample::two_kernels()),
        ("hostile.html", sample::hostile()),
        ("bare.html", bare),
        ("empty.html", Results::new(Default::default())),
    ] {
        let html = report_file(name, &results);
        check_nesting(&html);
        for forbidden in ["http://", "https://", "<script", "src=", "url(", "@import", "NaN", "inf"] {
            let found = html.replace("info", "").contains(forbidden);
            assert!(!found, "{name} contains {forbidden}");
        }
        assert_eq!(
            html.matches("<svg").count(),
            html.matches("role=\"img\"").count() + html.matches("aria-hidden").count()
        );
        assert!(html.contains("name=\"viewport\"") && html.contains("lang=\"en\""), "{name}");
        assert!(html.contains("default-src 'none'"), "{name}");
    }
}

#[test]
fn the_finding_is_computed_and_carries_its_condition() {
    let html = report::html(&sample::one_kernel()).expect("a report");
    assert!(
        html.contains("At 8 threads, one shootdown interrupts a median of 6.09 other CPUs over 7 rows (from 4.97 in mmap-read to 7.00 in madvise-scaling); anon-r-seq caused none of a user address space."),
        "{}",
        html.split("class=\"finding\"").nth(1).unwrap_or("no finding").chars().take(400).collect::<String>()
    );
    let html = report::html(&sample::two_kernels()).expect("a report");
    for words in [
        "A TLB shootdown is what a kernel does when it changes a mapping",
        "Here kernels vanilla, abis (idle) and abis (full) do the same work: 8 workloads of up to 8 threads.",
        "Against vanilla, abis (full) changes the shootdowns received at 8 threads on 8 vCPUs by a median of \u{2212}94.0 % \
         over 7 workloads: fewer in 6, as many in 1, more in 0; 1 workload receives none in either.",
        "Nothing rose beside it: not other IPIs, full flushes, walks or faults.",
        "All 72 control figures hold",
    ] {
        assert!(html.contains(words), "{words}:\n{}", &html[html.find("<h1>").expect("a title")..][..3000]);
    }
    // Without a sender's count nothing is said about senders.
    let mut host = sample::one_kernel();
    host.rows.iter_mut().for_each(|row| row.sent_per_unit = None);
    let html = report::html(&host).expect("a report");
    assert!(html.contains(
        "At 8 threads, shootdowns were received in 7 of 8 rows; how many were sent was not measured."
    ));
    host.rows.iter_mut().for_each(|row| {
        row.received_per_unit = Some(ceasefire_results::stats::Spread { median: 0.0, min: 0.0, max: 0.0 });
    });
    let html = report::html(&host).expect("a report");
    assert!(html.contains("At 8 threads, no other CPU received a shootdown in any of 8 rows."));
    let empty = report::html(&Results::new(Default::default())).expect("a report");
    assert!(empty.contains("No row of this file measures shootdowns.") && empty.contains("No control ran"));
}

/// A cost row of mode full says whether there was anything to pay for.
#[test]
fn a_row_without_insertions_says_why() {
    let spread = |value: f64| Spread { median: value, min: value, max: value };
    let shown = |inserted: f64, unpaid: Option<f64>| {
        let mut results = sample::two_kernels();
        for row in results.rows.iter_mut().filter(|row| row.cost && row.mode.as_deref() == Some("full")) {
            row.faults_per_unit = Some(spread(0.5));
            let counters = [("inserted", Some(inserted)), ("insert_unpaid", unpaid)];
            let counted = counters
                .iter()
                .filter_map(|(name, count)| Some((name.to_string(), spread((*count)?))))
                .collect();
            row.mechanisms.insert("abis".into(), counted);
        }
        render(&results, &plain(160))
    };
    for (inserted, unpaid, says) in [
        (0.0, None, "void: nothing was inserted"),
        (0.0, Some(0.0), "void: nothing was inserted"),
        (0.0, Some(1.0), "nothing inserted: it does not pay"),
        (1.0, Some(1.0), "2.00 pages inserted per fault"),
    ] {
        let text = shown(inserted, unpaid);
        assert!(text.contains(says), "{says}:\n{text}");
    }
}

#[test]
fn no_page_where_a_control_failed_and_no_agreement_where_there_is_one_source() {
    let mut results = sample::one_kernel();
    results.rows.iter_mut().for_each(|row| row.kernel_range_per_unit = None);
    let html = report::html(&results).expect("a report");
    assert!(html.contains("received is the interrupt row") && !html.contains("agree within 1 %"));
    results.controls[0].ok = Some(false);
    assert!(report::html(&results).is_err());
}
