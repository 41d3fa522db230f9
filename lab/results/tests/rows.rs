// SPDX-License-Identifier: GPL-2.0-only
//! Logs to rows: what is divided, grouped, proved equal, judged, and refused.
mod sample;

use ceasefire_results::schema::{Condition, Environment};
use ceasefire_results::{aggregate, parse_log, Results, RowKey, Verdict};

fn run(workload: &str, repeat: u32, units: u64, checksum: &str, counters: &str, expect: &str) -> String {
    format!(
        "{{\"kind\":\"run\",\"workload\":\"{workload}\",\"threads\":8,\"repeat\":{repeat},\"seed\":1,\"unit\":\"call\",\"units\":{units},\"checksum\":\"{checksum}\",\"counters\":{{{counters}}},\"expect\":{expect},\"extra\":{{\"ratio\":{repeat}}},\"duration_ns\":10}}\n"
    )
}

fn results(runs: &[String]) -> ceasefire_base::Result<Results> {
    results_of(1, runs)
}

fn results_of(nodes: u32, runs: &[String]) -> ceasefire_base::Result<Results> {
    let key = RowKey { nodes, ..sample::key("vanilla", None) };
    let log = format!(
        "{}{{\"kind\":\"verdict\",\"ok\":true,\"runs\":{},\"skips\":0,\"fails\":0}}\n",
        runs.concat(),
        runs.len()
    );
    aggregate(Default::default(), &[(key, parse_log(log.as_bytes()))])
}

/// The machine counts reads by node with one node, too: as 0.
#[test]
fn reads_by_node_are_a_row_s_where_there_are_several_nodes() {
    let counters = "\"walks\":200,\"reads_local\":0,\"reads_remote\":0,\"reads_local_leaf\":0,\
                    \"reads_remote_leaf\":0,\"reads_local_user\":0,\"reads_remote_user\":0";
    let runs = [run("w", 0, 100, "aa", counters, "null")];
    for (nodes, is_there) in [(1, false), (2, true)] {
        let results = results_of(nodes, &runs).expect("rows");
        let row = &results.rows[0];
        assert_eq!(row.walks_per_unit.expect("walks").median, 2.0);
        for reads in [
            row.reads_local_per_unit,
            row.reads_remote_per_unit,
            row.reads_local_leaf_per_unit,
            row.reads_remote_leaf_per_unit,
            row.reads_local_user_per_unit,
            row.reads_remote_user_per_unit,
        ] {
            assert_eq!(reads.is_some(), is_there, "{nodes} nodes");
        }
    }
}

#[test]
fn repeats_become_one_row_per_unit() {
    let runs: Vec<String> = [(0, 100, 700), (1, 110, 770), (2, 90, 630)]
        .iter()
        .map(|(repeat, sent, received)| {
            run(
                "w",
                *repeat,
                100,
                "aa",
                &format!("\"sent\":{sent},\"received\":{received},\"walks\":null"),
                "null",
            )
        })
        .collect();
    let results = results(&runs).expect("rows");
    assert_eq!(results.rows.len(), 1);
    let row = &results.rows[0];
    let sent = row.sent_per_unit.expect("sent");
    assert_eq!((sent.median, sent.min, sent.max), (1.0, 0.9, 1.1));
    assert_eq!(row.received_per_unit.expect("received").median, 7.0);
    assert_eq!(row.targets_per_shootdown(), Some(7.0));
    assert_eq!((row.repeats, row.units, row.checksum.as_deref()), (3, 100, Some("aa")));
    assert!(row.noisy, "20 % wide");
    assert_eq!((row.walks_per_unit, row.faults_per_unit), (None, None), "not measured is not zero");
    assert_eq!(row.extra["ratio"], 1.0);
    assert_eq!(results.verdict(), Verdict::NoControl);
}

/// A kernel that asks, one that was not asked to, and one that has never heard of it.
#[test]
fn what_was_needed_is_a_figure_or_unknown() {
    let row = |counters: &str| {
        let results = results(&[run("w", 0, 100, "aa", counters, "null")]).expect("rows");
        results.rows[0].clone()
    };
    let asked = row("\"received\":700,\"needed\":300,\"unasked\":100");
    let medians = [asked.needed_per_unit, asked.unasked_per_unit].map(|spread| spread.map(|it| it.median));
    assert_eq!(medians, [Some(3.0), Some(1.0)]);
    assert_eq!(asked.avoidable_per_unit(), Some(4.0));
    for counters in ["\"received\":700,\"needed\":null,\"unasked\":null", "\"received\":700"] {
        let row = row(counters);
        assert_eq!((row.needed_per_unit, row.unasked_per_unit, row.avoidable_per_unit()), (None, None, None));
    }
}

