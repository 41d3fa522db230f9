// SPDX-License-Identifier: GPL-2.0-only
//! Verbs about remedies, a file each.

pub mod args;
mod counting;
mod host;
mod interception;
mod lines;
mod plan;
mod run;
mod seen;
mod show;
mod table;
mod trial;

use args::{Deter, Verb};
use ceasefire_base::Result;

/// Of a report that is not for a terminal.
const COLUMNS: usize = 80;

/// The exit code: a command's own where one was run.
pub fn run(deter: Deter) -> Result<u8> {
    match deter.verb {
        Verb::Plan(args) => plan::run(&args),
        Verb::Try(args) => trial::run(&args),
        Verb::Stage { order } => trial::perform(&order),
        Verb::Run(args) => run::run(&args),
        Verb::Show(args) => show::run(&args),
        Verb::Host(args) => host::run(&args),
    }
}
