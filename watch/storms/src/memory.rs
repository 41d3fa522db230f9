// SPDX-License-Identifier: GPL-2.0-only
//! Storms on anonymous memory. Each round sends one shootdown, unless the table says otherwise.

use crate::stage::{check, failed, unsupported, Area, Stage, PAGE};
use crate::PAGES;
use ceasefire_base::{Error, Result};
use std::time::Instant;

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const BYTES: usize = PAGES as usize * PAGE;
pub const HUGE: usize = 2 << 20;

/// Neighbours on both sides keep the page table: freeing one would widen the range.
pub fn amid(pages: u64) -> Result<Area> {
    let area = Area::map((pages as usize + 2 * 64) * PAGE, PRIVATE | libc::MAP_NORESERVE, -1)?;
    area.advise(0, pages + 128, libc::MADV_NOHUGEPAGE)?;
    area.touch(64);
    let inner = Area(area.at(64));
    (0..64).for_each(|page| inner.write(pages + page, 1));
    Ok(inner)
}

fn advised(stage: &mut Stage, rounds: u64, advice: i32) -> Result<()> {
    let area = amid(PAGES)?;
    // All at once: a vector that grows would send shootdowns of its own.
    stage.calls_ns.reserve(rounds as usize);
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        let begun = Instant::now();
        area.advise(0, PAGES, advice)?;
        stage.calls_ns.push(begun.elapsed().as_nanos() as u32);
    }
    Ok(())
}

pub fn dontneed(stage: &mut Stage, rounds: u64) -> Result<()> {
    advised(stage, rounds, libc::MADV_DONTNEED)
}

pub fn free(stage: &mut Stage, rounds: u64) -> Result<()> {
    advised(stage, rounds, libc::MADV_FREE)
}

/// Each call comes from a thread of its own.
pub fn threads(stage: &mut Stage, rounds: u64) -> Result<()> {
    stage.sender_comm = Some("ceasefire");
    let area = amid(PAGES)?;
    let at = area.0 as usize;
    stage.wait_for_victim();
    for _ in 0..rounds {
        let call = move || {
            let area = Area(at as *mut u8);
            area.touch(PAGES);
            area.advise(0, PAGES, libc::MADV_DONTNEED)
        };
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(call);
        let thread = thread.map_err(|error| Error::failed(format!("a thread was refused: {error}")))?;
        thread.join().map_err(|_| Error::failed("a thread of the storm panicked"))??;
    }
    Ok(())
}

pub fn munmap(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        area.unmap(BYTES);
        Area::map_at(area.0, BYTES, libc::PROT_READ | libc::PROT_WRITE, PRIVATE | libc::MAP_FIXED, -1)?;
    }
    Ok(())
}

pub fn replace(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        Area::map_at(area.0, BYTES, libc::PROT_READ | libc::PROT_WRITE, PRIVATE | libc::MAP_FIXED, -1)?;
    }
    Ok(())
}

pub fn brk(stage: &mut Stage, rounds: u64) -> Result<()> {
    let grow = |bytes: isize| -> Result<*mut u8> {
        // SAFETY: only memory above everything malloc has taken comes and goes: nothing allocates meanwhile.
        let before = unsafe { libc::sbrk(bytes) };
        match before as isize {
            -1 => Err(failed("the heap cannot grow")),
            _ => Ok(before.cast()),
        }
    };
    // To a page's start, and one page that stays, for the page table's sake.
    let odd = grow(0)? as usize % PAGE;
    let base = Area(grow((2 * PAGE - odd) as isize)?.wrapping_add(PAGE - odd));
    base.write(0, 1);
    stage.wait_for_victim();
    for _ in 0..rounds {
        let area = Area(grow(BYTES as isize)?);
        area.touch(PAGES);
        grow(-(BYTES as isize))?;
    }
    Ok(())
}

pub fn mprotect(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    let protect = |protection: i32| {
        // SAFETY: memory of this storm, which it does not write while it may not.
        check(unsafe { libc::mprotect(area.0.cast(), BYTES, protection) }, "mprotect was refused")
    };
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        protect(libc::PROT_READ)?;
        protect(libc::PROT_READ | libc::PROT_WRITE)?;
    }
    Ok(())
}

