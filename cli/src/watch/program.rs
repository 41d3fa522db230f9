// SPDX-License-Identifier: GPL-2.0-only
//! What a program has been built with: an allocator or a runtime that no file name tells of, from words that every build of
//! it carries, stripped or not.

use ceasefire_deter::program::go_version;
use ceasefire_watch_record::Built;
use memchr::memmem;
use std::fs::File;
use std::io::Read;

/// A word in the file, what it is a sign of, and the variable that sets it up.
const SIGNS: [(&[u8], &str, Option<&str>); 11] = [
    (b"_RJEM_MALLOC_CONF", "jemalloc", Some("_RJEM_MALLOC_CONF")),
    (b"JE_MALLOC_CONF", "jemalloc", Some("JE_MALLOC_CONF")),
    (b"<jemalloc>: ", "jemalloc", Some("MALLOC_CONF")),
    (b"TCMALLOC_RELEASE_RATE", "tcmalloc", Some("TCMALLOC_RELEASE_RATE")),
    (b"mimalloc: ", "mimalloc", Some("MIMALLOC_PURGE_DELAY")),
    (b"\xff Go buildinf:", "go", Some("GODEBUG")),
    (b"node.js/", "node", None),
    (b"PYTHONMALLOC", "python", Some("PYTHONMALLOC")),
    (b"JULIA_LOAD_PATH", "julia", None),
    (b"erl_crash.dump", "beam", None),
    (b"wasmtime::runtime", "wasmtime", None),
];
/// Of a program; a larger one is looked at as far.
const BYTES_MAX: u64 = 256 << 20;
const CHUNK: usize = 1 << 20;
/// So that a word on the edge of two chunks is found, and the version behind it.
const OVERLAP: usize = 256;

/// Of the program that this process runs, and of nothing else it maps.
pub fn built_with(tgid: u32) -> Vec<Built> {
    File::open(format!("/proc/{tgid}/exe")).map_or_else(|_| Vec::new(), |file| signs(file.take(BYTES_MAX)))
}

fn signs(mut source: impl Read) -> Vec<Built> {
    let finders: Vec<_> = SIGNS.iter().map(|(word, _, _)| memmem::Finder::new(word)).collect();
    let mut is_there = [false; SIGNS.len()];
    let mut versions = [("go", None), ("node", None)];
    let mut buffer = vec![0u8; OVERLAP + CHUNK];
    let mut kept = 0;
    loop {
        let mut end = kept;
        while end < buffer.len() {
            match source.read(&mut buffer[end..]) {
                Ok(0) | Err(_) => break,
                Ok(more) => end += more,
            }
        }
        for (found, finder) in is_there.iter_mut().zip(&finders) {
            *found = *found || finder.find(&buffer[..end]).is_some();
        }
        for (name, version) in versions.iter_mut().filter(|(_, version)| version.is_none()) {
            let found = match *name {
                "go" => go_version(&buffer[..end]),
                _ => node_version(&buffer[..end]),
            };
            // One that is cut short stands whole in the next.
            *version = found.filter(|version| !version.is_empty());
        }
        if end < buffer.len() {
            break;
        }
        buffer.copy_within(end - OVERLAP.., 0);
        kept = OVERLAP;
    }
    let mut all: Vec<Built> = Vec::new();
    for ((_, name, variable), _) in SIGNS.iter().zip(is_there).filter(|(_, is_there)| *is_there) {
        // A prefixed build carries the words of the plain one as well.
        if all.iter().all(|built| built.name != *name) {
            let version = versions.iter().find(|(of, _)| of == name).and_then(|(_, version)| version.clone());
            all.push(Built { name: name.to_string(), variable: variable.map(str::to_string), version });
        }
    }
    all
}

/// "node.js/v20.20.2" and a zero byte.
fn node_version(bytes: &[u8]) -> Option<String> {
    let mark = b"node.js/v";
    let rest = &bytes[memmem::find(bytes, mark)? + mark.len()..];
    let end = rest.iter().take(OVERLAP / 2).position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_wherever_it_stands() {
        let with = |at: usize, word: &[u8]| {
            let mut bytes = vec![b'x'; 3 * CHUNK];
            bytes[at..at + word.len()].copy_from_slice(word);
            signs(&bytes[..])
        };
        for at in [0, CHUNK - 5, CHUNK + OVERLAP - 5, 2 * CHUNK] {
            let built = with(at, b"_RJEM_MALLOC_CONF");
            assert_eq!(built.len(), 1, "at {at}");
            assert_eq!(built[0].variable.as_deref(), Some("_RJEM_MALLOC_CONF"));
        }
        assert!(with(0, b"malloc").is_empty());
        let mut go = b"\xff Go buildinf:\x08\x02".to_vec();
        go.extend([0; 16]);
        go.extend(b"\x08go1.26.8");
        for at in [0, CHUNK + OVERLAP - 20, CHUNK + OVERLAP - 5] {
            assert_eq!(with(at, &go)[0].version.as_deref(), Some("1.26.8"), "at {at}");
            assert_eq!(with(at, b"node.js/v20.20.2\0")[0].version.as_deref(), Some("20.20.2"), "at {at}");
        }
    }

    #[test]
    fn who_has_ended_has_no_program() {
        assert!(built_with(u32::MAX).is_empty());
    }
}
