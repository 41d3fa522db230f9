// SPDX-License-Identifier: GPL-2.0-only
//! The observer's verbs. Those that look at this machine are in `live`, which needs the feature `watch`.

pub mod args;
mod causes;
mod compare;
#[cfg(feature = "watch")]
mod environment;
#[cfg(feature = "watch")]
mod export;
#[cfg(feature = "watch")]
pub(crate) mod filters;
#[cfg(feature = "watch")]
mod isolated;
#[cfg(feature = "watch")]
mod limit;
mod lines;
#[cfg(feature = "watch")]
mod live;
#[cfg(feature = "watch")]
mod program;
#[cfg(feature = "watch")]
mod record;
mod report;
#[cfg(feature = "watch")]
mod runtimes;
#[cfg(feature = "watch")]
mod selftest;
#[cfg(feature = "watch")]
mod top;

use args::{Verb, Watch};
use ceasefire_base::Result;

/// Of a report that is not for a terminal.
const COLUMNS: usize = 100;

/// The exit code: a command's own where one was run.
pub fn run(watch: Watch) -> Result<u8> {
    if let Verb::Storm(storm) = watch.verb {
        return ceasefire_watch_storms::make(&storm.name, storm.rounds, &storm.cpus).map(|()| 0);
    }
    if let Verb::Report(report) = &watch.verb {
        return report::report(report);
    }
    if let Verb::Compare(args) = &watch.verb {
        return compare::run(args);
    }
    #[cfg(feature = "watch")]
    return match watch.verb {
        Verb::Check { json } => live::check(json),
        Verb::Top(args) => top::run(args),
        Verb::Stat(args) => live::stat(&args),
        Verb::Trace(args) => live::trace(&args),
        Verb::Hist(args) => live::hist(&args),
        Verb::Stacks(args) => live::stacks(&args),
        Verb::Matrix(args) => live::matrix(&args),
        Verb::Record(args) => record::record(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Selftest(args) => selftest::run(&args),
        Verb::Storm(_) | Verb::Report(_) | Verb::Compare(_) => Ok(0),
    };
    #[cfg(not(feature = "watch"))]
    Err(ceasefire_base::Error::skip("this ceasefire was built without the observer")
        .remedy("make watch, then target/watch/release/ceasefire watch"))
}
