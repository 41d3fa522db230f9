// SPDX-License-Identifier: GPL-2.0-only
//! Verbs about remedies, a file each.

pub mod args;
mod host;
mod lines;
mod plan;
mod run;
mod seen;
mod show;

use args::{Deter, Verb};
use ceasefire_base::Result;

/// Of a report that is not for a terminal.
const COLUMNS: usize = 80;

/// The exit code: a command's own where one was run.
pub fn run(deter: Deter) -> Result<u8> {
    match deter.verb {
        Verb::Plan(args) => plan::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Show(args) => show::run(&args),
        Verb::Host(args) => host::run(&args),
    }
}
