// SPDX-License-Identifier: GPL-2.0-only
//! Where the dynamic loader would find a library. The loader is not asked: `ldd` may run the program.

use super::elf;
use super::object::{self, Object};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DIRECTORIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Files of /etc/ld.so.conf that include each other.
const DEPTH_MAX: usize = 4;
const LIBRARIES_MAX: usize = 512;

/// In which order directories are searched.
#[derive(Debug, Clone, Default)]
pub struct Search {
    directories: Vec<PathBuf>,
}

impl Search {
    /// `library_path`: LD_LIBRARY_PATH.
    pub fn new(library_path: &str) -> Search {
        let mut directories: Vec<PathBuf> =
            library_path.split([':', ';']).filter(|part| !part.is_empty()).map(PathBuf::from).collect();
        configured(Path::new("/etc/ld.so.conf"), DEPTH_MAX, &mut directories);
        directories.extend(DIRECTORIES.iter().map(PathBuf::from));
        Search { directories }
    }

    fn find(&self, name: &str, first: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        first
            .iter()
            .chain(&self.directories)
            .map(|directory| directory.join(name))
            .find(|path| path.is_file())
    }

    /// All that the loader would map for this file, each once, and the names of those that it would not find.
    pub fn closure(&self, path: &Path, bytes: &[u8], preload: &str) -> (Vec<Object>, Vec<String>) {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut waiting: Vec<(String, Vec<PathBuf>)> = preload
            .split([':', ' '])
            .filter(|name| !name.is_empty())
            .map(|name| (name.to_string(), Vec::new()))
            .collect();
        waiting.extend(needed(path, bytes));
        let mut at = 0;
        while at < waiting.len() && found.len() < LIBRARIES_MAX {
            let (name, first) = waiting[at].clone();
            at += 1;
            if !seen.insert(name.clone()) {
                continue;
            }
            let Some(path) = self.find(&name, &first) else {
                missing.push(name);
                continue;
            };
            let bytes = object::read(&path);
            found.push(Object::of(&path, bytes.as_deref()));
            waiting.extend(bytes.iter().flat_map(|bytes| needed(&path, bytes)));
        }
        (found, missing)
    }
}

/// The libraries that a file names, with the directories that it names.
fn needed(path: &Path, bytes: &[u8]) -> Vec<(String, Vec<PathBuf>)> {
    let Some(dynamic) = elf::dynamic(bytes) else { return Vec::new() };
    let origin = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let origin = origin.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let resolve =
        |text: &String| PathBuf::from(text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
    let paths: Vec<PathBuf> = dynamic.paths.iter().map(resolve).collect();
    dynamic.needed.into_iter().map(|name| (name, paths.clone())).collect()
}

fn configured(file: &Path, depth: usize, directories: &mut Vec<PathBuf>) {
    let Some(text) = fs::read_to_string(file).ok().filter(|_| depth > 0) else { return };
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        match line.strip_prefix("include ") {
            // Always a directory's *.conf.
            Some(pattern) => {
                let pattern = Path::new(pattern.trim());
                let Some(directory) = pattern.parent() else { continue };
                let entries = fs::read_dir(directory).into_iter().flatten().flatten();
                let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
                files.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
                files.sort();
                files.iter().for_each(|file| configured(file, depth - 1, directories));
            }
            None if line.starts_with('/') => directories.push(PathBuf::from(line)),
            None => {}
        }
    }
}

/// A library by its file name; what LD_LIBRARY_PATH names comes first.
pub fn find_library(name: &str) -> Option<PathBuf> {
    Search::new(&std::env::var("LD_LIBRARY_PATH").unwrap_or_default()).find(name, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_for_this_test() {
        let own = fs::canonicalize("/proc/self/exe").expect("our own program");
        let bytes = object::read(&own).expect("readable");
        let (found, missing) = Search::new("").closure(&own, &bytes, "");
        assert_eq!(missing, Vec::<String>::new());
        if elf::dynamic(&bytes).is_some_and(|dynamic| dynamic.interpreter.is_some()) {
            assert!(found.iter().any(|object| object.name.starts_with("libc.")), "{found:?}");
        }
        let (_, missing) = Search::new("").closure(&own, &bytes, "libnot-there.so");
        assert_eq!(missing, ["libnot-there.so"]);
    }

    #[test]
    fn configured_directories_come_in_order_and_loops_end() {
        let scratch = tempfile::tempdir().expect("a directory");
        let conf = scratch.path().join("ld.so.conf");
        let text = format!("# nothing\n/a\ninclude {}/*.conf\n/b # last\n", scratch.path().display());
        fs::write(&conf, text).expect("written");
        let mut directories = Vec::new();
        configured(&conf, 2, &mut directories);
        assert_eq!(directories, ["/a", "/a", "/b", "/b"].map(PathBuf::from));
    }
}
