// SPDX-License-Identifier: GPL-2.0-only
//! What tests and the fuzzer do with bytes: read them as a record, draw every view.
#![allow(dead_code)] // the fuzzer and the tests use different parts

use ceasefire_watch_model::{Neighbours, Range, Savings, Snapshot};
use ceasefire_watch_record::{Error, Item, Reader};
use ceasefire_watch_views as views;

/// The error, if there was one, and how many shootdowns one by one.
pub fn through(bytes: &[u8]) -> (Option<Error>, usize) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Some(error), 0),
    };
    let mut savings = Savings::new(1_000_000);
    let mut neighbours = Neighbours::new(Range::Touching, 1_000_000);
    let (mut drawn, mut events_seen) = (0, 0);
    let error = loop {
        match reader.next_item() {
            Ok(Some(Item::Window(_))) => {}
            Ok(Some(Item::Events(events))) => {
                events_seen += events.len();
                for event in &events {
                    savings.take(event);
                    drawn += views::trace::line(event).len();
                    drawn += views::json::event(event, &reader.stacks).len();
                    drawn += neighbours
                        .take(event)
                        .iter()
                        .map(|run| views::trace::run_line(run).len())
                        .sum::<usize>();
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    savings.end();
    drawn += draw(&reader.whole(), &savings);
    drawn += draw(&of_one_cause(reader.whole()), &savings);
    let whole = reader.whole();
    let advice = ceasefire_watch_advice::advise(
        &whole,
        &reader.environment,
        &reader.processes,
        Some(&savings.batching),
    );
    drawn += ceasefire_watch_advice::render(&advice, &whole).len();
    drawn += ceasefire_watch_advice::json(&advice, &whole).len();
    assert!(drawn > 0);
    (error, events_seen)
}

/// As `report --cause` does; of the cause that stands first, so that some rows stay.
fn of_one_cause(mut whole: Snapshot) -> Snapshot {
    let first = whole.senders.first().map(|sender| sender.cause.clone());
    whole.retain_cause(|cause| first.as_ref() == Some(cause));
    whole
}

fn draw(whole: &Snapshot, savings: &Savings) -> usize {
    use views::hist::By;
    let texts = [
        views::stat::render(whole, "recorded", 5),
        views::hist::render(whole, By::All),
        views::hist::render(whole, By::Cause),
        views::hist::render(whole, By::Targets),
        views::stacks::render(whole, 5),
        views::stacks::folded(whole),
        views::matrix::render(whole, 5),
        views::savings::render(whole, Some(savings), 5, 100),
        views::savings::render(whole, None, 5, 40),
        views::savings::json(whole, Some(savings), 5),
        views::json::window("stat", whole).to_string(),
    ];
    for text in &texts {
        assert!(!text.contains('\u{1b}'), "a control character came through: {text:?}");
    }
    texts.iter().map(String::len).sum()
}

/// The same bytes with every length and checksum made right, so that a mutation reaches what lies behind them.
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    let Some(line) = bytes.iter().take(64).position(|byte| *byte == b'\n') else { return bytes.to_vec() };
    let (name, mut rest) = bytes.split_at(line + 1);
    let mut sealed = name.to_vec();
    while rest.len() >= 12 {
        let (head, after) = rest.split_at(12);
        let promised = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (payload, next) = after.split_at(promised.min(after.len()));
        let length = (payload.len() as u32).to_le_bytes();
        let crc = crc32(&[&head[..4], &length, payload].concat());
        sealed.extend([&head[..4], &length, &crc.to_le_bytes(), payload].concat());
        rest = next;
    }
    sealed.extend(rest);
    sealed
}

pub fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}
