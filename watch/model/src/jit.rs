// SPDX-License-Identifier: GPL-2.0-only
//! Names of code that a program made at run time, from the text of its /tmp/perf-PID.map: lines of start, size (both hex)
//! and name (Linux, tools/perf/Documentation/jit-interface.txt).

use std::io::BufRead;

/// Sorted by start; of two at one start the later line stands: code is made anew in the place of old.
#[derive(Debug, Clone, Default)]
pub struct JitNames {
    /// Start, size in bytes, and where the name lies in `text`.
    ranges: Vec<(u64, u32, u32, u32)>,
    text: String,
}

impl JitNames {
    /// `name_max`: bytes kept of each; `bytes_max`: of memory for all, the first ones. Lines that say something else, or cannot be read, are left out.
    pub fn read(text: impl BufRead, name_max: usize, bytes_max: usize) -> JitNames {
        let mut names = JitNames::default();
        for bytes in text.split(b'\n').map_while(Result::ok) {
            if names.bytes() > bytes_max {
                break;
            }
            let text = String::from_utf8_lossy(&bytes);
            let Some((start, size, name)) = line(&text) else { continue };
            let end =
                (0..=name_max.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
            let Ok(at) = u32::try_from(names.text.len()) else { break };
            names.text.push_str(&name[..end]);
            names.ranges.push((start, size, at, end as u32));
        }
        names.ranges.reverse();
        names.ranges.sort_by_key(|(start, ..)| *start);
        names.ranges.dedup_by_key(|(start, ..)| *start);
        names.ranges.shrink_to_fit();
        names
    }

    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (start, size, at, length) = *self.ranges.get(after.checked_sub(1)?)?;
        (address - start < u64::from(size)).then(|| &self.text[at as usize..(at + length) as usize])
    }

    /// Of memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&self.ranges[..])
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
}
