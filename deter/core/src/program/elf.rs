// SPDX-License-Identifier: GPL-2.0-only
//! What the dynamic loader would read of an ELF file.

use object::elf::{FileHeader64, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian, StringTable};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The dynamic loader; None for libraries and static programs.
    pub interpreter: Option<String>,
    pub needed: Vec<String>,
    /// Directories, `$ORIGIN` unresolved.
    pub paths: Vec<String>,
}

pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// None: no 64-bit little-endian ELF file, or a damaged one.
pub fn dynamic(file: &[u8]) -> Option<Dynamic> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let mut dynamic = Dynamic::default();
    let mut entries = &[][..];
    for segment in segments {
        if let Some(path) = segment.interpreter(endian, file).ok()? {
            dynamic.interpreter = Some(text(path));
        }
        entries = segment.dynamic(endian, file).ok()?.unwrap_or(entries);
    }
    let Some(strings) = entries.iter().find(|entry| entry.tag32(endian) == Some(DT_STRTAB)) else {
        return Some(dynamic);
    };
    let address = strings.d_val(endian);
    let loads = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
    let strings = loads.into_iter().find_map(|segment| {
        let inside = address.checked_sub(segment.p_vaddr(endian))?;
        let (offset, bytes) = segment.file_range(endian);
        let end = offset.checked_add(bytes)?.min(file.len() as u64);
        let table = StringTable::new(file, offset.checked_add(inside)?, end);
        (inside < bytes).then_some(table)
    })?;
    for entry in entries {
        let Ok(words) = entry.string(endian, strings) else { continue };
        match entry.tag32(endian) {
            Some(DT_NEEDED) => dynamic.needed.push(text(words)),
            Some(DT_RPATH | DT_RUNPATH) => dynamic.paths.extend(text(words).split(':').map(str::to_string)),
            _ => {}
        }
    }
    Some(dynamic)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Version of the Go compiler that made it: its build information begins with a mark, and since 1.18 holds it in line.
pub fn go_version(file: &[u8]) -> Option<String> {
    let at = super::object::find(file, b"\xff Go buildinf:")?;
    let inline = file.get(at + 15)? & 2 != 0;
    let length = usize::from(*file.get(at + 32)?);
    let version = file.get(at + 33..at + 33 + length).filter(|_| inline && length < 128);
    let version = version.map(text).unwrap_or_default();
    Some(version.trim_start_matches("go").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_linked_dynamically_or_not_at_all() {
        let own = std::fs::read("/proc/self/exe").expect("our own program");
        assert!(is_elf(&own));
        let dynamic = dynamic(&own).expect("a good file");
        assert!(dynamic.interpreter.is_none() || dynamic.needed.iter().any(|name| name.starts_with("libc.")));
        assert_eq!(super::dynamic(b"\x7fELF\x02\x01\x01"), None);
        assert_eq!(super::dynamic(&own[..2000.min(own.len() / 2)]), None);
    }

    #[test]
    fn go_says_its_version() {
        let mut file = vec![0u8; 16];
        file.extend(b"\xff Go buildinf:\x08\x02");
        file.extend([0u8; 16]);
        file.extend(b"\x08go1.26.8rest");
        assert_eq!(go_version(&file), Some("1.26.8".into()));
        assert_eq!(go_version(b"nothing"), None);
    }
}
