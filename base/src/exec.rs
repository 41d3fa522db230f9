// SPDX-License-Identifier: GPL-2.0-only
//! The one place that starts other programs. Each gets a process group of its own, which is killed when the
//! user interrupts, when time is up and when the handle is dropped; the guardian sees to it if we are killed.

mod child;
mod command;
mod output;
mod programs;
mod run;
mod tail;
#[cfg(test)]
mod tests;

pub use child::{spawn, spawn_interactive, Child, Stop, Stream};
pub use command::{quote, Command};
pub use output::{check_output, output_is_over, print_line};
pub use programs::{find_program, missing_program};
pub use run::{capture, read, run, Captured, OnLine, Options, Output};
