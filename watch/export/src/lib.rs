// SPDX-License-Identifier: GPL-2.0-only
//! Counters of shootdowns for whoever scrapes them: windows are added up, and served as OpenMetrics over HTTP or written
//! to a file for node_exporter. How many series there are has a bound.
mod file;
mod server;
mod text;
mod totals;
mod units;

pub use file::replace;
pub use server::Server;
pub use text::{render, Form};
pub use totals::Totals;
pub use units::Units;
