// SPDX-License-Identifier: GPL-2.0-only
//! The switches of the running kernel's mechanisms: set for a measurement, and set back however that ends.

use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Progress, Result};
use ceasefire_mechanism::{Mechanism, SEPARATOR};
use std::fs;
use std::io;
use std::path::Path;

/// Those that this kernel has; all are set back when it is dropped.
pub struct Switch(Vec<One>);

struct One {
    mechanism: Mechanism,
    path: String,
    before: String,
    progress: Progress,
}

impl Switch {
    /// Tries every mode once, so that a refusal costs no measurement.
    pub fn take(progress: &Progress, mechanisms: &[Mechanism], modes: &[String]) -> Result<Switch> {
        let mut parts = Vec::new();
        for mechanism in mechanisms {
            let Some(path) = mechanism.switch.clone() else { continue };
            match fs::read_to_string(&path) {
                Ok(before) => parts.push(One {
                    mechanism: mechanism.clone(),
                    path,
                    before: before.trim().to_string(),
                    progress: progress.clone(),
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(disk::error("read", Path::new(&path), &error)),
            }
        }
        if parts.is_empty() {
            return Err(nothing_to_set(mechanisms, modes));
        }
        let switch = Switch(parts);
        modes.iter().try_for_each(|mode| switch.set(mode))?;
        Ok(switch)
    }

    /// One part of `mode` for each.
    pub fn set(&self, mode: &str) -> Result<()> {
        let parts: Vec<&str> = mode.split(SEPARATOR).collect();
        if parts.len() != self.0.len() {
            let titles: Vec<&str> = self.0.iter().map(|one| one.mechanism.title.as_str()).collect();
            return Err(Error::usage(format!("'{mode}' is no mode of {}", titles.join(" and ")))
                .remedy(format!("give one mode for each, with {SEPARATOR} between them")));
        }
        self.0.iter().zip(parts).try_for_each(|(one, mode)| one.set(mode))
    }
}

impl One {
    fn set(&self, mode: &str) -> Result<()> {
        fs::write(&self.path, mode).map_err(|error| refused(&self.mechanism, mode, &error))?;
        let now = fs::read_to_string(&self.path).unwrap_or_default();
        if now.trim() == mode {
            return Ok(());
        }
        Err(Error::failed(format!(
            "{} was set to {mode} and says it is {}",
            self.mechanism.title,
            now.trim()
        ))
        .remedy("somebody else is switching it: run one measurement at a time"))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        if let Err(error) = self.set(&self.before) {
            let Error { message, .. } = error;
            self.progress.warn(format!("{message}; set it back: echo {} > {}", self.before, self.path));
        }
    }
}

fn nothing_to_set(mechanisms: &[Mechanism], modes: &[String]) -> Error {
    let paths: Vec<&str> = mechanisms.iter().filter_map(|mechanism| mechanism.switch.as_deref()).collect();
    Error::skip(format!(
        "the running kernel{} has no mechanism to set to {}: there is no {}",
        crate::files::release().map_or_else(String::new, |release| format!(" ({release})")),
        modes.join(", "),
        paths.join(", no ")
    ))
    .remedy("boot a kernel that `make kernel-deb` makes (docs/use/hardware.md), or leave out --mode")
}

fn refused(mechanism: &Mechanism, mode: &str, error: &io::Error) -> Error {
    let title = &mechanism.title;
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            Error::skip(format!("{title} cannot be set to {mode} by this user")).remedy("run it as root")
        }
        Some(libc::EINVAL) => Error::usage(format!("the running kernel's {title} has no mode '{mode}'"))
            .remedy(format!("this version knows: {}", mechanism.modes.join(", "))),
        Some(libc::EOPNOTSUPP) => excluded(mechanism, mode, reason(mechanism)),
        _ => disk::error("write", Path::new(mechanism.switch.as_deref().unwrap_or_default()), error),
    }
}

/// All that may be the reason is listed where the kernel has not said which it is.
fn excluded(mechanism: &Mechanism, mode: &str, reason: Option<String>) -> Error {
    let message = format!("the running kernel refuses {}'s mode {mode} on this machine", mechanism.title);
    if let Some(reason) = reason {
        return Error::skip(format!("{message}: {reason}")).remedy("leave that mode out");
    }
    let excluding: Vec<&str> = mechanism
        .excludes
        .iter()
        .filter(|exclusion| exclusion.modes.iter().any(|known| known == mode))
        .map(|exclusion| exclusion.what.as_str())
        .collect();
    Error::skip(message).remedy(match excluding.is_empty() {
        true => "leave that mode out; the kernel's log may say why (as root: dmesg)".to_string(),
        false => format!(
            "leave that mode out; the kernel's log may say why (as root: dmesg), one of: {}",
            excluding.join("; ")
        ),
    })
}

