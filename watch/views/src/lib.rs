// SPDX-License-Identifier: GPL-2.0-only
//! A snapshot as text. Pure: no BPF, no terminal, no clock; what is printed depends on what is passed alone.
pub mod compare;
pub mod hist;
pub mod honesty;
pub mod isolated;
pub mod json;
pub mod matrix;
pub mod names;
pub mod numbers;
pub mod savings;
pub mod stacks;
pub mod stat;
pub mod table;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod verdict;
