// SPDX-License-Identifier: GPL-2.0-only
//! Screens of known figures against those in `golden/`; UPDATE_EXPECT=1 renews them.

use super::*;
use crate::testing::{pair_of_classes, sender, site, task};
use ceasefire_watch_model::{Cause, Kind, Latencies, Sender, Shootdown, Stacks};
use expect_test::expect_file;
use unicode_width::UnicodeWidthStr;

fn flush(start_ns: u64, class: Class, cause: Cause) -> Shootdown {
    Shootdown {
        start_ns,
        class,
        cause,
        cpu: 0,
        task: task("sender", 1),
        kernel_stack: None,
        user_stack: None,
        address: None,
        pages: None,
        entries: None,
        kind: Kind::Whole,
        why_full: None,
        freed_tables: false,
        targets: 1,
        target_cpus: vec![1],
        latencies: Some(Latencies { wait_ns: 4_000, ..Latencies::default() }),
        slowest: None,
    }
}

/// Thread, cause, stack, pages of each shootdown; none of a full one. Fewer than a page stand between two of them.
type Sent = (u32, &'static str, Cause, u32, Vec<Option<u64>>);

fn stacks() -> Stacks {
    let frames = |(id, text): (u32, &str)| (id, text.split(' ').map(str::to_string).collect());
    let kernel = [
        (1, "flush_tlb_mm_range ptep_clear_flush page_vma_mkclean_one folio_mkclean __x64_sys_msync"),
        (2, "flush_tlb_mm_range tlb_finish_mmu vms_clear_ptes __x64_sys_munmap"),
        (3, "flush_tlb_mm_range ptep_clear_flush page_vma_mkclean_one folio_mkclean wb_workfn kthread"),
        (4, "do_flush_tlb_all __purge_vmap_area_lazy drain_vmap_area_work"),
    ];
    Stacks { kernel: kernel.map(frames).into(), user: [].into() }
}

/// As counts, and one by one.
fn seen(all: &[Sent]) -> (Snapshot, Savings) {
    let mut window = Snapshot { has_latencies: true, stacks: stacks(), ..Snapshot::default() };
    let mut savings = Savings::new(1_000_000);
    for (tid, comm, cause, stack, pages) in all {
        let class = if *cause == Cause::Vmalloc { Class::KernelRange } else { Class::User };
        let (mut page, mut start_ns) = (0, 0);
        for pages in pages {
            let kind = if pages.is_some() { Kind::Ranged } else { Kind::Whole };
            let one = Shootdown {
                task: task(comm, *tid),
                kernel_stack: Some(*stack),
                address: pages.map(|_| page << 12),
                pages: *pages,
                kind,
                ..flush(start_ns, class, cause.clone())
            };
            savings.take(&one);
            count_in(&mut window, &one);
            page += pages.unwrap_or(0);
            start_ns += 10_000;
        }
    }
    savings.end();
    (window, savings)
}

fn count_in(window: &mut Snapshot, one: &Shootdown) {
    let why_full = WhyFull::of(one.class, one.kind, &one.cause);
    let new = Site {
        kind: one.kind,
        kernel_stack: one.kernel_stack,
        why_full,
        ..site(one.class, one.cause.clone(), 0)
    };
    if !window.sites.iter().any(|site| site.key() == new.key()) {
        window.sites.push(new.clone());
    }
    let mut from = sender(one.class, one.task.tid, one.cause.clone(), 0);
    (from.task, from.kind, from.kernel_stack) = (one.task.clone(), one.kind, one.kernel_stack);
    if !window.senders.iter().any(|sender| sender.key() == from.key()) {
        window.senders.push(from.clone());
    }
    let is_site = |site: &&mut Site| site.key() == new.key();
    let is_sender = |sender: &&mut Sender| sender.key() == from.key();
    let (Some(site), Some(sender)) =
        (window.sites.iter_mut().find(is_site), window.senders.iter_mut().find(is_sender))
    else {
        return;
    };
    for tally in [&mut site.tally, &mut sender.tally] {
        tally.shootdowns += 1;
        tally.targets += 1;
        tally.pages += one.pages.unwrap_or(0);
    }
    one.pages.into_iter().for_each(|pages| site.pages.add(pages));
    site.wait.add(4_000);
}

/// A program that syncs pages one by one, two that unmap, write-back in the background, and the kernel's own.
fn busy() -> (Snapshot, Savings) {
    let unmapped = |times: usize| [1, 3, 8, 20].map(Some).repeat(times);
    seen(&[
        (101, "database", Cause::Msync, 1, vec![Some(1); 2_000]),
        (202, "compiler", Cause::Munmap, 2, [unmapped(40), vec![None; 12]].concat()),
        (303, "shell", Cause::Munmap, 2, vec![Some(1); 60]),
        (404, "kworker/u8:2", Cause::WriteBack, 3, vec![Some(1); 400]),
        (505, "kworker/1:1", Cause::Vmalloc, 4, vec![None; 3]),
    ])
}

fn expect(name: &str, text: &str) {
    expect_file![format!("{}/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"))].assert_eq(text);
}

#[test]
fn a_busy_machine_at_every_width() {
    let (window, savings) = busy();
    for width in [100, 40] {
        let text = render(&window, Some(&savings), 10, width);
        expect(&format!("savings-{width}"), &text);
        let widest = text.lines().map(UnicodeWidthStr::width).max();
        assert!(widest.is_some_and(|widest| widest <= width), "{widest:?} of {width}");
    }
    let text = render(&window, Some(&savings), 2, 100);
    assert!(text.lines().count() <= 42, "more than a screen:\n{text}");
    assert!(text.contains("  others (2)"), "{text}");
}

