// SPDX-License-Identifier: GPL-2.0-only
//! What watching costs: the kernel's own timing of our programs, for part of the time, and our process.

use crate::kernel::monotonic_ns;
use ceasefire_watch_model::{Overhead, ProgramCost};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Timing costs, too: on for the first part of each period.
const PERIOD: Duration = Duration::from_secs(2);
const TIMED: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct Timer {
    /// While it is open, the kernel times programs.
    switch: Option<OwnedFd>,
    since_ns: u64,
    timed_ns: u64,
}

impl Timer {
    pub fn new() -> Timer {
        let mut timer = Timer::default();
        timer.set(true);
        timer
    }

    /// To be called often; switches when it is time.
    pub fn tick(&mut self) {
        let length = if self.switch.is_some() { TIMED } else { PERIOD - TIMED };
        if monotonic_ns().saturating_sub(self.since_ns) >= length.as_nanos() as u64 {
            self.set(self.switch.is_none());
        }
    }

    fn set(&mut self, on: bool) {
        let now = monotonic_ns();
        if self.switch.take().is_some() {
            self.timed_ns += now.saturating_sub(self.since_ns);
        }
        self.since_ns = now;
        if on {
            // SAFETY: the call takes a number and returns a descriptor or an error.
            let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
            // SAFETY: a descriptor that was just opened and that nobody else holds.
            self.switch = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }

    fn timed_ns(&self) -> u64 {
        let running = self.switch.as_ref().map_or(0, |_| monotonic_ns().saturating_sub(self.since_ns));
        self.timed_ns + running
    }

    pub fn read<'a>(&self, programs: impl Iterator<Item = (String, BorrowedFd<'a>)>) -> Overhead {
        let programs = programs.filter_map(|(name, fd)| {
            let (runs, run_ns) = cost(fd)?;
            Some(ProgramCost { name, runs, run_ns })
        });
        let (own_cpu_ns, own_rss_kib_max) = own();
        Overhead { programs: programs.collect(), timed_ns: self.timed_ns(), own_cpu_ns, own_rss_kib_max }
    }
}

fn cost(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = std::mem::size_of_val(&info) as u32;
    // SAFETY: `info` is valid for `length` bytes, and asks for no array.
    let code = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            fd.as_raw_fd(),
            (&mut info as *mut libbpf_sys::bpf_prog_info).cast(),
            &mut length,
        )
    };
    (code == 0).then_some((info.run_cnt, info.run_time_ns))
}

/// Where programs are not timed.
pub fn own_alone() -> Overhead {
    let (own_cpu_ns, own_rss_kib_max) = own();
    Overhead { own_cpu_ns, own_rss_kib_max, ..Overhead::default() }
}

/// CPU time and greatest memory of this process.
fn own() -> (u64, u64) {
    // SAFETY: rusage is plain data, and getrusage() fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (ns(usage.ru_utime) + ns(usage.ru_stime), usage.ru_maxrss as u64)
}
