// SPDX-License-Identifier: GPL-2.0-only
//! What this kernel is and lets us see.

use crate::errors;
use ceasefire_base::{Error, Result};
use ceasefire_watch_model::interrupts;
use ceasefire_watch_model::symbols::Symbols;
use std::fs;

/// The second is that of a kernel with a mechanism, and need not be there; the probes rely on the order.
const USER_FUNCTIONS: [&str; crate::wire::USER_FUNCTIONS_MAX] = ["flush_tlb_func", "abis_flush_owed"];
/// The first has a range; the probes rely on the order.
const KERNEL_FUNCTIONS: [&str; 5] =
    ["do_kernel_range_flush", "do_flush_tlb_all", "__cpa_flush_tlb", "__cpa_flush_all", "do_flush_tlb_range"];

/// Runs on a CPU for all threads that are to be woken there.
pub const WAKEUP_FUNCTION: &str = "sched_ttwu_pending";

pub struct Functions {
    pub user: [u64; crate::wire::USER_FUNCTIONS_MAX],
    pub kernel: [u64; crate::wire::FUNCTIONS_MAX],
    pub wakeup: u64,
}

pub fn symbols() -> Result<Symbols> {
    let text = fs::read_to_string("/proc/kallsyms").map_err(|error| {
        Error::skip(format!("cannot read the kernel's symbols: {error}"))
            .remedy("mount /proc, and run it as root")
    })?;
    let symbols = Symbols::parse(&text);
    if symbols.is_empty() {
        if !errors::is_root() {
            return Err(errors::rights("read the kernel's symbols"));
        }
        return Err(Error::skip("the kernel hides its addresses").remedy("sysctl kernel.kptr_restrict=1"));
    }
    Ok(symbols)
}

pub fn functions(symbols: &Symbols) -> Result<Functions> {
    let user = USER_FUNCTIONS.map(|name| symbols.address(name).unwrap_or(0));
    if user[0] == 0 {
        let name = USER_FUNCTIONS[0];
        return Err(Error::skip(format!("this kernel has no {name}: it flushes other CPUs in another way"))
            .remedy("an x86-64 Linux 5.13 or newer has it"));
    }
    let mut kernel = [0; crate::wire::FUNCTIONS_MAX];
    for (address, name) in kernel.iter_mut().zip(KERNEL_FUNCTIONS) {
        *address = symbols.address(name).unwrap_or(0);
    }
    Ok(Functions { user, kernel, wakeup: symbols.address(WAKEUP_FUNCTION).unwrap_or(0) })
}

/// The rows `TLB` and `CAL`, all CPUs.
pub fn rows() -> (Option<u64>, Option<u64>) {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    (interrupts::row(&text, "TLB"), interrupts::row(&text, "CAL"))
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
        match hypervisor(&cpuid) {
            Hypervisor::Kvm => {}
            Hypervisor::KvmDefersFlushes => blind.push(
                "KVM stops CPUs of this guest to run others: one that it has stopped is not interrupted, it flushes when \
                 it runs again; such a flush is neither here nor in the kernel's own row"
                    .into(),
            ),
            Hypervisor::Other => {
                blind.push("the hypervisor may flush for the guest (Hyper-V, Xen): not seen".into());
            }
        }
    }
    blind
}

/// Whether CPUs that the host has stopped are left out of shootdowns.
pub fn defers_flushes() -> bool {
    hypervisor(&cpuid) == Hypervisor::KvmDefersFlushes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hypervisor {
    Kvm,
    /// KVM's paravirtual flush (kvm_flush_tlb_multi in arch/x86/kernel/kvm.c).
    KvmDefersFlushes,
    Other,
}

/// EAX, EBX, ECX, EDX of a leaf.
type Leaf = [u32; 4];

fn cpuid(leaf: u32) -> Leaf {
    // Newer compilers call it safe.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 CPU has the instruction; unknown leaves are answered, too.
    let answer = unsafe { std::arch::x86_64::__cpuid(leaf) };
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}

/// Decides as the guest's kernel does (pv_tlb_flush_supported): `leaf` answers CPUID.
fn hypervisor(leaf: &dyn Fn(u32) -> Leaf) -> Hypervisor {
    const SIGNATURE: [u32; 3] = [0x4b4d_564b, 0x564b_4d56, 0x4d]; // KVMKVMKVM
    const STEAL_TIME: u32 = 1 << 5;
    const PV_TLB_FLUSH: u32 = 1 << 9;
    const HINT_REALTIME: u32 = 1 << 0;
    const MONITOR: u32 = 1 << 3;
    // KVM moves up where it imitates another hypervisor as well.
    let is_kvm = |base: &u32| leaf(*base)[1..] == SIGNATURE;
    let Some(base) = (0x4000_0000..0x4001_0000).step_by(0x100).find(is_kvm) else {
        return Hypervisor::Other;
    };
    let [features, _, _, hints] = leaf(base + 1);
    let has_mwait = leaf(1)[2] & MONITOR != 0;
    let wanted = STEAL_TIME | PV_TLB_FLUSH;
    match features & wanted == wanted && hints & HINT_REALTIME == 0 && !has_mwait {
        true => Hypervisor::KvmDefersFlushes,
        false => Hypervisor::Kvm,
    }
}

pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose KVM leaves are at `base`.
    fn machine(base: u32, features: u32, hints: u32, leaf_1_ecx: u32) -> impl Fn(u32) -> Leaf {
        move |leaf| match leaf {
            1 => [0, 0, leaf_1_ecx, 0],
            _ if leaf == base => [base + 1, 0x4b4d_564b, 0x564b_4d56, 0x4d],
            _ if leaf == base + 1 => [features, 0, 0, hints],
            0x4000_0000 => [0x4000_0006, 0x7263_694d, 0x666f_736f, 0x7648_2074], // Microsoft Hv
            _ => [0; 4],
        }
    }

    #[test]
    fn flushes_are_deferred_where_the_guests_kernel_defers_them() {
        const BOTH: u32 = 1 << 9 | 1 << 5;
        const AT: u32 = 0x4000_0000;
        for (what, machine, is) in [
            ("both features", machine(AT, BOTH, 0, 0), Hypervisor::KvmDefersFlushes),
            ("behind Hyper-V's", machine(AT + 0x100, BOTH, 0, 0), Hypervisor::KvmDefersFlushes),
            ("no steal time", machine(AT, 1 << 9, 0, 0), Hypervisor::Kvm),
            ("no flush", machine(AT, 1 << 5, 0, 0), Hypervisor::Kvm),
            ("CPUs never stopped", machine(AT, BOTH, 1, 0), Hypervisor::Kvm),
            ("with MWAIT", machine(AT, BOTH, 0, 1 << 3), Hypervisor::Kvm),
            ("no KVM", machine(0x5000_0000, BOTH, 0, 0), Hypervisor::Other),
        ] {
            assert_eq!(hypervisor(&machine), is, "{what}");
        }
    }
}
