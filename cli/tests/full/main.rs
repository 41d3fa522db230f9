// SPDX-License-Identifier: GPL-2.0-only
//! Mode full: is every flush of one CPU alone, or of nobody, one that nobody else needed, and does it save what it should?
//!
//! CEASEFIRE_FULL_KERNEL=NAME: another kernel with CONFIG_ABIS_DEBUG in place of `abis-debug`.
//! CEASEFIRE_FULL_IMAGE=FILE: a bzImage of such a kernel.

mod breaks;
#[path = "../common/mod.rs"]
mod common;
mod hidden;
use common::checked::{self, consoles, counted, lab};
use common::{ceasefire, median, row, run, Scratch};
use serde_json::Value;

const FOUR: [&str; 6] = ["--cpus", "4", "--nodes", "2", "--tlb", "hardware"];
const EIGHT: [&str; 6] = ["--cpus", "8", "--nodes", "2", "--tlb", "hardware"];

/// Whether it pays or not: else most of what is looked at here would not happen.
const IN_ANY_CASE: &str = "abis_adaptive=0";

fn kernel(mode: &str, more: &str) -> Vec<String> {
    checked::chosen("FULL", "abis-debug", mode, &format!("{IN_ANY_CASE} {more}"))
}

fn adaptive_kernel(mode: &str) -> Vec<String> {
    checked::chosen("FULL", "abis-debug", mode, "")
}

/// Without the oracle: what everyone flushes and nobody holds says nothing of the oracle, and is no fault.
fn plain_median(args: &[&str], mode: &str, threads: u64, figure: &str) -> f64 {
    let results = checked::without_error(args, &checked::chosen("PLAIN", "abis", mode, ""));
    median(row(&results, args[0], threads), figure)
}

fn clean(args: &[&str], shape: &[&str]) -> Value {
    checked::clean(&[args, shape].concat(), &kernel("full", ""))
}

