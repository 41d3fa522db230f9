// SPDX-License-Identifier: GPL-2.0-only
//! Two pinned threads: the caller, and the victim that spins. Real-time where allowed, so that nobody comes between.

use crate::Truth;
use ceasefire_base::{Error, Result};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

pub const PAGE: usize = 4096;

struct Shared {
    stop: AtomicBool,
    /// The victim counts its turns only while somebody waits for them: to a page that soft-dirty tracking has
    /// write-protected, a write would be a fault, and wait for the storm.
    is_asked: AtomicBool,
    tid: AtomicU32,
    turns: AtomicU64,
    switches: AtomicU64,
}

pub struct Stage {
    shared: &'static Shared,
    victim: Option<JoinHandle<()>>,
    cpus: [u32; 2],
    /// Kernel threads that send in the caller's stead.
    pub sender_comm: Option<&'static str>,
    /// Shootdowns of everything that the calls bring along, of the storm's own cause.
    pub full_besides: u64,
    /// Time of each call, where a storm takes it.
    pub calls_ns: Vec<u32>,
}

pub fn failed(what: &str) -> Error {
    Error::failed(format!("{what}: {}", io::Error::last_os_error()))
}

pub fn unsupported(what: &str) -> Error {
    Error::skip(format!("{what}: {}", io::Error::last_os_error()))
        .remedy("this storm needs a kernel that has it")
}

impl Stage {
    pub fn open(cpus: &[u32], is_steady: bool) -> Result<Stage> {
        let cpus = match cpus {
            [] => two_cpus()?,
            [sender, victim] if sender != victim => [*sender, *victim],
            _ => {
                return Err(Error::usage("a storm has two CPUs")
                    .remedy("give --cpus A,B, the sender's and the victim's"))
            }
        };
        // Shared memory: a fork must not make the victim copy the page it writes to.
        let memory = Area::map(PAGE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)?;
        // SAFETY: a zeroed page that is never unmapped; a zeroed Shared is a valid one.
        let shared: &'static Shared = unsafe { &*memory.0.cast::<Shared>() };
        let theirs = shared;
        let victim = std::thread::spawn(move || {
            settle(cpus[1], is_steady);
            theirs.tid.store(tid(), Ordering::Release);
            let before = switches();
            while !theirs.stop.load(Ordering::Relaxed) {
                if theirs.is_asked.load(Ordering::Relaxed) {
                    theirs.turns.fetch_add(1, Ordering::Relaxed);
                }
                std::hint::spin_loop();
            }
            theirs.switches.store(switches() - before, Ordering::Release);
        });
        settle(cpus[0], is_steady);
        while shared.tid.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        Ok(Stage {
            shared,
            victim: Some(victim),
            cpus,
            sender_comm: None,
            full_besides: 0,
            calls_ns: Vec::new(),
        })
    }

    /// Until the victim has made some turns: it runs now.
    pub fn wait_for_victim(&self) {
        self.shared.is_asked.store(true, Ordering::Relaxed);
        let before = self.shared.turns.load(Ordering::Relaxed);
        while self.shared.turns.load(Ordering::Relaxed) < before + 100 {
            std::hint::spin_loop();
        }
        self.shared.is_asked.store(false, Ordering::Relaxed);
    }

    pub fn close(mut self, storm: &str, rounds: u64) -> Truth {
        self.calls_ns.sort_unstable();
        let call_ns_p50 = self.calls_ns.get(self.calls_ns.len() / 2).copied();
        let truth = |shared: &Shared| Truth {
            storm: storm.to_string(),
            sender_tid: tid(),
            sender_cpu: self.cpus[0],
            sender_comm: self.sender_comm.map(str::to_string),
            victim_tid: shared.tid.load(Ordering::Acquire),
            victim_cpu: self.cpus[1],
            rounds,
            full_besides: self.full_besides,
            call_ns_p50,
            is_undisturbed: shared.switches.load(Ordering::Acquire) == 0,
        };
        self.shared.stop.store(true, Ordering::Release);
        if let Some(victim) = self.victim.take() {
            let _ = victim.join();
        }
        truth(self.shared)
    }
}

/// Memory of our own, as bytes at an address.
#[derive(Clone, Copy)]
pub struct Area(pub *mut u8);

impl Area {
    pub fn map(bytes: usize, flags: i32, fd: i32) -> Result<Area> {
        Self::map_at(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd)
    }

    pub fn map_at(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32) -> Result<Area> {
        // SAFETY: a fresh mapping, or MAP_FIXED over memory that this storm mapped itself.
        let start = unsafe { libc::mmap(at.cast(), bytes, protection, flags, fd, 0) };
        match start == libc::MAP_FAILED {
            true => Err(failed("no memory could be mapped")),
            false => Ok(Area(start.cast())),
        }
    }

    pub fn at(self, page: u64) -> *mut u8 {
        self.0.wrapping_add(page as usize * PAGE)
    }

    pub fn write(self, page: u64, value: u8) {
        // SAFETY: the storms pass pages of what they mapped writable.
        unsafe { self.at(page).write_volatile(value) };
    }

    pub fn read(self, page: u64) -> u8 {
        // SAFETY: the storms pass pages of what they mapped readable.
        unsafe { self.at(page).read_volatile() }
    }

    pub fn touch(self, pages: u64) {
        (0..pages).for_each(|page| self.write(page, 1));
    }

    pub fn unmap(self, bytes: usize) {
        // SAFETY: what this storm mapped and nobody uses any more.
        unsafe { libc::munmap(self.0.cast(), bytes) };
    }

    pub fn advise(self, page: u64, pages: u64, advice: i32) -> Result<()> {
        // SAFETY: memory that this storm mapped; its contents do not matter.
        check(
            unsafe { libc::madvise(self.at(page).cast(), pages as usize * PAGE, advice) },
            "madvise was refused",
        )
    }
}

pub fn check(code: i32, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(failed(what)),
    }
}

pub fn tid() -> u32 {
    // SAFETY: gettid() has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Times this thread left its CPU.
fn switches() -> u64 {
    // SAFETY: rusage is plain data, and getrusage() fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// The first two that we may run on.
fn two_cpus() -> Result<[u32; 2]> {
    // SAFETY: the set is plain data, and the call fills it.
    let allowed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, std::mem::size_of_val(&set), &mut set);
        set
    };
    // SAFETY: CPU_ISSET reads within the set.
    let mut cpus = (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) });
    match (cpus.next(), cpus.next()) {
        (Some(a), Some(b)) => Ok([a as u32, b as u32]),
        _ => Err(Error::skip("one CPU has nobody to interrupt")
            .remedy("run it on a machine with two CPUs or more")),
    }
}

fn settle(cpu: u32, is_realtime: bool) {
    // SAFETY: the set is plain data; a refusal only makes the storm less steady, which its truth tells.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
        if is_realtime {
            let parameter = libc::sched_param { sched_priority: 1 };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter);
        }
    }
}
