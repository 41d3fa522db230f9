// SPDX-License-Identifier: GPL-2.0-only
//! What the guest says: where the file's blocks are, what a returned call has promised, what went on beside it
//! (workloads/stress/durable.h).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const MAGIC: u32 = 0xcea5_d15c;
const HEADER_BYTES: usize = 24;
/// No honest record comes near these.
const COUNT_MAX: u32 = 65_536;
const SLOTS_MAX: u32 = 64;

pub const CALLS: [&str; 4] = ["msync", "fsync", "fdatasync", "syncfs"];
pub const DEEDS: [&str; 11] = [
    "mprotect",
    "mremap",
    "MADV_DONTNEED",
    "fork",
    "ftruncate",
    "MADV_PAGEOUT",
    "reclaim",
    "drop_caches",
    "compaction",
    "migration",
    "sync_file_range",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub page: u32,
    pub pages: u32,
    pub block: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Extents(Vec<Extent>),
    Promise(Promise),
    /// How often each was done.
    Deeds(Vec<u32>),
}

/// The counters of some pages as they were before a call that has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub call: usize,
    pub first: u32,
    pub slots: usize,
    /// Page after page.
    pub counts: Vec<u32>,
}

/// The file that the guest's port is written to: what is in it has been received.
pub struct Records {
    file: File,
    at: u64,
    /// The beginning of a record.
    rest: Vec<u8>,
}

impl Records {
    pub fn open(path: &Path) -> Result<Records, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Records { file, at: 0, rest: Vec::new() })
    }

    /// Those that have come whole since the last call.
    pub fn read(&mut self) -> Result<Vec<Record>, String> {
        let mut read = || {
            self.file.seek(SeekFrom::Start(self.at))?;
            self.file.read_to_end(&mut self.rest)
        };
        self.at += read().map_err(|error| format!("the guest's records: {error}"))? as u64;
        let mut records = Vec::new();
        let mut used = 0;
        while let Some((record, length)) = parse(&self.rest[used..])? {
            records.push(record);
            used += length;
        }
        self.rest.drain(..used);
        Ok(records)
    }
}

fn word(bytes: &[u8], index: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[4 * index..4 * index + 4]);
    u32::from_le_bytes(four)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    (0..bytes.len() / 4).map(|index| word(bytes, index)).collect()
}

/// The first record and its length; `None`: it is not whole yet.
fn parse(bytes: &[u8]) -> Result<Option<(Record, usize)>, String> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let [magic, kind, call, first, count, slots] = [0, 1, 2, 3, 4, 5].map(|index| word(bytes, index));
    let each = match kind {
        1 => 16,
        2 => 4 * slots as usize,
        3 => 4,
        _ => 0,
    };
    let is_known = magic == MAGIC && each > 0 && count <= COUNT_MAX && slots <= SLOTS_MAX;
    if !is_known || (kind == 2 && call as usize >= CALLS.len()) {
        return Err(format!("the guest's records cannot be read: magic {magic:x}, kind {kind}, call {call}"));
    }
    let length = HEADER_BYTES + count as usize * each;
    if bytes.len() < length {
        return Ok(None);
    }
    let payload = &bytes[HEADER_BYTES..length];
    let record = match kind {
        1 => Record::Extents(payload.chunks_exact(16).map(extent).collect()),
        2 => Record::Promise(Promise {
            call: call as usize,
            first,
            slots: slots as usize,
            counts: words(payload),
        }),
        _ => Record::Deeds(words(payload)),
    };
    Ok(Some((record, length)))
}

fn extent(bytes: &[u8]) -> Extent {
    let block = u64::from(word(bytes, 2)) | u64::from(word(bytes, 3)) << 32;
    Extent { page: word(bytes, 0), pages: word(bytes, 1), block }
}

/// Half a record is no promise yet.
#[test]
fn records_count_once_they_are_whole() {
    let number =
        |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let promise = number(&[MAGIC, 2, 1, 7, 2, 3, 10, 11, 12, 20, 21, 22]);
    let extents = number(&[MAGIC, 1, 0, 0, 1, 0, 5, 6, 0x10, 1]);
    for cut in 0..promise.len() {
        assert_eq!(parse(&promise[..cut]), Ok(None), "{cut}");
    }
    let read = Promise { call: 1, first: 7, slots: 3, counts: vec![10, 11, 12, 20, 21, 22] };
    let all = [promise.clone(), extents].concat();
    assert_eq!(parse(&all), Ok(Some((Record::Promise(read), promise.len()))));
    let block = Extent { page: 5, pages: 6, block: 0x1_0000_0010 };
    assert_eq!(parse(&all[promise.len()..]), Ok(Some((Record::Extents(vec![block]), 40))));
    assert!(parse(&number(&[MAGIC, 9, 0, 0, 0, 0])).is_err());
    assert!(parse(&[0; 64]).is_err());
}