/// The kernel's last words about it, where its log may be read.
fn reason(mechanism: &Mechanism) -> Option<String> {
    let log = exec::read(&Command::new("dmesg")).ok()?;
    last_reason(&log, mechanism.refusal.as_deref()?)
}

/// `mark`: what stands before the mode that it stays in.
fn last_reason(log: &str, mark: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.contains(mark))?;
    let (_, reason) = line.split_once(mark)?.1.split_once(": ")?;
    Some(reason.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_base::{Kind, Verbosity};
    use ceasefire_mechanism::Exclusion;

    fn toy(path: &Path) -> Mechanism {
        Mechanism {
            name: "toy".into(),
            title: "TOY".into(),
            modes: vec!["off".into(), "on".into()],
            switch: Some(path.display().to_string()),
            ..Mechanism::default()
        }
    }

    #[test]
    fn the_kernels_last_reason_is_told() {
        let log =
            "[1.0] toy: off\n[2.0] toy: stays off, not on: page-table isolation (see nopti)\n[3] x: y\n";
        let said = |log: &str| last_reason(log, "toy: stays ");
        assert_eq!(said(log).as_deref(), Some("page-table isolation (see nopti)"));
        assert_eq!(said("[1.0] toy: stays off: no PCID\n").as_deref(), Some("no PCID"));
        assert_eq!(said("[1.0] toy: on\n"), None);
    }

    #[test]
    fn every_refusal_is_a_sentence_with_a_remedy() {
        let toy = toy(Path::new("/no/such/switch"));
        for (number, kind, fragment) in [
            (libc::EACCES, Kind::Skip, "by this user"),
            (libc::EINVAL, Kind::Usage, "TOY has no mode 'fast'"),
            (libc::EOPNOTSUPP, Kind::Skip, "refuses TOY's mode fast"),
        ] {
            let error = refused(&toy, "fast", &io::Error::from_raw_os_error(number));
            assert!(error.kind == kind && error.message.contains(fragment), "{error:?}");
            assert!(error.remedy.is_some(), "{error:?}");
        }
        let progress = Progress::new(Verbosity::Quiet);
        let error = Switch::take(&progress, &[toy], &["on".into()]).err().expect("no switch");
        assert!(error.kind == Kind::Skip && error.message.contains("no mechanism to set to on"), "{error:?}");
    }

    /// The kernel's own reason stands alone; without it, all that exclude the mode, and no others.
    #[test]
    fn what_may_exclude_a_mode_is_listed_where_the_kernel_is_silent() {
        let exclusion =
            |mode: &str, what: &str| Exclusion { modes: vec![mode.into()], what: what.to_string() };
        let excludes = vec![exclusion("fast", "isolation"), exclusion("on", "no PCIDs")];
        let toy = Mechanism { excludes, ..toy(Path::new("/no/such/switch")) };
        let said = excluded(&toy, "fast", Some("insertion does not work".into()));
        assert!(said.message.ends_with("mode fast on this machine: insertion does not work"), "{said:?}");
        assert_eq!(said.remedy.as_deref(), Some("leave that mode out"));
        let silent = excluded(&toy, "fast", None).remedy.expect("a remedy");
        assert!(silent.ends_with("one of: isolation") && silent.contains("dmesg"), "{silent}");
        let unknown = excluded(&toy, "off", None).remedy.expect("a remedy");
        assert!(!unknown.contains("one of"), "{unknown}");
    }

    /// Two mechanisms in one kernel are set one by one, and each is set back.
    #[test]
    fn each_switch_takes_its_part_and_is_set_back() {
        let dir = crate::files::scratch("switch").expect("a directory");
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        for path in &paths {
            fs::write(path, "off").expect("written");
        }
        let now = || paths.each_ref().map(|path| fs::read_to_string(path).expect("there"));
        let progress = Progress::new(Verbosity::Quiet);
        let mechanisms = paths.each_ref().map(|path| toy(path));
        let switch = Switch::take(&progress, &mechanisms, &["off+on".into()]).expect("taken");
        assert_eq!(now(), ["off", "on"]);
        switch.set("on+off").expect("set");
        assert_eq!(now(), ["on", "off"]);
        assert_eq!(switch.set("on").expect_err("one of two").kind, Kind::Usage);
        drop(switch);
        assert_eq!(now(), ["off", "off"]);
    }
}
