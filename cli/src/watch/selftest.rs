// SPDX-License-Identifier: GPL-2.0-only
use super::args::Selftest;
use ceasefire_base::Result;
pub fn run(_args: &Selftest) -> Result<u8> {
    Ok(0)
}
