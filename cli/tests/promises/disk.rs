// SPDX-License-Identifier: GPL-2.0-only
//! The guest's disk: made empty, looked at while it is in use, and by e2fsck after a kill.

use crate::records::{Extent, Promise, CALLS};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Result};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
const DISK_MIB: u32 = 96;
/// As in workloads/stress/durable.h.
const SLOT_STRIDE: usize = 31;

/// Those of e2fsprogs lie outside of an ordinary user's PATH.
pub fn program(name: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/sbin"].map(|place| Path::new(place).join(name));
    exec::find_program(name).or_else(|| places.into_iter().find(|path| path.is_file()))
}

/// An empty ext4 with a journal. The file has holes.
pub fn make(path: &Path) -> Result<()> {
    let mke2fs = program("mke2fs").ok_or_else(|| exec::missing_program("mke2fs"))?;
    // Nothing is left for the guest to write at leisure.
    let now = "lazy_itable_init=0,lazy_journal_init=0";
    let command = Command::new(mke2fs)
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-J", "size=8", "-E", now])
        .arg(path)
        .arg(format!("{DISK_MIB}M"));
    exec::read(&command).map(drop)
}

/// The highest promise of each page and slot, and which call gave it.
#[derive(Default)]
pub struct Promised {
    slots: usize,
    counts: Vec<u32>,
    calls: Vec<u8>,
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub page: usize,
    pub slot: usize,
    pub promised: u32,
    pub found: u64,
    pub call: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let Violation { page, slot, promised, found, call } = self;
        if *found == u64::MAX {
            return write!(
                to,
                "page {page}: {call} promised {promised} of counter {slot}, and another page is there"
            );
        }
        write!(to, "page {page}, counter {slot}: {call} promised {promised}, the disk has {found}")
    }
}

impl Promised {
    /// Return: the pages that it is about.
    pub fn add(&mut self, promise: &Promise) -> std::ops::Range<usize> {
        self.slots = promise.slots;
        let from = promise.first as usize * promise.slots;
        let end = from + promise.counts.len();
        if self.counts.len() < end {
            self.counts.resize(end, 0);
            self.calls.resize(end, 0);
        }
        for (at, count) in promise.counts.iter().enumerate() {
            if *count > self.counts[from + at] {
                self.counts[from + at] = *count;
                self.calls[from + at] = promise.call as u8;
            }
        }
        promise.first as usize..promise.first as usize + promise.counts.len() / promise.slots.max(1)
    }

    pub fn pages(&self) -> usize {
        self.counts.len() / self.slots.max(1)
    }

    fn has(&self, page: usize) -> bool {
        self.counts[page * self.slots..(page + 1) * self.slots].iter().any(|count| *count > 0)
    }

    /// What the page's bytes do not keep.
    fn broken(&self, page: usize, bytes: &[u8]) -> Vec<Violation> {
        let word = |index: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[8 * index..8 * index + 8]);
            u64::from_le_bytes(eight)
        };
        let is_other = word(0) != page as u64;
        let of_slot = |slot: usize| {
            let at = page * self.slots + slot;
            let (promised, call) = (self.counts[at], CALLS[usize::from(self.calls[at])]);
            let found = if is_other { u64::MAX } else { word(1 + slot * SLOT_STRIDE) };
            let is_broken = promised > 0 && (is_other || found < u64::from(promised));
            is_broken.then_some(Violation { page, slot, promised, found, call })
        };
        (0..self.slots).filter_map(of_slot).collect()
    }
}

/// How many promised pages were looked at, and what is wrong with them.
#[derive(Default)]
pub struct Looked {
    pub pages: usize,
    pub violations: Vec<Violation>,
}

/// A file's bytes by its own pages.
pub struct Pages {
    file: File,
    extents: Vec<Extent>,
}

impl Pages {
    /// In the blocks of a disk.
    pub fn on_disk(path: &Path, extents: Vec<Extent>) -> Result<Pages> {
        let file = File::open(path).map_err(|error| disk::error("read", path, &error))?;
        Ok(Pages { file, extents })
    }

