// SPDX-License-Identifier: GPL-2.0-only
//! From what a guest printed to what a person reads: parse, group, judge the controls, show, compare.
//! Depends on nothing that builds or boots, so every step also works on a saved file.
pub mod abis;
pub mod aggregate;
mod chart;
pub mod compare;
mod compare_table;
pub mod cycles;
mod figure;
mod finding;
pub mod paper;
pub mod protocol;
mod record;
pub mod report;
mod saved_log;
pub mod schema;
pub mod selftest;
pub mod stats;
mod svg;
pub mod table;
mod text;

pub use aggregate::{aggregate, RowKey};
pub use protocol::{parse_log, GuestLog, LogParser, Outcome};
pub use schema::{Results, Verdict};
