// SPDX-License-Identifier: GPL-2.0-only
//! What is shown, as a state machine: snapshots and keys in, actions out. No terminal, no clock.

use crate::detail::{self, Lines};
use crate::look::Look;
use crate::matrix;
use crate::rows::{self, Key, Table, Windows};
use ceasefire_watch_model::{Cause, Class, Counts, Ended, Open, Snapshot};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::collections::VecDeque;
use std::time::Duration;

/// Intervals whose figures are kept for the history.
pub const HISTORY: usize = 60;
/// Rows of each; those that matter are the largest.
const HISTORY_ROWS: usize = 512;
const FILTER_LETTERS: usize = 40;
const PAGE: isize = 10;

#[derive(Debug, Clone)]
pub struct Settings {
    pub look: Look,
    pub interval: Duration,
    /// Only these causes; all where it is empty.
    pub causes: Vec<Cause>,
    /// Also what CPUs have each other run besides flushes.
    pub cross_calls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Senders,
    Victims,
    Causes,
    Matrix,
}

impl View {
    pub const ALL: [View; 4] = [View::Senders, View::Victims, View::Causes, View::Matrix];

    pub fn name(self) -> &'static str {
        match self {
            View::Senders => "senders",
            View::Victims => "victims",
            View::Causes => "causes",
            View::Matrix => "matrix",
        }
    }

    fn place(self) -> usize {
        self as usize
    }
}

/// What the loop has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    None,
    Draw,
    /// Take a snapshot now.
    Look,
    /// Take a snapshot now and begin anew from it.
    Reset,
    /// Paint the whole screen again.
    Repaint,
    Quit,
}

/// What lies over the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    Nothing,
    Help {
        scroll: usize,
    },
    Detail {
        key: Key,
        scroll: usize,
    },
    /// The filter being typed.
    Filter {
        text: String,
    },
}

struct Past {
    window_ns: u64,
    rows: Counts<Key>,
}

pub struct App {
    pub settings: Settings,
    pub view: View,
    pub over: Over,
    pub filter: String,
    pub is_paused: bool,
    pub windows: Windows,
    /// First of the matrix's columns that is shown.
    pub skip: usize,
    /// Since the start or the reset, and since the last snapshot.
    total: Open,
    last: Open,
    history: VecDeque<Past>,
    /// The row that is followed; none is the first, whichever that is.
    selected: [Option<Key>; 4],
    sorted_by: [Option<usize>; 4],
}

impl App {
    pub fn new(first: Snapshot, settings: Settings) -> App {
        let mut app = App {
            settings,
            view: View::Senders,
            over: Over::Nothing,
            filter: String::new(),
            is_paused: false,
            windows: Windows::default(),
            skip: 0,
            total: Open::default(),
            last: Open::default(),
            history: VecDeque::new(),
            selected: [None, None, None, None],
            sorted_by: [None; 4],
        };
        app.reset(first);
        app
    }

    /// Everything is counted from this snapshot on.
    pub fn reset(&mut self, snapshot: Snapshot) {
        self.windows = Windows { total: snapshot.since(&snapshot), last: snapshot.since(&snapshot) };
        self.history.clear();
        self.total = Open::new(snapshot.clone());
        self.last = Open::new(snapshot);
    }

    /// These threads are in no later snapshot.
    pub fn end(&mut self, ended: &Ended) {
        self.total.end(ended);
        self.last.end(ended);
    }

