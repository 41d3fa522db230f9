// SPDX-License-Identifier: GPL-2.0-only
//! Why a shootdown was sent, from the names of the initiator's kernel frames. What is not known is not guessed: the
//! first frame that is no mere machinery is shown instead.

use crate::{Class, Kind};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! causes {
    ($($variant:ident $name:literal $about:literal,)*) => {
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", from = "String")]
        pub enum Cause {
            $(#[doc = $about] $variant,)*
            /// The frame that would have to tell.
            Unknown(String),
            /// Another CPU runs this function; no flush, and none of the calls we know.
            Call(String),
            /// No stack was taken, or it was lost.
            NoStack,
        }

        /// Name and meaning of every cause there is.
        pub const CAUSES: &[(&str, &str)] = &[$(($name, $about),)*];

        impl Cause {
            pub fn name(&self) -> &str {
                match self {
                    $(Cause::$variant => $name,)*
                    Cause::Unknown(_) => "unknown",
                    Cause::Call(_) => "call",
                    Cause::NoStack => "no-stack",
                }
            }

            pub fn about(&self) -> &'static str {
                match self {
                    $(Cause::$variant => $about,)*
                    Cause::Unknown(_) => "not one of the causes we know; its frame is shown",
                    Cause::Call(_) => "a function that another CPU is to run",
                    Cause::NoStack => "no stack was taken",
                }
            }
        }

        impl From<String> for Cause {
            fn from(text: String) -> Cause {
                match text.as_str() {
                    $($name => Cause::$variant,)*
                    "no-stack" => Cause::NoStack,
                    other => match other.strip_prefix("call:") {
                        Some(function) => Cause::Call(function.to_string()),
                        None => Cause::Unknown(other.strip_prefix("unknown:").unwrap_or(other).to_string()),
                    },
                }
            }
        }
    };
}

causes! {
    MadviseDontneed "madvise-dontneed" "madvise(MADV_DONTNEED): pages given back",
    MadviseFree "madvise-free" "madvise(MADV_FREE): pages given back lazily",
    MadvisePageout "madvise-pageout" "madvise(MADV_PAGEOUT): pages reclaimed on request",
    MadviseCold "madvise-cold" "madvise(MADV_COLD): pages aged on request",
    Madvise "madvise" "madvise with another advice",
    ProcessMadvise "process-madvise" "process_madvise: advice for several ranges at once, or for another process",
    IoUringMadvise "io-uring-madvise" "madvise asked for by io_uring",
    GuardInstall "guard-install" "madvise(MADV_GUARD_INSTALL): pages replaced by guards",
    Munmap "munmap" "munmap: a mapping removed",
    Mmap "mmap" "mmap over an older mapping",
    Brk "brk" "brk: the heap shrank",
    Mprotect "mprotect" "mprotect: permissions taken away",
    Mremap "mremap" "mremap: a mapping moved or shrunk",
    Cow "cow" "copy on write: a shared page replaced by a copy",
    Msync "msync" "msync or fsync: pages made clean",
    WriteBack "write-back" "write-back in the background: pages made clean",
    Truncate "truncate" "a mapped file truncated or punched",
    Reclaim "reclaim" "memory reclaimed under pressure",
    Compaction "compaction" "pages moved to make room for larger ones",
    CompactionRequest "compaction-request" "the same on request (vm.compact_memory, a node's file compact)",
    Migration "migration" "pages moved to another node on request",
    NumaScan "numa-balancing" "NUMA balancing: pages made to fault",
    NumaMigrate "numa-migrate" "NUMA balancing: a page moved to its user",
    ThpSplit "thp-split" "a huge page split",
    ThpCollapse "thp-collapse" "pages collapsed into a huge one",
    MadviseCollapse "madvise-collapse" "madvise(MADV_COLLAPSE): the same on request",
    HugetlbUnshare "hugetlb-unshare" "page tables of hugetlb memory no longer shared",
    Ksm "ksm" "same-page merging",
    Userfaultfd "userfaultfd" "userfaultfd: pages write-protected or moved",
    SoftDirty "soft-dirty" "soft-dirty bits cleared (clear_refs)",
    Damon "damon" "DAMON: schemes on monitored pages",
    Fork "fork" "fork: pages made copy-on-write",
    Exit "exit" "an address space torn down",
    OomReaper "oom-reaper" "memory of a killed process taken",
    Vmalloc "vmalloc" "kernel mappings purged (vmalloc, vmap)",
    SetMemory "set-memory" "attributes of kernel pages changed",
    BpfMemory "bpf-memory" "memory of BPF programs made, or given back",
    ModuleMemory "module-memory" "memory of kernel modules made, or given back",
    Membarrier "membarrier" "membarrier: all threads of a process, or of all, pass a barrier",
    TextPatching "text-patching" "kernel code changed: static keys, tracing, BPF programs, live patches",
    TableSync "table-sync" "page tables freed at once: who walks them without a lock is waited for",
    Wakeup "wakeup" "a thread woken on another CPU",
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Unknown(frame) => write!(f, "unknown:{frame}"),
            Cause::Call(function) => write!(f, "call:{function}"),
            known => f.write_str(known.name()),
        }
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> String {
        cause.to_string()
    }
}

