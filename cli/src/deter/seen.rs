// SPDX-License-Identifier: GPL-2.0-only
//! Causes, from a record of the observer: of one process where the record has it, else of all.

use ceasefire_base::{cancel, Result};
use ceasefire_deter::plan::Seen;
use ceasefire_watch_model::Class;
use ceasefire_watch_record::{Error, Reader};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The targets of each cause, and a sentence on whose they are.
pub fn read(path: &Path, pid: Option<u32>) -> Result<(Seen, String)> {
    let about = |error: Error| error.about(path);
    let file = File::open(path).map_err(|error| about(Error::Io(error)))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(about)?;
    while reader.next_item().map_err(about)?.is_some() {
        cancel::check()?;
    }
    let window = reader.sum.snapshot(std::mem::take(&mut reader.stacks));
    let mut seen = Seen::new();
    let senders = window.senders.iter().filter(|sender| sender.class == Class::User);
    let of_pid = senders.filter(|sender| pid.is_some_and(|pid| sender.task.tgid == pid));
    for sender in of_pid {
        let sum = seen.entry(sender.cause.clone()).or_default();
        *sum = sum.saturating_add(sender.tally.targets);
    }
    if let (Some(pid), false) = (pid, seen.is_empty()) {
        return Ok((seen, format!("causes seen of process {pid} in {}", path.display())));
    }
    for site in window.sites.iter().filter(|site| site.class == Class::User) {
        let sum = seen.entry(site.cause.clone()).or_default();
        *sum = sum.saturating_add(site.tally.targets);
    }
    let whose = pid.map_or(String::new(), |pid| format!(", which has nothing of process {pid}"));
    Ok((seen, format!("causes of user mappings, of all that {} has{whose}", path.display())))
}
