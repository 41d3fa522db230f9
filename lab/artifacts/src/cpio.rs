// SPDX-License-Identifier: GPL-2.0-only
//! Writes cpio archives in the "newc" form, which the kernel unpacks as its
//! first file system. The same entries give the same bytes: names are sorted,
//! times are zero, everything belongs to root. Ours: equal
//! bytes are the point, and an entry is 13 numbers and a name.

use std::collections::BTreeMap;

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";
/// Archives are appended to each other; the usual block keeps each aligned.
const BLOCK_BYTES: usize = 512;

const TYPE_DIRECTORY: u32 = 0o040000;
const TYPE_FILE: u32 = 0o100000;
const TYPE_SYMLINK: u32 = 0o120000;
const TYPE_CHARACTER: u32 = 0o020000;

struct Entry {
    mode: u32,
    device: (u32, u32),
    content: Vec<u8>,
}

/// An archive in the making. Paths may start with a slash; missing parent
/// directories are added.
#[derive(Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn directory(&mut self, path: &str, permissions: u32) {
        self.insert(path, TYPE_DIRECTORY | permissions, (0, 0), Vec::new());
    }

    pub fn file(&mut self, path: &str, permissions: u32, content: Vec<u8>) {
        self.insert(path, TYPE_FILE | permissions, (0, 0), content);
    }

    pub fn symlink(&mut self, path: &str, target: &str) {
        let target = target.as_bytes().to_vec();
        self.insert(path, TYPE_SYMLINK | 0o777, (0, 0), target);
    }

    /// A device file; in an archive it needs no root rights.
    pub fn character_device(&mut self, path: &str, permissions: u32, major: u32, minor: u32) {
        let mode = TYPE_CHARACTER | permissions;
        self.insert(path, mode, (major, minor), Vec::new());
    }

    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_matches('/'))
    }

    fn insert(&mut self, path: &str, mode: u32, device: (u32, u32), content: Vec<u8>) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            self.entries.entry(path[..at].to_string()).or_insert_with(|| Entry {
                mode: TYPE_DIRECTORY | 0o755,
                device: (0, 0),
                content: Vec::new(),
            });
        }
        let entry = Entry { mode, device, content };
        self.entries.insert(path.to_string(), entry);
    }

    pub fn into_bytes(self) -> Vec<u8> {
        let size = self.entries.values().map(|e| e.content.len() + 256).sum();
        let mut out = Vec::with_capacity(size);
        // The order of names puts a directory before what it holds.
        for (index, (path, entry)) in self.entries.into_iter().enumerate() {
            // Inode numbers only have to differ: equal ones would be hard links.
            write_entry(&mut out, index as u32 + 1, &path, &entry);
        }
        let trailer = Entry { mode: 0, device: (0, 0), content: Vec::new() };
        write_entry(&mut out, 0, TRAILER, &trailer);
        pad(&mut out, BLOCK_BYTES);
        out
    }
}

fn write_entry(out: &mut Vec<u8>, inode: u32, path: &str, entry: &Entry) {
    let links = 1;
    let size = u32::try_from(entry.content.len()).expect("a cpio file is below 4 GiB");
    let fields = [
        inode,
        entry.mode,
        0, // owner
        0, // group
        links,
        0, // time
        size,
        0, // device it came from
        0,
        entry.device.0,
        entry.device.1,
        path.len() as u32 + 1,
        0, // checksum, unused in this form
    ];
    out.extend_from_slice(MAGIC.as_bytes());
    for field in fields {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    pad(out, 4);
    out.extend_from_slice(&entry.content);
    pad(out, 4);
}

fn pad(out: &mut Vec<u8>, multiple: usize) {
    out.resize(out.len().next_multiple_of(multiple), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = Archive::new();
        archive.file("/usr/bin/tool", 0o755, b"hello".to_vec());
        archive.symlink("bin", "usr/bin");
        archive.character_device("/dev/console", 0o600, 5, 1);
        archive.directory("/tmp", 0o1777);
        archive.into_bytes()
    }

    #[test]
    fn one_file_is_these_bytes() {
        let mut archive = Archive::new();
        archive.file("/job", 0o644, b"shell\n".to_vec());
        let mut expected = concat!(
            "070701",
            "00000001000081a4000000000000000000000001000000000000000600000000",
            "0000000000000000000000000000000400000000",
            "job\0\0\0",
            "shell\n\0\0",
            "070701",
            "0000000000000000000000000000000000000001000000000000000000000000",
            "0000000000000000000000000000000b00000000",
            "TRAILER!!!\0\0\0\0",
        )
        .as_bytes()
        .to_vec();
        expected.resize(512, 0);
        assert_eq!(String::from_utf8_lossy(&archive.into_bytes()), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn same_entries_in_another_order_are_the_same_bytes() {
        let mut archive = Archive::new();
        archive.directory("/tmp", 0o1777);
        archive.character_device("/dev/console", 0o600, 5, 1);
        archive.symlink("bin", "usr/bin");
        archive.file("/usr/bin/tool", 0o755, b"hello".to_vec());
        assert!(archive.into_bytes() == sample());
    }

    #[test]
    fn cpio_reads_it_back() {
        let child = Command::new("cpio")
            .args(["-t", "-v", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            // tests/run counts the lines of this file.
            if let Some(skips) = std::env::var_os("CEASEFIRE_SKIPS") {
                let file = std::fs::OpenOptions::new().append(true).open(skips);
                writeln!(file.expect("the skip list"), "cpio reads it back: cpio is not installed")
                    .expect("written");
            }
            return;
        };
        let mut input = child.stdin.take().expect("piped");
        input.write_all(&sample()).expect("cpio reads");
        drop(input);
        let output = child.wait_with_output().expect("cpio ends");
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).to_string();
        let names: Vec<&str> = text.lines().map(|l| l.split("1970 ").nth(1).unwrap_or(l)).collect();
        assert_eq!(names, ["bin -> usr/bin", "dev", "dev/console", "tmp", "usr", "usr/bin", "usr/bin/tool"]);
        assert!(text.contains("crw-------   1 root     root       5,   1"));
        assert!(text.contains("drwxrwxrwt"));
    }
}
