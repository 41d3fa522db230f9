// SPDX-License-Identifier: GPL-2.0-only
//! From what a guest printed to data that can be trusted: parse, group, judge the controls, compare. `ceasefire-report` shows them.
//! Depends on nothing that builds or boots, so every step also works on a saved file.
pub mod aggregate;
mod avoided;
pub mod compare;
pub mod cycles;
pub mod judge;
pub mod mechanism;
pub mod net;
mod old;
pub mod paper;
pub mod protocol;
mod record;
mod saved_log;
pub mod schema;
pub mod selftest;
pub mod stats;

pub use aggregate::{aggregate, RowKey};
pub use avoided::Avoided;
pub use judge::Verdict;
pub use protocol::{parse_log, GuestLog, LogParser, Outcome};
pub use schema::Results;
