// SPDX-License-Identifier: GPL-2.0-only
//! Nothing we started outlives us, not even when we are killed with SIGKILL.
//!
//! A small process in a session of its own holds the reading end of a pipe. Every child writes its
//! process group there before exec; we write the negative when it is gone. When we end, however that
//! happens, the pipe closes and the guardian kills the groups that are left. (PR_SET_PDEATHSIG alone
//! would reach only the direct child, make, and not the compilers below it; crates for process groups kill on drop,
//! which SIGKILL leaves out.)

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

const GROUPS_MAX: usize = 256;

static PIPE: OnceLock<Option<RawFd>> = OnceLock::new();
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The writing end of the guardian's pipe; started at the first call. None if it could not start.
pub fn pipe() -> Option<RawFd> {
    *PIPE.get_or_init(start)
}

/// Tells the guardian of a process group (positive) or of its end (negative).
/// Async-signal-safe: called between fork and exec too.
pub fn tell(pipe: RawFd, group: i32) {
    let bytes = group.to_ne_bytes();
    // SAFETY: the buffer is valid for its length; four bytes to a pipe are written whole or not at all.
    unsafe {
        libc::write(pipe, bytes.as_ptr().cast(), bytes.len());
    }
}

fn start() -> Option<RawFd> {
    let mut ends = [0 as RawFd; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    let [reading, writing] = ends;
    // SAFETY: after fork() in a threaded program the child may only make system calls and use its stack: watch() does.
    match unsafe { libc::fork() } {
        0 => watch(reading),
        child => {
            // SAFETY: both descriptors are ours and used nowhere else.
            unsafe {
                libc::close(reading);
                if child < 0 {
                    libc::close(writing);
                    return None;
                }
            }
            PROCESS.store(child, Ordering::Relaxed);
            // SAFETY: farewell() makes system calls only and cannot unwind.
            unsafe { libc::atexit(farewell) };
            Some(writing)
        }
    }
}

/// At our ordinary end: dismisses the guardian and reaps it, for containers whose PID 1 reaps nobody.
extern "C" fn farewell() {
    let process = PROCESS.swap(0, Ordering::Relaxed);
    if let (Some(Some(pipe)), true) = (PIPE.get(), process > 0) {
        // SAFETY: plain system calls; the pipe is not used after this, since the program is at its end.
        unsafe {
            libc::close(*pipe);
            libc::waitpid(process, std::ptr::null_mut(), 0);
        }
    }
}

/// The guardian's whole life. System calls and stack only.
fn watch(reading: RawFd) -> ! {
    let mut groups = [0i32; GROUPS_MAX];
    // SAFETY: plain system calls on descriptors that belong to this process alone; buffers are on the stack.
    unsafe {
        libc::setsid();
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        // Our output must not stay open because the guardian still holds it; fd 0 becomes the pipe.
        libc::dup2(reading, 0);
        if libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32) != 0 {
            for fd in 1..1024 {
                libc::close(fd);
            }
        }
        loop {
            let mut bytes = [0u8; 4];
            let got = libc::read(0, bytes.as_mut_ptr().cast(), bytes.len());
            if got < 0 && *libc::__errno_location() == libc::EINTR {
                continue;
            }
            if got != bytes.len() as isize {
                break;
            }
            let group = i32::from_ne_bytes(bytes);
            let (from, to) = if group > 0 { (0, group) } else { (-group, 0) };
            for slot in groups.iter_mut() {
                if *slot == from {
                    *slot = to;
                    break;
                }
            }
        }
        for group in groups {
            if group > 1 {
                libc::kill(-group, libc::SIGKILL);
            }
        }
        libc::_exit(0)
    }
}