    /// A later snapshot: one more interval.
    pub fn take(&mut self, snapshot: Snapshot) {
        self.windows.total = self.wanted(self.total.until(&snapshot));
        self.windows.last = self.wanted(self.last.until(&snapshot));
        self.last = Open::new(snapshot);
        let last = &self.windows.last;
        let rows = rows::recent(last).largest(HISTORY_ROWS).into_iter().collect();
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Past { window_ns: last.window_ns, rows });
    }

    fn wanted(&self, mut window: Snapshot) -> Snapshot {
        if !self.settings.cross_calls {
            window.retain_class(|class| class != Class::CrossCall);
        }
        let causes = &self.settings.causes;
        if !causes.is_empty() {
            window.retain_cause(|cause| causes.iter().any(|wanted| wanted.name() == cause.name()));
        }
        window
    }

    /// The rows of the present view, sorted and filtered.
    pub fn table(&self) -> Table {
        let by = self.sorted_by[self.view.place()];
        let mut table = match self.view {
            View::Senders => rows::senders(&self.windows),
            View::Victims => rows::victims(&self.windows),
            View::Causes => rows::causes(&self.windows),
            View::Matrix => matrix::table(&self.windows, by.unwrap_or(1), &self.filter, self.skip),
        };
        table.sort(by.unwrap_or(table.sorted_by));
        if self.view != View::Matrix {
            table.filter(&self.filter);
        }
        table
    }

    /// Where the selected row stands now; the first if it is gone.
    pub fn cursor(&self, table: &Table) -> usize {
        let selected = self.selected[self.view.place()].as_ref();
        let place = selected.and_then(|key| table.rows.iter().position(|row| row.key == *key));
        place.unwrap_or(0)
    }

    pub fn detail(&self, key: &Key) -> Lines {
        let past = self.history.iter();
        let past: Vec<(u64, u64)> = past.map(|past| (past.rows.get(key), past.window_ns)).collect();
        detail::lines(key, &self.windows, &past, self.settings.look)
    }

    pub fn key(&mut self, event: KeyEvent) -> Action {
        if event.kind == KeyEventKind::Release {
            return Action::None;
        }
        let with_control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Char('c') if with_control => return Action::Quit,
            KeyCode::Char('l') if with_control => return Action::Repaint,
            KeyCode::Char(_) if with_control => return Action::None,
            _ => {}
        }
        match std::mem::replace(&mut self.over, Over::Nothing) {
            Over::Nothing => self.key_in_view(event.code),
            Over::Help { scroll } => {
                // However long it is here: drawing stops at its end.
                self.key_over(event.code, scroll, 100, |scroll| Over::Help { scroll })
            }
            Over::Detail { key, scroll } => {
                let length = self.detail(&key).len();
                self.key_over(event.code, scroll, length, |scroll| Over::Detail { key: key.clone(), scroll })
            }
            Over::Filter { text } => self.key_in_filter(event.code, text),
        }
    }

    fn key_in_view(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?') => self.over = Over::Help { scroll: 0 },
            KeyCode::Char('f' | '/') => self.over = Over::Filter { text: self.filter.clone() },
            KeyCode::Char('r') => return Action::Reset,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return if self.is_paused { Action::Draw } else { Action::Look };
            }
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('x') => {
                self.settings.cross_calls = !self.settings.cross_calls;
                // While it stands still, the next look shows them.
                return if self.is_paused { Action::Draw } else { Action::Look };
            }
            KeyCode::Char(digit @ '1'..='4') => self.view = View::ALL[digit as usize - '1' as usize],
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(View::ALL.len() - 1),
            KeyCode::Char('l') | KeyCode::Right if self.view == View::Matrix => {
                let shown = self.table().columns.len().saturating_sub(matrix::FIRST);
                self.skip += usize::from(shown > 1);
            }
            KeyCode::Char('h') | KeyCode::Left if self.view == View::Matrix => {
                self.skip = self.skip.saturating_sub(1);
            }
            KeyCode::Char('l') | KeyCode::Right => self.turn(1),
            KeyCode::Char('h') | KeyCode::Left => self.turn(View::ALL.len() - 1),
            KeyCode::Enter => {
                let table = self.table();
                let Some(row) = table.rows.get(self.cursor(&table)) else { return Action::None };
                self.over = Over::Detail { key: row.key.clone(), scroll: 0 };
            }
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            code => {
                let Some(step) = step(code) else { return Action::None };
                let table = self.table();
                let last = table.rows.len().saturating_sub(1);
                let place = self.cursor(&table).saturating_add_signed(step).min(last);
                let row = table.rows.get(place).filter(|_| place > 0);
                self.selected[self.view.place()] = row.map(|row| row.key.clone());
            }
        }
        Action::Draw
    }

    fn key_over(
        &mut self,
        code: KeyCode,
        scroll: usize,
        length: usize,
        over: impl Fn(usize) -> Over,
    ) -> Action {
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Char('?') => {}
            KeyCode::Char('q') => {}
            KeyCode::Char('r') => {
                self.over = over(0);
                return Action::Reset;
            }
            KeyCode::Char('p') => {
                self.over = over(scroll);
                self.is_paused = !self.is_paused;
                return if self.is_paused { Action::Draw } else { Action::Look };
            }
            code => {
                let place = scroll.saturating_add_signed(step(code).unwrap_or(0));
                self.over = over(place.min(length.saturating_sub(1)));
            }
        }
        Action::Draw
    }

    fn key_in_filter(&mut self, code: KeyCode, mut text: String) -> Action {
        match code {
            KeyCode::Enter => {
                self.filter = text;
                return Action::Draw;
            }
            KeyCode::Esc => return Action::Draw,
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(letter) if text.chars().count() < FILTER_LETTERS && !letter.is_control() => {
                text.push(letter);
            }
            _ => {}
        }
        self.over = Over::Filter { text };
        Action::Draw
    }

    fn turn(&mut self, by: usize) {
        self.view = View::ALL[(self.view.place() + by) % View::ALL.len()];
    }

    fn sort_by_next(&mut self) {
        let table = self.table();
        // Of the matrix's columns, the sender and its two sums.
        let columns = if self.view == View::Matrix { matrix::FIRST } else { table.columns.len() };
        let next = (table.sorted_by + 1) % columns.max(1);
        self.sorted_by[self.view.place()] = Some(next);
    }
}

/// How far a key moves.
fn step(code: KeyCode) -> Option<isize> {
    match code {
        KeyCode::Char('j') | KeyCode::Down => Some(1),
        KeyCode::Char('k') | KeyCode::Up => Some(-1),
        KeyCode::PageDown => Some(PAGE),
        KeyCode::PageUp => Some(-PAGE),
        KeyCode::Home | KeyCode::Char('g') => Some(isize::MIN / 2),
        KeyCode::End | KeyCode::Char('G') => Some(isize::MAX / 2),
        _ => None,
    }
}
