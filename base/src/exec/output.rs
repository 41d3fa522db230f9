// SPDX-License-Identifier: GPL-2.0-only
//! Our own standard output.

use crate::{disk, Error, Result};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

/// The first error of `print_line`.
static OUTPUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Somebody read our output and reads no more.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// A line on standard output; a reader that went away is no reason to fail.
pub fn print_line(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        match error.kind() {
            io::ErrorKind::BrokenPipe => READER_GONE.store(true, Ordering::Relaxed),
            _ => drop(OUTPUT_ERROR.set(error)),
        }
    }
}

/// True if nothing that is printed from now on will be read: what would print for ever may end.
pub fn output_is_over() -> bool {
    READER_GONE.load(Ordering::Relaxed) || OUTPUT_ERROR.get().is_some() || reader_has_left()
}

/// Asked of a pipe: a write would tell only where there is something to write.
fn reader_has_left() -> bool {
    let mut out = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: one descriptor, and room for its answer; it does not wait.
    unsafe { libc::poll(&mut out, 1, 0) == 1 && out.revents & libc::POLLERR != 0 }
}

/// Err if a line could not be written, e.g. to a file on a full disk.
pub fn check_output() -> Result<()> {
    match OUTPUT_ERROR.get() {
        None => Ok(()),
        Some(error) => {
            Err(Error::failed(format!("cannot write to standard output: {}", disk::reason(error)))
                .remedy("free space, or send the output elsewhere"))
        }
    }
}