fn extra(row: &Value, name: &str) -> f64 {
    row["extra"][name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"))
}

/// Sites at which one CPU alone may hold a page, and how many of those the oracle must have been asked about.
const PRIVATE: [(&str, u64); 6] =
    [("zap", 500), ("clear_flush", 200), ("protect", 200), ("remap", 200), ("migrate", 100), ("reclaim", 50)];

/// Pages that one CPU alone has used are taken away by every site, wherever that CPU is.
#[test]
fn pages_of_one_cpu_are_flushed_there() {
    let results = clean(&["owner", "--units", "300"], &FOUR);
    let row = row(&results, "owner", 4);
    assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    for (site, least) in PRIVATE {
        let checked = counted(row, &format!("{site}_checked_private"));
        println!("{site:11} private {checked:6} checked");
        assert!(checked >= least, "{site}: {checked} checked, {least} wanted");
    }
    for (name, least) in [
        ("insert_checked", 5000),
        ("secondary_checked", 5000),
        ("narrow_checked", 1000),
        ("narrow_ranged", 100),
        ("narrow_deferred", 100),
        ("narrow_paid", 10),
        ("flushed_checked", 500),
        ("replays_lazy", 20),
        ("replayed", 500),
    ] {
        let count = counted(row, name);
        println!("{name:19} {count:6}");
        assert!(count >= least, "{name}: {count}, {least} wanted");
    }
    // What is inserted, its CPU holds: else nothing above was asked about anything.
    let held = counted(row, "insert_checked_held") as f64 / counted(row, "insert_checked") as f64;
    assert!(held >= 0.95, "only {held:.3} of the pages inserted were held");
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn gathers_that_overlap_read_nothing_stale() {
    // Of 2,400 sweeps some 40 are proven.
    let results = clean(&["overlap", "--units", "1000"], &FOUR);
    for (workload, results) in
        [("overlap", &results), ("refault", &clean(&["refault", "--units", "300"], &FOUR))]
    {
        let row = row(results, workload, 4);
        let checked = row["checked"].as_u64().expect("a debug kernel");
        println!("{workload}: {checked} elisions checked");
        assert!(checked >= 1000, "{row}");
    }
    let row = row(&results, "overlap", 4);
    let (proven, flushed) = (counted(row, "nested_proven"), counted(row, "nested_flushed"));
    println!("overlap: of the gathers that met {proven} flushed their own, {flushed} everything");
    assert!(proven >= 3, "{row}");
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn sites_that_idle_serves_go_on() {
    // A kernel that checks itself walks much more, and after one of eight walks the machine walks unasked: few pages stay
    // unused until they are let off. That kernel is to find nothing; the others reach the counts.
    let checks_itself =
        std::env::var("CEASEFIRE_FULL_KERNEL").is_ok_and(|kernel| kernel.starts_with("checked-"));
    let wanted = if checks_itself { 50 } else { 500 };
    let results = clean(&["elisions", "--units", "1024"], &EIGHT);
    let row = row(&results, "elisions", 8);
    for name in [
        "clear_flush_checked_idle",
        "clear_flush_checked_private",
        "clear_flush_checked_uncached",
        "migrate_checked_idle",
        "protect_checked_idle",
        "reclaim_checked_idle",
        "remap_checked_idle",
        "zap_checked_idle",
        "zap_checked_private",
        "zap_checked_uncached",
    ] {
        let checked = counted(row, name);
        println!("{name:29} {checked:6}");
        assert!(checked >= wanted, "{name}: {checked}, {wanted} wanted");
    }
    // Pages that every CPU holds, and every scenario of mode idle's breaks on the intact kernel.
    clean(&["held", "--units", "96"], &EIGHT);
}

/// Of what a gather has freed, or mremap() has moved, no CPU has anything left to start a walk from.
#[test]
fn nothing_leads_into_page_tables_that_are_gone() {
    let results = clean(&["tables", "--units", "400"], &EIGHT);
    let row = row(&results, "tables", 8);
    assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    let (tables, checked) = (counted(row, "tables_checked"), row["checked"].as_u64().unwrap_or(0));
    println!("{tables} page tables looked after, {checked} elisions checked");
    assert!(tables >= 1000 && checked >= 100, "{row}");
}

/// A device may walk the page tables: every flush is made.
#[test]
#[ignore = "more boots: make test-full-all"]
fn an_address_space_with_notifiers_is_flushed_as_ever() {
    let results = clean(&["tables", "--units", "200", "--set", "device=1"], &FOUR);
    let row = row(&results, "tables", 4);
    assert_eq!((row["checked"].as_u64(), counted(row, "insert_checked")), (Some(0), 0), "{row}");
    assert!(counted(row, "tables_checked") >= 500, "{row}");
}

#[test]
fn nobody_reads_stale() {
    let results = clean(&["stale", "--units", "5000"], &EIGHT);
    let row = row(&results, "stale", 8);
    assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    assert!(row["checked"].as_u64().is_some_and(|checked| checked >= 500), "{row}");
}

/// True races, and few instructions between them.
#[test]
#[ignore = "more boots: make test-full-all"]
fn nobody_reads_stale_on_two_host_threads() {
    let shape = ["--cpus", "2", "--nodes", "2", "--tlb", "hardware", "--thread-mode", "multi"];
    let results = clean(&["stress-mix", "owner", "--units", "300"], &shape);
    for workload in ["stress-mix", "owner"] {
        let row = row(&results, workload, 2);
        assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
        assert!(row["checked"].as_u64().is_some_and(|checked| checked >= 30), "{row}");
    }
    let results = clean(&["batch", "--units", "100"], &shape);
    let row = row(&results, "batch", 2);
    println!("batch: {} of 100 met half-way", extra(row, "met_half_way_batches"));
    assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    assert!(extra(row, "met_half_way_batches") >= 5.0, "{row}");
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn nobody_reads_stale_with_five_levels() {
    let shape = [&FOUR[..], &["--la57", "on"]].concat();
    let results = clean(&["owner", "--units", "100"], &shape);
    let row = row(&results, "owner", 4);
    assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    assert!(counted(row, "insert_checked") >= 1000, "{row}");
}

/// A CPU that leaves takes its debts and its TLB along; when it returns it is asked whether it can do what insertion needs.
#[test]
#[ignore = "more boots: make test-full-all"]
fn cpus_come_and_go() {
    let results = clean(&["stress-mix", "owner", "--units", "400", "--set", "hotplug=1"], &FOUR);
    for workload in ["stress-mix", "owner"] {
        let row = row(&results, workload, 4);
        let departures = extra(row, "hotplug_departures");
        println!("{workload}: CPUs left {departures} times");
        assert!(departures >= 3.0, "{row}");
        assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    }
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn pages_are_merged_and_come_in_large_folios() {
    let results = clean(&["stress-mix", "--units", "400", "--set", "ksm=1"], &FOUR);
    let row = row(&results, "stress-mix", 4);
    assert!(extra(row, "unmerged_pages") >= 100.0, "{row}");
    clean(&["stress-mix", "--units", "400", "--set", "thp=1"], &FOUR);
}

/// One boot, repeat after repeat: each leaves its address space, and with it the software page tables.
#[test]
#[ignore = "more boots: make test-full-all"]
fn no_software_page_table_is_left() {
    let results = clean(&["stress-mix", "--units", "100", "--repeats", "5"], &FOUR);
    let tables = &row(&results, "stress-mix", 4)["mechanisms"]["abis"]["spte_tables"];
    let level = |end: &str| tables[end].as_f64().expect("counted");
    println!("software page tables at the end of a repeat: {} to {}", level("min"), level("max"));
    assert!(level("min") > 0.0, "{tables}");
    // A repeat forks some dozen times, and every child has tables of its own.
    assert!(level("max") - level("min") <= 6.0, "{tables}");
}

#[test]
fn what_one_thread_uses_interrupts_nobody_else() {
    let private = ["munmap", "madvise-scaling", "cow-mt-seq", "cow-mt-rand", "msync-mt"];
    // Walks on a guess mark pages that nobody has used: docs/measured/full.md has the figures with them.
    let shape = ["--cpus", "8", "--tlb", "hardware,speculation-us=0"];
    let all = [&private[..], &["munmap-shared"]].concat();
    let results = checked::clean(&[&all[..], &shape].concat(), &adaptive_kernel("full"));
    for workload in private {
        let received = median(row(&results, workload, 8), "received_per_unit");
        println!("{workload:15} {received:.3} of 7 received");
        assert!(received <= 0.35, "{workload}: {received} of 7 received");
    }
    assert!(counted(row(&results, "msync-mt", 8), "reused") >= 1000, "nothing became writable in place");
    let received = median(row(&results, "munmap-shared", 8), "received_per_unit");
    let off = checked::clean(&[&["munmap-shared"][..], &shape].concat(), &kernel("off", ""));
    let without = median(row(&off, "munmap-shared", 8), "received_per_unit");
    println!("munmap-shared   {received:.3} received, {without:.3} without");
    assert!(
        without >= 6.9 && (received - without).abs() <= 0.02 * without,
        "{received} and {without} received"
    );
}

/// Everyone flushes pages of everyone at once, which is how a chain of losses would begin: a CPU that meets several
/// flushes must execute each of them, not a full flush that takes the inserted entries along.
#[test]
#[ignore = "more boots: make test-full-all"]
fn what_is_inserted_survives_the_flushes_of_others() {
    for cpus in [8, 16] {
        let text = cpus.to_string();
        let args = ["cow-mt-seq", "--cpus", &text, "--tlb", "adversary"];
        let results = checked::clean(&args, &adaptive_kernel("full"));
        let row = row(&results, "cow-mt-seq", cpus);
        let received = median(row, "received_per_unit");
        let [replays, lost] = ["replays_ipi", "lost_lag_ipi"].map(|name| counted(row, name));
        println!("cow-mt-seq, {cpus} vCPUs: {received:.2} received; {replays} lists of flushes executed, {lost} full");
        assert!(received >= 0.9 * (cpus - 1) as f64, "nobody meets several flushes: {row}");
        assert!(replays >= 1000 && lost * 40 <= replays, "{row}");
    }
}

/// The pages of a folio are taken away together, and of none does the software accessed bit count as hardware's.
#[test]
#[ignore = "more boots: make test-full-all"]
fn large_folios_of_one_thread_interrupt_nobody_else() {
    // Of a folio one page that is walked for on a guess is enough to flush all.
    let tlb = "hardware,speculation-us=0";
    let shape = ["--set", "pages=32", "--set", "folio_kib=64", "--cpus", "8", "--tlb", tlb];
    let results = checked::clean(&[&["munmap"][..], &shape].concat(), &adaptive_kernel("full"));
    let row = row(&results, "munmap", 8);
    let (received, faults) = (median(row, "received_per_unit"), median(row, "faults_per_unit"));
    let private = counted(row, "zap_private");
    println!(
        "munmap of two folios: {received:.3} of 7 received, {faults:.1} faults, {private} pages private"
    );
    assert!((1.9..=2.5).contains(&faults), "no folios of 64 KiB: {row}");
    assert!(received <= 0.35 && private >= 30_000, "{received} of 7 received, {private} private: {row}");
}

/// With one other CPU a flush of that CPU alone is a flush of everyone, and one for all page tables is enough.
#[test]
#[ignore = "more boots: make test-full-all"]
fn where_nobody_is_spared_one_flush_is_enough() {
    let args = ["apache", "--units", "40", "--cpus", "2", "--tlb", "hardware", "--repeats", "3"];
    let [off, full] = ["off", "full"].map(|mode| {
        let results = checked::clean(&args, &adaptive_kernel(mode));
        median(row(&results, "apache", 2), "received_per_unit")
    });
    println!("apache, 2 CPUs  {full:.2} received, {off:.2} without");
    assert!(off >= 0.5 && full <= off, "{full} and {off} received");
}

/// Nobody else could be interrupted: what is inserted brings nothing.
#[test]
#[ignore = "more boots: make test-full-all"]
fn insertion_stops_where_it_does_not_pay() {
    let args = ["anon-r-seq", "--units", "4000", "--cpus", "1", "--tlb", "hardware"];
    for (kernel, inserts) in [(adaptive_kernel("full"), false), (kernel("full", ""), true)] {
        let results = checked::clean(&args, &kernel);
        let row = row(&results, "anon-r-seq", 1);
        let (inserted, unpaid) = (counted(row, "inserted"), counted(row, "insert_unpaid"));
        println!("anon-r-seq: {inserted} pages inserted, {unpaid} not");
        let (most, least) = if inserts { (inserted, unpaid) } else { (unpaid, inserted) };
        assert!(most >= 4000 && least <= 100, "{row}");
    }
}

/// Accounts that run dry and open again, while pages are taken away that were inserted before.
#[test]
#[ignore = "more boots: make test-full-all"]
fn adaptation_promises_no_more_than_it_keeps() {
    let args = [&["owner", "overlap", "--units", "1000"][..], &EIGHT].concat();
    let results = checked::clean(&args, &adaptive_kernel("full"));
    for workload in ["owner", "overlap"] {
        let row = row(&results, workload, 8);
        let checked = row["checked"].as_u64().expect("a debug kernel");
        let (inserted, unpaid) = (counted(row, "inserted"), counted(row, "insert_unpaid"));
        let trials = counted(row, "adapt_trials");
        println!(
            "{workload}: {checked} elisions checked; {inserted} inserted, {unpaid} not, {trials} trials"
        );
        assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
        assert!(checked >= 5000 && inserted >= 5000 && unpaid >= 1000 && trials >= 5, "{row}");
    }
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn adaptation_has_a_switch() {
    let file = "/sys/kernel/mm/abis/adaptive";
    let shape = ["--cpus", "2", "--tlb", "hardware"];
    for (kernel, set) in [(adaptive_kernel("full"), "1"), (kernel("full", ""), "0")] {
        assert_eq!(checked::shell(&format!("cat {file}"), &shape, &kernel).trim(), set);
    }
    for (word, code) in [("0", 0), ("1", 0), ("maybe", 1)] {
        let command = format!("write {file} {word}");
        let args = [&["lab", "shell", "--command", &command][..], &shape].concat();
        let kernel = adaptive_kernel("full");
        let all: Vec<&str> = args.iter().copied().chain(kernel.iter().map(String::as_str)).collect();
        let said = run(&mut ceasefire(&all));
        assert_eq!(said.code, code, "{word}: {}{}", said.stdout, said.stderr);
    }
}

/// mprotect() as a barrier for the whole process: none for a fresh page, unless the process refuses; and for the
/// same page again and again none only if the process has said that it relies on none.
#[test]
#[ignore = "more boots: make test-full-all"]
fn a_process_that_refuses_keeps_its_barriers_and_one_that_opts_in_has_none() {
    let shape = ["--cpus", "8", "--tlb", "hardware,speculation-us=0"];
    let args = |set: &[&'static str]| {
        let set = set.iter().flat_map(|one| ["--set", one]);
        ["barrier"].into_iter().chain(shape).chain(set).collect::<Vec<_>>()
    };
    let received = |mode: &str, set: &[&'static str]| {
        let results = checked::clean(&args(set), &adaptive_kernel(mode));
        median(row(&results, "barrier", 8), "received_per_unit")
    };
    let (off, fresh, refused) =
        (received("off", &[]), received("full", &[]), received("full", &["refuse=1"]));
    let [again, registered, both] =
        [&["again=1"][..], &["again=1", "opt-in=3"], &["again=1", "refuse=1", "opt-in=1"]]
            .map(|set| plain_median(&args(set), "full", 8, "received_per_unit"));
    let [used, said] = ["opt-in=1", "opt-in=2"].map(|how| received("full", &["again=1", how]));
    println!(
        "barrier: {off:.2} received, {fresh:.2} in mode full, {refused:.2} if refused; the same page again and again: \
         {again:.2}, {registered:.2} if registered for membarrier(2), {used:.2} if used, {said:.2} by prctl"
    );
    assert!(off >= 13.9, "off: {off}");
    assert!(fresh <= 1.0, "a fresh page in mode full: {fresh}");
    for (name, kept) in [("refused", refused), ("again", again), ("registered", registered), ("both", both)] {
        assert!((kept - off).abs() <= 0.01 * off, "{name}: {kept}, off: {off}");
    }
    for (name, gone) in [("used", used), ("said", said)] {
        assert!(gone <= 0.02 * off, "{name}: {gone}, off: {off}");
    }
}

/// mprotect() of pages that the caller alone uses: up to 32 are inserted, and no number of them is flushed more often.
fn mprotect_of_private_pages(all: &[u32]) {
    for pages in all {
        let set = format!("pages={pages}");
        let args = ["mprotect", "--set", "opt-in=2", "--set", &set, "--units", "40", "--cpus", "4"];
        let [off, full] = ["off", "full"].map(|mode| plain_median(&args, mode, 4, "sent_per_unit"));
        println!("mprotect of {pages} pages: {off:.2} sent, {full:.2} in mode full");
        assert!(off >= 1.9 && full <= off * 1.01, "{pages} pages: {off} sent, {full} in mode full");
        assert!(*pages > 32 || full <= 0.1, "{pages} pages: {full} sent in mode full");
    }
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn mprotect_of_private_pages_flushes_no_more() {
    mprotect_of_private_pages(&[32, 33]);
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn mprotect_of_any_number_of_private_pages_flushes_no_more() {
    mprotect_of_private_pages(&[1, 16, 32, 33, 600]);
}

/// Of several VMAs in one call the first is inserted. Linux flushes once; the others may cost one flush more.
fn mprotect_of_vmas(all: &[&str]) {
    let args = |vmas| {
        ["mprotect", "--set", "opt-in=2", "--set", "pages=16", "--set", vmas, "--units", "40", "--cpus", "4"]
    };
    let sent = |mode, vmas| plain_median(&args(vmas), mode, 4, "sent_per_unit");
    for vmas in all.iter().copied() {
        let (off, full) = (sent("off", vmas), sent("full", vmas));
        println!("mprotect of 16 pages, {vmas}: {off:.2} sent, {full:.2} in mode full");
        // Two calls a unit, one flush each.
        assert!((1.9..=2.1).contains(&off) && full <= off + 2.0, "{vmas}: {off} sent, {full} in mode full");
    }
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn mprotect_of_two_vmas_flushes_at_most_once_more() {
    mprotect_of_vmas(&["vmas=2"]);
}

#[test]
#[ignore = "more boots: make test-full-all"]
fn mprotect_of_several_vmas_flushes_at_most_once_more() {
    mprotect_of_vmas(&["vmas=2", "vmas=4", "vmas=16"]);
}

/// What mprotect() changes is inserted, and takes effect: nobody writes what is read-only, nobody reads what is old.
#[test]
#[ignore = "more boots: make test-full-all"]
fn what_mprotect_inserts_has_its_new_rights() {
    let args = ["stress-mix", "--set", "opt-in=1", "--cpus", "4", "--nodes", "2", "--tlb", "hardware"];
    let results = checked::clean(&args, &kernel("full", ""));
    let kept = counted(row(&results, "stress-mix", 4), "protect_kept");
    println!("stress-mix: {kept} pages held back by mprotect()");
    assert!(kept >= 1000, "only {kept} pages were held back by mprotect()");
}

/// One message, and what was asked for is not there.
/// Whichever mode: the second set of page tables has TLB entries of its own, with access bits of its own.
#[test]
fn under_page_table_isolation_it_is_refused() {
    for mode in ["idle", "full"] {
        let out = Scratch::new("full-isolated");
        let words = format!("mitigations=auto pti=on abis={mode}");
        let said = lab(&out, &["zero", "--cpus", "2", "--tlb", "hardware"], &kernel("off", &words));
        assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
        let console = consoles(&out);
        let why = format!(
            "abis: stays off, not {mode}: page-table isolation keeps a second set of translations (see nopti)"
        );
        assert!(console.lines().any(|line| line.ends_with(&why)), "{console}");
    }
}

/// As CPU 254 and above: whom no entry can name inserts nothing, and what it maps is flushed as ever.
#[test]
#[ignore = "more boots: make test-full-all"]
fn cpus_that_nothing_can_name_insert_nothing() {
    let args = [&["owner", "stress-mix", "--units", "400"][..], &EIGHT].concat();
    let results = checked::clean(&args, &kernel("full", "abis_cpus=4"));
    for workload in ["owner", "stress-mix"] {
        let row = row(&results, workload, 8);
        let (inserted, refused) = (counted(row, "inserted"), counted(row, "insert_refused_cpu"));
        println!("{workload}: {inserted} pages inserted, {refused} not for want of a name");
        assert!(inserted >= 500 && refused >= 500, "{row}");
        assert_eq!(extra(row, "stale_reads"), 0.0, "{row}");
    }
}

#[test]
fn without_pcids_it_is_refused() {
    let out = Scratch::new("full-refused");
    // The last word of this kind counts.
    let said = lab(&out, &["zero", "--cpus", "2", "--tlb", "hardware"], &kernel("off", "abis=full nopcid"));
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
    let console = consoles(&out);
    let messages: Vec<&str> = console.lines().filter(|line| line.contains("abis: ")).collect();
    assert_eq!(messages.len(), 1, "{console}");
    assert!(messages[0].ends_with("abis: stays off, not full: this processor has no PCIDs"), "{console}");
}

/// On a machine that inserts when it is asked to: no secondary page tables, the same promises.
#[test]
#[ignore = "more boots: make test-full-all"]
fn a_machine_may_insert() {
    let shape = ["--cpus", "4", "--nodes", "2", "--tlb", "hardware,insert=on"];
    let kernel = kernel("full-hw", "");
    for args in [&["owner", "--units", "300"][..], &["overlap", "refault", "stress-mix", "--units", "150"]] {
        let results = checked::clean(&[args, &shape].concat(), &kernel);
        for row in results["rows"].as_array().expect("rows") {
            let workload = row["workload"].as_str().expect("named");
            let checked = row["checked"].as_u64().expect("a debug kernel");
            let (inserted, held) = (counted(row, "insert_checked"), counted(row, "insert_checked_held"));
            println!(
                "{workload}: {checked} elisions checked; {inserted} pages inserted, {held} held at once"
            );
            assert!(checked >= 100 && inserted >= 500, "{row}");
            assert!(held as f64 >= 0.95 * inserted as f64, "{row}");
            assert_eq!(counted(row, "insert_switches") + counted(row, "insert_bytes"), 0, "{row}");
            let stale_reads = row["extra"].get("stale_reads").and_then(Value::as_f64);
            assert_eq!(stale_reads.unwrap_or(0.0), 0.0, "{row}");
        }
    }
}

/// What processors there are do not.
#[test]
fn without_such_a_machine_it_is_refused() {
    let out = Scratch::new("full-refused-hw");
    let said = lab(&out, &["zero", "--cpus", "2", "--tlb", "hardware"], &kernel("off", "abis=full-hw"));
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
    let console = consoles(&out);
    let why =
        "abis: stays off, not full-hw: this processor inserts nothing on request, nor does any that is built";
    assert!(console.lines().any(|line| line.ends_with(why)), "{console}");
}

/// Everything at once, for long, with the machine asked at every elision.
#[test]
#[ignore = "long: make test-full-all"]
fn stress_of_all_kinds() {
    let all: [(&str, &[&str], &str); 3] = [
        ("11", &["stress-mix", "owner"], "hotplug=1"),
        ("12", &["stress-mix"], "ksm=1"),
        ("13", &["stress-mix"], "thp=1"),
    ];
    for (seed, workloads, more) in all {
        let args =
            [workloads, &["--units", "5000", "--seed", seed, "--set", more, "--timeout", "1800"]].concat();
        let results = clean(&args, &FOUR);
        for row in results["rows"].as_array().expect("rows") {
            println!("{} {more}: {} elisions checked", row["workload"], row["checked"]);
            assert!(row["checked"].as_u64().is_some_and(|checked| checked >= 1000), "{row}");
        }
    }
}
