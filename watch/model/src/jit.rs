// SPDX-License-Identifier: GPL-2.0-only
//! Names of code that a program made at run time, from the text of its /tmp/perf-PID.map: lines of start, size (both hex)
//! and name (Linux, tools/perf/Documentation/jit-interface.txt).

use std::collections::BTreeMap;
use std::io::BufRead;
use std::mem::size_of;

/// Sorted by start, none over another: a later line stands where it overlaps earlier ones, as code is made anew in the
/// place of old.
#[derive(Debug, Clone, Default)]
pub struct JitNames {
    /// Start and what is there.
    ranges: Vec<(u64, Range)>,
    text: String,
}

/// Size in bytes; where the name lies in `text`.
#[derive(Debug, Clone, Copy)]
struct Range {
    size: u32,
    at: u32,
    length: u32,
}

impl JitNames {
    /// `name_max`: bytes kept of each; `bytes_max`: of memory for all, the first ones. Lines that say something else, or cannot be read, are left out.
    pub fn read(text: impl BufRead, name_max: usize, bytes_max: usize) -> JitNames {
        let mut ranges = BTreeMap::new();
        let mut names = String::new();
        for bytes in text.split(b'\n').map_while(Result::ok) {
            if names.len() + ranges.len() * size_of::<(u64, Range)>() > bytes_max {
                break;
            }
            let text = String::from_utf8_lossy(&bytes);
            let Some((start, size, name)) = line(&text) else { continue };
            let end =
                (0..=name_max.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
            let Ok(at) = u32::try_from(names.len()) else { break };
            names.push_str(&name[..end]);
            lay(&mut ranges, start, Range { size, at, length: end as u32 });
        }
        JitNames { ranges: ranges.into_iter().collect(), text: names }
    }

    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (start, range) = self.ranges.get(after.checked_sub(1)?)?;
        let name = range.at as usize..(range.at + range.length) as usize;
        (address - start < u64::from(range.size)).then(|| &self.text[name])
    }

    /// Of memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&self.ranges[..])
    }
}

/// Over all that was there; of a range that reaches beyond on either side that part stays.
fn lay(ranges: &mut BTreeMap<u64, Range>, start: u64, range: Range) {
    let end = start.saturating_add(u64::from(range.size));
    let end_of = |start: u64, range: Range| start.saturating_add(u64::from(range.size));
    // None over another: of those that begin before, the last alone can reach here.
    let before = ranges.range(..start).next_back().map(|(at, range)| (*at, *range));
    let mut last = before.filter(|(at, range)| end_of(*at, *range) > start);
    if let Some((at, range)) = last {
        ranges.insert(at, Range { size: (start - at) as u32, ..range });
    }
    while let Some((at, range)) = ranges.range(start..end).next().map(|(at, range)| (*at, *range)) {
        ranges.remove(&at);
        last = Some((at, range));
    }
    if let Some((at, range)) = last.filter(|(at, range)| end_of(*at, *range) > end) {
        ranges.insert(end, Range { size: (end_of(at, range) - end) as u32, ..range });
    }
    if range.size > 0 {
        ranges.insert(start, range);
    }
}

fn line(line: &str) -> Option<(u64, u32, &str)> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let (start, rest) = line.trim_start().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    Some((number(start)?, u32::try_from(number(size)?).ok()?, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_lines_stands_and_nothing_reaches_beyond_its_size() {
        let names = JitNames::read(
            &b"7f00 10 old\n0x7f20 0x8 int A::f(B, C)\nnonsense\n7f00 20 new \xc3\xa9\n7g00 1 x\n7f30 8\n"[..],
            5,
            1000,
        );
        assert_eq!(names.name(0x7f00), Some("new "));
        assert_eq!(names.name(0x7f1f), Some("new "));
        assert_eq!(names.name(0x7f27), Some("int A"));
        assert_eq!([0x7eff, 0x7f28, 0x7f30].map(|at| names.name(at)), [None; 3]);
        assert!(JitNames::read(&b"1 1 a\n2 1 b\n3 1 c\n"[..], 5, 30).name(3).is_none(), "no room");
        assert_eq!(JitNames::default().name(1), None);
    }

    /// Against an array of bytes, each with the name that was laid there last.
    #[test]
    fn of_lines_that_overlap_the_later_one_stands_where_it_reaches() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        for _ in 0..200 {
            let mut bytes = [None; 100];
            let mut text = String::new();
            for name in 0..12 {
                let (start, size) = (next(80), next(20));
                bytes[start as usize..(start + size) as usize].fill(Some(name));
                text += &format!("{start:x} {size:x} {name}\n");
            }
            let names = JitNames::read(text.as_bytes(), 9, 10000);
            for (at, name) in bytes.iter().enumerate() {
                let name = name.map(|name: i32| name.to_string());
                assert_eq!(names.name(at as u64).map(str::to_string), name, "at {at:x} of\n{text}");
            }
        }
        let top = format!("{:x} ff a\n{:x} 1 b\n", u64::MAX - 1, u64::MAX - 3);
        assert_eq!(JitNames::read(top.as_bytes(), 9, 1000).name(u64::MAX - 1), Some("a"));
    }
}