pub fn mremap(stage: &mut Stage, rounds: u64) -> Result<()> {
    let (mut from, mut to) = (amid(PAGES)?, amid(PAGES)?);
    to.unmap(BYTES);
    stage.wait_for_victim();
    for _ in 0..rounds {
        from.touch(PAGES);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: from a mapping of this storm to a hole between two others of it.
        let moved = unsafe { libc::mremap(from.0.cast(), BYTES, BYTES, flags, to.0) };
        if moved == libc::MAP_FAILED {
            return Err(failed("mremap was refused"));
        }
        std::mem::swap(&mut from, &mut to);
    }
    Ok(())
}

/// Reading maps the zero page; writing replaces it.
pub fn cow(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = Area::map(rounds as usize * PAGE, PRIVATE | libc::MAP_NORESERVE, -1)?;
    area.advise(0, rounds, libc::MADV_NOHUGEPAGE)?;
    stage.wait_for_victim();
    for page in 0..rounds {
        area.read(page);
        area.write(page, 1);
    }
    Ok(())
}

/// Clearing the bits write-protects everything, and flushes once.
pub fn soft_dirty(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    let clear = || std::fs::write("/proc/self/clear_refs", "4");
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        clear().map_err(|_| unsupported("no soft-dirty bits (/proc/self/clear_refs)"))?;
    }
    Ok(())
}

/// The child ends at once by _exit; its own address space has one thread.
pub fn fork(stage: &mut Stage, rounds: u64) -> Result<()> {
    stage.wait_for_victim();
    for _ in 0..rounds {
        // SAFETY: the child calls only _exit(); the parent waits for it.
        unsafe {
            match libc::fork() {
                -1 => return Err(failed("fork was refused")),
                0 => libc::_exit(0),
                child => libc::waitpid(child, std::ptr::null_mut(), 0),
            };
        }
    }
    Ok(())
}

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRegister {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdProtect {
    start: u64,
    length: u64,
    mode: u64,
}

const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;
const REGISTER_WP: u64 = 2;
const FEATURE_WP: u64 = 1;

pub fn userfaultfd(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = amid(PAGES)?;
    // SAFETY: the call takes flags and returns a descriptor or an error.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) } as i32;
    if fd < 0 {
        return Err(unsupported("no userfaultfd"));
    }
    let mut api = UffdApi { api: 0xaa, features: FEATURE_WP, ioctls: 0 };
    let (start, length) = (area.0 as u64, BYTES as u64);
    let mut register = UffdRegister { start, length, mode: REGISTER_WP, ioctls: 0 };
    // SAFETY: the structures are those that these requests take, and outlive the calls.
    let code = unsafe {
        libc::ioctl(fd, UFFDIO_API as _, &mut api) | libc::ioctl(fd, UFFDIO_REGISTER as _, &mut register)
    };
    if code != 0 {
        return Err(unsupported("no write protection by userfaultfd"));
    }
    stage.wait_for_victim();
    for _ in 0..rounds {
        area.touch(PAGES);
        for mode in [1, 0] {
            let mut protect = UffdProtect { start, length, mode };
            // SAFETY: as above.
            let code = unsafe { libc::ioctl(fd, UFFDIO_WRITEPROTECT as _, &mut protect) };
            check(code, "write protection was refused")?;
        }
    }
    // SAFETY: our descriptor, used by nobody else.
    unsafe { libc::close(fd) };
    Ok(())
}

pub fn huge() -> Result<Area> {
    let area = Area::map(2 * HUGE, PRIVATE, -1)?;
    Ok(Area(((area.0 as usize + HUGE - 1) & !(HUGE - 1)) as *mut u8))
}

/// One page of a huge one is given back.
pub fn split(stage: &mut Stage, rounds: u64) -> Result<()> {
    let area = huge()?;
    let pages = (HUGE / PAGE) as u64;
    stage.wait_for_victim();
    for _ in 0..rounds {
        // Mapped anew: the page table of the split one would be in the way of the next.
        Area::map_at(area.at(0), HUGE, libc::PROT_READ | libc::PROT_WRITE, PRIVATE | libc::MAP_FIXED, -1)?;
        area.advise(0, pages, libc::MADV_HUGEPAGE)?;
        area.write(0, 1);
        area.advise(1, 1, libc::MADV_DONTNEED)?;
    }
    Ok(())
}
