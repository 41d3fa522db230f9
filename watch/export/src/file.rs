// SPDX-License-Identifier: GPL-2.0-only
//! A file for node_exporter's textfile collector: replaced as a whole, so that it is never read half.

use ceasefire_base::{disk, Result};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Errors: what the disk says. The file before stays then.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        disk::error("write", path, &error)
            .remedy("name a file in a directory that is there and may be written to")
    })
}
