// SPDX-License-Identifier: GPL-2.0-only
//! Settings of the host, with a journal: what was there before is on the disk before anything changes, and only what
//! still has our value is put back.
//!
//! Killed between any two steps, a setting is either untouched and in the journal (`off` finds the old value and forgets
//! it) or ours and in the journal (`off` puts the old value back). After a restart of the machine the values are gone;
//! the journal knows by the kernel's boot id.

use crate::{lock, Remedy};
use ceasefire_base::{disk, Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "ceasefire.deter-host/1";
pub const JOURNAL: &str = "var/lib/ceasefire/deter/host.json";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    schema: String,
    boot: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub remedy: String,
    pub path: String,
    pub before: String,
    pub ours: String,
}

/// What a setting is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Ours.
    On,
    /// It had that value before us, and is not ours.
    AlreadySo,
    /// It has the value that it had before us.
    Restored,
    /// Another tool has set it since: left alone.
    Changed,
    /// This kernel does not have it.
    Missing,
    /// The machine has been restarted since: nothing is set.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub remedy: String,
    pub path: String,
    /// None where the kernel does not have it.
    pub now: Option<String>,
    pub before: Option<String>,
    pub state: State,
}

/// One host; another root for tests.
pub struct Host {
    root: PathBuf,
    journal: PathBuf,
    /// Tests: fails after so many steps, and leaves all as a kill would.
    steps_left: Option<u32>,
}

impl Host {
    pub fn new(root: &Path) -> Host {
        Host { root: root.to_path_buf(), journal: root.join(JOURNAL), steps_left: None }
    }

    /// Sets what the remedies name. Settings that have that value already stay as they are, and are not ours.
    pub fn on(&mut self, remedies: &[&Remedy]) -> Result<Vec<Row>> {
        let _lock = self.lock()?;
        let mut journal = self.read()?;
        if journal.boot != self.boot() {
            journal = Journal { schema: SCHEMA.into(), boot: self.boot(), entries: Vec::new() };
        }
        let mut rows = Vec::new();
        for remedy in remedies {
            for setting in &remedy.sets.host {
                let Some(now) = self.get(&setting.path) else {
                    rows.push(row(&remedy.name, &setting.path, None, None, State::Missing));
                    continue;
                };
                let known = journal.entries.iter().position(|entry| entry.path == setting.path);
                if now == setting.value {
                    let before = known.map(|at| journal.entries[at].before.clone());
                    let state = if known.is_some() { State::On } else { State::AlreadySo };
                    rows.push(row(&remedy.name, &setting.path, Some(now), before, state));
                    continue;
                }
                let entry = Entry {
                    remedy: remedy.name.clone(),
                    path: setting.path.clone(),
                    before: now.clone(),
                    ours: setting.value.clone(),
                };
                match known {
                    Some(at) => journal.entries[at] = entry,
                    None => journal.entries.push(entry),
                }
                self.write(&journal)?;
                self.set(&setting.path, &setting.value)?;
                let after = self.get(&setting.path);
                if after.as_deref() != Some(setting.value.as_str()) {
                    return Err(Error::failed(format!(
                        "{} did not take {}: it is {}",
                        setting.path,
                        setting.value,
                        after.unwrap_or_default()
                    ))
                    .remedy("`ceasefire deter host off` restores what was set before it"));
                }
                rows.push(row(&remedy.name, &setting.path, after, Some(now), State::On));
            }
        }
        Ok(rows)
    }

    /// Puts back what is still ours, last first, and forgets the rest.
    pub fn off(&mut self) -> Result<Vec<Row>> {
        if !self.journal.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut journal = self.read()?;
        let is_gone = journal.boot != self.boot();
        let mut rows = Vec::new();
        while let Some(entry) = journal.entries.last().cloned() {
            let mut row = self.look(&entry, is_gone);
            if row.state == State::On {
                self.set(&entry.path, &entry.before)?;
                row.now = self.get(&entry.path);
                row.state = State::Restored;
            }
            rows.push(row);
            journal.entries.pop();
            self.write(&journal)?;
        }
        self.step()?;
        fs::remove_file(&self.journal).map_err(|error| disk::error("remove", &self.journal, &error))?;
        Ok(rows)
    }

    pub fn status(&self) -> Result<Vec<Row>> {
        if !self.journal.exists() {
            return Ok(Vec::new());
        }
        let journal = self.read()?;
        let is_gone = journal.boot != self.boot();
        Ok(journal.entries.iter().map(|entry| self.look(entry, is_gone)).collect())
    }

