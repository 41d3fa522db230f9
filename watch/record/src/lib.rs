// SPDX-License-Identifier: GPL-2.0-only
//! The file of `ceasefire watch record`: what was seen, by name, so that any machine can show it.
//!
//! ```text
//! ceasefire.watch-record/2\n          name and version of the form
//! frame, frame, …                     tag (4 bytes), length (u32), CRC-32 (u32, of tag, length, payload), payload (JSON)
//! ```
//! Numbers of the frame are little-endian. Tags: `ENVT` machine and command, first and once; `STCK` stacks not named
//! before; `PROC` processes; `WNDW` a window or a part of one ([`Snapshot`] without stacks: rows of all parts are
//! added up); `EVNT` shootdowns; `END ` last and once. Frames with other tags are skipped: later versions may add some.
//! A record without its end was cut; everything before the cut is good.
//!
//! The reader trusts nothing: frames, strings, rows and stacks are bounded ([`limits`]), so is its memory.
//!
//! [`Snapshot`]: ceasefire_watch_model::Snapshot
mod clean;
mod environment;
mod error;
mod events;
mod file;
mod frame;
mod reader;
mod writer;

pub use environment::{Built, End, Environment, MemoryLimit, Process, Runtime};
pub use error::Error;
pub use file::Recording;
pub use reader::{Item, Reader};
pub use writer::Writer;

/// The form's name; after it `/`, the version and a newline.
pub const SCHEMA: &str = "ceasefire.watch-record";
pub const VERSION: u32 = 2;

/// What a record may hold; one that is larger, or cannot be made smaller, is refused.
pub mod limits {
    /// Bytes of a frame's payload.
    pub const PAYLOAD_MAX: u32 = 4 << 20;
    /// Bytes of the names of all stacks.
    pub const STACK_BYTES_MAX: usize = 48 << 20;
    pub const STACKS_MAX: usize = 65_536;
    pub const FRAMES_MAX: usize = 512;
    /// Bytes of one string; the rest is dropped.
    pub const STRING_MAX: usize = 512;
    pub const PROCESSES_MAX: usize = 1_024;
    /// Rows of a table, all windows added up; beyond them the threads that did least are added up by name.
    pub const ROWS_MAX: usize = 32_768;
    /// Rows with histograms.
    pub const SITES_MAX: usize = 4_096;
    /// CPUs named as targets of an event.
    pub const CPUS_MAX: usize = 1_024;

    /// What the names of one stack take of `STACK_BYTES_MAX`: also what a string and a row take beside their bytes.
    pub(crate) fn stack_bytes(frames: &[String]) -> usize {
        96 + frames.iter().map(|frame| frame.len().min(STRING_MAX) + 40).sum::<usize>()
    }
}
