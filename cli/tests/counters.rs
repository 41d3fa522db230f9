// SPDX-License-Identifier: GPL-2.0-only
//! Do two independent sources agree on every shootdown?

mod common;
use common::{close, lab_run, median, row, Scratch};

/// The tracepoint counts targets where they are chosen, the interrupt row where they arrive.
fn exactly_n_at(vcpus: u64) {
    let out = Scratch::new("counters");
    let cpus = vcpus.to_string();
    let results = lab_run(&out, &["zero", "exactly-n", "madvise-scaling", "--cpus", &cpus, "--repeats", "3"]);
    let targets = (vcpus - 1) as f64;

    let exact = row(&results, "exactly-n", vcpus);
    assert_eq!(exact["repeats"], 3);
    assert!(exact["units"].as_f64().is_some_and(|units| units >= 500.0), "too few to judge 1 %: {exact}");
    assert!(close(median(exact, "sent_per_unit"), 1.0, 0.01), "{exact}");
    for source in ["received_per_unit", "received_irq_per_unit"] {
        for end in ["min", "median", "max"] {
            let measured = exact[source][end].as_f64().expect("a number");
            assert!(close(measured, targets, 0.01), "{source} {end} is {measured}, not {targets}");
        }
    }

    let zero = row(&results, "zero", vcpus);
    for field in ["sent_per_unit", "received_per_unit", "received_irq_per_unit"] {
        assert_eq!(zero[field]["max"].as_f64(), Some(0.0), "{field}: {zero}");
    }

    let madvise = row(&results, "madvise-scaling", vcpus);
    assert!(close(median(madvise, "received_per_unit"), targets, 0.01), "{madvise}");

    for control in results["controls"].as_array().expect("controls") {
        assert_eq!(control["ok"], true, "{control}");
    }
}

/// Switches between two processes on one CPU: with PCIDs both keep their translations.
#[test]
#[ignore = "more boots: make test-longer"]
fn a_switch_of_processes_walks_less_with_pcid() {
    let walks = |kernel_args: &str| {
        let out = Scratch::new("counters-pcid");
        let results = lab_run(
            &out,
            &["context-switch", "--set", "processes=2", "--cpus", "1", "--kernel-args", kernel_args],
        );
        let row = row(&results, "context-switch", 1);
        (
            results["environment"]["pcid"].as_bool(),
            ["walks_per_unit", "cr3_flush_per_unit", "cr3_noflush_per_unit"].map(|field| median(row, field)),
        )
    };
    let (has_pcid, [with, flushing, keeping]) = walks("");
    let (has_none, [without, always_flushing, never_keeping]) = walks("nopcid");
    println!("walks per switch of two processes: {with:.2}, without PCID {without:.2}");
    assert_eq!((has_pcid, has_none), (Some(true), Some(false)));
    assert!(with < without / 2.0, "{with} walks per switch with PCID, {without} without");
    // The kernel's choice is what the machine executes: one load for each switch.
    assert!(close(keeping, 1.0, 0.1) && flushing < 0.1, "{keeping} loads keep, {flushing} flush");
    assert!(close(always_flushing, 1.0, 0.1) && never_keeping < 0.01, "{always_flushing}, {never_keeping}");
}

/// The machine sees interrupts leave, the kernel queues targets: on a quiet guest these are the same.
#[test]
fn the_machine_counts_the_same_interrupts() {
    let out = Scratch::new("counters-machine");
    let results = lab_run(&out, &["zero", "exactly-n", "--cpus", "4"]);
    let exact = row(&results, "exactly-n", 4);
    let targets = median(exact, "ipi_targets_per_unit");
    assert!(close(targets, median(exact, "received_per_unit"), 0.05), "{targets} targets: {exact}");
    // One page a call: the sender and each target invalidate it.
    let pages = median(exact, "local_single_per_unit");
    let executed = median(exact, "invlpg_per_unit") + median(exact, "invpcid_per_unit");
    assert!(executed >= pages * 0.99 && executed <= pages * 1.2, "{executed} for {pages} pages: {exact}");
}

/// Linux asks every CPU, whichever nodes have used a region and wherever its page table lies. Walks need none.
#[test]
#[ignore = "more boots: make test-longer"]
fn nodes_make_no_difference_to_linux() {
    let out = Scratch::new("counters-nodes");
    let run = |words: &str| {
        let words = format!("{words} --cpus 4 --nodes 2 --repeats 1");
        lab_run(&out, &words.split(' ').collect::<Vec<_>>())
    };
    for (settings, expected) in [
        ("--set op=munmap,mprotect --set readers=1 --set layout=packed", 2),
        ("--set move=1 --set mapper=other --set pages=4", 1),
    ] {
        let results = run(&format!("numa-regions {settings}"));
        let rows = results["rows"].as_array().expect("rows");
        let rows: Vec<_> = rows.iter().filter(|row| row["workload"] == "numa-regions").collect();
        assert_eq!(rows.len(), expected, "{settings}: {results}");
        for row in rows {
            assert!(close(median(row, "sent_per_unit"), 1.0, 0.02), "{settings}: {row}");
            assert!(close(median(row, "received_per_unit"), 3.0, 0.02), "{settings}: {row}");
        }
    }
    let results = run("gups hash-join --units 100000 --set mib=32 --tlb hardware");
    for name in ["gups", "hash-join"] {
        let row = row(&results, name, 4);
        assert!(median(row, "sent_per_unit") < 0.001, "{row}");
        let walks = median(row, "walks_per_unit");
        assert!((0.5..1.5).contains(&walks), "{walks} walks for each: {row}");
    }
}

