// SPDX-License-Identifier: GPL-2.0-only
//! From a request to results. `session` is the one sequence; `guest` and `host` are where it runs.

pub mod board;
pub mod boot;
pub mod catalog;
mod clock;
pub mod doctor;
pub mod executor;
pub mod files;
pub mod guest;
pub mod host;
pub mod image;
pub mod kernels;
mod kvm;
mod lanes;
pub mod luggage;
pub mod machine;
pub mod mmtests;
pub mod paper;
pub mod plan;
pub mod presets;
pub mod qemu;
pub mod request;
pub mod session;
pub mod shell;
pub mod switch;
pub mod tlb;
pub mod words;
