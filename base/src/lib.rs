// SPDX-License-Identifier: GPL-2.0-only
//! What every part of the lab needs: errors with remedies, progress, cancellation, child processes.
pub mod cancel;
pub mod disk;
pub mod error;
pub mod exec;
mod guardian;
pub mod progress;
pub mod text;

pub use error::{Error, Kind, Result};
pub use progress::{Progress, Step, Verbosity};
