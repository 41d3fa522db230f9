// SPDX-License-Identifier: GPL-2.0-only
//! Does a record come out as it went in, and is a wrong one refused for the right reason?
mod sample;
mod through;

use ceasefire_watch_model::{Sender, Stacks};
use ceasefire_watch_record::{limits, Error, Item, Reader, Writer};
use through::{sealed, through};

#[test]
fn what_goes_in_comes_out() {
    let bytes = sample::record();
    let mut reader = Reader::new(&bytes[..]).expect("a record");
    assert_eq!(reader.environment, sample::environment());
    let (mut windows, mut events) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item().expect("whole") {
        match item {
            Item::Window(window) => windows.push(*window),
            Item::Events(more) => events.extend(more),
        }
    }
    assert_eq!(windows.len(), 3);
    let mut expected = sample::window(2);
    expected.stacks = Stacks::default();
    assert_eq!(windows[1], expected);
    let all: Vec<_> = (50..200).map(sample::event).collect();
    assert_eq!(events, all);
    assert_eq!(reader.processes, [sample::process()]);
    assert_eq!(reader.end.as_ref().expect("an end").reason, "the time was over");
    let whole = reader.whole();
    assert_eq!(whole.window_ns, 3_000_000_000);
    assert_eq!(whole.stacks, sample::stacks());
    assert_eq!(whole.coverage.classes[0].queued, 9600);
    assert_eq!(whole.sites[0].tally.shootdowns, 600);
}

#[test]
fn a_large_window_comes_in_parts_and_out_whole() {
    let mut large = sample::window(1);
    let sender = large.senders[0].clone();
    large.senders = (0..5000)
        .map(|tid| {
            let mut sender = sender.clone();
            sender.task.tid = tid;
            sender
        })
        .collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &sample::environment()).expect("memory");
    writer.window(&large).expect("memory");
    writer.end(&Default::default()).expect("memory");
    let mut reader = Reader::new(&bytes[..]).expect("a record");
    while reader.next_item().expect("whole").is_some() {}
    let whole = reader.whole();
    assert_eq!(whole.senders.len(), 5000);
    assert_eq!((whole.window_ns, whole.coverage), (large.window_ns, large.coverage));
}

/// Hours of short-lived processes: those that did least are added up by their names, nothing is refused or lost.
#[test]
fn more_threads_than_are_told_apart_are_added_up() {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &sample::environment()).expect("memory");
    let mut window = sample::window(1);
    let (sender, targets) = (window.senders[0].clone(), window.senders[0].tally.targets);
    let thread = |tid: u32| {
        let mut sender = sender.clone();
        (sender.task.tid, sender.task.comm) = (tid, format!("job{}", tid % 100));
        // One that did more than all the others.
        sender.tally.targets = if tid == 7 { 1 << 40 } else { targets };
        sender
    };
    const BATCH: u32 = 2000;
    let count = 2 * limits::ROWS_MAX as u32 / BATCH * BATCH;
    for first in (1..=count).step_by(BATCH as usize) {
        window.senders = (first..first + BATCH).map(thread).collect();
        writer.window(&window).expect("memory");
    }
    writer.end(&Default::default()).expect("memory");
    let mut reader = Reader::new(&bytes[..]).expect("a record");
    while reader.next_item().expect("whole").is_some() {}
    let whole = reader.whole();
    let sum: u64 = whole.senders.iter().map(|sender| sender.tally.targets).sum();
    assert_eq!(sum, (u64::from(count) - 1) * targets + (1 << 40));
    assert!(whole.senders.len() <= limits::ROWS_MAX, "{}", whole.senders.len());
    assert_eq!(whole.senders.iter().filter(|sender| sender.task.is_others()).count(), 100);
    let busy = whole.senders.iter().find(|sender| sender.task.tid == 7).expect("still told apart");
    assert_eq!(busy.tally.targets, 1 << 40);
}

/// Rows that cannot be added up are none of ours.
#[test]
fn rows_that_no_record_has_are_refused() {
    let mut window = sample::window(1);
    let sender = window.senders[0].clone();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &sample::environment()).expect("memory");
    let row = |cpu| Sender { cpu, ..sender.clone() };
    window.senders = (0..limits::ROWS_MAX as u32 + 1).map(row).collect();
    writer.window(&window).expect("memory");
    assert!(matches!(through(&bytes).0, Some(Error::TooMuch("rows"))));
}

