// SPDX-License-Identifier: GPL-2.0-only
//! What the observer saw, as plain data: no BPF, no terminal. Everything shown, recorded or tested is made of it.
//!
//! [`Snapshot`]s are cumulative; `later.since(&earlier)` is what happened between, but for threads that ended and left:
//! [`Open`] adds them. A [`Shootdown`] is one event.
//! Both carry their own stacks by name, so another machine can read them.
pub mod bursts;
pub mod cause;
pub mod counts;
pub mod coverage;
pub mod histogram;
pub mod interrupts;
pub mod java;
pub mod jit;
pub mod maximum;
pub mod neighbours;
mod open;
mod others;
pub mod ranges;
mod retain;
pub mod savings;
pub mod shootdown;
pub mod snapshot;
pub mod sum;
pub mod symbols;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod thin;
pub mod user;

pub use bursts::{Bursts, Moment};
pub use cause::{Cause, WhyFull};
pub use counts::Counts;
pub use coverage::{ClassCoverage, Coverage, InterruptCoverage, Lost, Overhead, ProgramCost};
pub use histogram::Histogram;
pub use maximum::Maximum;
pub use neighbours::{Batching, Neighbours, Range, Run, Saving};
pub use open::{Ended, Open};
pub use savings::Savings;
pub use shootdown::{Class, Kind, Latencies, Shootdown, Task};
pub use snapshot::{ByTargets, Pair, Sender, Site, Snapshot, Stacks, Tally, Victim};
pub use sum::Sum;

/// The form of everything written as JSON; fields are added, never renamed.
pub const SCHEMA: &str = "ceasefire.watch/1";
