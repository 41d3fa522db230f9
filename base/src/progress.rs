// SPDX-License-Identifier: GPL-2.0-only
//! What is being done, for how long, and what it waits for. On a terminal one redrawn line; elsewhere plain
//! lines, with a sign of life now and then so that a log shows that work goes on. Everything goes to stderr.
//! Ours, since a crate for bars would replace the redrawn line alone: 40 lines of it, and not what a log gets.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often a log that is not a terminal hears of a running step.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the terminal's line is redrawn though nothing was said, so that the clock moves.
const REDRAW: Duration = Duration::from_millis(500);
/// Fastest redraw: a compiler says more than an eye can read.
const REDRAW_LEAST: Duration = Duration::from_millis(80);
const WIDTH_UNKNOWN: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings only.
    Quiet,
    Normal,
}

/// A cheap handle; clones share the screen.
#[derive(Clone)]
pub struct Progress {
    screen: Arc<Mutex<Screen>>,
    verbosity: Verbosity,
}

/// A piece of work that is going on. Dropped without `done`, it is reported as stopped.
pub struct Step {
    progress: Progress,
    id: u64,
    finished: bool,
}

struct Running {
    id: u64,
    name: String,
    waiting: String,
    begun: Instant,
    said: Instant,
}

struct Screen {
    out: Box<dyn Write + Send>,
    /// Redraw one line, cut to the terminal's width.
    redraws: bool,
    /// A fixed width for tests; otherwise the terminal is asked each time, since windows are resized.
    width: Option<usize>,
    begun: Instant,
    drawn: Instant,
    has_line: bool,
    next: u64,
    running: Vec<Running>,
}

impl Progress {
    pub fn new(verbosity: Verbosity) -> Progress {
        let dumb = std::env::var_os("TERM").map_or(true, |term| term == "dumb" || term.is_empty());
        let redraws = !dumb && std::io::stderr().is_terminal();
        Progress::onto(Box::new(std::io::stderr()), redraws, None, verbosity)
    }

    fn onto(
        out: Box<dyn Write + Send>,
        redraws: bool,
        width: Option<usize>,
        verbosity: Verbosity,
    ) -> Progress {
        let now = Instant::now();
        let screen = Arc::new(Mutex::new(Screen {
            out,
            redraws,
            width,
            begun: now,
            drawn: now,
            has_line: false,
            next: 0,
            running: Vec::new(),
        }));
        if verbosity > Verbosity::Quiet {
            let weak = Arc::downgrade(&screen);
            // Without the clock's thread only the sign of life is lost.
            let _ = std::thread::Builder::new().name("progress".into()).spawn(move || tick(&weak));
        }
        Progress { screen, verbosity }
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step, e.g. "kernel vanilla: compile".
    pub fn step(&self, name: impl Into<String>) -> Step {
        let now = Instant::now();
        let name = name.into();
        let mut screen = self.screen();
        let id = screen.next;
        screen.next += 1;
        if self.verbosity > Verbosity::Quiet {
            if !screen.redraws {
                screen.line(&name);
            }
            let waiting = String::new();
            screen.running.push(Running { id, name, waiting, begun: now, said: now });
            screen.redraw();
        }
        drop(screen);
        Step { progress: self.clone(), id, finished: false }
    }

    /// Something worth knowing that is not a step.
    pub fn note(&self, text: impl AsRef<str>) {
        if self.verbosity > Verbosity::Quiet {
            self.screen().line(text.as_ref());
        }
    }

    /// Something the user should look at; the work goes on.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.screen().line(&format!("warning: {}", text.as_ref()));
    }

    /// Removes the redrawn line, e.g. before another program takes the terminal.
    pub fn clear(&self) {
        self.screen().clear();
    }
}

impl Step {
    /// What the step is waiting for at this moment, e.g. "1203/1326 objects".
    pub fn waiting(&self, text: impl AsRef<str>) {
        let mut screen = self.progress.screen();
        let Some(running) = screen.running.iter_mut().find(|r| r.id == self.id) else { return };
        if running.waiting == text.as_ref() {
            return;
        }
        running.waiting = text.as_ref().to_string();
        if screen.redraws && screen.drawn.elapsed() >= REDRAW_LEAST {
            screen.redraw();
        }
    }

    /// Ends the step; `text` is its outcome ("6.12.117, 1326 objects") and may be empty.
    pub fn done(mut self, text: impl AsRef<str>) {
        self.finish(text.as_ref());
    }

    fn finish(&mut self, outcome: &str) {
        self.finished = true;
        let mut screen = self.progress.screen();
        let Some(at) = screen.running.iter().position(|r| r.id == self.id) else { return };
        let running = screen.running.remove(at);
        let time = clock(running.begun.elapsed());
        let colon = if outcome.is_empty() { "" } else { ": " };
        screen.line(&format!("{}{colon}{outcome} ({time})", running.name));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.finished {
            self.finish("stopped");
        }
    }
}