#[test]
fn no_more_names_are_written_than_are_read() {
    let frames = |id: u32| (0..60).map(|frame| format!("{id} {frame:0>400}")).collect();
    let stacks = Stacks { kernel: Default::default(), user: (0..2500).map(|id| (id, frames(id))).collect() };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &sample::environment()).expect("memory");
    writer.stacks(&stacks).expect("memory");
    writer.stacks(&stacks).expect("memory");
    let unnamed = writer.stacks_unnamed;
    assert!((1..2500).contains(&unnamed), "{unnamed}");
    writer.end(&Default::default()).expect("memory");
    let mut reader = Reader::new(&bytes[..]).expect("a record");
    while reader.next_item().expect("whole").is_some() {}
    assert_eq!(reader.whole().stacks.user.len() as u64 + unnamed, 2500);
}

#[test]
fn every_cut_is_noticed_and_what_precedes_it_is_kept() {
    let bytes = sample::record();
    let (mut most, mut step) = (0, 1);
    let mut end = 0;
    while end < bytes.len() {
        let (error, events) = through(&bytes[..end]);
        match (&error, end) {
            (Some(Error::Empty), 0) | (Some(Error::Cut(_)), 1..) => {}
            other => panic!("{end}: {other:?}"),
        }
        assert!(events >= most, "{end}");
        most = events;
        // Every byte of the name and the first frame, then leaps.
        step = if end > 800 { 211 } else { step };
        end += step;
    }
    assert_eq!(through(&bytes).1, 150);
    assert!(through(&bytes).0.is_none());
}

#[test]
fn the_wrong_form_has_its_own_sentence() {
    let with = |name: &str| [name.as_bytes(), &sample::record()[25..]].concat();
    assert!(matches!(through(b"").0, Some(Error::Empty)));
    assert!(matches!(through(&with("ceasefire.watch-record/3\n")).0, Some(Error::Newer(3))));
    assert!(matches!(through(&with("ceasefire.watch-record/4294967299\n")).0, Some(Error::Newer(_))));
    // The first version has the same form, with fewer classes.
    assert!(through(&with("ceasefire.watch-record/1\n")).0.is_none());
    assert!(through(&with("ceasefire.watch-record/2\n")).0.is_none());
    for garbage in ["ceasefire.watch-record/0\n", "ceasefire.watch-record/x\n", "ceasefire.watch-record/\n"] {
        assert!(matches!(through(&with(garbage)).0, Some(Error::NotARecord)), "{garbage}");
    }
    assert!(matches!(through(&[0x7f; 4096]).0, Some(Error::NotARecord)));
    assert!(matches!(through(b"{\"schema\":\"ceasefire.watch/1\"}").0, Some(Error::NotARecord)));
}

fn with_frame(tag: &[u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, &sample::environment()).expect("memory");
    bytes.extend(tag);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    sealed(&bytes)
}

#[test]
fn sizes_and_depths_are_bounded() {
    let mut huge = with_frame(b"WNDW", b"{}");
    let at = huge.len() - 10;
    huge[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(through(&huge).0, Some(Error::Damaged { .. })));
    let deep = "[".repeat(1 << 20);
    assert!(matches!(through(&with_frame(b"WNDW", deep.as_bytes())).0, Some(Error::Damaged { .. })));
    let deep = format!("{{\"unknown\":{}", "{\"a\":".repeat(500_000));
    assert!(matches!(through(&with_frame(b"ENVT", deep.as_bytes())).0, Some(Error::Damaged { .. })));
    // A frame of a later version is passed over; the end is still missing.
    assert!(matches!(through(&with_frame(b"NEWS", b"anything")).0, Some(Error::Cut(_))));
    let row = "{\"kernel\":{\"1\":[\"a\"]},\"user\":{}}";
    assert!(matches!(through(&with_frame(b"STCK", row.as_bytes())).0, Some(Error::Cut(_))));
    let ids: Vec<String> = (0..limits::STACKS_MAX + 1).map(|id| format!("\"{id}\":[]")).collect();
    let many = format!("{{\"kernel\":{{{}}},\"user\":{{}}}}", ids.join(","));
    assert!(matches!(through(&with_frame(b"STCK", many.as_bytes())).0, Some(Error::TooMuch("stacks"))));
}

#[test]
fn something_after_the_end_is_refused() {
    let mut bytes = sample::record();
    bytes.extend(&with_frame(b"NEWS", b"x")[25..]);
    assert!(matches!(through(&bytes).0, Some(Error::Damaged { .. })));
}

/// Not a test of its own: the record that the fuzzer begins with.
#[test]
fn seed() {
    if let Some(path) = std::env::var_os("CEASEFIRE_SEED") {
        std::fs::write(path, sample::record()).expect("written");
    }
}
