// SPDX-License-Identifier: GPL-2.0-only
//! `top`: keys and screens over snapshots. [`App`] is the state machine and [`draw`] its picture, both pure; [`run`] is
//! the loop that gives them snapshots, keys and a terminal.
mod app;
mod detail;
mod draw;
mod flow;
mod footer;
mod help;
mod look;
mod matrix;
mod rows;
mod screen;
#[cfg(test)]
mod tests;
mod watching;

pub use app::{Action, App, Settings};
pub use draw::draw;
pub use look::Look;
pub use screen::Screen;
pub use watching::{require_terminal, run, Limits, Source};
