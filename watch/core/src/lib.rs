// SPDX-License-Identifier: GPL-2.0-only
//! Attaches the probes, reads their maps, and hands out [`ceasefire_watch_model`]'s plain data.
//! Empty without the feature `bpf`, which needs clang to build.
#![cfg(feature = "bpf")]

mod check;
mod describe;
mod ended;
mod errors;
mod kernel;
mod maps;
mod moments;
mod observer;
mod options;
mod overhead;
mod probes;
mod stacks;
mod user;
mod wire;

pub use check::{examine, Check};
pub use kernel::defers_flushes;
pub use observer::Observer;
pub use options::{Cgroup, EventOptions, Filter, Options};
