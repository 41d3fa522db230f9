// SPDX-License-Identifier: GPL-2.0-only
//! The memory limit of a process's cgroup, and whether it is what makes the process reclaim.

use ceasefire_watch_record::MemoryLimit;
use ceasefire_watch_storms::group::{memory_group, MemoryGroup};
use std::fs;
use std::path::Path;

/// A limit, and where it is counted how often it was reached: a line of that name, or the whole file.
struct Knob {
    limit: &'static str,
    counts: &'static str,
    line: Option<&'static str>,
}

const V1: [Knob; 1] = [Knob { limit: "memory.limit_in_bytes", counts: "memory.failcnt", line: None }];
const V2: [Knob; 2] = [
    Knob { limit: "memory.high", counts: "memory.events", line: Some("high") },
    Knob { limit: "memory.max", counts: "memory.events", line: Some("max") },
];

/// How version 1 says that there is none: 2^63 in whole pages.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The lowest of its own group's and of all above, if it was ever reached.
pub fn memory_limit(tgid: u32) -> Option<MemoryLimit> {
    let MemoryGroup { root, group, is_v2 } = memory_group(&tgid.to_string())?;
    lowest(&root, &group, if is_v2 { &V2 } else { &V1 })
}

fn lowest(root: &Path, group: &Path, knobs: &[Knob]) -> Option<MemoryLimit> {
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    let limits = groups.flat_map(|group| knobs.iter().filter_map(move |knob| limit(group, knob)));
    limits.min_by_key(|limit| limit.bytes).filter(|limit| limit.reached > 0)
}

fn limit(group: &Path, knob: &Knob) -> Option<MemoryLimit> {
    let path = group.join(knob.limit);
    // "max" is no number.
    let text = fs::read_to_string(&path).ok()?;
    let bytes = text.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT_BYTES)?;
    let counts = fs::read_to_string(group.join(knob.counts)).unwrap_or_default();
    let reached = match knob.line {
        Some(name) => counts.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()),
        None => counts.trim().parse().ok(),
    };
    Some(MemoryLimit { path: path.to_string_lossy().into_owned(), bytes, reached: reached.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_counts_and_only_if_it_was_reached() {
        let root = std::env::temp_dir().join(format!("ceasefire-limit-{}", std::process::id()));
        let group = root.join("a/b");
        fs::create_dir_all(&group).expect("made");
        let write = |file: &str, text: &str| fs::write(root.join(file), text).expect("written");
        let lowest = |knobs: &[Knob]| lowest(&root, &group, knobs);
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "4096000\n");
        write("a/memory.events", "low 1\nhigh 2\nmax 0\noom 3\n");
        assert_eq!(lowest(&V2), None, "never reached");
        write("a/memory.events", "low 1\nhigh 2\nmax 7\noom 3\n");
        let found = lowest(&V2).expect("a limit");
        assert_eq!((found.bytes, found.reached), (4_096_000, 7));
        assert!(found.path.ends_with("/a/memory.max"), "{found:?}");
        write("a/b/memory.high", "8192\n");
        assert_eq!(lowest(&V2), None, "the lower one was not");
        write("a/b/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(lowest(&V1), None, "none at all");
        write("a/b/memory.limit_in_bytes", "65536\n");
        write("a/b/memory.failcnt", "12\n");
        assert_eq!(lowest(&V1).map(|found| (found.bytes, found.reached)), Some((65536, 12)));
        fs::remove_dir_all(&root).expect("removed");
    }
}