/// Any of these frames means that cause; the first rule that matches decides. A trailing `*` matches the rest.
/// Inner mechanisms come before the calls that may lead to them: a munmap that splits a huge page is `thp-split`.
const USER: &[(&[&str], Cause)] = &[
    (&["task_numa_work", "change_prot_numa"], Cause::NumaScan),
    (&["do_numa_page", "do_huge_pmd_numa_page", "migrate_misplaced_*"], Cause::NumaMigrate),
    (
        &["collapse_huge_page", "collapse_file", "collapse_pte_mapped_thp", "madvise_collapse"],
        Cause::ThpCollapse,
    ),
    (
        &["__split_huge_pmd*", "split_huge_pmd*", "split_huge_page*", "__split_huge_page*", "__folio_split"],
        Cause::ThpSplit,
    ),
    (&["write_protect_page", "replace_page", "try_to_merge_*", "ksm_do_scan", "break_ksm*"], Cause::Ksm),
    (&["damon_*", "kdamond_fn"], Cause::Damon),
    (&["sysctl_compaction_handler", "compact_nodes", "compact_store"], Cause::CompactionRequest),
    (&["compact_zone", "compact_node", "alloc_contig_range*"], Cause::Compaction),
    (&["hugetlb_unshare_*", "huge_pmd_unshare*"], Cause::HugetlbUnshare),
    (&["reclaim_pages", "madvise_pageout*"], Cause::MadvisePageout),
    (
        &[
            "do_move_pages*",
            "do_pages_move",
            "kernel_move_pages",
            "kernel_mbind",
            "do_mbind",
            "do_migrate_pages",
            "kernel_migrate_pages",
        ],
        Cause::Migration,
    ),
    (
        &["shrink_folio_list", "shrink_lruvec", "shrink_node*", "balance_pgdat", "try_to_free_pages"],
        Cause::Reclaim,
    ),
    (&["migrate_pages*", "migrate_folio*", "try_to_migrate*"], Cause::Migration),
    (&["__oom_reap_task_mm", "oom_reaper"], Cause::OomReaper),
    (&["clear_refs_write"], Cause::SoftDirty),
    (
        &[
            "mwriteprotect_range",
            "uffd_wp_range",
            "userfaultfd_*",
            "move_pages_pte",
            "pagemap_scan*",
            "do_pagemap_scan",
        ],
        Cause::Userfaultfd,
    ),
    (
        &[
            "__do_sys_msync",
            "__x64_sys_msync",
            "vfs_fsync*",
            "do_fsync",
            "__x64_sys_fsync",
            "__x64_sys_fdatasync",
        ],
        Cause::Msync,
    ),
    (
        &[
            "page_vma_mkclean_one",
            "page_mkclean_one",
            "folio_mkclean",
            // Of a kernel that flushes many pages at once (kernel/batch).
            "__writeback_batch_protect",
            "wb_workfn",
        ],
        Cause::WriteBack,
    ),
    (&["unmap_mapping_*", "truncate_pagecache*", "zap_vma_ptes"], Cause::Truncate),
    (&["dup_mmap", "dup_mm", "copy_mm", "copy_page_range"], Cause::Fork),
    (&["exit_mmap", "exec_mmap"], Cause::Exit),
    (&["__do_sys_mremap", "__x64_sys_mremap", "do_mremap", "move_page_tables"], Cause::Mremap),
    (&["do_mprotect_pkey", "mprotect_fixup"], Cause::Mprotect),
    (&["__do_sys_brk", "__x64_sys_brk", "do_brk_munmap"], Cause::Brk),
    (&["mmap_region", "__mmap_region", "do_mmap"], Cause::Mmap),
    (&["__vm_munmap", "__x64_sys_munmap", "do_vmi_munmap", "vms_clear_ptes"], Cause::Munmap),
    (&["io_madvise"], Cause::IoUringMadvise),
    (&["vector_madvise", "__x64_sys_process_madvise", "__do_sys_process_madvise"], Cause::ProcessMadvise),
    (&["do_madvise", "madvise_*", "__x64_sys_madvise"], Cause::Madvise),
    (
        &["do_wp_page", "wp_page_copy", "do_cow_fault", "do_huge_pmd_wp_page", "hugetlb_wp", "hugetlb_cow"],
        Cause::Cow,
    ),
];

