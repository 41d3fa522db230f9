// SPDX-License-Identifier: GPL-2.0-only
//! What answers calls where no setting exists: the preload library and the filter, and their risks.

use ceasefire_base::{disk, Error, Result};
use ceasefire_deter::launch::{Guard, Install, Interception};
use ceasefire_deter::program::Program;
use ceasefire_deter::settings::{Settings, MODES_VARIABLE, STOP_VARIABLE};
use ceasefire_deter::trial::cgroup::directory_of;
use ceasefire_deter::{Kind, Remedy};
use ceasefire_deter_preload as preload;
use preload::{install_filter, library, refusal, setting, Advice, Filter, Mode, Stop, Strain};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const _: () =
    assert!(same(MODES_VARIABLE, preload::MODES_VARIABLE) && same(STOP_VARIABLE, preload::STOP_VARIABLE));

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

pub struct Ours {
    /// What a program can notice was asked for.
    pub is_loose: bool,
}

impl Interception for Ours {
    fn shared_object(&self) -> Result<&'static [u8]> {
        Ok(library())
    }

    fn setting(&self, modes: &BTreeSet<String>) -> Result<String> {
        setting(&named(modes)?, self.is_loose)
            .map_err(|why| Error::usage(why).remedy("add --loose if that is right for this program"))
    }

    fn guard(&self, file: &Path) -> Result<Box<dyn Guard>> {
        let stop = Stop::create(file).map_err(|error| disk::error("write", file, &error))?;
        Ok(Box::new(Watch { stop, file: file.to_path_buf(), before: None, is_stopped: false }))
    }

    fn filter(&self, answer: &BTreeSet<String>) -> Result<Install> {
        let of = |cause: &String| match cause.as_str() {
            "madvise-free" => Ok(Advice::Free),
            "madvise-cold" => Ok(Advice::Cold),
            "madvise-pageout" => Ok(Advice::PageOut),
            other => Err(Error::usage(format!("there is no filter for {other}"))),
        };
        let filter = Filter::answering(&answer.iter().map(of).collect::<Result<Vec<Advice>>>()?);
        Ok(Box::new(move || install_filter(&filter)))
    }
}

fn named(modes: &BTreeSet<String>) -> Result<Vec<Mode>> {
    let of = |name: &String| {
        let mode = Mode::ALL.into_iter().find(|mode| mode.name() == name);
        mode.ok_or_else(|| Error::usage(format!("the preload library has no mode '{name}'")))
    };
    modes.iter().map(of).collect()
}

/// What to say before these settings are used.
pub fn risks(settings: &Settings) -> Vec<&'static str> {
    risks_of(&|mode| settings.intercept.contains(mode), !settings.answer.is_empty())
}

/// What to say of a remedy.
pub fn risks_of_remedy(remedy: &Remedy) -> Vec<&'static str> {
    let sets = &remedy.sets;
    risks_of(&|mode| sets.intercept.iter().any(|other| other == mode), !sets.answer.is_empty())
}

fn risks_of(has_mode: &dyn Fn(&str) -> bool, has_filter: bool) -> Vec<&'static str> {
    let modes = Mode::ALL.into_iter().filter(|mode| has_mode(mode.name()));
    let risks = modes.flat_map(|mode| mode.risks());
    risks.chain(Filter::risks().iter().filter(|_| has_filter)).copied().collect()
}

/// Errors: a program that our library must not be preloaded into. One that is static only does not see it.
pub fn check(settings: &Settings, program: &Program) -> Result<()> {
    if settings.intercept.is_empty() || program.is(Kind::Static) {
        return Ok(());
    }
    let why = refusal(&program.path).map_err(|error| disk::error("read", &program.path, &error))?;
    match why {
        None => Ok(()),
        Some(why) => {
            Err(Error::usage(why).remedy("leave out what needs the preload library: `ceasefire deter show`"))
        }
    }
}

/// Looks at the memory of the program's cgroup; of the whole machine, where there is none.
struct Watch {
    stop: Stop,
    file: PathBuf,
    before: Option<Strain>,
    is_stopped: bool,
}

impl Guard for Watch {
    fn look(&mut self, pid: u32) -> bool {
        let now = strain(pid);
        // From look to look: what adds up over months is no shortage.
        let rose = self.before.replace(now).is_some_and(|before| now.rose_since(before));
        self.is_stopped = self.is_stopped || rose && self.stop.stop().is_ok();
        self.is_stopped
    }

    fn end(&mut self) {
        // A file that cannot be written is on a disk that is gone; then nobody maps it either.
        let _ = self.stop.stop();
        let _ = fs::remove_file(&self.file);
    }
}

fn strain(pid: u32) -> Strain {
    let directory = directory_of(pid).unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok();
    let pressure =
        read(&directory.join("memory.pressure")).or_else(|| read(Path::new("/proc/pressure/memory")));
    Strain::parse(&read(&directory.join("memory.events")).unwrap_or_default(), &pressure.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_deter::remedy;

    #[test]
    fn every_remedy_that_intercepts_can_be_built_and_says_its_risks() {
        let of = |is_loose| Ours { is_loose };
        let mut seen = 0;
        for remedy in remedy::all().iter().filter(|remedy| !remedy.is_host()) {
            let settings = Settings {
                intercept: remedy.sets.intercept.iter().cloned().collect(),
                answer: remedy.sets.answer.iter().cloned().collect(),
                ..Settings::default()
            };
            let intercepts = !settings.intercept.is_empty() || !settings.answer.is_empty();
            assert_eq!(intercepts, !risks(&settings).is_empty(), "{}", remedy.name);
            assert!(of(remedy.is_loose).setting(&settings.intercept).is_ok(), "{}", remedy.name);
            assert!(of(false).setting(&settings.intercept).is_ok() != remedy.is_loose, "{}", remedy.name);
            assert!(of(false).filter(&settings.answer).is_ok(), "{}", remedy.name);
            seen += usize::from(intercepts);
        }
        assert!(seen >= 4, "{seen}");
        assert!(of(true).filter(&["munmap".into()].into()).is_err());
        assert!(of(true).setting(&["other".into()].into()).is_err());
    }

    #[test]
    fn a_guard_stops_once_and_leaves_nothing() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("stop");
        let mut guard = Ours { is_loose: false }.guard(&file).expect("made");
        assert_eq!(fs::read(&file).expect("there")[0], 0);
        assert!(Ours { is_loose: false }.guard(&file).is_err(), "of another program");
        guard.look(std::process::id());
        let copy = scratch.path().join("copy");
        fs::hard_link(&file, &copy).expect("linked");
        guard.end();
        assert!(!file.exists());
        assert_eq!(fs::read(&copy).expect("there")[0], 1, "what is left goes to the kernel");
    }
}
