// SPDX-License-Identifier: GPL-2.0-only
//! Interception of memory management, where a program has no setting for it: a preload library and a seccomp filter.
//! What each may do, and what a program can notice of it: README.md.

mod filter;
mod mode;
mod program;
mod stop;

pub use filter::{install_filter, Advice, Filter};
pub use mode::{setting, Mode, MODES_VARIABLE, STOP_VARIABLE};
pub use program::{is_present, refusal};
pub use stop::{Stop, Strain};

/// The name that the library's file should have.
pub const LIBRARY_NAME: &str = "libceasefire-deter.so";

/// The preload library, a shared object that needs libc alone.
pub fn library() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/libceasefire-deter.so"))
}