const KERNEL: &[(&[&str], Cause)] = &[
    // Whose memory it is comes before what is done with it.
    (
        &[
            "__sys_bpf",
            "bpf_prog_load",
            "bpf_prog_select_runtime",
            "bpf_int_jit_compile",
            "bpf_prog_free_deferred",
            "bpf_prog_pack_*",
            "bpf_map_free*",
            "bpf_map_area_free",
            "bpf_arena_*",
            "sk_attach_filter",
        ],
        Cause::BpfMemory,
    ),
    (
        &[
            "load_module",
            "free_module",
            "do_free_init",
            "module_memory_*",
            "__do_sys_delete_module",
            "init_module_from_file",
        ],
        Cause::ModuleMemory,
    ),
    // Changing attributes purges first what vmalloc freed.
    (
        &[
            "__purge_vmap_area_lazy",
            "purge_vmap_node",
            "_vm_unmap_aliases",
            "drain_vmap_area_work",
            "vunmap*",
            "vfree*",
            "vm_unmap_ram",
            "remove_vm_area",
            "reclaim_and_purge_vmap_areas",
        ],
        Cause::Vmalloc,
    ),
    (
        &[
            "change_page_attr_*",
            "__change_page_attr*",
            "cpa_flush",
            "set_memory_*",
            "set_direct_map_*",
            "set_pages_*",
            "secretmem_*",
            "__set_memory_*",
        ],
        Cause::SetMemory,
    ),
];

/// By the function that the other CPUs run.
const CALLS: &[(&[&str], Cause)] = &[
    (&["ipi_mb", "ipi_sync_core", "ipi_rseq", "ipi_sync_rq_state"], Cause::Membarrier),
    (&["do_sync_core"], Cause::TextPatching),
    (&["tlb_remove_table_smp_sync"], Cause::TableSync),
    (&["sched_ttwu_pending"], Cause::Wakeup),
];

/// Frames that carry out flushes for everybody.
const MACHINERY: &[&str] = &[
    "bpf_*",
    "__bpf_*",
    "__traceiter_*",
    "trace_*",
    "perf_*",
    "smp_call_function*",
    "on_each_cpu*",
    "csd_*",
    "flush_tlb*",
    "native_flush_tlb*",
    "__flush_tlb*",
    "tlb_finish_mmu",
    "tlb_flush_mmu*",
    "arch_tlbbatch_flush",
    "try_to_unmap_flush*",
    "ptep_clear_flush*",
    "pmdp_huge_clear_flush*",
    "kernel_tlb_flush*",
    "zap_*",
    "unmap_page_range",
    "unmap_vmas",
];

const MADVISE: u16 = 28;
const PROCESS_MADVISE: u16 = 440;

fn matches(pattern: &str, frame: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => frame.starts_with(stem),
        None => frame == pattern,
    }
}

