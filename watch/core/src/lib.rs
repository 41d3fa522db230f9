// SPDX-License-Identifier: GPL-2.0-only
//! Attaches the probes, reads their maps, and hands out [`ceasefire_watch_model`]'s plain data.
//! Built without the `bpf` feature there is only [`available`], which says so.
#[cfg(feature = "bpf")]
mod check;
#[cfg(feature = "bpf")]
mod ended;
#[cfg(feature = "bpf")]
mod errors;
#[cfg(feature = "bpf")]
mod kernel;
#[cfg(feature = "bpf")]
mod maps;
#[cfg(feature = "bpf")]
mod observer;
#[cfg(feature = "bpf")]
mod overhead;
#[cfg(feature = "bpf")]
mod stacks;
#[cfg(feature = "bpf")]
mod wire;

#[cfg(feature = "bpf")]
pub use check::{examine, Check};
#[cfg(feature = "bpf")]
pub use kernel::defers_flushes;
#[cfg(feature = "bpf")]
pub use observer::{Cgroup, EventOptions, Filter, Observer, Options};

use ceasefire_base::{Error, Result};

/// Is the observer part of this binary?
pub fn available() -> Result<()> {
    if cfg!(feature = "bpf") {
        return Ok(());
    }
    Err(Error::skip("this ceasefire was built without the observer")
        .remedy("make watch, then target/watch/release/ceasefire watch"))
}