    /// In a file that was taken out of it.
    fn in_file(path: &Path, pages: usize) -> Result<Pages> {
        Pages::on_disk(path, vec![Extent { page: 0, pages: pages as u32, block: 0 }])
    }

    fn read(&self, page: usize, bytes: &mut [u8]) -> Result<()> {
        let number = page as u32;
        let is_in = |extent: &&Extent| extent.page <= number && number - extent.page < extent.pages;
        let extent = self.extents.iter().find(is_in);
        let extent = extent.ok_or_else(|| Error::failed(format!("page {page} has no block")))?;
        let block = extent.block + u64::from(number - extent.page);
        let read = self.file.read_exact_at(bytes, block * PAGE as u64);
        read.map_err(|error| Error::failed(format!("block {block} of the disk: {error}")))
    }

    pub fn look(&self, promised: &Promised, pages: impl Iterator<Item = usize>) -> Result<Looked> {
        let mut looked = Looked::default();
        let mut bytes = vec![0; PAGE];
        for page in pages.filter(|page| promised.has(*page)) {
            self.read(page, &mut bytes)?;
            looked.pages += 1;
            looked.violations.extend(promised.broken(page, &bytes));
        }
        Ok(looked)
    }
}

/// A disk whose machine was killed: after its journal was replayed, e2fsck has nothing to say, and the file is whole.
/// `None`: e2fsprogs is not installed.
pub fn recover(path: &Path, promised: &Promised) -> Result<Option<Looked>> {
    let (Some(e2fsck), Some(debugfs)) = (program("e2fsck"), program("debugfs")) else { return Ok(None) };
    let copy = path.with_extension("copy");
    let file = path.with_extension("counters");
    fs::copy(path, &copy).map_err(|error| disk::error("write", &copy, &error))?;
    let replay = Command::new(&e2fsck).args(["-y", "-E", "journal_only"]).arg(&copy);
    let said = exec::capture(&replay, None)?;
    // 1: it has changed something, as it was meant to.
    if !matches!(said.status.code(), Some(0 | 1)) {
        return Err(Error::failed(format!("the journal cannot be replayed: {}{}", said.stdout, said.stderr)));
    }
    let said = exec::capture(&Command::new(&e2fsck).args(["-f", "-n"]).arg(&copy), None)?;
    if !said.status.success() {
        return Err(Error::failed(format!("e2fsck finds: {}{}", said.stdout, said.stderr)));
    }
    let dump = format!("dump /counters {}", file.display());
    exec::read(&Command::new(&debugfs).args(["-R", &dump]).arg(&copy))?;
    let looked = Pages::in_file(&file, promised.pages())?.look(promised, 0..promised.pages())?;
    for path in [&copy, &file] {
        fs::remove_file(path).map_err(|error| disk::error("remove", path, &error))?;
    }
    Ok(Some(looked))
}

#[test]
fn less_than_was_promised_is_found() {
    let mut promised = Promised::default();
    let promise = |call, counts: &[u32]| Promise { call, first: 2, slots: 2, counts: counts.to_vec() };
    assert_eq!(promised.add(&promise(0, &[5, 0, 6, 7])), 2..4);
    promised.add(&promise(1, &[4, 0, 9, 7]));
    let page = |number: u64, counters: [u64; 2]| {
        let mut bytes = vec![0; PAGE];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        for (slot, counter) in counters.iter().enumerate() {
            let at = 8 * (1 + slot * SLOT_STRIDE);
            bytes[at..at + 8].copy_from_slice(&counter.to_le_bytes());
        }
        bytes
    };
    assert_eq!(promised.broken(2, &page(2, [5, 0])), []);
    assert_eq!(promised.broken(3, &page(3, [10, 7])), []);
    let lost = Violation { page: 3, slot: 0, promised: 9, found: 8, call: "fsync" };
    assert_eq!(promised.broken(3, &page(3, [8, 7])), [lost]);
    assert_eq!(promised.broken(2, &page(3, [9, 9])).len(), 1, "another page's bytes");
    assert_eq!((promised.pages(), promised.has(1), promised.has(2)), (4, false, true));
}
