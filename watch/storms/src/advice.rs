// SPDX-License-Identifier: GPL-2.0-only
//! Storms of advice that does not come by madvise, or that madvise has had for a short time only.

use crate::memory::{amid, huge, HUGE};
use crate::stage::{check, failed, unsupported, Area, Stage, PAGE};
use crate::PAGES;
use ceasefire_base::{Error, Result};
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

const BYTES: usize = PAGES as usize * PAGE;
const GUARD_INSTALL: i32 = 102;
const GUARD_REMOVE: i32 = 103;

/// For the caller itself, which Linux 6.13 and newer allow.
pub fn process_madvise(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    // SAFETY: the call takes numbers and returns a descriptor or an error.
    let own = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) } as i32;
    if own < 0 {
        return Err(unsupported("no pidfd"));
    }
    let range = libc::iovec { iov_base: area.0.cast(), iov_len: BYTES };
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        // SAFETY: one range of this storm's memory, whose contents do not matter.
        let advised =
            unsafe { libc::syscall(libc::SYS_process_madvise, own, &range, 1, libc::MADV_DONTNEED, 0) };
        if advised < 0 {
            return Err(unsupported("no process_madvise(MADV_DONTNEED) for the caller itself"));
        }
    }
    // SAFETY: our descriptor, used by nobody else.
    unsafe { libc::close(own) };
    Ok(())
}

pub fn guard_install(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        area.advise(0, PAGES, GUARD_INSTALL).map_err(|_| unsupported("no MADV_GUARD_INSTALL"))?;
        area.advise(0, PAGES, GUARD_REMOVE)?;
    }
    Ok(())
}

/// What io_uring_setup() fills in, as far as this storm needs it.
#[repr(C)]
#[derive(Default)]
struct RingSetup {
    entries: [u32; 2],
    flags: u32,
    rest: [u32; 7],
    /// Offsets of head, tail, mask, entries, flags, dropped, array, one that is reserved, and an address.
    submit: [u32; 10],
    /// Offsets of head, tail, mask, entries, overflow, entries' place, flags, one that is reserved, and an address.
    complete: [u32; 10],
}

#[repr(C)]
#[derive(Default)]
struct Submission {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    advice: u32,
    rest: [u64; 4],
}

const SETUP: i64 = 425;
const ENTER: i64 = 426;
const GET_EVENTS: u32 = 1;
const OP_MADVISE: u8 = 25;
const SUBMISSIONS: i64 = 0x1000_0000;

/// A ring with one submission at a time.
struct Ring {
    fd: i32,
    setup: RingSetup,
    ring: Area,
    submissions: Area,
}

impl Ring {
    fn new() -> Result<Ring> {
        let mut setup = RingSetup::default();
        // SAFETY: the structure has the size that the call fills.
        let fd = unsafe { libc::syscall(SETUP, 4, &mut setup) } as i32;
        if fd < 0 {
            return Err(unsupported("no io_uring"));
        }
        let shared = libc::MAP_SHARED | libc::MAP_POPULATE;
        let ring = Area::map(4 * PAGE, shared, fd)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping of the ring's own memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, shared, fd, SUBMISSIONS) };
        if at == libc::MAP_FAILED {
            return Err(failed("the ring could not be mapped"));
        }
        Ok(Ring { fd, setup, ring, submissions: Area(at.cast()) })
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: offsets that the kernel gave, of aligned words within the ring, which stays mapped.
        unsafe { &*self.ring.0.wrapping_add(offset as usize).cast::<AtomicU32>() }
    }

