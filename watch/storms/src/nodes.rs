// SPDX-License-Identifier: GPL-2.0-only
//! Storms on machines with several nodes.

use crate::stage::{failed, Area, Stage, PAGE};
use crate::PAGES;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch_model::ranges;
use std::fs;
use std::time::{Duration, Instant};

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const MPOL_MF_MOVE: i32 = 2;

fn nodes() -> Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    let nodes: Vec<i32> = ranges::parse(&text).into_iter().filter_map(|node| node.try_into().ok()).collect();
    match nodes.len() {
        0 | 1 => Err(Error::skip("this machine has one node").remedy("run it where memory has two nodes")),
        _ => Ok(nodes),
    }
}

/// Pages go to the other node, and back.
pub fn migrate(stage: &mut Stage, rounds: u64) -> Result<()> {
    let nodes = nodes()?;
    let area = Area::map(PAGES as usize * PAGE, PRIVATE, -1)?;
    area.advise(0, PAGES, libc::MADV_NOHUGEPAGE)?;
    area.touch(PAGES);
    let pages: Vec<*mut u8> = (0..PAGES).map(|page| area.at(page)).collect();
    stage.wait_for_victim();
    for round in 0..rounds as usize {
        area.touch(PAGES);
        let to = vec![nodes[(round + 1) % 2]; pages.len()];
        let mut status = vec![0i32; pages.len()];
        // SAFETY: three arrays of as many elements as the call is told, which outlive it.
        let code = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages.len(),
                pages.as_ptr(),
                to.as_ptr(),
                status.as_mut_ptr(),
                MPOL_MF_MOVE,
            )
        };
        if code < 0 {
            return Err(failed("moving pages to another node was refused"));
        }
    }
    Ok(())
}

/// On while it lives.
struct Balancing(String);

const SWITCH: &str = "/proc/sys/kernel/numa_balancing";

impl Balancing {
    fn on() -> Result<Balancing> {
        cancel::install()?;
        let remedy = "this storm needs root and a kernel with CONFIG_NUMA_BALANCING";
        let skip = |error| Error::skip(format!("no NUMA balancing: {error}")).remedy(remedy);
        let before = fs::read_to_string(SWITCH).map_err(skip)?;
        fs::write(SWITCH, "1").map_err(skip)?;
        Ok(Balancing(before))
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.0.trim());
    }
}

/// Of this thread's scans only `area` is worth one: vma_policy_mof() passes over what has a policy without the flag.
fn scan_only(area: Area, pages: u64, nodes: &[i32]) -> Result<()> {
    const MPOL_BIND: i32 = 2;
    const MPOL_F_NUMA_BALANCING: i32 = 1 << 13;
    let mask = nodes.iter().filter(|node| **node < 64).fold(0u64, |mask, node| mask | 1 << node);
    // The kernel takes one off.
    let bits = u64::BITS as usize + 1;
    // SAFETY: a mask of 64 bits, which outlives both calls; they change where memory comes from, nothing in it.
    let code = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, &mask, bits)
            | libc::syscall(
                libc::SYS_mbind,
                area.at(0),
                pages as usize * PAGE,
                MPOL_BIND | MPOL_F_NUMA_BALANCING,
                &mask,
                bits,
                0,
            )
    };
    match code {
        0 => Ok(()),
        _ => Err(failed("a policy for memory was refused")),
    }
}

/// For each round a second of work on memory that the scanner comes to. It scans only for the fair scheduler.
pub fn balance(stage: &mut Stage, rounds: u64) -> Result<()> {
    const SCANNED_PAGES: u64 = 4096;
    let nodes = nodes()?;
    let _on = Balancing::on()?;
    let area = Area::map(SCANNED_PAGES as usize * PAGE, PRIVATE, -1)?;
    area.advise(0, SCANNED_PAGES, libc::MADV_NOHUGEPAGE)?;
    scan_only(area, SCANNED_PAGES, &nodes)?;
    stage.wait_for_victim();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(rounds) {
        cancel::check()?;
        area.touch(SCANNED_PAGES);
    }
    Ok(())
}
