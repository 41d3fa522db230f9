// SPDX-License-Identifier: GPL-2.0-only
//! SHA-256 of files and of trees, as hexadecimal text.

use ceasefire_base::{disk, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub fn bytes(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

pub fn file(path: &Path) -> Result<String> {
    let unreadable = |error| disk::error("read", path, &error);
    let mut file = File::open(path).map_err(unreadable)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let length = file.read(&mut buffer).map_err(unreadable)?;
        if length == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..length]);
    }
}

/// One line per file of a tree, sorted: hash, "x" if executable, path below `dir`. A tree that is not there is empty.
pub fn tree(dir: &Path) -> Result<String> {
    named(dir, &files(dir)?, Path::new(""))
}

/// The same for these files of a directory, as if they lay below `to`.
pub fn named(dir: &Path, names: &[PathBuf], to: &Path) -> Result<String> {
    let mut lines = String::new();
    for path in names {
        let full = dir.join(path);
        let meta = std::fs::metadata(&full).map_err(|error| disk::error("read", &full, &error))?;
        let mode = if meta.permissions().mode() & 0o111 != 0 { "x" } else { "-" };
        lines += &format!("{} {mode} {}\n", file(&full)?, to.join(path).display());
    }
    Ok(lines)
}

/// The regular files below `dir`, as sorted relative paths.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let full = dir.join(&below);
        let entries = match std::fs::read_dir(&full) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && below.as_os_str().is_empty() => {
                break
            }
            Err(error) => return Err(disk::error("list", &full, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| disk::error("list", &full, &error))?;
            let kind = entry.file_type().map_err(|error| disk::error("read", &entry.path(), &error))?;
            let path = below.join(entry.file_name());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hash() {
        assert_eq!(bytes(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_missing_tree_is_empty() {
        assert_eq!(tree(Path::new("/no/such/tree")).expect("empty"), "");
    }
}
