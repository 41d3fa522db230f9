// SPDX-License-Identifier: GPL-2.0-only
//! What the keys do, what the columns mean, what this kernel hides.

use crate::detail::{Ink, Lines};
use crate::flow;
use ceasefire_watch_model::Snapshot;

const KEYS: [(&str, &str); 12] = [
    ("1 2 3 4, Tab", "senders, victims, causes, matrix"),
    ("j k, arrows", "next and previous row; g G the ends"),
    ("h l", "views; in the matrix: other victims"),
    ("Enter", "stacks and history of the row; Esc back"),
    ("f", "only rows with these words; Esc all"),
    ("s", "sort by the next column"),
    ("x", "also other cross calls, or not"),
    ("p", "pause the screen; counting goes on"),
    ("r", "count from now on"),
    ("Ctrl-L", "paint the screen again"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

const WORDS: [&str; 9] = [
    "A shootdown is sent once and received by each of its targets. Figures with /s are of the last interval, the others \
     since the start or the last r.",
    "WAITED %: share of the interval in which the thread waited for others to flush.",
    "STOLEN %: share of the interval that handlers took from the thread on that CPU; MAX us: the longest; <=: no longer than that.",
    "PAGES: of 4 KiB, per ranged shootdown. FULL %: shootdowns that flushed everything.",
    "DELIVERY us: from queueing to the handler, per target. HANDLER us: in the handler, per target. WAIT us: the \
     sender's, per shootdown. They begin and end at different places and are never added.",
    "(kernel-range): kernel addresses, which the TLB row of /proc/interrupts misses.",
    "(cross-call): no flush, another function that one CPU has another run; x shows and hides them.",
    "saw N of M: targets that we saw, of those that the kernel counted.",
    "-: not watched, or nothing to divide by.",
];

pub fn lines(total: &Snapshot, width: usize) -> Lines {
    let mut lines = vec![(Ink::Head, "keys".to_string())];
    for (key, what) in KEYS {
        // Beside the key where there is room, else below it.
        let rest = flow::wrapped(what, width.saturating_sub(16));
        for (place, part) in rest.iter().enumerate() {
            lines.push((Ink::Plain, format!("  {:<13} {part}", if place == 0 { key } else { "" })));
        }
    }
    for (title, texts) in [("figures", WORDS.map(str::to_string).to_vec()), ("not seen", blind(total))] {
        lines.push((Ink::Plain, String::new()));
        lines.push((Ink::Head, title.to_string()));
        for text in texts {
            let parts = flow::wrapped(&text, width.saturating_sub(2));
            lines.extend(parts.into_iter().map(|part| (Ink::Plain, format!("  {part}"))));
        }
    }
    lines
}

fn blind(total: &Snapshot) -> Vec<String> {
    match total.coverage.blind.is_empty() {
        true => vec!["nothing that we know of".to_string()],
        false => total.coverage.blind.clone(),
    }
}