    fn look(&self, entry: &Entry, is_gone: bool) -> Row {
        let now = self.get(&entry.path);
        let state = match &now {
            _ if is_gone => State::Gone,
            None => State::Missing,
            Some(now) if *now == entry.ours => State::On,
            Some(now) if *now == entry.before => State::Restored,
            Some(_) => State::Changed,
        };
        row(&entry.remedy, &entry.path, now, Some(entry.before.clone()), state)
    }

    fn boot(&self) -> String {
        fs::read_to_string(self.root.join(BOOT_ID)).unwrap_or_default().trim().to_string()
    }

    fn get(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path.trim_start_matches('/')))
            .ok()
            .map(|text| text.trim().to_string())
    }

    fn set(&mut self, path: &str, value: &str) -> Result<()> {
        self.step()?;
        let file = self.root.join(path.trim_start_matches('/'));
        fs::write(&file, value).map_err(|error| denied("change", &file, &error))?;
        self.step()
    }

    fn read(&self) -> Result<Journal> {
        match fs::read_to_string(&self.journal) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Journal { schema: SCHEMA.into(), boot: self.boot(), entries: Vec::new() })
            }
            Err(error) => Err(denied("read", &self.journal, &error)),
            Ok(text) => {
                let journal: Option<Journal> = serde_json::from_str(&text).ok();
                journal
                    .filter(|journal| journal.schema == SCHEMA && journal.entries.iter().all(is_setting))
                    .ok_or_else(|| {
                        Error::failed(format!("{} is damaged, or of a newer version", self.journal.display()))
                            .remedy("set back by hand what it names, then remove it")
                    })
            }
        }
    }

    /// Whole or not at all, and on the disk when this returns.
    fn write(&mut self, journal: &Journal) -> Result<()> {
        self.step()?;
        let error = |error: std::io::Error| denied("write", &self.journal, &error);
        let directory = self.journal.parent().unwrap_or(Path::new("/"));
        let part = self.journal.with_extension("json.part");
        let text = serde_json::to_string_pretty(journal)
            .map_err(|error| Error::failed(format!("the journal cannot be written: {error}")))?;
        let mut file = File::create(&part).map_err(error)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(error)?;
        fs::rename(&part, &self.journal).map_err(error)?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(error)?;
        self.step()
    }

    /// One at a time: two that interleave would each save the other's value.
    fn lock(&self) -> Result<File> {
        let directory = self.journal.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory).map_err(|error| denied("create the directory", directory, &error))?;
        let path = self.journal.with_extension("lock");
        let file = File::create(&path).map_err(|error| denied("write", &path, &error))?;
        match lock::take(&file, lock::PATIENCE) {
            Ok(true) => Ok(file),
            Ok(false) => {
                Err(Error::failed("another `ceasefire deter host` is at work")
                    .remedy("wait until it has ended"))
            }
            Err(error) => Err(denied("lock", &path, &error)),
        }
    }

    fn step(&mut self) -> Result<()> {
        match &mut self.steps_left {
            Some(0) => return Err(Error::failed("killed here")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

/// A journal that somebody has written may name no other file.
fn is_setting(entry: &Entry) -> bool {
    (entry.path.starts_with("/proc/sys/") || entry.path.starts_with("/sys/")) && !entry.path.contains("..")
}

fn row(remedy: &str, path: &str, now: Option<String>, before: Option<String>, state: State) -> Row {
    Row { remedy: remedy.into(), path: path.into(), now, before, state }
}

fn denied(action: &str, path: &Path, error: &std::io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            Error::skip(format!("cannot {action} {}: {}", path.display(), disk::reason(error)))
                .remedy("run it as root, on the host itself: a container's /proc/sys is read-only")
        }
        _ => disk::error(action, path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::named;

    const NUMA: &str = "proc/sys/kernel/numa_balancing";
    const KSM: &str = "sys/kernel/mm/ksm/run";

    fn fake() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, value) in [(NUMA, "1\n"), (KSM, "2\n"), (BOOT_ID, "one\n")] {
            put(root.path(), path, value);
        }
        root
    }

    fn put(root: &Path, path: &str, value: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, value).expect("written");
    }

    fn get(root: &Path, path: &str) -> String {
        fs::read_to_string(root.join(path)).expect("there").trim().to_string()
    }

    fn both() -> Vec<&'static Remedy> {
        vec![named("host-numa-balancing").expect("there"), named("host-ksm").expect("there")]
    }

    fn states(rows: &[Row]) -> Vec<State> {
        rows.iter().map(|row| row.state).collect()
    }

    #[test]
    fn on_sets_and_off_restores() {
        let root = fake();
        let mut host = Host::new(root.path());
        assert_eq!(states(&host.on(&both()).expect("set")), [State::On, State::On]);
        assert_eq!((get(root.path(), NUMA), get(root.path(), KSM)), ("0".into(), "0".into()));
        assert_eq!(states(&host.on(&both()).expect("set twice")), [State::On, State::On]);
        assert_eq!(states(&host.status().expect("read")), [State::On, State::On]);
        assert_eq!(states(&host.off().expect("restored")), [State::Restored, State::Restored]);
        assert_eq!((get(root.path(), NUMA), get(root.path(), KSM)), ("1".into(), "2".into()));
        assert!(host.off().expect("nothing").is_empty() && host.status().expect("nothing").is_empty());
    }

    #[test]
    fn what_another_tool_changed_is_left_alone() {
        let root = fake();
        let mut host = Host::new(root.path());
        host.on(&both()).expect("set");
        put(root.path(), KSM, "1\n");
        assert_eq!(states(&host.status().expect("read")), [State::On, State::Changed]);
        assert_eq!(states(&host.off().expect("restored")), [State::Changed, State::Restored]);
        assert_eq!((get(root.path(), NUMA), get(root.path(), KSM)), ("1".into(), "1".into()));
    }

    #[test]
    fn what_was_so_before_is_not_ours() {
        let root = fake();
        put(root.path(), NUMA, "0\n");
        fs::remove_file(root.path().join(KSM)).expect("there");
        let mut host = Host::new(root.path());
        assert_eq!(states(&host.on(&both()).expect("nothing to set")), [State::AlreadySo, State::Missing]);
        assert!(host.off().expect("nothing").is_empty());
        assert_eq!(get(root.path(), NUMA), "0");
    }

    #[test]
    fn after_a_restart_nothing_is_ours() {
        let root = fake();
        let mut host = Host::new(root.path());
        host.on(&both()).expect("set");
        // The kernel's defaults, but for one that somebody else has set to what we had.
        put(root.path(), BOOT_ID, "two\n");
        put(root.path(), NUMA, "1\n");
        assert_eq!(states(&host.status().expect("read")), [State::Gone, State::Gone]);
        assert_eq!(states(&host.off().expect("forgotten")), [State::Gone, State::Gone]);
        assert_eq!((get(root.path(), NUMA), get(root.path(), KSM)), ("1".into(), "0".into()));
        host.on(&both()).expect("set");
        put(root.path(), BOOT_ID, "three\n");
        put(root.path(), KSM, "5\n");
        host.on(&both()).expect("set after a restart");
        host.off().expect("restored");
        assert_eq!(get(root.path(), KSM), "5");
    }

    /// Killed between every two steps of `on`, and then between every two of `off`: in the end all is as it was.
    #[test]
    fn a_kill_anywhere_loses_nothing() {
        let mut kills = 0;
        for first in 0.. {
            let root = fake();
            let is_whole = Host { steps_left: Some(first), ..Host::new(root.path()) }.on(&both()).is_ok();
            let after_on = (get(root.path(), NUMA), get(root.path(), KSM));
            for second in 0.. {
                put(root.path(), NUMA, &after_on.0);
                let copy = fake();
                for path in [NUMA, KSM, JOURNAL] {
                    if root.path().join(path).exists() {
                        put(copy.path(), path, &get(root.path(), path));
                    }
                }
                let result = Host { steps_left: Some(second), ..Host::new(copy.path()) }.off();
                Host::new(copy.path()).off().expect("restored");
                assert_eq!(
                    (get(copy.path(), NUMA), get(copy.path(), KSM)),
                    ("1".into(), "2".into()),
                    "killed after {first} and {second} steps"
                );
                assert!(!copy.path().join(JOURNAL).exists());
                if result.is_ok() {
                    break;
                }
                kills += 1;
            }
            // What was begun can also be finished.
            Host::new(root.path()).on(&both()).expect("set");
            Host::new(root.path()).off().expect("restored");
            assert_eq!((get(root.path(), NUMA), get(root.path(), KSM)), ("1".into(), "2".into()));
            if is_whole {
                break;
            }
            kills += 1;
        }
        assert!(kills > 20, "{kills}");
    }

    #[test]
    fn a_journal_that_is_not_ours_is_refused() {
        let root = fake();
        for text in [
            "",
            "{",
            "{\"schema\":\"ceasefire.deter-host/2\",\"boot\":\"one\",\"entries\":[]}",
            "{\"schema\":\"ceasefire.deter-host/1\",\"boot\":\"one\",\"entries\":[{\"remedy\":\"x\",\
             \"path\":\"/etc/passwd\",\"before\":\"a\",\"ours\":\"b\"}]}",
        ] {
            put(root.path(), JOURNAL, text);
            assert!(Host::new(root.path()).off().expect_err("refused").message.contains("damaged"), "{text}");
        }
    }
}
