// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel refuses, as one sentence with the remedy.

use crate::kernel;
use ceasefire_base::Error;
use libbpf_rs::ErrorKind;

/// Loading or attaching failed: why, as far as this machine lets us find out.
pub fn refused(what: &str, error: &libbpf_rs::Error) -> Error {
    if let Some(mode) = kernel::lockdown() {
        return Error::skip(format!("cannot {what}: this kernel is locked down ({mode})"))
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
