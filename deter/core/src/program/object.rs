// SPDX-License-Identifier: GPL-2.0-only
//! A file that is mapped: its name, and which of the texts that matter are in it.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// No program or library that we know of is larger.
const BYTES_MAX: u64 = 512 << 20;

/// Those that tell kinds and versions; remedies name the others.
const KNOWN: [&str; 16] = [
    "__asan_init",
    "__hwasan_init",
    "__msan_init",
    "__tsan_init",
    "GNU C Library",
    "PYTHONMALLOC",
    "PyMem_RawMalloc",
    "NODE_OPTIONS",
    "EnableMMAP",
    "io-threads",
    "hostfxr",
    "erts_",
    "JLI_Launch",
    "\u{20}Go buildinf:",
    "musl",
    "LD_PRELOAD",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    pub path: PathBuf,
    pub strings: BTreeSet<String>,
    /// False where it could not be read: no string is known not to be there.
    pub is_read: bool,
}

impl Object {
    /// `bytes` of a file that was read already.
    pub fn of(path: &Path, bytes: Option<&[u8]>) -> Object {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let strings = bytes.map(|bytes| {
            wanted().iter().filter(|text| has(bytes, text.as_bytes())).map(|text| text.to_string()).collect()
        });
        Object {
            name,
            path: path.to_path_buf(),
            is_read: strings.is_some(),
            strings: strings.unwrap_or_default(),
        }
    }

    pub fn has(&self, text: &str) -> bool {
        self.strings.contains(text)
    }
}

pub fn is_allocator(name: &str) -> bool {
    ["jemalloc", "tcmalloc", "mimalloc"].iter().any(|part| name.contains(part))
}

fn wanted() -> &'static BTreeSet<&'static str> {
    static WANTED: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    WANTED.get_or_init(|| {
        let remedies = crate::remedy::all().iter();
        let of_remedies = remedies.flat_map(|remedy| {
            let when = remedy.when.iter().flat_map(|when| when.strings.iter());
            when.chain(remedy.sets.preload.iter().flat_map(|preload| preload.strings.iter()))
        });
        of_remedies.map(String::as_str).chain(KNOWN).collect()
    })
}

/// The C library's search is as fast as memory; a file of 100 MB is searched some thirty times.
pub fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    // SAFETY: both ranges are valid for their lengths, and only read.
    let found = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), text.as_ptr().cast(), text.len()) };
    (!found.is_null()).then(|| found as usize - bytes.as_ptr() as usize)
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    find(bytes, text).is_some()
}

/// None where it is not there, no plain file, too large or not ours to read.
pub fn read(path: &Path) -> Option<Vec<u8>> {
    read_up_to(path, BYTES_MAX)
}

/// It may be anybody's, and read by root: a pipe would keep us waiting, a device has no end.
pub fn read_up_to(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let length = file.metadata().ok().filter(|meta| meta.is_file())?.len();
    if length > bytes_max {
        return None;
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_where_they_are() {
        assert_eq!(find(b"abcabd", b"abd"), Some(3));
        assert_eq!(find(b"abc", b"x"), None);
        let object = Object::of(Path::new("/x/libjemalloc.so.2"), Some(b"..MALLOC_CONF\0opt.dirty_decay_ms"));
        assert!(object.has("MALLOC_CONF") && object.has("dirty_decay_ms") && !object.has("opt.thp"));
        assert_eq!(object.name, "libjemalloc.so.2");
        assert!(!Object::of(Path::new("/x/y"), None).is_read);
        assert_eq!(read_up_to(Path::new("/dev/zero"), 1), None);
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = std::ffi::CString::new(directory.path().join("pipe").to_string_lossy().as_bytes())
            .expect("a path");
        // SAFETY: a string that ends, and a mode.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(read_up_to(&directory.path().join("pipe"), 1), None);
    }
}