#[test]
fn counts_alone_tell_pages_and_factor_but_not_what_is_saved() {
    let (window, _) = busy();
    let text = render(&window, None, 10, 100);
    expect("savings-counts", &text);
    let value: Value = serde_json::from_str(&json(&window, None, 10)).expect("JSON");
    assert!(value["batching"].is_null());
    let of = |name: &str| {
        let rows = value["processes"].as_array().expect("rows");
        rows.iter().find(|row| row["process"] == name).expect("the process").clone()
    };
    // One process alone has the stack; two share the other.
    assert_eq!(of("database 101")["pages_distribution"], json!([0, 2000]));
    assert!(of("compiler 202")["pages_distribution"].is_null());
    assert!(of("database 101")["saved_shootdowns_at_most"].is_null());
}

#[test]
fn write_back_page_by_page_could_be_one_for_a_window() {
    let (window, savings) = busy();
    let value: Value = serde_json::from_str(&json(&window, Some(&savings), 10)).expect("JSON");
    assert_eq!(value["schema"], SCHEMA);
    let first = &value["processes"][0];
    assert_eq!((&first["process"], &first["cause"]), (&json!("database 101"), &json!("msync")));
    assert_eq!((&first["pages"], &first["ranged_shootdowns"]), (&json!(2000), &json!(2000)));
    // Eight windows, and 16 pages.
    assert_eq!(first["saved_shootdowns_at_most"], 1991);
    assert_eq!(value["batching"][2]["range"], "write-back");
    assert_eq!(value["batching"][2]["total"]["saved_shootdowns"], 1991 + 398);
    // Where several processes share a stack, each one's own shootdowns tell.
    let compiler = value["processes"].as_array().expect("rows").iter().find(|row| row["tgid"] == 202);
    assert_eq!(compiler.expect("compiler")["pages_distribution"], json!([0, 40, 40, 0, 40, 40]));
}

#[test]
fn write_back_that_is_batched_has_a_larger_factor_and_nothing_to_save() {
    let (window, savings) =
        seen(&[(101, "database", Cause::Msync, 1, [vec![Some(32); 10], vec![None; 2]].concat())]);
    let text = render(&window, Some(&savings), 10, 100);
    let row = text.lines().nth(2).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..9], ["database", "101", "msync", "320", "12", "32.00", "100%", "2", "<=0"], "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("2 were full (2 over-ceiling): their pages are not known."), "{text}");
    assert!(
        text.contains("(factor 32.00; page_vma_mkclean_one < ")
            && text.contains("at most 0 of 12 shootdowns"),
        "{text}"
    );
}

#[test]
fn two_stacks_of_one_process_and_cause_are_told_apart() {
    let pages = |most: u64| (1..=most).map(Some).collect::<Vec<_>>();
    let (window, savings) = seen(&[
        (101, "database", Cause::Msync, 1, pages(64)),
        (101, "database", Cause::Msync, 3, pages(32)),
        (101, "database", Cause::Munmap, 2, pages(16)),
    ]);
    let text = render(&window, Some(&savings), 10, 100);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].contains("database 101  msync"), "{text}");
    assert_eq!(lines[3], "      page_vma_mkclean_one < folio_mkclean < __x64_sys_msync", "{text}");
    assert_eq!(lines[5], "      page_vma_mkclean_one < folio_mkclean < wb_workfn", "{text}");
    assert!(lines[6].contains("munmap") && lines[7].contains("total"), "{text}");
}

#[test]
fn a_row_never_saves_more_than_it_sent() {
    let (mut window, savings) = busy();
    // Its other threads have ended: they are counted elsewhere.
    window.senders[0].tally.shootdowns = 5;
    let rows = rows::rows(&window, Some(&savings), Class::User);
    let row = rows.iter().find(|row| row.process.as_ref().is_some_and(|(tgid, _)| *tgid == 101));
    assert_eq!(row.expect("database").saved, Some(5));
}

#[test]
fn what_batching_saves_is_told_by_class() {
    let mut savings = Savings::new(1000);
    (0..3).for_each(|ns| savings.take(&flush(ns, Class::User, Cause::Munmap)));
    (10..15).for_each(|ns| savings.take(&flush(ns, Class::KernelRange, Cause::Vmalloc)));
    savings.end();
    let window = pair_of_classes();
    let text = render(&window, Some(&savings), 5, 100);
    assert!(text.contains("  From 3 of 3 user shootdowns (100.0 %).\n"), "{text}");
    assert!(text.contains("  From 5 of 5 kernel-range shootdowns (100.0 %).\n"), "{text}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("  any range"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..7], ["any", "range", "user", "3", "2", "66.7", "%"], "{text}");
    assert_eq!(rows[1][..7], ["any", "range", "kernel-range", "5", "4", "80.0", "%"], "{text}");
    let value: Value = serde_json::from_str(&json(&window, Some(&savings), 5)).expect("JSON");
    let batching = &value["batching"][0];
    assert_eq!((&batching["total"]["class"], &batching["total"]["shootdowns"]), (&json!("user"), &json!(3)));
    assert_eq!(batching["totals"][1]["shootdowns"], 5);
    assert_eq!(batching["places"][1]["class"], "kernel-range");
}

#[test]
fn nothing_seen_is_said() {
    let text = render(&Snapshot::default(), None, 10, 40);
    assert!(text.starts_with("no shootdowns\n"), "{text}");
}