    /// Submits one and waits until it is done.
    fn run(&self, submission: Submission) -> Result<()> {
        let tail = self.word(self.setup.submit[1]);
        let place = tail.load(Ordering::Acquire) & self.word(self.setup.submit[2]).load(Ordering::Relaxed);
        // SAFETY: the ring has at least four entries, and its mask keeps the place among them.
        unsafe { self.submissions.0.cast::<Submission>().add(place as usize).write_volatile(submission) };
        self.word(self.setup.submit[6] + 4 * place).store(place, Ordering::Relaxed);
        tail.fetch_add(1, Ordering::Release);
        // SAFETY: the call takes numbers and no signal mask.
        let entered = unsafe { libc::syscall(ENTER, self.fd, 1, 1, GET_EVENTS, 0, 0) };
        if entered < 0 {
            return Err(failed("the ring was refused"));
        }
        let head = self.word(self.setup.complete[0]);
        let seen = head.load(Ordering::Relaxed);
        let place = seen & self.word(self.setup.complete[2]).load(Ordering::Relaxed);
        // Of 16 bytes each, the result is behind eight.
        let result = self.word(self.setup.complete[5] + 16 * place + 8).load(Ordering::Acquire) as i32;
        head.store(seen.wrapping_add(1), Ordering::Release);
        match result {
            0 => Ok(()),
            code => Err(Error::skip(format!("no madvise by io_uring: error {}", -code))
                .remedy("this storm needs a kernel that has it")),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our descriptor, used by nobody else.
        unsafe { libc::close(self.fd) };
    }
}

/// The kernel gives it to a worker thread of the process.
pub fn io_uring(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    let ring = Ring::new()?;
    stage.sender_comm = Some("iou-wrk");
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        ring.run(Submission {
            opcode: OP_MADVISE,
            fd: -1,
            address: area.0 as u64,
            length: BYTES as u32,
            advice: libc::MADV_DONTNEED as u32,
            ..Submission::default()
        })?;
    }
    Ok(())
}

const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// Every other page is given back, so that there is something to move.
pub fn compaction(stage: &mut Stage, rounds: u64) -> Result<()> {
    const PAGES: u64 = 16_384;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let area = Area::map(PAGES as usize * PAGE, private, -1)?;
    area.advise(0, PAGES, libc::MADV_NOHUGEPAGE)?;
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        for page in (0..PAGES).step_by(2) {
            area.advise(page, 1, libc::MADV_DONTNEED)?;
        }
        fs::write(COMPACT, "1").map_err(|_| unsupported("memory cannot be compacted on request"))?;
    }
    Ok(())
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// One page table of hugetlb pages: what processes share.
const SHARED: usize = 1 << 30;

/// How many there are, put back when it is dropped.
struct HugePages(u64);

impl HugePages {
    fn more(by: u64) -> Result<HugePages> {
        let skip = || unsupported("no hugetlb pages can be had");
        let text = fs::read_to_string(HUGE_PAGES).map_err(|_| skip())?;
        let before: u64 = text.trim().parse().map_err(|_| skip())?;
        let pages = HugePages(before);
        fs::write(HUGE_PAGES, (before + by).to_string()).map_err(|_| skip())?;
        let now = fs::read_to_string(HUGE_PAGES).ok().and_then(|text| text.trim().parse::<u64>().ok());
        match now {
            Some(now) if now >= before + by => Ok(pages),
            _ => Err(Error::skip("no free memory for hugetlb pages").remedy("free some memory")),
        }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(HUGE_PAGES, self.0.to_string());
    }
}

/// A child shares its parent's page table of hugetlb pages; when it ends, every other CPU is interrupted, whatever it runs.
pub fn hugetlb_exit(stage: &mut Stage, rounds: u64) -> Result<()> {
    let _pages = HugePages::more(2)?;
    let room = Area::map(2 * SHARED, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)?;
    let start = Area(((room.0 as usize + SHARED - 1) & !(SHARED - 1)) as *mut u8);
    let flags =
        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let area = Area::map_at(start.0, SHARED, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
    area.write(0, 1);
    // Each child sends for itself.
    stage.sender_comm = Some("ceasefire");
    stage.wait_for_victim();
    for _ in 0..rounds {
        // SAFETY: the child reads a page and calls _exit(); the parent waits for it.
        unsafe {
            match libc::fork() {
                -1 => return Err(failed("fork was refused")),
                0 => libc::_exit(i32::from(area.read(0) != 1)),
                child => libc::waitpid(child, std::ptr::null_mut(), 0),
            };
        }
    }
    area.unmap(SHARED);
    Ok(())
}

pub fn collapse(stage: &mut Stage, rounds: u64) -> Result<()> {
    const COLLAPSE: i32 = 25;
    let area = huge()?;
    let pages = (HUGE / PAGE) as u64;
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.advise(0, pages, libc::MADV_NOHUGEPAGE)?;
        area.touch(pages);
        area.advise(0, pages, libc::MADV_HUGEPAGE)?;
        // SAFETY: memory that this storm mapped; its contents do not matter.
        let code = unsafe { libc::madvise(area.0.cast(), HUGE, COLLAPSE) };
        if check(code, "").is_err() {
            return Err(Error::skip("madvise(MADV_COLLAPSE) was refused")
                .remedy("use Linux 6.1 or newer, with free memory"));
        }
        area.advise(0, pages, libc::MADV_DONTNEED)?;
    }
    Ok(())
}
