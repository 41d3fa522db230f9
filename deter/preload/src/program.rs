// SPDX-License-Identifier: GPL-2.0-only
//! Which programs a preload must not, or cannot, reach; and whether it did.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a sanitizer's start function is called, wherever it comes from.
const SANITIZERS: [(&str, &str); 4] = [
    ("__asan_init", "AddressSanitizer"),
    ("__hwasan_init", "HWAddressSanitizer"),
    ("__msan_init", "MemorySanitizer"),
    ("__tsan_init", "ThreadSanitizer"),
];

/// Why the preload library must not be used for the program, or has no effect on it. A script is not looked into.
pub fn refusal(program: &Path) -> io::Result<Option<String>> {
    let name = program.display();
    let file = File::open(program)?;
    let metadata = file.metadata()?;
    if metadata.mode() & (libc::S_ISUID | libc::S_ISGID) != 0 {
        return Ok(Some(format!("{name} is setuid or setgid: the loader ignores a preload")));
    }
    if has_capabilities(program) {
        return Ok(Some(format!("{name} has file capabilities: the loader ignores a preload")));
    }
    let mut start = Vec::new();
    (&file).take(4096).read_to_end(&mut start)?;
    if start.starts_with(b"\x7fELF") && !has_interpreter(&start) {
        return Ok(Some(format!("{name} is linked statically: nothing loads a preload")));
    }
    Ok(sanitizer(start, file)?.map(|it| format!("{name} is built with {it}, which watches the same calls")))
}

fn has_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end with a zero byte, and no value is asked for.
    unsafe {
        libc::getxattr(path.as_ptr(), b"security.capability\0".as_ptr().cast(), std::ptr::null_mut(), 0) > 0
    }
}

/// Whether an ELF file of 64 bits has a program header PT_INTERP. One of 32 bits has a loader for which we have nothing.
fn has_interpreter(start: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| -> usize {
        let field = start.get(at..at + bytes).unwrap_or_default();
        field.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    start.get(4) == Some(&2)
        && headers < start.len()
        && (0..count).any(|header| number(headers + header * size, 4) == libc::PT_INTERP as usize)
}

fn sanitizer(start: Vec<u8>, mut file: File) -> io::Result<Option<&'static str>> {
    // What may be the beginning of a name stays for the next read.
    const KEPT: usize = 32;
    let mut text = start;
    loop {
        for (symbol, name) in SANITIZERS {
            if text.windows(symbol.len()).any(|window| window == symbol.as_bytes()) {
                return Ok(Some(name));
            }
        }
        text.drain(..text.len().saturating_sub(KEPT));
        let kept = text.len();
        (&mut file).take(1 << 20).read_to_end(&mut text)?;
        if text.len() == kept {
            return Ok(None);
        }
    }
}

/// Whether the process has mapped the library: the loader skips one that it cannot load with no more than a line of text.
pub fn is_present(pid: u32, library: &Path) -> io::Result<bool> {
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    // The kernel writes where a link leads to. One that has been removed cannot be followed.
    let library = library.canonicalize().unwrap_or_else(|_| library.to_path_buf());
    let wanted = library.as_os_str().as_bytes();
    Ok(maps.split(|byte| *byte == b'\n').any(|line| {
        let padded = line.splitn(6, |byte| *byte == b' ').nth(5).unwrap_or_default();
        let path = &padded[padded.iter().take_while(|byte| **byte == b' ').count()..];
        path == wanted || path.strip_suffix(b" (deleted)") == Some(wanted)
    }))
}
