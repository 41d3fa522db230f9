// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's ABIS switch: set for a measurement, and set back however that ends.

use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Progress, Result};
use std::fs;
use std::io;
use std::path::Path;

const SWITCH: &str = "/sys/kernel/mm/abis/mode";
/// What the kernel puts before its reasons.
const LOG_MARK: &str = "abis: stays ";

/// Sets the mode back when dropped.
pub struct Switch {
    before: String,
    progress: Progress,
}

impl Switch {
    /// Tries every mode once, so that a refusal costs no measurement.
    pub fn take(progress: &Progress, modes: &[String]) -> Result<Switch> {
        let before = fs::read_to_string(SWITCH).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::skip(format!(
                "the running kernel{} has no ABIS to set to {}: there is no {SWITCH}",
                crate::files::release().map_or_else(String::new, |release| format!(" ({release})")),
                modes.join(", ")
            ))
            .remedy("boot a kernel that `make kernel-deb` makes (docs/use/hardware.md), or leave out --mode"),
            _ => disk::error("read", Path::new(SWITCH), &error),
        })?;
        let switch = Switch { before: before.trim().to_string(), progress: progress.clone() };
        modes.iter().try_for_each(|mode| switch.set(mode))?;
        Ok(switch)
    }

    pub fn set(&self, mode: &str) -> Result<()> {
        fs::write(SWITCH, mode).map_err(|error| refused(mode, &error))?;
        let now = fs::read_to_string(SWITCH).unwrap_or_default();
        if now.trim() == mode {
            return Ok(());
        }
        Err(Error::failed(format!("ABIS was set to {mode} and says it is {}", now.trim()))
            .remedy("somebody else is switching it: run one measurement at a time"))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = self.set(&self.before) {
            let Error { message, .. } = error;
            self.progress.warn(format!("{message}; set it back: echo {} > {SWITCH}", self.before));
        }
    }
}

fn refused(mode: &str, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            Error::skip(format!("ABIS cannot be set to {mode} by this user")).remedy("run it as root")
        }
        Some(libc::EINVAL) => Error::usage(format!("the running kernel's ABIS has no mode '{mode}'"))
            .remedy("off and idle are always there; full is with the whole series"),
        Some(libc::EOPNOTSUPP) => {
            let said = reason().map_or_else(String::new, |reason| format!(": {reason}"));
            Error::skip(format!("the running kernel refuses ABIS's mode {mode} on this machine{said}"))
                .remedy("leave that mode out; docs/use/hardware.md lists what a machine must have")
        }
        _ => disk::error("write", Path::new(SWITCH), error),
    }
}

/// The kernel's last words about it, where its log may be read.
fn reason() -> Option<String> {
    let log = exec::read(&Command::new("dmesg")).ok()?;
    last_reason(&log)
}

fn last_reason(log: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.contains(LOG_MARK))?;
    let (_, reason) = line.split_once(LOG_MARK)?.1.split_once(": ")?;
    Some(reason.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_base::Kind;

    #[test]
    fn the_kernels_last_reason_is_told() {
        let log =
            "[1.0] abis: off\n[2.0] abis: stays off, not idle: page-table isolation (see nopti)\n[3] x: y\n";
        assert_eq!(last_reason(log).as_deref(), Some("page-table isolation (see nopti)"));
        assert_eq!(last_reason("[1.0] abis: stays off: no PCID\n").as_deref(), Some("no PCID"));
        assert_eq!(last_reason("[1.0] abis: idle\n"), None);
    }

    #[test]
    fn every_refusal_is_a_sentence_with_a_remedy() {
        for (number, kind, fragment) in [
            (libc::EACCES, Kind::Skip, "by this user"),
            (libc::EINVAL, Kind::Usage, "no mode 'fast'"),
            (libc::EOPNOTSUPP, Kind::Skip, "refuses ABIS's mode fast"),
        ] {
            let error = refused("fast", &io::Error::from_raw_os_error(number));
            assert!(error.kind == kind && error.message.contains(fragment), "{error:?}");
            assert!(error.remedy.is_some(), "{error:?}");
        }
    }
}
