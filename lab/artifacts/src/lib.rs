// SPDX-License-Identifier: GPL-2.0-only
//! Builds what a measurement needs and keeps it: kernels, the emulator, the guest, the applications.
pub mod apps;
pub mod base;
pub mod cache;
pub mod changes;
mod compiler;
pub mod context;
pub mod cpio;
pub mod debian;
pub mod elf;
mod gather;
pub mod guest;
pub mod hash;
mod images;
mod kconfig;
pub mod kernel;
pub mod lock;
pub mod luggage;
pub mod machine;
pub mod package;
pub mod recipe;
pub mod selftests;
pub mod source;
mod steps;

pub use context::Context;