/// A machine with several nodes, one with one, and a row without walks.
#[test]
fn the_share_of_remote_ptes_is_of_those_that_were_read() {
    let share = |counters: &str| {
        results_of(2, &[run("w", 0, 100, "aa", counters, "null")]).expect("rows").rows[0]
            .remote_leaf_percent()
    };
    assert_eq!(share("\"reads_local_leaf\":300,\"reads_remote_leaf\":100"), Some(25.0));
    assert_eq!(share("\"reads_local_leaf\":0,\"reads_remote_leaf\":0"), None);
    assert_eq!(share("\"reads_local_leaf\":null,\"reads_remote_leaf\":null"), None);
    assert_eq!(share("\"walks\":300"), None);
}

#[test]
fn a_figure_missing_in_one_repeat_is_missing_in_the_row() {
    let runs = [run("w", 0, 10, "aa", "\"sent\":10", "null"), run("w", 1, 10, "aa", "\"sent\":null", "null")];
    assert_eq!(results(&runs).expect("rows").rows[0].sent_per_unit, None);
}

#[test]
fn different_work_under_equal_arguments_is_an_error_that_names_it() {
    let same_log = [run("w", 0, 10, "aa", "", "null"), run("w", 1, 10, "bb", "", "null")];
    let error = results(&same_log).expect_err("repeats differ");
    assert!(
        error.message.contains("w at 8 threads")
            && error.message.contains("aa")
            && error.message.contains("bb"),
        "{error}"
    );

    let log = |checksum: &str| {
        let text = run("w", 0, 10, checksum, "", "null")
            + "{\"kind\":\"verdict\",\"ok\":true,\"runs\":1,\"skips\":0,\"fails\":0}\n";
        parse_log(text.as_bytes())
    };
    let across = |second: &str| {
        aggregate(
            Default::default(),
            &[(sample::key("vanilla", None), log("aa")), (sample::key("abis", Some("full")), log(second))],
        )
    };
    let error = across("ab").expect_err("kernels differ");
    assert!(error.message.contains("vanilla") && error.message.contains("abis (full)"), "{error}");
    assert_eq!(across("aa").expect("equal").rows.len(), 2);
    // Other units are other work, and nothing is claimed about them.
    let other_units = [run("w", 0, 10, "aa", "", "null"), run("w", 1, 20, "bb", "", "null")];
    assert_eq!(results(&other_units).expect("rows").rows[0].checksum, None);
}

#[test]
fn one_workload_has_one_unit() {
    let runs = [run("w", 0, 10, "aa", "", "null"), run("w", 1, 10, "aa", "", "null").replace("call", "page")];
    assert!(results(&runs).expect_err("two units").message.contains("'call'"));
}

#[test]
fn zero_units_fail_the_row_instead_of_dividing() {
    let results = results(&[run("w", 0, 0, "aa", "\"sent\":5", "null")]).expect("no rows");
    assert!(results.rows.is_empty());
    assert_eq!(results.failed.len(), 1);
    assert!(results.failed[0].reason.contains("zero units"));
}

