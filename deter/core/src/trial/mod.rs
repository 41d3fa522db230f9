// SPDX-License-Identifier: GPL-2.0-only
//! Trials: the same command with each remedy and with none, in turn, each counted per unit of work.
//!
//! [`counter`] counts, [`stage`] runs one trial, [`units`] finds how much work was done, [`state`] keeps what was done,
//! [`rank`] compares. The last three are pure.
pub mod cgroup;
pub mod counter;
pub mod rank;
pub mod report;
pub mod stage;
pub mod state;
pub mod units;

/// Trials of the command as it is, in every table.
pub const NONE: &str = "none";
