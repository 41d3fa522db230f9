// SPDX-License-Identifier: GPL-2.0-only
//! What was tried so far, on the disk after every trial: the same command goes on where it was stopped.

use ceasefire_base::{disk, Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

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
    pub trials: Vec<Trial>,
}

impl State {
    pub fn new(request: Request) -> State {
        State { schema: SCHEMA.into(), request, trials: Vec::new() }
    }

    /// What is there, if it is of the same request. Errors: it is of another one.
    pub fn open(path: &Path, request: Request) -> Result<State> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(State::new(request)),
            Err(error) => return Err(disk::error("read", path, &error)),
        };
        let state: Option<State> = serde_json::from_str(&text).ok();
        let remedy = || format!("name another file, or remove {}", path.display());
        match state.filter(|state| state.schema == SCHEMA) {
            None => Err(Error::failed(format!("{} holds no trials", path.display())).remedy(remedy())),
            Some(state) if state.request != request => {
                Err(Error::usage(format!("{} holds trials of something else", path.display()))
                    .remedy(remedy()))
            }
            Some(state) => Ok(state),
        }
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        let error = |error: std::io::Error| disk::error("write", path, &error);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::failed(format!("the trials cannot be written: {error}")))?;
        let part = path.with_extension("part");
        fs::write(&part, text).map_err(error)?;
        fs::rename(&part, path).map_err(error)
    }

    /// The next to run: rounds one after the other, in each every remedy once, so that what drifts hits all.
    pub fn next(&self) -> Option<(String, u32)> {
        let has = |name: &String, round| self.trials.iter().any(|t| t.remedy == *name && t.round == round);
        let is_out = |name: &String| self.trials.iter().any(|t| t.remedy == *name && t.failed.is_some());
        (0..self.request.repeats).find_map(|round| {
            // Each round begins with another one, so that nobody is always first.
            let names = &self.request.names;
            let order = (0..names.len()).map(|at| &names[(at + round as usize) % names.len()]);
            let mut order = order.filter(|name| !has(name, round) && !is_out(name));
            order.next().map(|name| (name.clone(), round))
        })
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

/// Of an output; FNV-1a, so that a state file of another build means the same.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
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
    fn what_failed_is_not_tried_again() {
        let mut state = State::new(request(3));
        state.trials.push(Trial { remedy: "a".into(), failed: Some("x".into()), ..Trial::default() });
        assert_eq!(state.left(), 6);
    }

    #[test]
    fn a_state_is_resumed_and_another_request_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("trials.json");
        let mut state = State::open(&path, request(2)).expect("new");
        state.trials.push(Trial {
            remedy: "a".into(),
            units: 0.1,
            output_hash: u64::MAX,
            ..Trial::default()
        });
        state.save(&path).expect("saved");
        assert_eq!(State::open(&path, request(2)).expect("resumed"), state);
        assert!(State::open(&path, request(3)).expect_err("another").message.contains("something else"));
        fs::write(&path, "{}").expect("written");
        assert!(State::open(&path, request(2)).expect_err("damaged").message.contains("no trials"));
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
