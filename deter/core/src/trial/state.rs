// SPDX-License-Identifier: GPL-2.0-only
//! What was tried so far, on the disk after every trial: the same command goes on where it was stopped.

use crate::lock;
use ceasefire_base::{disk, Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SCHEMA: &str = "ceasefire.deter-trials/1";

/// One run of the command.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trial {
    pub remedy: String,
    pub round: u32,
    pub units: f64,
    /// None where they cannot be counted.
    pub flushes: Option<u64>,
    pub received: Option<u64>,
    /// Requests of each cause.
    pub causes_flushes: std::collections::BTreeMap<String, u64>,
    /// Targets of each cause.
    pub causes: std::collections::BTreeMap<String, u64>,
    /// Largest process.
    pub rss_kib: Option<u64>,
    pub faults: u64,
    pub seconds: f64,
    /// Of standard output.
    pub output_hash: u64,
    pub failed: Option<String>,
    pub no_effect: Option<String>,
    pub changed: Option<String>,
}

/// All that decides what is tried.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Request {
    pub command: Vec<String>,
    /// The remedies, and none.
    pub names: Vec<String>,
    pub repeats: u32,
    pub units: String,
    pub check: Option<String>,
    pub client: Option<String>,
    pub counter: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    pub schema: String,
    pub request: Request,
    /// None, and those that differ little from it: they get as many rounds again.
    #[serde(default)]
    pub again: Vec<String>,
    pub trials: Vec<Trial>,
}

impl State {
    pub fn new(request: Request) -> State {
        State { schema: SCHEMA.into(), request, ..State::default() }
    }

    /// The next to run: rounds one after the other, in each every remedy once, so that what drifts hits all.
    pub fn next(&self) -> Option<(String, u32)> {
        let has = |name: &String, round| self.trials.iter().any(|t| t.remedy == *name && t.round == round);
        let is_out = |name: &String| self.trials.iter().any(|t| t.remedy == *name && t.failed.is_some());
        let repeats = self.request.repeats;
        let rounds = (0..repeats).map(|round| (round, &self.request.names));
        let more = (repeats..repeats.saturating_mul(2)).map(|round| (round, &self.again));
        rounds.chain(more).find_map(|(round, names)| {
            // Each round begins with another one, so that nobody is always first.
            let order = (0..names.len()).map(|at| &names[(at + round as usize) % names.len()]);
            let mut order = order.filter(|name| !has(name, round) && !is_out(name));
            order.next().map(|name| (name.clone(), round))
        })
    }

    /// Rounds of these, and of the command as it is, once more; false where there is nothing to look at again.
    pub fn look_again(&mut self, close: Vec<String>) -> bool {
        if !self.again.is_empty() || close.is_empty() {
            return false;
        }
        self.again = std::iter::once(super::NONE.to_string()).chain(close).collect();
        true
    }

    pub fn left(&self) -> usize {
        let mut copy = self.clone();
        let mut left = 0;
        while let Some((remedy, round)) = copy.next() {
            copy.trials.push(Trial { remedy, round, ..Trial::default() });
            left += 1;
        }
        left
    }
}

/// Where trials are kept. Ours alone: two that write to one file would each lose what the other has done.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    /// The file itself, locked; each time it is written it is another one.
    file: File,
}

