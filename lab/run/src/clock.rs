// SPDX-License-Identifier: GPL-2.0-only
//! The frequency of this machine's time stamp counter. TCG hands that counter on to its guests, so a guest that is told
//! the frequency need not find it out, which goes wrong where the emulator waits for a core.

use std::time::{Duration, Instant};

/// Two samples are so far apart at least: a nanosecond of error is one in 20 million.
const APART: Duration = Duration::from_millis(20);
/// Tries to read clock and counter without somebody coming between.
const TRIES: usize = 100;
/// A counter whose frequency differs by more from one moment to the next tells no time.
const DIFFERENCE_MAX: f64 = 0.001;

/// The counter and the moment it was read at.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    ticks: u64,
}

/// In kHz; `None` where no counter is known that ticks evenly.
pub fn tsc_khz() -> Option<u64> {
    let first = sample()?;
    std::thread::sleep(APART);
    let middle = sample()?;
    std::thread::sleep(APART);
    frequency([first, middle, sample()?])
}

/// The tightest of some reads: whoever is interrupted between the two looks at the clock reads a moment too early.
fn sample() -> Option<Sample> {
    let read = |_| {
        let begin = Instant::now();
        let ticks = counter()?;
        let width = begin.elapsed();
        Some((width, Sample { at: begin + width / 2, ticks }))
    };
    (0..TRIES).filter_map(read).min_by_key(|(width, _)| *width).map(|(_, sample)| sample)
}

fn counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and nobody forbids it to this process.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn frequency([first, middle, last]: [Sample; 3]) -> Option<u64> {
    let khz = |from: Sample, to: Sample| {
        let ticks = to.ticks.checked_sub(from.ticks)?;
        Some(ticks as f64 / to.at.duration_since(from.at).as_secs_f64() / 1000.0)
    };
    let (one, other, whole) = (khz(first, middle)?, khz(middle, last)?, khz(first, last)?);
    let is_even = whole >= 1.0 && (one - other).abs() <= whole * DIFFERENCE_MAX;
    is_even.then(|| whole.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(ticks: [u64; 3]) -> [Sample; 3] {
        let begin = Instant::now();
        [0, 1, 2].map(|index: u32| Sample { at: begin + APART * index, ticks: ticks[index as usize] })
    }

    #[test]
    fn only_an_even_counter_has_a_frequency() {
        assert_eq!(frequency(samples([7, 7 + 42_000_000, 7 + 84_000_000])), Some(2_100_000));
        assert_eq!(frequency(samples([0, 42_000_000, 84_010_000])), Some(2_100_250));
        for uneven in [[0, 42_000_000, 63_000_000], [0, 0, 0], [9, 5, 1], [0, 42_000_000, 1]] {
            assert_eq!(frequency(samples(uneven)), None, "{uneven:?}");
        }
    }

    /// The tests' machine may be busy.
    #[test]
    fn the_same_machine_has_the_same_frequency() {
        let (Some(one), Some(other)) = (tsc_khz(), tsc_khz()) else { return };
        assert!(one.abs_diff(other) * 1000 <= one, "{one} and {other} kHz");
    }
}
