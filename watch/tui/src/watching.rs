// SPDX-License-Identifier: GPL-2.0-only
//! The loop: keys, snapshots, pictures, until it is told to stop.

use crate::app::{Action, App, Settings};
use crate::draw::draw;
use crate::screen::{self, Screen};
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch_model::{Ended, Snapshot};
use crossterm::event::{self, Event};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What there is to read is there: the wait is over when crossterm is asked. Asked for no time at all it does not look.
const READY: Duration = Duration::from_millis(1);

/// Where snapshots come from.
pub trait Source {
    /// Called often, between snapshots: threads whose rows the next one lacks.
    fn tick(&mut self) -> Result<Option<Ended>>;
    fn snapshot(&mut self) -> Result<Snapshot>;
}

/// When it ends by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub time: Option<Duration>,
    pub intervals: Option<u64>,
}

/// Keys come from standard input, pictures go to standard output.
pub fn require_terminal() -> Result<()> {
    let missing = if !std::io::stdout().is_terminal() {
        "standard output is not a terminal"
    } else if !std::io::stdin().is_terminal() {
        "standard input is not a terminal"
    } else if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        "a terminal of the kind 'dumb' has no screen to draw on"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("top draws on a terminal: {missing}"))
        .remedy("add --plain for reports line by line, or use `ceasefire watch stat`"))
}

pub fn run(source: &mut dyn Source, settings: Settings, limits: Limits) -> Result<()> {
    // Ours alone decides about colour; crossterm would look at NO_COLOR only.
    crossterm::style::force_color_output(settings.look.color);
    let interval = settings.interval;
    let mut app = App::new(source.snapshot()?, settings);
    let mut screen = Screen::enter()?;
    let end = limits.time.map(|time| Instant::now() + time);
    let mut next = Instant::now() + interval;
    let mut intervals = 0;
    let mut is_stale = true;
    loop {
        if is_stale {
            screen.draw(|frame| draw(frame, &app))?;
            is_stale = false;
        }
        if !screen::wait(next.saturating_duration_since(Instant::now()).min(cancel::POLL)) {
            return Err(screen::lost(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        while event::poll(READY).map_err(|error| screen::lost(&error))? {
            let action = match event::read().map_err(|error| screen::lost(&error))? {
                Event::Key(key) => app.key(key),
                Event::Resize(..) => Action::Draw,
                _ => Action::None,
            };
            is_stale |= action != Action::None;
            match action {
                Action::None | Action::Draw => {}
                Action::Look => app.take(source.snapshot()?),
                Action::Reset => app.reset(source.snapshot()?),
                Action::Repaint => screen.clear()?,
                Action::Quit => return Ok(()),
            }
        }
        if let Some(ended) = source.tick()? {
            app.end(&ended);
        }
        let now = Instant::now();
        if cancel::requested() || end.is_some_and(|end| now >= end) {
            return Ok(());
        }
        if now < next {
            continue;
        }
        // A late interval is one longer interval, not two.
        next = now + interval;
        intervals += 1;
        if !app.is_paused {
            app.take(source.snapshot()?);
            is_stale = true;
        }
        if limits.intervals.is_some_and(|most| intervals >= most) {
            return Ok(());
        }
    }
}