impl Keeper {
    /// And what is there, if it is of the same request. Errors: it is of another one, somebody else uses it, it cannot be
    /// written.
    pub fn open(path: &Path, request: Request) -> Result<(Keeper, State)> {
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(Error::usage(format!("{} is no plain file", path.display()))
                .remedy("name one that is, or one that is not there yet"));
        }
        let mut file = locked(path)?;
        let mut text = String::new();
        let read = file.read_to_string(&mut text);
        let remedy = || format!("name another file, or remove {}", path.display());
        let no_trials = || Error::failed(format!("{} holds no trials", path.display())).remedy(remedy());
        match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(no_trials()),
            Err(error) => return Err(disk::error("read", path, &error)),
            Ok(_) => {}
        }
        let state = match text.is_empty() {
            true => State::new(request),
            false => {
                let state: Option<State> = serde_json::from_str(&text).ok();
                let state = state.filter(|state| state.schema == SCHEMA).ok_or_else(no_trials)?;
                if state.request != request {
                    let of = format!("{} holds trials of something else", path.display());
                    return Err(Error::usage(of).remedy(remedy()));
                }
                state
            }
        };
        let mut keeper = Keeper { path: path.to_path_buf(), file };
        // Before the first trial: that may take an hour.
        keeper.save(&state)?;
        Ok((keeper, state))
    }

    /// Whole or not at all. What failed is not kept: the next time it may have what it lacked.
    pub fn save(&mut self, state: &State) -> Result<()> {
        let good = state.trials.iter().filter(|trial| trial.failed.is_none()).cloned().collect();
        let text = serde_json::to_string_pretty(&State { trials: good, ..state.clone() })
            .map_err(|error| Error::failed(format!("the trials cannot be written: {error}")))?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let part = self.path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let written = File::create(&part).and_then(|mut file| {
            let _ = lock::take(&file, Duration::ZERO);
            file.write_all(text.as_bytes())?;
            fs::rename(&part, &self.path)?;
            Ok(file)
        });
        match written {
            Ok(file) => self.file = file,
            Err(error) => {
                let _ = fs::remove_file(&part);
                return Err(unwritable(&self.path, &error));
            }
        }
        Ok(())
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let remedy = match disk::is_full(error) {
        true => "name a file on another disk",
        false => "name a file in a directory that is there and that you may write to",
    };
    disk::error("write", path, error).remedy(remedy)
}

/// The file of this name, made where it is not there, once nobody else has it.
fn locked(path: &Path) -> Result<File> {
    loop {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| unwritable(path, &error))?;
        // File systems without locks are used all the same.
        // Not waited for: whoever has it puts another file in its place after each trial.
        if matches!(lock::take(&file, Duration::ZERO), Ok(false)) {
            return Err(Error::usage(format!("another `ceasefire deter try` uses {}", path.display()))
                .remedy("wait until it has ended, or name another file"));
        }
        // Somebody may have put another one in its place before it was locked.
        let number = |meta: io::Result<fs::Metadata>| meta.map(|meta| (meta.dev(), meta.ino())).ok();
        if number(file.metadata()) == number(fs::metadata(path)) {
            return Ok(file);
        }
    }
}

/// Of an output; FNV-1a, so that a state file of another build means the same.
#[derive(Debug, Clone, Copy)]
pub struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    pub fn add(&mut self, bytes: &[u8]) {
        let next = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, next);
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Hash::default();
    hash.add(bytes);
    hash.value()
}

/// The output that the command as it is has each time; None where it differs by itself.
pub fn usual_output(trials: &[Trial]) -> Option<u64> {
    let mut own = outputs(trials, |name| name == super::NONE);
    let first = own.next()?;
    own.all(|hash| hash == first).then_some(first)
}

fn outputs<'a>(trials: &'a [Trial], is_meant: fn(&str) -> bool) -> impl Iterator<Item = u64> + 'a {
    let meant = trials.iter().filter(move |trial| is_meant(&trial.remedy) && trial.failed.is_none());
    meant.map(|trial| trial.output_hash)
}

