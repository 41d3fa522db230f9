// SPDX-License-Identifier: GPL-2.0-only
//! Causes as a user names them.

use ceasefire_base::{Error, Result};
use ceasefire_watch_model::cause::CAUSES;
use ceasefire_watch_model::Cause;

pub fn is_same(wanted: &Cause, cause: &Cause) -> bool {
    wanted.name() == cause.name()
}

pub fn causes(names: &[String]) -> Result<Vec<Cause>> {
    let named = |name: &String| {
        Cause::named(name).ok_or_else(|| {
            let names: Vec<&str> = CAUSES.iter().map(|(name, _)| *name).collect();
            Error::usage(format!("there is no cause named '{name}'"))
                .remedy(format!("choose from {}", names.join(", ")))
        })
    };
    names.iter().map(named).collect()
}
