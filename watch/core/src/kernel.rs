// SPDX-License-Identifier: GPL-2.0-only
//! What this kernel is and lets us see.

use crate::errors;
use ceasefire_base::{Error, Result};
use ceasefire_watch_model::interrupts;
use ceasefire_watch_model::symbols::Symbols;
use std::fs;

const USER_FUNCTION: &str = "flush_tlb_func";
/// The first has a range; the probes rely on the order.
const KERNEL_FUNCTIONS: [&str; 5] =
    ["do_kernel_range_flush", "do_flush_tlb_all", "__cpa_flush_tlb", "__cpa_flush_all", "do_flush_tlb_range"];

pub struct Functions {
    pub user: u64,
    pub kernel: [u64; crate::wire::FUNCTIONS_MAX],
}

pub fn symbols() -> Result<Symbols> {
    let text = fs::read_to_string("/proc/kallsyms").map_err(|error| {
        Error::skip(format!("cannot read the kernel's symbols: {error}"))
            .remedy("mount /proc, and run it as root")
    })?;
    let symbols = Symbols::parse(&text);
    if symbols.is_empty() {
        if !is_root() {
            return Err(errors::rights("read the kernel's symbols"));
        }
        return Err(Error::skip("the kernel hides its addresses").remedy("sysctl kernel.kptr_restrict=1"));
    }
    Ok(symbols)
}

pub fn functions(symbols: &Symbols) -> Result<Functions> {
    let user = symbols.address(USER_FUNCTION).ok_or_else(|| {
        Error::skip(format!("this kernel has no {USER_FUNCTION}: it flushes other CPUs in another way"))
            .remedy("an x86-64 Linux 5.13 or newer has it")
    })?;
    let mut kernel = [0; crate::wire::FUNCTIONS_MAX];
    for (address, name) in kernel.iter_mut().zip(KERNEL_FUNCTIONS) {
        *address = symbols.address(name).unwrap_or(0);
    }
    Ok(Functions { user, kernel })
}

/// The `TLB` row, all CPUs.
pub fn tlb_row() -> Option<u64> {
    row("TLB")
}

pub fn row(name: &str) -> Option<u64> {
    interrupts::row(&fs::read_to_string("/proc/interrupts").ok()?, name)
}

pub fn is_root() -> bool {
    // SAFETY: geteuid() has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Those that may ever be there: masks and maps are sized by it.
pub fn cpus() -> u32 {
    libbpf_rs::num_possible_cpus().map_or(1, |count| count as u32)
}

pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// Tests name parts here, by commas, that the observer is to find missing: tracepoints, and `btf`.
const WITHOUT: &str = "CEASEFIRE_WATCH_WITHOUT";

fn is_withheld(part: &str) -> bool {
    std::env::var(WITHOUT).is_ok_and(|parts| parts.split(',').any(|one| one == part))
}

pub fn has_tracepoint(symbols: &Symbols, name: &str) -> bool {
    !is_withheld(name) && symbols.address(&format!("__traceiter_{name}")).is_some()
}

pub fn has_btf() -> bool {
    !is_withheld("btf") && fs::metadata("/sys/kernel/btf/vmlinux").is_ok_and(|meta| meta.len() > 0)
}

/// The mode, where it keeps us out.
pub fn lockdown() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    text.contains("[confidentiality]").then(|| "confidentiality".to_string())
}

/// What cannot be seen on this machine, one sentence each.
pub fn blind_spots() -> Vec<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let mut blind = Vec::new();
    if has("invlpgb") {
        blind.push(
            "this CPU can flush others by INVLPGB, without an interrupt: those flushes are not seen".into(),
        );
    }
    if has("hypervisor") {
        blind.push(
            "a hypervisor may flush for the guest (KVM's paravirtual flush, Hyper-V, Xen): not seen".into(),
        );
    }
    blind
}

pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
