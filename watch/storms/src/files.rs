// SPDX-License-Identifier: GPL-2.0-only
//! Storms on mapped files and on memory that leaves the kernel's own map.

use crate::group::Group;
use crate::stage::{check, failed, unsupported, Area, Stage, PAGE};
use crate::{PAGES, SYNCED_PAGES};
use ceasefire_base::{cancel, Error, Result};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where file systems are mounted that write back; memory's do not.
fn disks() -> Vec<PathBuf> {
    const WRITE_BACK: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|f| f.len() > 2 && WRITE_BACK.contains(&f[2])).map(|f| PathBuf::from(f[1])).collect()
}

fn is_memory(directory: &Path) -> bool {
    let Ok(name) = CString::new(directory.as_os_str().as_bytes()) else { return true };
    // SAFETY: statfs is numbers, for which zeroes are valid; the name is a C string that outlives the call.
    unsafe {
        let mut said: libc::statfs = std::mem::zeroed();
        libc::statfs(name.as_ptr(), &mut said) != 0 || [libc::TMPFS_MAGIC, 0x8584_58f6].contains(&said.f_type)
    }
}

/// A file without a name, on a disk.
fn on_disk(pages: u64) -> Result<File> {
    let told = std::env::var_os("TMPDIR").map(PathBuf::from);
    let likely = told.into_iter().chain(["/var/tmp".into(), ".".into()]);
    for directory in likely.chain(disks()).filter(|directory| !is_memory(directory)) {
        let path = directory.join(format!("ceasefire-storm-{}", std::process::id()));
        let open = File::options().read(true).write(true).create_new(true).open(&path);
        let _ = std::fs::remove_file(&path);
        let Ok(file) = open else { continue };
        let content = vec![1u8; pages as usize * PAGE];
        if std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).and_then(|()| file.sync_all()).is_ok()
        {
            return Ok(file);
        }
    }
    Err(Error::skip("no file could be made on a disk").remedy("set TMPDIR to a directory on a disk"))
}

fn shared(file: &impl AsRawFd, pages: u64) -> Result<Area> {
    Area::map(pages as usize * PAGE, libc::MAP_SHARED, file.as_raw_fd())
}

pub fn pageout(stage: &mut Stage, rounds: u64) -> Result<()> {
    let file = on_disk(PAGES)?;
    let area = shared(&file, PAGES)?;
    stage.wait_for_victim();
    for _ in 0..rounds {
        for page in 0..PAGES {
            area.read(page);
        }
        area.advise(0, PAGES, libc::MADV_PAGEOUT)?;
    }
    Ok(())
}

/// A limit below what its group uses makes the storm itself reclaim.
pub fn reclaim(stage: &mut Stage, rounds: u64) -> Result<()> {
    const FILE_PAGES: u64 = 256;
    // The pages are charged to the group that reads them first.
    let group = Group::join()?;
    let file = on_disk(FILE_PAGES)?;
    let area = shared(&file, FILE_PAGES)?;
    stage.wait_for_victim();
    for _ in 0..rounds {
        cancel::check()?;
        for page in 0..FILE_PAGES {
            area.read(page);
        }
        group.shrink()?;
    }
    Ok(())
}

/// A clean page is written to and made clean again.
pub fn msync(stage: &mut Stage, rounds: u64) -> Result<()> {
    write_and_sync(stage, rounds, 1)
}

/// Many pages side by side, with one call for all.
pub fn msync_range(stage: &mut Stage, rounds: u64) -> Result<()> {
    write_and_sync(stage, rounds, SYNCED_PAGES)
}

fn write_and_sync(stage: &mut Stage, rounds: u64, pages: u64) -> Result<()> {
    let file = on_disk(pages)?;
    let area = shared(&file, pages)?;
    stage.wait_for_victim();
    for round in 0..rounds {
        cancel::check()?;
        (0..pages).for_each(|page| area.write(page, round as u8));
        // SAFETY: a mapping of this storm.
        let code = unsafe { libc::msync(area.0.cast(), pages as usize * PAGE, libc::MS_SYNC) };
        check(code, "msync was refused")?;
    }
    Ok(())
}

pub fn truncate(stage: &mut Stage, rounds: u64) -> Result<()> {
    // SAFETY: the name is a C string; the call returns a descriptor or an error.
    let fd = unsafe { libc::memfd_create(c_name(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed("no memory file"));
    }
    // SAFETY: a descriptor that was just opened and that nobody else holds.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = |pages: u64| {
        // SAFETY: our descriptor.
        check(
            unsafe { libc::ftruncate(file.as_raw_fd(), (pages as usize * PAGE) as i64) },
            "ftruncate was refused",
        )
    };
    length(PAGES + 1)?;
    let area = shared(&file, PAGES + 1)?;
    area.write(0, 1);
    stage.wait_for_victim();
    for _ in 0..rounds {
        (1..=PAGES).for_each(|page| area.write(page, 1));
        length(1)?;
        length(PAGES + 1)?;
    }
    Ok(())
}

fn c_name() -> *const libc::c_char {
    b"storm\0".as_ptr().cast()
}

/// A page of secret memory leaves the kernel's own map when it is first touched.
pub fn secret(stage: &mut Stage, rounds: u64) -> Result<()> {
    // SAFETY: the call takes flags and returns a descriptor or an error.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_secret, 0) } as i32;
    if fd < 0 {
        return Err(unsupported("no memfd_secret (secretmem.enable=1)"));
    }
    // SAFETY: a descriptor that was just opened and that nobody else holds.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: our descriptor.
    let code = unsafe { libc::ftruncate(file.as_raw_fd(), (rounds as usize * PAGE) as i64) };
    check(code, "ftruncate was refused")?;
    let area =
        shared(&file, rounds).map_err(|_| unsupported("no locked memory for secret pages (ulimit -l)"))?;
    stage.wait_for_victim();
    let before = splits()?;
    (0..rounds).for_each(|page| area.write(page, 1));
    stage.full_besides = splits()? - before;
    Ok(())
}

/// Huge entries of the kernel's own map that were split, each with a flush of everything (__split_large_page()).
fn splits() -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat").map_err(|_| unsupported("no /proc/vmstat"))?;
    let count =
        |line: &str| line.strip_prefix("direct_map_level")?.split_once("_splits ")?.1.parse::<u64>().ok();
    Ok(text.lines().filter_map(count).sum())
}
