// SPDX-License-Identifier: GPL-2.0-only
//! Mirror of watch/bpf/watch.h, byte for byte. Loading compares every map's sizes with these.

pub const BUCKETS: usize = ceasefire_watch_model::histogram::BUCKETS;
pub const SLOTS: u32 = 4;
pub const LANES: u32 = 2;
pub const MASK_WORDS: usize = 16;
pub const COMM_BYTES: usize = 16;
pub const USER_FUNCTIONS_MAX: usize = 2;
pub const FUNCTIONS_MAX: usize = 8;
pub const LOST_KINDS: usize = 5;
pub const MOMENTS: usize = 256;
pub const MOMENT_NS: u64 = 10_000_000;
pub const NO_SYSCALL: u16 = 0xffff;
pub const NO_THREAD: u32 = u32::MAX;

/// Plain data: any bytes of its size are a value of it.
///
/// # Safety
/// Only for `repr(C)` structs of integers and arrays of them.
pub unsafe trait Plain: Copy {}

/// `None` where the size is another.
pub fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < std::mem::size_of::<T>() {
        return None;
    }
    // SAFETY: there are enough bytes, and any of them make a T (Plain).
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

pub fn bytes_of<T: Plain>(value: &T) -> Vec<u8> {
    let size = std::mem::size_of::<T>();
    // SAFETY: `value` is valid for its size, and these structs have no padding that is not named.
    unsafe { std::slice::from_raw_parts((value as *const T).cast::<u8>(), size) }.to_vec()
}

macro_rules! plain {
    ($(pub struct $name:ident { $(pub $field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Debug, Clone, Copy)]
            pub struct $name { $(pub $field: $type,)* }
            // SAFETY: repr(C), integers and arrays of them.
            unsafe impl Plain for $name {}
        )*
    };
}

plain! {
    pub struct Settings {
        pub user_functions: [u64; USER_FUNCTIONS_MAX],
        pub kernel_functions: [u64; FUNCTIONS_MAX],
        pub wakeup_function: u64,
        pub wait_ns_min: u64,
        pub event_handler_ns_min: u64,
        pub only_comm: [u64; COMM_BYTES / 8],
        pub only_cgroup: u64,
        pub only_tgid: u32,
        pub only_tid: u32,
        pub only_cpu: i32,
        pub own_tgid: u32,
        pub cpus: u32,
        pub has_csd: u8,
        pub want_kernel_stacks: u8,
        pub want_user_stacks: u8,
        pub want_latency: u8,
        pub want_senders: u8,
        pub want_histograms: u8,
        pub want_pairs: u8,
        pub want_events: u8,
        pub only_cgroup_level: u32,
        pub want_requests: u32,
        pub want_calls: u32,
        pub want_whole_calls: u32,
        pub pad: u32,
    }
    pub struct SweepContext {
        pub unanswered_ns_max: u64,
    }
    pub struct Tally {
        pub shootdowns: u64,
        pub targets: u64,
        pub pages: u64,
        pub entries: u64,
        pub wait_ns: u64,
        pub wait_ns_max: u64,
    }
    pub struct SiteKey {
        pub kernel_stack: i32,
        pub function: u32,
        pub syscall: u16,
        pub argument: u8,
        pub class: u8,
        pub kind: u8,
        pub freed_tables: u8,
        pub pad: u16,
    }
    pub struct Site {
        pub tally: Tally,
        pub calls: u64,
        pub call_ns: u64,
        pub delivery_ns: u64,
        pub handler_ns: u64,
        pub pages: [u64; BUCKETS],
        pub targets: [u64; BUCKETS],
        pub delivery: [u64; BUCKETS],
        pub handler: [u64; BUCKETS],
        pub wait: [u64; BUCKETS],
    }
    pub struct SenderKey {
        pub tgid: u32,
        pub tid: u32,
        pub user_stack: i32,
        pub cpu: u32,
        pub user_top: u64,
        pub site: SiteKey,
    }
    pub struct Sender {
        pub tally: Tally,
        pub cgroup: u64,
        pub comm: [u8; COMM_BYTES],
    }
    pub struct VictimKey {
        pub cpu: u32,
        pub tid: u32,
        pub class: u32,
        pub pad: u32,
    }
    pub struct Victim {
        pub interruptions: u64,
        pub delivery_ns: u64,
        pub stolen_ns: u64,
        pub stolen_ns_max: u64,
        pub cgroup: u64,
        pub tgid: u32,
        pub pad: u32,
        pub comm: [u8; COMM_BYTES],
        pub stolen: [u64; BUCKETS],
    }
    pub struct PairKey {
        pub sender_tid: u32,
        pub victim_tid: u32,
        pub sender_cpu: u32,
        pub victim_cpu: u32,
        pub class: u32,
        pub pad: u32,
    }
    pub struct Pair {
        pub interruptions: u64,
        pub stolen_ns: u64,
        pub stolen_ns_max: u64,
    }
    pub struct TargetsKey {
        pub class: u32,
        pub targets_log2: u32,
    }
    pub struct Buckets {
        pub buckets: [u64; BUCKETS],
    }
    pub struct Total {
        pub requests: u64,
        pub shootdowns: u64,
        pub queued: u64,
        pub handled: u64,
        pub filtered: u64,
    }
    pub struct Interrupts {
        pub told: u64,
        pub silent: u64,
        pub is_open: u64,
    }
    pub struct Moment {
        pub number: u32,
        pub received: u32,
        pub stolen_ns: u64,
    }
    pub struct MomentsOfCpu {
        pub of: [Moment; MOMENTS],
    }
    pub struct Event {
        pub start_ns: u64,
        pub wait_ns: u64,
        pub delivery_ns_max: u64,
        pub handler_ns_max: u64,
        pub delivery_ns: u64,
        pub handler_ns: u64,
        pub address: u64,
        pub pages: u64,
        pub cgroup: u64,
        pub user_top: u64,
        pub mask: [u64; MASK_WORDS],
        pub targets: u32,
        pub answered: u32,
        pub cpu: u32,
        pub tgid: u32,
        pub tid: u32,
        pub kernel_stack: i32,
        pub user_stack: i32,
        pub stride_shift: u32,
        pub slowest_tid: u32,
        pub slowest_cpu: u32,
        pub syscall: u16,
        pub argument: u8,
        pub class: u8,
        pub kind: u8,
        pub freed_tables: u8,
        pub pad: [u8; 2],
        pub comm: [u8; COMM_BYTES],
        pub slowest_comm: [u8; COMM_BYTES],
    }
}
