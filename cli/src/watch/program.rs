// SPDX-License-Identifier: GPL-2.0-only
//! What a program has been built with: an allocator or a runtime that no file name tells of, from words that every build of
//! it carries, stripped or not.

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
/// So that a word on the edge of two chunks is found.
const OVERLAP: usize = 64;

/// Of the program that this process runs, and of nothing else it maps.
pub fn built_with(tgid: u32) -> Vec<Built> {
    File::open(format!("/proc/{tgid}/exe")).map_or_else(|_| Vec::new(), |file| signs(file.take(BYTES_MAX)))
}

fn signs(mut source: impl Read) -> Vec<Built> {
    let finders: Vec<_> = SIGNS.iter().map(|(word, _, _)| memmem::Finder::new(word)).collect();
    let mut is_there = [false; SIGNS.len()];
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
            all.push(Built { name: name.to_string(), variable: variable.map(str::to_string) });
        }
    }
    all
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
    }

    #[test]
    fn who_has_ended_has_no_program() {
        assert!(built_with(u32::MAX).is_empty());
    }
}