impl Cause {
    /// `frames` innermost first; `syscall` and `argument` as the probes read them.
    pub fn classify(class: Class, frames: &[String], syscall: Option<u16>, argument: u8) -> Cause {
        if frames.is_empty() {
            return Cause::NoStack;
        }
        let rules = if class == Class::KernelRange { KERNEL } else { USER };
        let known = rules.iter().find(|(patterns, _)| {
            frames.iter().any(|frame| patterns.iter().any(|pattern| matches(pattern, frame)))
        });
        match known {
            Some((_, Cause::Madvise)) if syscall == Some(MADVISE) => match argument {
                4 => Cause::MadviseDontneed,
                8 => Cause::MadviseFree,
                20 => Cause::MadviseCold,
                21 => Cause::MadvisePageout,
                102 => Cause::GuardInstall,
                _ => Cause::Madvise,
            },
            // A fault may collapse, too; and khugepaged calls nobody.
            Some((_, Cause::ThpCollapse))
                if argument == 25 && matches!(syscall, Some(MADVISE | PROCESS_MADVISE)) =>
            {
                Cause::MadviseCollapse
            }
            // Reclaimed on request all the same.
            Some((_, Cause::MadvisePageout)) if syscall == Some(PROCESS_MADVISE) => Cause::ProcessMadvise,
            Some((_, cause)) => cause.clone(),
            None => Cause::Unknown(telling(frames).to_string()),
        }
    }

    /// Of a call that is no flush.
    pub fn of_call(function: &str) -> Cause {
        let known = CALLS.iter().find(|(names, _)| names.contains(&function));
        known.map_or_else(|| Cause::Call(function.to_string()), |(_, cause)| cause.clone())
    }

    /// Pages of files made clean, one by one.
    pub fn is_write_back(&self) -> bool {
        matches!(self, Cause::Msync | Cause::WriteBack)
    }

    /// A name as a user types it.
    pub fn named(text: &str) -> Option<Cause> {
        let is_known = CAUSES.iter().any(|(name, _)| *name == text);
        match text {
            "unknown" => Some(Cause::Unknown(String::new())),
            "call" => Some(Cause::Call(String::new())),
            _ => is_known.then(|| Cause::from(text.to_string())),
        }
    }
}

/// The innermost frame that is no machinery.
fn telling(frames: &[String]) -> &str {
    let is_telling = |frame: &&String| !MACHINERY.iter().any(|pattern| matches(pattern, frame));
    frames.iter().find(is_telling).or(frames.last()).map_or("", String::as_str)
}

/// Why everything was flushed instead of some pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyFull {
    /// Another thread was unmapping the same address space at that moment.
    Nested,
    /// Pages were batched; their addresses are not kept.
    Batched,
    /// More pages than the kernel flushes one by one (33).
    OverCeiling,
    /// The whole address space was meant.
    WholeSpace,
    /// All kernel addresses.
    AllKernel,
}

