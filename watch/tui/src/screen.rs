// SPDX-License-Identifier: GPL-2.0-only
//! The terminal while we have it. It is given back however we end: by a key, an error, a signal or a panic.

use ceasefire_base::{Error, Result};
use crossterm::cursor::Show;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use std::io::{self, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;
use std::time::Duration;

static IS_OURS: AtomicBool = AtomicBool::new(false);

pub struct Screen {
    /// Never dropped: its own drop writes to standard error, and panics when that is a terminal that has gone away.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    pub fn enter() -> Result<Screen> {
        hook();
        IS_OURS.store(true, Ordering::SeqCst);
        enter().map_err(|error| {
            leave();
            lost(&error)
        })
    }

    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> Result<()> {
        self.terminal.draw(picture).map(drop).map_err(|error| lost(&error))
    }

    /// The next picture is painted whole.
    pub fn clear(&mut self) -> Result<()> {
        self.terminal.clear().map_err(|error| lost(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<Screen> {
    enable_raw_mode()?;
    crossterm::execute!(io::stdout(), EnterAlternateScreen)?;
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    Ok(Screen { terminal: ManuallyDrop::new(terminal) })
}

/// Once; what cannot be undone now cannot be undone at all.
fn leave() {
    if IS_OURS.swap(false, Ordering::SeqCst) {
        let _ = crossterm::execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// A panic's words must stand on the terminal as it was, not on the screen that goes away.
fn hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            usual(panic);
        }));
    });
}

/// Waits for keys or a signal; false once the terminal is gone. crossterm must not wait itself: it would turn in circles
/// where the terminal has hung up. (Its other source of events, without `use-dev-tty`, never returns then, however short
/// it is to wait.)
pub fn wait(time: Duration) -> bool {
    let mut keys = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: poll() gets one descriptor and writes nothing else.
    unsafe { libc::poll(&mut keys, 1, i32::try_from(time.as_millis()).unwrap_or(i32::MAX)) };
    keys.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0
}

pub fn lost(error: &io::Error) -> Error {
    Error::failed(format!("the terminal does not answer: {error}"))
        .remedy("`ceasefire watch top --plain` needs no terminal")
}
