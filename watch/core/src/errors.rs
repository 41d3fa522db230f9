// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel refuses, as one sentence with the remedy; and who may ask.

use ceasefire_base::Error;
use libbpf_rs::ErrorKind;
use std::fs;

/// Loading or attaching failed: why, as far as this machine lets us find out.
pub fn refused(what: &str, error: &libbpf_rs::Error) -> Error {
    if is_locked_down() {
        return Error::skip(format!("cannot {what}: this kernel is locked down (confidentiality)"))
            .remedy("boot without lockdown=confidentiality (with it, probes may not read kernel memory)");
    }
    if error.kind() == ErrorKind::PermissionDenied {
        return rights(what);
    }
    if error.kind() == ErrorKind::OutOfMemory {
        return Error::failed(format!("cannot {what}: the kernel has no memory for the probes' tables"))
            .remedy("free some memory, or raise this cgroup's memory.max");
    }
    Error::failed(format!("cannot {what}: {error}")).remedy("`ceasefire watch check` says what works here")
}

pub fn rights(what: &str) -> Error {
    Error::skip(format!("cannot {what}: watching the kernel needs root, or CAP_BPF and CAP_PERFMON"))
        .remedy("run it with sudo; in a container, add the capabilities BPF, PERFMON and SYSLOG")
}

pub fn is_root() -> bool {
    // SAFETY: geteuid() has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, for a user who is not root.
pub fn may_load() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const NEEDED: u64 = 1 << 38 | 1 << 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    held & SYS_ADMIN != 0 || held & NEEDED == NEEDED
}

fn is_locked_down() -> bool {
    let mode = fs::read_to_string("/sys/kernel/security/lockdown");
    mode.is_ok_and(|text| text.contains("[confidentiality]"))
}
