// SPDX-License-Identifier: GPL-2.0-only
//! Lines of a trace: one for each shootdown, or one for each range that several of them flushed piece by piece.

use ceasefire_base::exec::print_line;
use ceasefire_watch_model::{Neighbours, Range, Run, Shootdown};
use ceasefire_watch_views::trace;

pub struct Lines {
    /// None: each by itself.
    neighbours: Option<Neighbours>,
}

impl Lines {
    pub fn new(each: bool, within_ns: u64) -> Lines {
        Lines { neighbours: (!each).then(|| Neighbours::new(Range::Touching, within_ns)) }
    }

    pub fn take(&mut self, shootdown: &Shootdown) {
        match &mut self.neighbours {
            None => print_line(&trace::line(shootdown)),
            Some(neighbours) => print(neighbours.take(shootdown)),
        }
    }

    /// Nothing earlier than this will come.
    #[cfg(feature = "watch")]
    pub fn quiet(&mut self, now_ns: u64) {
        // Events arrive a little late.
        const LATE_NS: u64 = 100_000_000;
        if let Some(neighbours) = &mut self.neighbours {
            print(neighbours.ended_before(now_ns.saturating_sub(LATE_NS)));
        }
    }

    pub fn end(&mut self) {
        if let Some(neighbours) = &mut self.neighbours {
            print(neighbours.rest());
        }
    }
}

fn print(runs: Vec<Run>) {
    runs.iter().for_each(|run| print_line(&trace::run_line(run)));
}