impl WhyFull {
    pub fn name(self) -> &'static str {
        match self {
            WhyFull::Nested => "nested",
            WhyFull::Batched => "batched",
            WhyFull::OverCeiling => "over-ceiling",
            WhyFull::WholeSpace => "whole-space",
            WhyFull::AllKernel => "all-kernel",
        }
    }

    pub fn of(class: Class, kind: Kind, cause: &Cause) -> Option<WhyFull> {
        match (class, kind, cause) {
            (_, Kind::Ranged | Kind::Unknown, _) => None,
            (Class::KernelRange, _, _) => Some(WhyFull::AllKernel),
            (_, Kind::Nested, _) => Some(WhyFull::Nested),
            (_, Kind::Batched, _) => Some(WhyFull::Batched),
            (_, Kind::Whole, Cause::Fork | Cause::Exit | Cause::SoftDirty) => Some(WhyFull::WholeSpace),
            (_, Kind::Whole, _) => Some(WhyFull::OverCeiling),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(frames: &str, syscall: Option<u16>, argument: u8) -> Cause {
        let frames: Vec<String> = frames.split_whitespace().map(str::to_string).collect();
        Cause::classify(Class::User, &frames, syscall, argument)
    }

    #[test]
    fn flush_side_frames_decide() {
        let entry = "do_syscall_64 entry_SYSCALL_64_after_hwframe";
        for (frames, expected) in [
            ("flush_tlb_mm_range tlb_finish_mmu vms_clear_ptes vms_complete_munmap_vmas do_vmi_align_munmap do_vmi_munmap __vm_munmap __x64_sys_munmap", Cause::Munmap),
            ("flush_tlb_mm_range tlb_finish_mmu vms_clear_ptes do_vmi_align_munmap __do_sys_brk", Cause::Brk),
            ("flush_tlb_mm_range tlb_finish_mmu do_mprotect_pkey __x64_sys_mprotect", Cause::Mprotect),
            ("flush_tlb_mm_range ptep_clear_flush wp_page_copy do_wp_page __handle_mm_fault", Cause::Cow),
            ("arch_tlbbatch_flush try_to_unmap_flush shrink_folio_list reclaim_folio_list reclaim_pages", Cause::MadvisePageout),
            ("arch_tlbbatch_flush try_to_unmap_flush shrink_folio_list evict_folios shrink_one", Cause::Reclaim),
            ("flush_tlb_mm_range pmdp_invalidate __split_huge_pmd_locked try_to_migrate_one rmap_walk_anon try_to_migrate __folio_split try_to_merge_one_page try_to_merge_with_ksm_page ksm_scan_thread kthread", Cause::ThpSplit),
            ("flush_tlb_mm_range ptep_clear_flush write_protect_page try_to_merge_one_page ksm_scan_thread kthread", Cause::Ksm),
            ("flush_tlb_mm_range tlb_finish_mmu zap_page_range_single unmap_mapping_range truncate_pagecache", Cause::Truncate),
            ("flush_tlb_mm_range tlb_finish_mmu protect_vma __writeback_batch_protect mpage_writepages do_writepages __filemap_fdatawrite_range sync_file_range ksys_sync_file_range", Cause::WriteBack),
        ] {
            assert_eq!(cause(&format!("{frames} {entry}"), None, 0), expected, "{frames}");
        }
    }

    #[test]
    fn advices_are_told_apart_by_the_call_and_only_then() {
        let frames = "flush_tlb_mm_range tlb_finish_mmu do_madvise __x64_sys_madvise";
        assert_eq!(cause(frames, Some(28), 4), Cause::MadviseDontneed);
        assert_eq!(cause(frames, Some(28), 8), Cause::MadviseFree);
        assert_eq!(cause(frames, Some(28), 99), Cause::Madvise);
        assert_eq!(cause(frames, Some(28), 102), Cause::GuardInstall);
        let vector =
            "flush_tlb_mm_range tlb_finish_mmu madvise_do_behavior vector_madvise __x64_sys_process_madvise";
        assert_eq!(cause(vector, Some(440), 4), Cause::ProcessMadvise);
        let pageout = "arch_tlbbatch_flush try_to_unmap_flush reclaim_pages vector_madvise";
        assert_eq!(cause(pageout, Some(440), 21), Cause::ProcessMadvise);
        let ring = "flush_tlb_mm_range tlb_finish_mmu do_madvise io_madvise io_issue_sqe io_submit_sqes";
        assert_eq!(cause(ring, Some(426), 0), Cause::IoUringMadvise);
        let collapse =
            "flush_tlb_mm_range pmdp_collapse_flush collapse_huge_page madvise_collapse do_madvise";
        assert_eq!(cause(collapse, Some(28), 25), Cause::MadviseCollapse);
        assert_eq!(cause(collapse, None, 0), Cause::ThpCollapse);
        assert_eq!(
            cause("flush_tlb_mm_range huge_pmd_unshare hugetlb_unshare_pmds __split_vma", Some(11), 0),
            Cause::HugetlbUnshare
        );
        assert_eq!(cause(frames, None, 0), Cause::Madvise);
        assert_eq!(
            cause("flush_tlb_mm_range something_new", Some(28), 4),
            Cause::Unknown("something_new".into())
        );
    }

    #[test]
    fn the_unknown_shows_its_frame_and_survives_a_file() {
        let unknown = cause(
            "bpf_trace_run2 __traceiter_csd_function_entry flush_tlb_mm_range brand_new_thing",
            None,
            0,
        );
        assert_eq!(unknown.to_string(), "unknown:brand_new_thing");
        assert_eq!(Cause::from(unknown.to_string()), unknown);
        for (name, _) in CAUSES {
            assert_eq!(Cause::from(name.to_string()).name(), *name);
        }
        assert_eq!(cause("", None, 0), Cause::NoStack);
        for (function, is) in [
            ("ipi_mb", "membarrier"),
            ("do_sync_core", "text-patching"),
            ("rcu_exp_handler", "call:rcu_exp_handler"),
        ] {
            let cause = Cause::of_call(function);
            assert_eq!(cause.to_string(), is);
            assert_eq!(Cause::from(cause.to_string()), cause);
        }
    }
}
