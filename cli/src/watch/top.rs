// SPDX-License-Identifier: GPL-2.0-only
//! `top`: the observer under a terminal, or `stat` by intervals where there is none.

use super::args::{Stat, Top, Window};
use super::live;
use ceasefire_base::{cancel, Result};
use ceasefire_watch::{Observer, Options};
use ceasefire_watch_model::{Ended, Snapshot};
use ceasefire_watch_tui::{self as tui, Limits, Look, Settings, Source};
use std::time::Duration;

pub fn run(args: Top) -> Result<u8> {
    if args.plain {
        return plain(args);
    }
    tui::require_terminal()?;
    let causes = super::causes::causes(&args.filters.cause)?;
    let filter = super::filters::filter(&args.filters)?;
    cancel::install()?;
    let options = Options {
        latencies: !args.sender_only,
        user_stacks: args.user_stacks,
        inlined: args.inlined,
        filter,
        ..Options::default()
    };
    let mut live = Live(Observer::start(options)?);
    let look = Look::of(|name| std::env::var(name).ok(), !args.no_color);
    let settings = Settings { look, interval: args.interval, causes, cross_calls: args.cross_calls };
    tui::run(&mut live, settings, Limits { time: args.duration, intervals: args.count })?;
    Ok(0)
}

fn plain(args: Top) -> Result<u8> {
    let window = Window {
        interval: Some(args.interval),
        count: args.count,
        duration: args.duration,
        top: 10,
        filters: args.filters,
        ..Window::default()
    };
    live::stat(&Stat {
        sender_only: args.sender_only,
        no_stacks: false,
        isolated: false,
        whole_calls: false,
        window,
    })
}

struct Live(Observer);

impl Source for Live {
    fn tick(&mut self) -> Result<Option<Ended>> {
        self.0.poll(Duration::ZERO, |_| ())?;
        self.0.ended()
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        self.0.snapshot()
    }
}
