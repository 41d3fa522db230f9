// SPDX-License-Identifier: GPL-2.0-only
//! Remedies for programs that cannot be changed, on a kernel as it is: which could help, whether one does, how it is
//! applied and undone.
//!
//! Remedies are data ([`remedy`], from `deter/remedies.toml`). A [`program::Program`] is what a command or a process is,
//! as far as it can be seen without running it. A [`plan`] is pure: remedies, program, machine and causes seen go in,
//! what could help and what does not comes out.
pub mod host;
pub mod launch;
mod lock;
pub mod machine;
pub mod plan;
pub mod program;
pub mod proof;
pub mod remedy;
pub mod settings;
pub mod show;
pub mod trial;
pub mod version;

pub use remedy::{Kind, Remedy};