/// Each source, tight from both sides of 1 %, and zero exactly.
#[test]
fn controls_are_judged_tightly_from_every_source() {
    let counters = |sent: i64, received: i64, irq: i64| {
        format!("\"sent\":{sent},\"received\":{received},\"received_irq\":{irq},\"kernel_received\":0")
    };
    let n = "{\"sent\":1000,\"received\":7000}";
    let zero = "{\"sent\":0,\"received\":0}";
    for (expect, values, failing) in [
        (n, (1000, 7000, 7000), None),
        (n, (1010, 7070, 6930), None),
        (n, (1011, 7000, 7000), Some("sent")),
        (n, (989, 7000, 7000), Some("sent")),
        (n, (1000, 7071, 7000), Some("received")),
        (n, (1000, 7000, 6929), Some("received_irq")),
        (zero, (0, 0, 0), None),
        (zero, (1, 0, 0), Some("sent")),
        (zero, (0, 1, 0), Some("received")),
        (zero, (0, 0, 1), Some("received_irq")),
    ] {
        // The deviation sits in one repeat of three: a median would hide it.
        let promised = if expect == n { (1000, 7000, 7000) } else { (0, 0, 0) };
        let runs: Vec<String> = [promised, values, promised]
            .iter()
            .zip(0..)
            .map(|(&(a, b, c), repeat)| run("control", repeat, 1000, "aa", &counters(a, b, c), expect))
            .collect();
        let results = results(&runs).expect("rows");
        assert_eq!(results.controls.len(), 3);
        let wrong: Vec<&str> =
            results.controls.iter().filter(|c| c.ok == Some(false)).map(|c| c.source.as_str()).collect();
        assert_eq!(wrong, failing.into_iter().collect::<Vec<_>>(), "{values:?}");
        match failing {
            None => {
                assert_eq!(results.verdict(), Verdict::Proven);
                assert!(results.reportable().is_ok());
            }
            Some(source) => {
                let error = results.reportable().expect_err("no report");
                assert!(
                    error.message.contains("control at 8 threads") && error.message.contains(source),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn an_unmeasured_source_is_neither_pass_nor_failure() {
    let expect = "{\"sent\":10,\"received\":70}";
    let partly = results(&[run(
        "c",
        0,
        10,
        "aa",
        "\"sent\":null,\"received\":70,\"received_irq\":70,\"kernel_received\":0",
        expect,
    )])
    .expect("rows");
    assert!(matches!(partly.verdict(), Verdict::Partly(names) if names.len() == 1));
    let none = results(&[run("c", 0, 10, "aa", "\"sent\":null", expect)]).expect("rows");
    assert_eq!(none.verdict(), Verdict::NoControl, "a control that measured nothing proves nothing");
}

#[test]
fn a_copied_source_is_not_a_second_one() {
    let expect = "{\"sent\":10,\"received\":70}";
    let counters = "\"sent\":10,\"received\":70,\"received_irq\":70,\"kernel_received\":null";
    let results = results(&[run("c", 0, 10, "aa", counters, expect)]).expect("rows");
    let judged: Vec<(&str, Option<bool>)> =
        results.controls.iter().map(|control| (control.source.as_str(), control.ok)).collect();
    assert_eq!(judged, [("sent", Some(true)), ("received", None), ("received_irq", Some(true))]);
    assert!(!results.rows[0].has_two_sources());
}

#[test]
fn two_sources_that_disagree_are_counted() {
    let counters =
        |irq: u64| format!("\"sent\":10,\"received\":1000,\"received_irq\":{irq},\"kernel_received\":0");
    for (irq, disagreeing) in [(1000, 0), (1010, 0), (1011, 1), (989, 1)] {
        let results = results(&[run("w", 0, 10, "aa", &counters(irq), "null")]).expect("rows");
        assert_eq!(results.disagreements().len(), disagreeing, "{irq}");
    }
}

#[test]
fn a_violation_forbids_the_report() {
    let results =
        results(&[run("w", 0, 10, "aa", "\"checked\":500,\"violations\":1", "null")]).expect("rows");
    assert_eq!((results.rows[0].checked, results.rows[0].violations), (Some(500), Some(1)));
    assert!(results.reportable().is_err());
}

#[test]
fn cost_rows_of_several_boots_are_repeats_of_one_row() {
    let key = RowKey { cost: true, vcpus: 1, ..sample::key("vanilla", None) };
    let logs = [0, 1].map(|_| (key.clone(), parse_log(sample::cost_log(0).as_bytes())));
    let results = aggregate(Default::default(), &logs).expect("rows");
    assert_eq!(results.rows.len(), 2);
    assert!(results.rows.iter().all(|row| row.cost && row.repeats == 6));
}

/// Per repeat first, then over the repeats; by hand from the constants of docs/reference/modelled-cycles.md.
#[test]
fn cycles_are_modelled_per_repeat_from_everything_or_not_at_all() {
    let counted =
        "\"walks\":30,\"speculative_walks\":10,\"assists_accessed\":4,\"assists_dirty\":2,\"cr3_flush\":2,\
                   \"cr3_noflush\":4,\"invlpg\":10,\"invpcid\":2,\"ipis\":1";
    let zero =
        "\"walks\":0,\"speculative_walks\":0,\"assists_accessed\":0,\"assists_dirty\":0,\"cr3_flush\":0,\
                \"cr3_noflush\":0,\"invlpg\":0,\"invpcid\":0,\"ipis\":0";
    let repeats = |first: &str| {
        let counters = [(10_000, first), (10_000, zero), (20_000, zero)];
        let one = |(repeat, (instructions, rest)): (usize, &(u32, &str))| {
            run("w", repeat as u32, 10, "aa", &format!("\"instructions\":{instructions},{rest}"), "null")
        };
        results(&counters.iter().enumerate().map(one).collect::<Vec<_>>()).expect("rows")
    };
    let whole = repeats(counted);
    let spread = whole.rows[0].cycles_modelled_per_unit.expect("modelled");
    assert_eq!((spread.min, spread.median, spread.max), (1_000.0, 1_908.1, 2_000.0));
    assert_eq!(whole.environment.cycle_costs.get("INVLPG"), Some(&230.0));
    // One counter that one repeat lacks, or a machine that counts nothing: no model, and no constants of one.
    for lacking in [counted.replace("\"invlpg\":10", "\"invlpg\":null"), "\"walks\":null".to_string()] {
        let results = repeats(&lacking);
        assert_eq!(results.rows[0].cycles_modelled_per_unit, None, "{lacking}");
        assert!(
            results.rows[0].instructions_per_unit.is_some() && results.environment.cycle_costs.is_empty()
        );
    }
    let shared = results(&[run("w", 0, 10, "aa", &format!("\"sent\":1,{counted}"), "null")]).expect("rows");
    assert_eq!(shared.rows[0].cycles_modelled_per_unit, None, "no instructions, no model");
}

/// Per unit, at all three ends, and of every repeat; one vCPU's rows have none.
#[test]
fn rows_of_several_vcpus_are_net_of_interrupts() {
    let rest = "\"walks\":10,\"speculative_walks\":0,\"assists_accessed\":0,\"assists_dirty\":0,\"cr3_flush\":0,\
                \"cr3_noflush\":0,\"invlpg\":0,\"invpcid\":0,\"ipis\":10,\"ipi_targets\":70,\"received_irq\":70,\
                \"spin_instructions\":5,\"handler_instructions\":2000,\"timer_instructions\":300";
    let repeats = |rest: &str| {
        let one = |(repeat, kernel): (u32, u32)| {
            run("w", repeat, 10, "aa", &format!("\"kernel_instructions\":{kernel},{rest}"), "null")
        };
        results(&[(0, 10_000), (1, 20_000)].map(one)).expect("rows")
    };
    let counted = repeats(rest);
    let (row, costs) = (&counted.rows[0], &counted.environment.cycle_costs);
    assert_eq!(row.kernel_instructions_per_unit.map(|it| (it.min, it.max)), Some((1_000.0, 2_000.0)));
    assert_eq!(row.handler_instructions_per_unit.map(|it| it.median), Some(200.0));
    // For each unit one walk, one IPI and 7 targets.
    let net = row.cycles_net_per_unit.expect("counted");
    assert_eq!((net.low.min, net.low.max), (1_000.0 + 34.0 + 300.0 + 1_400.0, 2_734.0 + 1_000.0));
    assert_eq!(net.used.min, 1_000.0 + 39.5 + 600.0 + 7.0 * 270.0 + 7.0 * 175.0);
    assert_eq!(net.high.min, 1_000.0 + 45.0 + 900.0 + 7.0 * 340.0 + 7.0 * 350.0);
    assert_eq!(row.cycles_modelled_per_unit, None, "that is of all instructions");
    assert_eq!((costs.get("interrupt taken"), costs.get("instruction")), (Some(&270.0), None));
    let lacking = repeats(&rest.replace("\"ipi_targets\":70", "\"ipi_targets\":null"));
    assert_eq!(lacking.rows[0].cycles_net_per_unit, None);
    assert!(lacking.environment.cycle_costs.is_empty());
}

fn abis_results(counters: &[&str]) -> Results {
    let runs: Vec<String> = counters
        .iter()
        .zip(0..)
        .map(|(counters, repeat)| {
            run("w", repeat, 100, "aa", "\"sent\":1", "null")
                .replace("\"expect\"", &format!("\"abis\":{counters},\"expect\""))
        })
        .collect();
    results(&runs).expect("rows")
}

#[test]
fn what_an_abis_kernel_counts_is_divided_added_up_and_judged() {
    let results = abis_results(&[
        r#"{"zap_idle":100,"zap_none":50,"protect_uncached":20,"spte_bytes":4096,"rounds_forced":5,"checked":10,"violations":0}"#,
        r#"{"zap_idle":300,"zap_none":70,"protect_uncached":20,"spte_bytes":8192,"rounds_forced":5,"checked":30,"violations":0}"#,
        r#"{"zap_idle":200,"zap_none":60,"protect_uncached":20,"spte_bytes":4096,"rounds_forced":5,"checked":20,"violations":0}"#,
    ]);
    let row = &results.rows[0];
    let elided = row.elided.expect("elided");
    assert_eq!((elided.pages.min, elided.pages.median, elided.pages.max), (1.2, 2.2, 3.2));
    assert_eq!((elided.none.median, elided.one.median, elided.set.max), (0.6, 0.0, 0.0));
    assert_eq!((row.checked, row.violations), (Some(60), Some(0)));
    let abis = &row.mechanisms["abis"];
    assert_eq!(abis["spte_bytes"].median, 4096.0, "a level is not divided by the units");
    assert_eq!(abis["rounds_forced"].median, 0.05);
    assert!(results.reportable().is_ok());
    let again = Results::from_json(results.to_json().expect("JSON").as_bytes(), "r").expect("read back");
    assert_eq!(again, results);

    let plain = abis_results(&["null"]);
    let row = &plain.rows[0];
    assert_eq!((row.elided, row.mechanisms.len(), row.checked, row.violations), (None, 0, None, None));
    let off = abis_results(&["{}"]);
    assert_eq!(off.rows[0].elided.expect("elided").pages.max, 0.0, "nothing elided is not unmeasured");
    assert_eq!(off.rows[0].checked, None);
}

/// A mechanism that this version never heard of counts what its description says, wherever it is read.
#[test]
fn a_strangers_counters_are_what_its_description_says() {
    let text = "title = \"TOY\"\nabout = \"a\"\ncounters = \"/toy\"\n\
        [[counter]]\nname = \"pages\"\nadds_to = \"elided_pages\"\nprice = 7.0\ntable = true\ntitle = \"toy pages\"\nmeaning = \"m\"\n\
        [[counter]]\nname = \"bytes\"\nkind = \"level\"\ntitle = \"b\"\nmeaning = \"m\"\n";
    let toy = ceasefire_mechanism::Mechanism::parse("toy", text).expect("parses");
    let line = run("w", 0, 10, "aa", "\"sent\":1", "null")
        .replace("\"expect\"", "\"mechanisms\":{\"toy\":{\"pages\":20,\"bytes\":64,\"other\":5}},\"expect\"");
    let text = line + "{\"kind\":\"verdict\",\"ok\":true,\"runs\":1,\"skips\":0,\"fails\":0}\n";
    let log = ceasefire_results::parse_log(text.as_bytes());
    let environment = Environment { mechanisms: vec![toy], ..Environment::default() };
    let results = aggregate(environment, &[(sample::key("toy", Some("on")), log.clone())]).expect("rows");
    let counted = |name: &str| results.rows[0].counted("toy", name).map(|spread| spread.median);
    assert_eq!((counted("pages"), counted("bytes"), counted("other")), (Some(2.0), Some(64.0), Some(0.5)));
    assert_eq!(results.rows[0].elided.expect("elided").pages.median, 2.0);
    let shown: Vec<String> = results.shown(|counter| counter.table).iter().map(|shown| shown.key()).collect();
    assert_eq!(shown, ["toy.pages"]);
    let again = Results::from_json(results.to_json().expect("JSON").as_bytes(), "r").expect("read back");
    assert_eq!(again, results);
    // Without the description it is kept, and means nothing.
    let plain = aggregate(Environment::default(), &[(sample::key("toy", Some("on")), log)]).expect("rows");
    assert_eq!(plain.rows[0].counted("toy", "bytes").map(|spread| spread.median), Some(6.4));
    assert_eq!(plain.rows[0].elided, None);
}

#[test]
fn a_wrong_elision_or_a_wrong_question_fails_the_run() {
    let wrong = abis_results(&[r#"{"checked":10,"violations":0}"#, r#"{"checked":10,"violations":1}"#]);
    let error = wrong.reportable().expect_err("a violation");
    assert!(error.message.contains("w at 8 threads on vanilla skipped 1 flushes"), "{error}");
    // The samples of all repeats count together.
    let sampled = |held: u64| {
        let text = format!(r#"{{"zap_sampled":500,"zap_sampled_held":{held}}}"#);
        abis_results(&[&text, r#"{"zap_sampled":500,"zap_sampled_held":0}"#])
    };
    assert!(sampled(1).reportable().is_ok());
    let silent = sampled(0);
    assert_eq!(silent.rows[0].asked_wrongly, ["zap"]);
    let error = silent.reportable().expect_err("asked wrongly");
    assert!(error.message.contains("asked wrongly at zap") && error.kind.exit_code() == 1, "{error}");
    // Another row of that kernel has met holders there: of another one it would prove nothing.
    for (kernel, is_proven) in [("vanilla", true), ("other", false)] {
        let mut both = silent.clone();
        let mut second = sampled(1).rows[0].clone();
        second.kernel = kernel.into();
        both.rows.push(second);
        assert_eq!(both.reportable().is_ok(), is_proven, "{kernel}");
    }
}

/// Nothing that changes what is counted may hide in a row that looks like another one.
#[test]
fn rows_under_other_conditions_are_other_rows_and_say_so() {
    let boot = |words: &str| {
        format!("{{\"kind\":\"boot\",\"protocol\":1,\"thp\":\"{words}\",\"pti\":false,\"pcid\":true}}\n")
    };
    let log = |thp: &str| {
        let end = "{\"kind\":\"verdict\",\"ok\":true,\"runs\":1,\"skips\":0,\"fails\":0}\n";
        parse_log((boot(thp) + &run("w", 0, 10, "aa", "\"sent\":5", "null") + end).as_bytes())
    };
    let plain = sample::key("abis", Some("full"));
    let text = |words: &str| Some(words.to_string());
    let keys = [
        (plain.clone(), "never"),
        (plain.clone(), "always"),
        (RowKey { kernel_args: text("x=0"), ..plain.clone() }, "never"),
        (RowKey { accel: text("kvm"), ..plain.clone() }, "never"),
        (RowKey { thread_mode: text("multi"), ..plain.clone() }, "never"),
        (RowKey { slice_us: Some(50), ..plain.clone() }, "never"),
        (RowKey { tlb: text("entries=64"), ..plain.clone() }, "never"),
        (RowKey { program: text("prog 5"), ..plain.clone() }, "never"),
        // The same once more is a second boot of the first row.
        (plain, "never"),
    ];
    let logs: Vec<_> = keys.iter().map(|(key, thp)| (key.clone(), log(thp))).collect();
    let rows = aggregate(Default::default(), &logs).expect("rows").rows;
    assert_eq!(rows.iter().map(|row| (row.repeats, row.boots)).collect::<Vec<_>>(), {
        let mut counts = vec![(1, 1); 8];
        counts[0] = (2, 2);
        counts
    });
    assert_eq!(
        (rows[1].thp.as_deref(), rows[0].pti, rows[0].pcid),
        (Some("always"), Some(false), Some(true))
    );
    assert_eq!(rows[2].kernel_args.as_deref(), Some("x=0"));
    assert_eq!(rows[7].program.as_deref(), Some("prog 5"));
    let all: Vec<_> = rows.iter().collect();
    let told: Vec<&str> = Condition::telling(&all).iter().map(|condition| condition.name).collect();
    assert_eq!(
        told,
        ["huge pages", "kernel arguments", "program"],
        "a key that tells nothing is not another one"
    );
    assert!(Condition::telling(&all[..1]).is_empty(), "one row has nothing to be told from");
    assert!(!rows[0].is_alike(&rows[2]) && !rows[0].is_alike(&rows[1]) && rows[0].is_alike(&rows[3]));
}
