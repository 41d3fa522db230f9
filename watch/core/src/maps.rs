// SPDX-License-Identifier: GPL-2.0-only
//! Whole maps at once, as typed rows.

use crate::wire::{self, Plain};
use ceasefire_base::{Error, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::os::fd::{AsFd, AsRawFd};

/// Rows asked for in one call: a bucket of the kernel's table must fit in.
const BATCH: usize = 1024;

/// Every row of a hash map. Rows that come while it is read may be missing, none is torn across calls.
pub fn rows<K: Plain, V: Plain>(map: &MapHandle) -> Result<Vec<(K, V)>> {
    let (key_bytes, value_bytes) = (std::mem::size_of::<K>(), std::mem::size_of::<V>());
    if map.key_size() as usize != key_bytes || map.value_size() as usize != value_bytes {
        return Err(
            Error::failed(format!("the table {:?} has another form", map.name())).remedy("make watch")
        );
    }
    let mut rows = Vec::new();
    let mut keys = vec![0u8; key_bytes * BATCH];
    let mut values = vec![0u8; value_bytes * BATCH];
    let (mut from, mut to) = (vec![0u8; key_bytes.max(8)], vec![0u8; key_bytes.max(8)]);
    let mut is_first = true;
    loop {
        let mut count = BATCH as u32;
        // SAFETY: both buffers hold `count` rows of the sizes compared above; the cursors hold a key or a u32.
        let code = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                if is_first { std::ptr::null_mut() } else { from.as_mut_ptr().cast() },
                to.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                std::ptr::null(),
            )
        };
        let is_end = code == -libc::ENOENT;
        if code < 0 && !is_end {
            return Err(Error::failed(format!("cannot read the table {:?}: error {}", map.name(), -code))
                .remedy("`ceasefire watch check` says what works here"));
        }
        let count = count as usize;
        let pairs = keys.chunks_exact(key_bytes).zip(values.chunks_exact(value_bytes)).take(count);
        rows.extend(pairs.filter_map(|(key, value)| Some((wire::read(key)?, wire::read(value)?))));
        if is_end {
            return Ok(rows);
        }
        is_first = false;
        std::mem::swap(&mut from, &mut to);
    }
}

/// A row that is not there is none to remove.
pub fn remove<K: Plain>(map: &MapHandle, key: &K) {
    let _ = map.delete(&wire::bytes_of(key));
}

/// One row of a per-CPU array, all CPUs.
pub fn per_cpu<V: Plain>(map: &MapHandle, index: u32) -> Result<Vec<V>> {
    let rows =
        map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY).map_err(|error| unreadable(map, &error))?;
    Ok(rows.unwrap_or_default().iter().filter_map(|bytes| wire::read(bytes)).collect())
}

/// One row of an array.
pub fn one<V: Plain>(map: &MapHandle, index: u32) -> Result<Option<V>> {
    let row = map.lookup(&index.to_ne_bytes(), MapFlags::ANY).map_err(|error| unreadable(map, &error))?;
    Ok(row.and_then(|bytes| wire::read(&bytes)))
}

/// Addresses of a stack, innermost first.
pub fn stack(map: &MapHandle, id: u32) -> Result<Vec<u64>> {
    let bytes = map.lookup(&id.to_ne_bytes(), MapFlags::ANY).map_err(|error| unreadable(map, &error))?;
    let words = bytes.unwrap_or_default();
    let addresses = words.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    Ok(addresses.take_while(|address| *address != 0).collect())
}

fn unreadable(map: &MapHandle, error: &libbpf_rs::Error) -> Error {
    Error::failed(format!("cannot read the table {:?}: {error}", map.name()))
        .remedy("`ceasefire watch check` says what works here")
}

// SAFETY: an integer.
unsafe impl Plain for u64 {}
