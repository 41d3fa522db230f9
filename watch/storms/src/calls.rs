// SPDX-License-Identifier: GPL-2.0-only
//! Storms of cross calls that flush nothing, and that the row `TLB` does not know.

use crate::stage::{check, failed, unsupported, Stage};
use ceasefire_base::Result;

const PRIVATE_EXPEDITED: i32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier_call(command: i32) -> i32 {
    // SAFETY: the call takes numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) as i32 }
}

/// Each call interrupts every CPU that runs a thread of this process.
pub fn membarrier(stage: &mut Stage, rounds: u64) -> Result<()> {
    stage.wait_for_victim();
    // It tells the CPUs that run the process already.
    if membarrier_call(REGISTER_PRIVATE_EXPEDITED) != 0 {
        return Err(unsupported("no private membarrier"));
    }
    stage.full_besides = 1;
    for _ in 0..rounds {
        check(membarrier_call(PRIVATE_EXPEDITED), "membarrier was refused")?;
    }
    Ok(())
}

/// What the call takes, as far as this storm needs it.
#[repr(C)]
struct PerfEvent {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

const SOFTWARE: u32 = 1;
const PAGE_FAULTS: u64 = 2;
/// The first form of the structure (PERF_ATTR_SIZE_VER0).
const SIZE: u32 = 64;

/// The first counter of page faults switches counting on in the kernel's code, as `perf stat` does; the last one switches
/// it off.
pub fn text_patching(stage: &mut Stage, rounds: u64) -> Result<()> {
    let event = PerfEvent { kind: SOFTWARE, size: SIZE, config: PAGE_FAULTS, rest: [0; 6] };
    stage.wait_for_victim();
    for _ in 0..rounds {
        // SAFETY: the structure is as large as it says, and outlives the call; the descriptor is closed by us alone.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &event, 0, -1, -1, 0) } as i32;
        if fd < 0 {
            return Err(unsupported("no performance counters"));
        }
        // SAFETY: as above.
        if unsafe { libc::close(fd) } != 0 {
            return Err(failed("a counter could not be closed"));
        }
    }
    Ok(())
}
