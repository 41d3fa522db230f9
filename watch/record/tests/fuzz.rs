// SPDX-License-Identifier: GPL-2.0-only
//! Seconds of mutation, the same each time: no panic, no hang, bounded memory. tests/fuzz does it for as long as you like.
mod sample;
mod through;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use through::{sealed, through};

/// Counts what is allocated at once.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time: the counter counts everybody's.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

const ROUNDS: u64 = 800;
const MEMORY_MAX: usize = 128 << 20;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Words that JSON and the frames take seriously.
const WORDS: [&[u8]; 14] = [
    b"18446744073709551615",
    b"-1",
    b"1e308",
    b"null",
    b"[[[[[[[[",
    b"\"\\u001b[2J\"",
    b"{}",
    b"WNDW",
    b"EVNT",
    b"STCK",
    b"END ",
    b"PROC",
    b"\xff\xff\xff\xff",
    b"\"kernel-range\"",
];

fn mutate(bytes: &mut Vec<u8>, state: &mut u64) {
    for _ in 0..=random(state) % 6 {
        let at = random(state) as usize % bytes.len().max(1);
        match random(state) % 6 {
            0 => bytes.truncate(at.max(26)),
            1 | 2 => {
                let word = WORDS[random(state) as usize % WORDS.len()];
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word.iter().copied());
            }
            3 => {
                // A digit becomes another, so that numbers change and the form stays.
                if let Some(digit) = bytes.iter().skip(at).position(u8::is_ascii_digit) {
                    bytes[at + digit] = b'0' + (random(state) % 10) as u8;
                }
            }
            4 => {
                let end = (at + random(state) as usize % 400).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random(state) as u8;
                }
            }
        }
    }
}

#[test]
fn no_mutation_of_a_record_breaks_the_reader() {
    let good = sample::record();
    let _alone = ALONE.lock();
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut read = 0;
    for round in 0..ROUNDS {
        let mut bytes = good.clone();
        mutate(&mut bytes, &mut state);
        // Seeded: the round says which bytes they were.
        let outcome = std::panic::catch_unwind(|| (through(&bytes).1, through(&sealed(&bytes)).1));
        let Ok((_, events)) = outcome else { panic!("round {round} of {ROUNDS} broke it") };
        read += usize::from(events > 0);
    }
    let most = MOST.load(Relaxed) - before;
    println!("{ROUNDS} mutations, {read} of them with events to show, {} KiB at most", most >> 10);
    assert!(read > ROUNDS as usize / 10, "the mutations do not reach what lies behind the frames");
    assert!(most < MEMORY_MAX, "{most} bytes");
}

/// Payloads made to grow: short in the file, long in memory.
#[test]
fn memory_is_bounded_by_the_limits() {
    let _alone = ALONE.lock();
    let empty_strings = format!("{{\"kernel\":{{\"1\":[{}\"\"]}},\"user\":{{}}}}", "\"\",".repeat(1_300_000));
    let buckets = format!("[{}0]", "0,".repeat(1_900_000));
    let window = serde_json::to_string(&sample::window(1)).expect("JSON");
    let endless = window.replacen("\"pages\":[", &format!("\"pages\":{buckets},\"more\":["), 1);
    let mut bytes = sample::record()[..25].to_vec();
    let mut frame = |tag: &[u8; 4], payload: &[u8]| {
        bytes.extend(tag);
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
    };
    frame(b"ENVT", b"{}");
    for _ in 0..6 {
        frame(b"STCK", empty_strings.as_bytes());
        frame(b"WNDW", endless.as_bytes());
    }
    let bytes = sealed(&bytes);
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let (error, _) = through(&bytes);
    let most = MOST.load(Relaxed) - before;
    println!("{} KiB of record, {} KiB at most, {error:?}", bytes.len() >> 10, most >> 10);
    assert!(most < MEMORY_MAX, "{most} bytes");
}
