// SPDX-License-Identifier: GPL-2.0-only
use ceasefire_base::Result;
pub fn make(_name: &str, _rounds: u64) -> Result<()> {
    Ok(())
}