/// All page tables are on the node of the thread that wrote the memory first; the machine says who reads them from afar.
#[test]
fn walks_read_another_node_where_the_page_tables_are_there() {
    let out = Scratch::new("counters-reads");
    let run = |words: &str| {
        let words = format!("gups --units 100000 --set mib=32 --tlb hardware --repeats 1 --cpus 4 {words}");
        lab_run(&out, &words.split(' ').collect::<Vec<_>>())
    };
    let results = run("--nodes 2 --threads 1,3 --set cpus=apart");
    let remote_share = |threads: u64| {
        let row = row(&results, "gups", threads);
        let count = |counter: &str| median(row, &format!("{counter}_per_unit"));
        let (walks, local, remote) = (count("walks"), count("reads_local"), count("reads_remote"));
        let (local_leaf, remote_leaf) = (count("reads_local_leaf"), count("reads_remote_leaf"));
        let (local_user, remote_user) = (count("reads_local_user"), count("reads_remote_user"));
        // A walk reads one entry at least, and one PTE at most.
        assert!(local + remote >= walks * 0.99 && local_leaf + remote_leaf <= walks * 1.01, "{row}");
        assert!(local >= local_leaf && remote >= remote_leaf && local_leaf + remote_leaf > 0.5, "{row}");
        // The program reads its memory at random; the kernel hardly runs.
        assert!(
            local_leaf >= local_user && remote_leaf >= remote_user && local_user + remote_user > 0.5,
            "{row}"
        );
        remote_user / (local_user + remote_user)
    };
    let (at_home, apart) = (remote_share(1), remote_share(3));
    println!(
        "remote PTEs: {:.1} %, with two of three threads on another node {:.1} %",
        at_home * 100.0,
        apart * 100.0
    );
    assert!(at_home < 0.1, "{at_home}");
    // Two thirds of the work is done there.
    assert!((0.5..0.8).contains(&apart), "{apart}");

    // With one node there is nothing to tell apart, and nobody counts.
    let results = run("--threads 1");
    let row = row(&results, "gups", 1);
    assert!(median(row, "walks_per_unit") > 0.5, "{row}");
    for end in ["local", "remote", "local_leaf", "remote_leaf", "local_user", "remote_user"] {
        assert!(row[format!("reads_{end}_per_unit")].is_null(), "{row}");
    }
}

/// What nobody counts is null, not zero.
#[test]
fn a_machine_without_a_model_counts_no_walks() {
    let out = Scratch::new("counters-stock");
    let results = lab_run(&out, &["zero", "--cpus", "2", "--repeats", "1", "--tlb", "stock"]);
    assert_eq!(results["environment"]["pcid"], false);
    let row = row(&results, "zero", 2);
    // The kernel without a check asks nobody on any machine.
    for field in ["walks_per_unit", "cr3_flush_per_unit", "ipi_targets_per_unit", "needed_per_unit"] {
        assert!(row[field].is_null(), "{field}: {row}");
    }
    assert!(row["received_per_unit"].is_object(), "{row}");
}

#[test]
fn two_vcpus() {
    exactly_n_at(2);
}

#[test]
fn four_vcpus() {
    exactly_n_at(4);
}

#[test]
fn eight_vcpus() {
    exactly_n_at(8);
}

#[test]
#[ignore = "more boots: make test-longer"]
fn sixteen_vcpus() {
    exactly_n_at(16);
}

/// Kernel-range shootdowns go to every CPU and never show in the interrupt row.
#[test]
fn kernel_ranges_are_counted_apart() {
    let out = Scratch::new("counters-kernel");
    let results = lab_run(&out, &["kernel-range", "--cpus", "4", "--repeats", "3"]);
    let kernel = row(&results, "kernel-range", 4);
    assert!(close(median(kernel, "kernel_range_per_unit"), 3.0, 0.01), "{kernel}");
    assert_eq!(median(kernel, "received_irq_per_unit"), 0.0, "{kernel}");
}

/// Asked by the program itself when the call has returned, on unchanged Linux.
#[test]
fn nobody_holds_what_is_flushed() {
    let out = Scratch::new("counters-unheld");
    let results = lab_run(&out, &["unheld", "--cpus", "4", "--repeats", "1", "--tlb", "hardware"]);
    let row = row(&results, "unheld", 4);
    let [asked, before] = ["asked_pages", "held_before"].map(|name| row["extra"][name].as_f64());
    assert!(asked >= Some(60_000.0) && before >= Some(15.0), "{row}");
}