impl Screen {
    /// A line that stays.
    fn line(&mut self, text: &str) {
        self.clear();
        let time = clock(self.begun.elapsed());
        // A terminal that went away must not end the work.
        let _ = writeln!(self.out, "{time} {}", printable(text));
        let _ = self.out.flush();
        self.redraw();
    }

    fn clear(&mut self) {
        if self.has_line {
            let _ = write!(self.out, "\r\x1b[K");
            let _ = self.out.flush();
            self.has_line = false;
        }
    }

    fn redraw(&mut self) {
        if !self.redraws {
            return;
        }
        self.drawn = Instant::now();
        let Some(running) = self.running.last() else { return self.clear() };
        let text = format!("{} {}", clock(self.begun.elapsed()), status(running));
        // The last column stays empty: some terminals wrap as soon as it is written.
        let width = self.width.unwrap_or_else(terminal_width).saturating_sub(1);
        let _ = write!(self.out, "\r{}\x1b[K", cut(&printable(&text), width));
        let _ = self.out.flush();
        self.has_line = true;
    }

    fn beat(&mut self) {
        if self.redraws {
            return self.redraw();
        }
        let Some(running) = self.running.last_mut() else { return };
        if running.said.elapsed() < HEARTBEAT {
            return;
        }
        running.said = Instant::now();
        let text = status(running);
        self.line(&text);
    }
}

fn tick(screen: &Weak<Mutex<Screen>>) {
    loop {
        std::thread::sleep(REDRAW);
        let Some(screen) = screen.upgrade() else { return };
        screen.lock().unwrap_or_else(PoisonError::into_inner).beat();
    }
}

/// "compile 01:12: 1203/1326 objects"
fn status(running: &Running) -> String {
    let time = clock(running.begun.elapsed());
    match running.waiting.as_str() {
        "" => format!("{} {time}", running.name),
        waiting => format!("{} {time}: {waiting}", running.name),
    }
}

/// mm:ss, hours only when there are any.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes:02}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Control characters of other programs must not move our cursor.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// Columns of the terminal on stderr.
pub fn terminal_width() -> usize {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, _)) if width.0 > 0 => width.0.into(),
        _ => WIDTH_UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
        }
    }

    fn on_paper(redraws: bool, width: usize, verbosity: Verbosity) -> (Progress, Paper) {
        let paper = Paper::default();
        (Progress::onto(Box::new(paper.clone()), redraws, Some(width), verbosity), paper)
    }

    #[test]
    fn no_redrawn_line_is_wider_than_the_terminal() {
        let long = "a step with a name that is much longer than any narrow terminal, äöü included";
        for width in [0, 1, 2, 20, 40, 80] {
            let (progress, paper) = on_paper(true, width, Verbosity::Normal);
            let step = progress.step(long);
            std::thread::sleep(REDRAW_LEAST);
            step.waiting("1203/1326 objects\r\n\x1b[2J");
            let text = paper.text();
            assert!(text.contains("\x1b[K"));
            for line in text.split(['\r', '\n']) {
                let shown = line.trim_end_matches("\x1b[K");
                assert!(shown.chars().count() <= width, "{width}: {shown:?}");
                assert!(!shown.contains('\x1b'), "{shown:?}");
            }
        }
    }

    #[test]
    fn a_log_gets_plain_lines_with_times() {
        let (progress, paper) = on_paper(false, 80, Verbosity::Normal);
        progress.step("compile").done("3 objects");
        progress.note("a note");
        drop(progress.step("boot"));
        progress.warn("careful");
        let text = paper.text();
        assert!(!text.contains(['\r', '\x1b']), "{text:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "00:00 compile",
                "00:00 compile: 3 objects (00:00)",
                "00:00 a note",
                "00:00 boot",
                "00:00 boot: stopped (00:00)",
                "00:00 warning: careful"
            ]
        );
    }

    #[test]
    fn a_long_step_in_a_log_shows_life_and_what_it_waits_for() {
        let (progress, paper) = on_paper(false, 80, Verbosity::Normal);
        let step = progress.step("compile");
        step.waiting("7/9 objects");
        progress.screen().beat();
        assert!(!paper.text().contains("7/9"), "too early for a sign of life");
        progress.screen().running[0].said -= HEARTBEAT;
        progress.screen().beat();
        progress.screen().beat();
        assert_eq!(paper.text().matches("compile 00:00: 7/9 objects").count(), 1);
    }

    #[test]
    fn quiet_says_only_warnings() {
        let (progress, paper) = on_paper(false, 80, Verbosity::Quiet);
        progress.step("compile").done("");
        progress.note("a note");
        assert_eq!(paper.text(), "");
        progress.warn("careful");
        assert_eq!(paper.text(), "00:00 warning: careful\n");
    }

    #[test]
    fn clock_counts_past_the_hour() {
        for (seconds, expected) in [(0, "00:00"), (61, "01:01"), (3599, "59:59"), (3661, "1:01:01")] {
            assert_eq!(clock(Duration::from_secs(seconds)), expected);
        }
    }
}
