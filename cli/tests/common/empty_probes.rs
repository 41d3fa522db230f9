// SPDX-License-Identifier: GPL-2.0-only
//! BPF programs at tracepoints that do nothing: what any BPF program there costs at least.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// r0 = 0; exit
static NOTHING: [u64; 2] = [0xb7, 0x95];

/// The first fields of what BPF_PROG_LOAD takes.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
struct Open {
    name: u64,
    program: u32,
    pad: u32,
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads this many bytes of the attributes, and what they point to, while the call lasts.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    match fd {
        0.. => {
            // SAFETY: the call has made it for us.
            Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// They run until what is returned is dropped.
pub fn attach(tracepoints: &[&str]) -> io::Result<Vec<OwnedFd>> {
    let license = b"GPL\0";
    let load = Load {
        kind: BPF_PROG_TYPE_RAW_TRACEPOINT,
        instructions: NOTHING.len() as u32,
        code: NOTHING.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    let program = bpf(BPF_PROG_LOAD, &load)?;
    tracepoints
        .iter()
        .map(|name| {
            let name = CString::new(*name)?;
            let open = Open { name: name.as_ptr() as u64, program: program.as_raw_fd() as u32, pad: 0 };
            bpf(BPF_RAW_TRACEPOINT_OPEN, &open)
        })
        .collect()
}
