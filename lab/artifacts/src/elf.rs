// SPDX-License-Identifier: GPL-2.0-only
//! Reads from a 64-bit little-endian ELF file which loader and libraries it names.

const TYPE_DYNAMIC: u32 = 2;
const TYPE_INTERPRETER: u32 = 3;
const TYPE_LOAD: u32 = 1;
const TAG_NEEDED: u64 = 1;
const TAG_STRINGS: u64 = 5;

/// What a program or library asks for at run time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The dynamic loader's path; `None` for libraries and static programs.
    pub interpreter: Option<String>,
    /// Names of libraries, in the file's order.
    pub needed: Vec<String>,
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

/// `None` when this is no ELF file of the kind above, or a damaged one.
pub fn dynamic(file: &[u8]) -> Option<Dynamic> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let segments = segments(file)?;
    let mut dynamic = Dynamic::default();
    if let Some(segment) = segments.iter().find(|s| s.kind == TYPE_INTERPRETER) {
        dynamic.interpreter = Some(text(file, segment.offset)?);
    }
    let Some(segment) = segments.iter().find(|s| s.kind == TYPE_DYNAMIC) else {
        return Some(dynamic);
    };
    let mut tags = Vec::new();
    for at in (segment.offset..segment.offset.checked_add(segment.bytes)?).step_by(16) {
        tags.push((word(file, at)?, word(file, at + 8)?));
    }
    let Some(&(_, strings)) = tags.iter().find(|(tag, _)| *tag == TAG_STRINGS) else {
        return Some(dynamic);
    };
    let strings = segments.iter().find_map(|s| {
        let inside = strings.checked_sub(s.address)?;
        (s.kind == TYPE_LOAD && inside < s.bytes).then_some(s.offset.checked_add(inside)?)
    })?;
    for (_, name) in tags.iter().filter(|(tag, _)| *tag == TAG_NEEDED) {
        dynamic.needed.push(text(file, strings.checked_add(*name)?)?);
    }
    Some(dynamic)
}

fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    let table = word(file, 32)?;
    let entry_bytes = u64::from(half(file, 54)?);
    let count = u64::from(half(file, 56)?);
    (0..count)
        .map(|i| {
            let at = table.checked_add(i.checked_mul(entry_bytes)?)?;
            Some(Segment {
                kind: word(file, at)? as u32,
                offset: word(file, at.checked_add(8)?)?,
                address: word(file, at.checked_add(16)?)?,
                bytes: word(file, at.checked_add(32)?)?,
            })
        })
        .collect()
}

fn half(file: &[u8], at: usize) -> Option<u16> {
    let bytes = file.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn word(file: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = file.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn text(file: &[u8], at: u64) -> Option<String> {
    let rest = file.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|&b| b == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file with one load segment that maps the whole file at 0x1000.
    pub(crate) fn file(interpreter: Option<&str>, needed: &[&str]) -> Vec<u8> {
        let mut file = vec![0u8; 0x400];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let put = |file: &mut Vec<u8>, at: usize, value: u64| {
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        let mut tags = Vec::new();
        let mut end = 0x341;
        for name in needed {
            tags.push((TAG_NEEDED, end as u64 - 0x340));
            file[end..end + name.len()].copy_from_slice(name.as_bytes());
            end += name.len() + 1;
        }
        tags.insert(tags.len() / 2, (TAG_STRINGS, 0x1340));
        for (i, (tag, value)) in tags.iter().enumerate() {
            put(&mut file, 0x200 + i * 16, *tag);
            put(&mut file, 0x208 + i * 16, *value);
        }
        let mut segments = vec![(TYPE_LOAD, 0u64, 0x400u64), (TYPE_DYNAMIC, 0x200, 16 * tags.len() as u64)];
        if let Some(path) = interpreter {
            file[0x300..0x300 + path.len()].copy_from_slice(path.as_bytes());
            segments.push((TYPE_INTERPRETER, 0x300, path.len() as u64 + 1));
        }
        put(&mut file, 32, 64);
        file[54] = 56;
        file[56] = segments.len() as u8;
        for (i, (kind, offset, bytes)) in segments.into_iter().enumerate() {
            let at = 64 + i * 56;
            put(&mut file, at, u64::from(kind));
            put(&mut file, at + 8, offset);
            put(&mut file, at + 16, 0x1000 + offset);
            put(&mut file, at + 32, bytes);
        }
        file.truncate(end);
        file
    }

    fn sample() -> Vec<u8> {
        file(Some("/lib/ld"), &["libc.so", "libm.so"])
    }

    #[test]
    fn loader_and_libraries_are_found() {
        let expected = Dynamic {
            interpreter: Some("/lib/ld".to_string()),
            needed: vec!["libc.so".to_string(), "libm.so".to_string()],
        };
        assert_eq!(dynamic(&sample()), Some(expected));
    }

    #[test]
    fn a_static_program_needs_nothing() {
        let mut file = sample();
        file[56] = 1;
        assert_eq!(dynamic(&file), Some(Dynamic::default()));
    }

    #[test]
    fn other_and_cut_files_are_refused() {
        assert_eq!(dynamic(b"#!/bin/sh\n"), None);
        assert_eq!(dynamic(b""), None);
        let file = sample();
        for bytes in 0..file.len() {
            assert_eq!(dynamic(&file[..bytes]), None, "cut at {bytes}");
        }
    }

    #[test]
    fn altered_bytes_never_panic() {
        for at in 0..sample().len() {
            for value in [0x00, 0x7f, 0xff] {
                let mut file = sample();
                file[at] = value;
                let _ = dynamic(&file);
            }
        }
    }
}
