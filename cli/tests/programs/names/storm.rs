// SPDX-License-Identifier: GPL-2.0-only
//! Gives pages back from three functions deep, while a thread of its own spins.
use std::sync::atomic::{AtomicBool, Ordering};

extern "C" {
    fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, bytes: usize, advice: i32) -> i32;
}

const BYTES: usize = 16 * 4096;
static IS_OVER: AtomicBool = AtomicBool::new(false);

struct Area(*mut u8);

impl Area {
    #[inline(never)]
    fn storm_inner(&self) {
        for at in (0..BYTES).step_by(4096) {
            unsafe { self.0.add(at).write_volatile(1) };
        }
        self.storm_inline();
    }

    #[inline(always)]
    fn storm_inline(&self) {
        assert_eq!(unsafe { madvise(self.0, BYTES, 4) }, 0);
    }

    #[inline(never)]
    fn storm_middle(&self) {
        self.storm_inner();
        std::hint::black_box(self);
    }

    #[inline(never)]
    fn storm_outer(&self, rounds: u64) {
        (0..rounds).for_each(|_| self.storm_middle());
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000);
    // Private, anonymous, to be read and written.
    let area = Area(unsafe { mmap(std::ptr::null_mut(), BYTES, 3, 0x22, -1, 0) });
    let spinner = std::thread::spawn(|| while !IS_OVER.load(Ordering::Relaxed) {});
    area.storm_outer(rounds);
    IS_OVER.store(true, Ordering::Relaxed);
    // The observer looks for names once a second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    spinner.join().expect("ended");
}
