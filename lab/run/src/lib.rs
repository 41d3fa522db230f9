// SPDX-License-Identifier: GPL-2.0-only
//! From a request to boots, from boots to results.

pub mod boot;
pub mod catalog;
pub mod doctor;
pub mod execute;
pub mod files;
pub mod host;
pub mod image;
pub mod kvm;
pub mod paper;
pub mod plan;
pub mod qemu;
pub mod selftests;
pub mod shell;
pub mod switch;
pub mod tlb;
pub mod tour;
mod when;
