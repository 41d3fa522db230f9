// SPDX-License-Identifier: GPL-2.0-only
//! Reads from a 64-bit little-endian ELF file which loader and libraries it names.

use object::elf::{FileHeader64, DT_NEEDED, DT_STRTAB, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian, StringTable};

/// What a program or library asks for at run time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The dynamic loader's path; `None` for libraries and static programs.
    pub interpreter: Option<String>,
    /// Names of libraries, in the file's order.
    pub needed: Vec<String>,
}

/// `None` when this is no ELF file of the kind above, or a damaged one.
pub fn dynamic(file: &[u8]) -> Option<Dynamic> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let mut dynamic = Dynamic::default();
    let mut entries = &[][..];
    for segment in segments {
        if let Some(path) = segment.interpreter(endian, file).ok()? {
            dynamic.interpreter = Some(text(path)?);
        }
        entries = segment.dynamic(endian, file).ok()?.unwrap_or(entries);
    }
    let Some(strings) = entries.iter().find(|entry| entry.tag32(endian) == Some(DT_STRTAB)) else {
        return Some(dynamic);
    };
    let address = strings.d_val(endian);
    let strings =
        segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(endian))?;
            let (offset, bytes) = segment.file_range(endian);
            let end = offset.checked_add(bytes)?.min(file.len() as u64);
            let table = StringTable::new(file, offset.checked_add(inside)?, end);
            (inside < bytes).then_some(table)
        })?;
    for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED)) {
        dynamic.needed.push(text(entry.string(endian, strings).ok()?)?);
    }
    Some(dynamic)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use object::elf::{PT_DYNAMIC, PT_INTERP};

    /// A file with one load segment that maps the whole file at 0x1000.
    pub(crate) fn file(interpreter: Option<&str>, needed: &[&str]) -> Vec<u8> {
        let mut file = vec![0u8; 0x400];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let put = |file: &mut Vec<u8>, at: usize, value: u64| {
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        let mut tags = Vec::new();
        let mut end = 0x341;
        for name in needed {
            tags.push((u64::from(DT_NEEDED), end as u64 - 0x340));
            file[end..end + name.len()].copy_from_slice(name.as_bytes());
            end += name.len() + 1;
        }
        tags.insert(tags.len() / 2, (u64::from(DT_STRTAB), 0x1340));
        for (i, (tag, value)) in tags.iter().enumerate() {
            put(&mut file, 0x200 + i * 16, *tag);
            put(&mut file, 0x208 + i * 16, *value);
        }
        let mut segments = vec![(PT_LOAD, 0u64, 0x400u64), (PT_DYNAMIC, 0x200, 16 * tags.len() as u64)];
        if let Some(path) = interpreter {
            file[0x300..0x300 + path.len()].copy_from_slice(path.as_bytes());
            segments.push((PT_INTERP, 0x300, path.len() as u64 + 1));
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
