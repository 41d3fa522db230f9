// SPDX-License-Identifier: GPL-2.0-only
//! Storms that threads of the kernel make in a process's stead.

use crate::stage::{Area, Stage, PAGE};
use ceasefire_base::{cancel, Error, Result};
use std::fs;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const KSM: &str = "/sys/kernel/mm/ksm/";

/// KSM's settings, which are put back when it is dropped.
struct Ksm(Vec<(&'static str, String)>);

impl Ksm {
    fn run() -> Result<Ksm> {
        cancel::install()?;
        let mut saved = Ksm(Vec::new());
        // `run` last, so that it is the last to be put back, too.
        for (name, value) in
            [("pages_to_scan", "4096"), ("sleep_millisecs", "1"), ("smart_scan", "0"), ("run", "1")]
        {
            match fs::read_to_string(format!("{KSM}{name}")) {
                Ok(old) => saved.0.push((name, old)),
                // Older kernels always scan everything.
                Err(_) if name == "smart_scan" => continue,
                Err(error) => return Err(skip(&error)),
            }
            fs::write(format!("{KSM}{name}"), value).map_err(|error| skip(&error))?;
        }
        Ok(saved)
    }
}

impl Drop for Ksm {
    fn drop(&mut self) {
        for (name, old) in self.0.drain(..) {
            let _ = fs::write(format!("{KSM}{name}"), old.trim());
        }
    }
}

fn skip(error: &std::io::Error) -> Error {
    Error::skip(format!("same-page merging cannot be started: {error}"))
        .remedy("this storm needs root and a kernel with CONFIG_KSM")
}

fn full_scans() -> u64 {
    let text = fs::read_to_string(format!("{KSM}full_scans")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Pages with the same contents, which ksmd merges each time they were written.
pub fn ksm(stage: &mut Stage, rounds: u64) -> Result<()> {
    const PAGES: u64 = 256;
    const PATIENCE: Duration = Duration::from_secs(30);
    stage.sender_comm = Some("ksmd");
    let area = Area::map(PAGES as usize * PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    area.advise(0, PAGES, libc::MADV_NOHUGEPAGE)?;
    area.advise(0, PAGES, libc::MADV_MERGEABLE)?;
    let _running = Ksm::run()?;
    stage.wait_for_victim();
    for round in 0..rounds {
        (0..PAGES).for_each(|page| area.write(page, 1 + round as u8 % 100));
        let (begun, first) = (Instant::now(), full_scans());
        // A page is merged when a second scan finds it unchanged.
        while full_scans() < first + 3 {
            cancel::check()?;
            if begun.elapsed() > PATIENCE {
                return Err(Error::skip("ksmd does not get round")
                    .remedy("run this storm on a machine with less to merge"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Kernel stacks are vmalloc memory: when enough of them are freed the kernel flushes their addresses. Each CPU keeps two
/// for the next thread, so threads come in batches.
pub fn vmalloc(stage: &mut Stage, rounds: u64) -> Result<()> {
    const BATCH: u64 = 256;
    stage.sender_comm = Some("kworker");
    let refused = |error| Error::failed(format!("a thread of the storm was refused: {error}"));
    stage.wait_for_victim();
    for _ in 0..rounds.div_ceil(BATCH) {
        let all_are_there = Arc::new(Barrier::new(BATCH as usize));
        let threads = (0..BATCH).map(|_| {
            let all_are_there = Arc::clone(&all_are_there);
            let wait = move || {
                all_are_there.wait();
            };
            thread::Builder::new().stack_size(64 << 10).spawn(wait).map_err(refused)
        });
        for thread in threads.collect::<Result<Vec<_>>>()? {
            let _ = thread.join();
        }
        // The kernel's own threads get this CPU only while nobody here wants it.
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