/// Marks trials whose output is not the usual one; false where there is no usual one. A single run as it is cannot tell
/// whether a remedy or chance has made another one different.
pub fn compare_outputs(trials: &mut [Trial]) -> bool {
    let Some(usual) = usual_output(trials) else { return false };
    let is_single = outputs(trials, |name| name == super::NONE).count() == 1;
    if is_single && outputs(trials, |_| true).any(|hash| hash != usual) {
        return false;
    }
    for trial in trials.iter_mut().filter(|trial| trial.failed.is_none() && trial.output_hash != usual) {
        trial.changed = Some("its output is not what it is without".into());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(repeats: u32) -> Request {
        Request { names: ["none", "a", "b"].map(String::from).to_vec(), repeats, ..Request::default() }
    }

    #[test]
    fn rounds_are_interleaved_and_each_begins_with_another() {
        let mut state = State::new(request(2));
        assert_eq!(state.left(), 6);
        let mut order = Vec::new();
        while let Some((remedy, round)) = state.next() {
            order.push(format!("{remedy}{round}"));
            state.trials.push(Trial { remedy, round, ..Trial::default() });
        }
        assert_eq!(order, ["none0", "a0", "b0", "a1", "b1", "none1"]);
    }

    #[test]
    fn what_is_close_is_looked_at_again_once() {
        let mut state = State::new(request(2));
        let run = |state: &mut State| {
            let mut order = Vec::new();
            while let Some((remedy, round)) = state.next() {
                order.push(format!("{remedy}{round}"));
                state.trials.push(Trial { remedy, round, ..Trial::default() });
            }
            order
        };
        assert_eq!(run(&mut state).len(), 6);
        assert!(!state.look_again(Vec::new()), "nothing is close");
        assert!(state.look_again(vec!["b".into()]));
        assert_eq!(run(&mut state), ["none2", "b2", "b3", "none3"]);
        assert!(!state.look_again(vec!["b".into()]), "not a third time");
    }

    #[test]
    fn what_failed_is_not_tried_again() {
        let mut state = State::new(request(3));
        state.trials.push(Trial { remedy: "a".into(), failed: Some("x".into()), ..Trial::default() });
        assert_eq!(state.left(), 6);
    }

    #[test]
    fn a_state_is_resumed_and_another_request_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("trials.json");
        let (mut keeper, mut state) = Keeper::open(&path, request(2)).expect("new");
        state.trials.push(Trial {
            remedy: "a".into(),
            units: 0.1,
            output_hash: u64::MAX,
            ..Trial::default()
        });
        keeper.save(&state).expect("saved");
        drop(keeper);
        assert_eq!(Keeper::open(&path, request(2)).expect("resumed").1, state);
        assert!(Keeper::open(&path, request(3)).expect_err("another").message.contains("something else"));
        fs::write(&path, "{}").expect("written");
        assert!(Keeper::open(&path, request(2)).expect_err("damaged").message.contains("no trials"));
        fs::write(&path, b"\xff").expect("written");
        assert!(Keeper::open(&path, request(2)).expect_err("no text").message.contains("no trials"));
        assert_eq!(fs::read(&path).expect("left alone"), b"\xff");
    }

    #[test]
    fn what_failed_is_tried_again_the_next_time() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("trials.json");
        let (mut keeper, mut state) = Keeper::open(&path, request(2)).expect("new");
        let trial = |remedy: &str, failed: Option<&str>| Trial {
            remedy: remedy.into(),
            failed: failed.map(str::to_string),
            ..Trial::default()
        };
        state.trials = vec![trial("none", None), trial("a", Some("it has not ended"))];
        keeper.save(&state).expect("saved");
        drop(keeper);
        let (_, state) = Keeper::open(&path, request(2)).expect("resumed");
        assert_eq!(state.trials, [trial("none", None)]);
        assert_eq!(state.next(), Some(("a".into(), 0)));
    }

    #[test]
    fn a_state_is_of_one_and_takes_no_other_file() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("r.json");
        let other = scratch.path().join("r.part");
        fs::write(&other, "mine").expect("written");
        let (mut keeper, state) = Keeper::open(&path, request(2)).expect("new");
        for _ in 0..2 {
            let error = Keeper::open(&path, request(2)).expect_err("taken");
            assert!(error.message.contains("another `ceasefire deter try`"), "{error:?}");
            keeper.save(&state).expect("saved");
        }
        assert_eq!(fs::read(&other).expect("there"), b"mine");
        assert_eq!(fs::read_dir(scratch.path()).expect("there").count(), 2, "nothing else is left");
        drop(keeper);
        assert!(Keeper::open(&path, request(2)).is_ok());
        for (path, fragment) in [
            ("/no/such/r.json", "cannot write"),
            ("/proc/r.json", "cannot write"),
            ("/dev/null", "no plain file"),
        ] {
            let error = Keeper::open(Path::new(path), request(2)).expect_err("refused");
            assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
        }
        let full = unwritable(&path, &io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(full.remedy.as_deref(), Some("name a file on another disk"));
    }

    #[test]
    fn outputs_are_compared_where_they_are_always_the_same() {
        let trial = |remedy: &str, output: &[u8]| Trial {
            remedy: remedy.into(),
            output_hash: hash(output),
            ..Trial::default()
        };
        let mut same = vec![trial("none", b"x"), trial("none", b"x"), trial("a", b"y"), trial("b", b"x")];
        assert!(compare_outputs(&mut same));
        assert!(same[2].changed.is_some() && same[3].changed.is_none());
        assert!(!compare_outputs(&mut [trial("none", b"1 s"), trial("a", b"2 s")]), "it may be chance");
        assert!(compare_outputs(&mut [trial("none", b"x"), trial("a", b"x")]));
        let mut differs = vec![trial("none", b"1 s"), trial("none", b"2 s"), trial("a", b"3 s")];
        assert!(!compare_outputs(&mut differs));
        assert!(differs[2].changed.is_none());
    }
}
