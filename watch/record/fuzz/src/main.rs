// SPDX-License-Identifier: GPL-2.0-only
//! Any bytes: read as a record, and every view drawn of what came out. tests/fuzz runs it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/through/mod.rs"]
mod views;

fuzz_target!(|bytes: &[u8]| {
    views::through(bytes);
    views::through(&views::sealed(bytes));
});
