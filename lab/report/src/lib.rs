// SPDX-License-Identifier: GPL-2.0-only
//! What a person reads of results: the terminal's tables, the page, the pictures. Data come from `ceasefire-results`.
mod ceiling;
mod chart;
mod compare_table;
mod cost;
mod designs;
mod finding;
mod held;
mod net;
mod numbers;
pub mod page;
pub mod paper;
mod picture;
pub mod publish;
mod rows;
mod screen;
pub mod selftests;
mod summary;
mod svg;
pub mod table;
mod trials;
mod walks;

pub use compare_table::{regression, render as comparison};
pub use picture::file as picture;
pub use screen::{render as screen, Files};
