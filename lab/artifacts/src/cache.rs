// SPDX-License-Identifier: GPL-2.0-only
//! What was built, outside the checkout, found again by its content's inputs.
//!
//! `<cache>/<class>/<name>-<key>/manifest.json` and files; built in `<cache>/tmp/` and renamed, so an entry is
//! there whole or not at all. One lock per entry: exclusive while building, shared while a run uses it.

use crate::hash;
use crate::lock::{self, Lock};
use ceasefire_base::{cancel, disk, Error, Progress, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SCHEMA: &str = "ceasefire.cache/1";
const MANIFEST: &str = "manifest.json";
/// Touched at every use; its time says when.
const USED: &str = "used";
/// Larger files are checked by size alone: hashing them at every use would cost seconds.
const HASHED_BYTES_MAX: u64 = 64 << 20;
const KEY_HEX: usize = 16;
const OBJECTS: &str = "objects";
/// Kept beside the entries; counted and cleaned like one.
const EXTRAS: [(&str, &str); 5] = [
    ("apt", "package lists"),
    (OBJECTS, "compiled objects of kernels"),
    ("logs", "build logs"),
    ("dry-run", "what a dry run's commands made"),
    ("unfinished", "kernel packages whose build was interrupted"),
];

/// What the builder wants to remember about an entry.
pub type Facts = BTreeMap<String, String>;

/// Everything an entry depends on. Equal keys mean equal content.
#[derive(Debug, Clone)]
pub struct Key {
    inputs: BTreeMap<String, String>,
}

impl Key {
    pub fn new(kind: &str) -> Key {
        Key { inputs: BTreeMap::from([("kind".to_string(), kind.to_string())]) }
    }

    pub fn text(mut self, name: &str, value: impl Into<String>) -> Key {
        self.inputs.insert(name.to_string(), value.into());
        self
    }

    /// The content of a file, not its name.
    pub fn file(self, name: &str, path: &Path) -> Result<Key> {
        let hash = hash::file(path)?;
        Ok(self.text(name, hash))
    }

    /// The names, modes and contents of all files below a directory.
    pub fn tree(self, name: &str, dir: &Path) -> Result<Key> {
        let hash = hash::bytes(hash::tree(dir)?.as_bytes());
        Ok(self.text(name, hash))
    }

    pub fn hex(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.inputs {
            // Lengths keep "a=b" + "c" apart from "a" + "b=c".
            text += &format!("{}:{name}={}:{value}\n", name.len(), value.len());
        }
        hash::bytes(text.as_bytes())[..KEY_HEX].to_string()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    class: String,
    name: String,
    key: String,
    created_unix_s: u64,
    inputs: BTreeMap<String, String>,
    facts: Facts,
    files: Vec<FileRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileRecord {
    path: PathBuf,
    size: u64,
    sha256: String,
}

/// A whole, checked entry. It is not cleaned away while this process lives.
#[derive(Debug, Clone)]
pub struct Entry {
    pub dir: PathBuf,
    pub facts: Facts,
    /// False: it was there already.
    pub built: bool,
}

impl Entry {
    pub fn fact(&self, name: &str) -> String {
        self.facts.get(name).cloned().unwrap_or_default()
    }
}

/// One line of `usage`.
#[derive(Debug, Clone)]
pub struct Usage {
    pub class: String,
    pub name: String,
    pub key: String,
    pub dir: PathBuf,
    pub bytes: u64,
    pub used: SystemTime,
}

#[derive(Debug, Default)]
pub struct Cleaned {
    pub removed: Vec<Usage>,
    pub bytes: u64,
    /// Old enough, but in use.
    pub kept_locked: usize,
}

#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
    /// Shared locks on what this process uses, until it ends.
    held: Arc<Mutex<HashMap<String, Lock>>>,
}

/// Class, name and key of an entry.
struct Id {
    class: String,
    name: String,
    key: String,
}

impl Id {
    fn new(class: &str, name: &str, key: &Key) -> Id {
        Id { class: clean_name(class), name: clean_name(name), key: key.hex() }
    }

    fn of(usage: &Usage) -> Id {
        Id { class: usage.class.clone(), name: usage.name.clone(), key: usage.key.clone() }
    }

    /// Also the start of its temporary directories' names.
    fn flat(&self) -> String {
        if self.key.is_empty() {
            return self.class.clone();
        }
        format!("{}-{}-{}", self.class, self.name, self.key)
    }

    fn leaf(&self) -> String {
        format!("{}-{}", self.name, self.key)
    }
}

/// Removed when dropped, whatever ended the build.
struct TemporaryDir(PathBuf);

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        remove_tree(&self.0);
    }
}

impl Cache {
    /// `$CEASEFIRE_CACHE`, or ceasefire/ below `$XDG_CACHE_HOME`, or below ~/.cache.
    pub fn open() -> Result<Cache> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = variable("CEASEFIRE_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("ceasefire")))
            .or_else(|| variable("HOME").map(|dir| dir.join(".cache/ceasefire")));
        match dir {
            Some(dir) => Cache::at(&dir),
            None => Err(Error::skip("no place for the cache: neither CEASEFIRE_CACHE nor HOME is set")
                .remedy("set CEASEFIRE_CACHE to a directory with 6 GiB of free space")),
        }
    }

    pub fn at(dir: &Path) -> Result<Cache> {
        let here = std::env::current_dir().map_err(|error| disk::error("find", dir, &error))?;
        let dir = here.join(dir);
        for below in ["tmp", "locks", "logs"] {
            let path = dir.join(below);
            fs::create_dir_all(&path).map_err(|error| {
                disk::error("create the cache directory", &path, &error)
                    .remedy("set CEASEFIRE_CACHE to a directory you may write to")
            })?;
        }
        let cache = Cache { dir, held: Arc::default() };
        cache.tag()?;
        cache.sweep();
        Ok(cache)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where an entry is, or would be.
    pub fn path(&self, class: &str, name: &str, key: &Key) -> PathBuf {
        self.entry_dir(&Id::new(class, name, key))
    }

    /// Where a build writes its log, so that the log survives a failure.
    pub fn log_path(&self, class: &str, name: &str, key: &Key) -> PathBuf {
        self.dir.join("logs").join(format!("{}.log", Id::new(class, name, key).flat()))
    }

    /// Objects that compilations of Linux's source share.
    pub fn objects(&self) -> PathBuf {
        self.dir.join(OBJECTS)
    }

    /// The entry if it is there, whole and not being built at this moment.
    pub fn find(&self, class: &str, name: &str, key: &Key) -> Option<Entry> {
        let id = Id::new(class, name, key);
        let lock = Lock::try_shared(&self.lock_path(&id)).ok()??;
        let manifest = self.verify(&id).ok()??;
        Some(self.hold(&id, lock, manifest, false))
    }

    /// The newest whole entry of a class whose facts are accepted; for falling back when the network is away.
    pub fn find_where(&self, class: &str, accept: impl Fn(&str, &Facts) -> bool) -> Option<Entry> {
        let mut candidates: Vec<Usage> =
            self.usage().ok()?.into_iter().filter(|u| u.class == class).collect();
        candidates.sort_by_key(|usage| std::cmp::Reverse(usage.used));
        candidates.iter().find_map(|usage| {
            let id = Id::of(usage);
            let lock = Lock::try_shared(&self.lock_path(&id)).ok()??;
            let manifest = self.verify(&id).ok()??;
            accept(&usage.name, &manifest.facts).then(|| self.hold(&id, lock, manifest, false))
        })
    }

    /// The entry, built by `build` into the directory it is given if it is missing or damaged.
    /// Of several processes one builds; the others wait and say for whom.
    pub fn obtain(
        &self,
        progress: &Progress,
        class: &str,
        name: &str,
        key: &Key,
        build: impl FnOnce(&Path) -> Result<Facts>,
    ) -> Result<Entry> {
        let id = Id::new(class, name, key);
        let title = format!("{class} {name}");
        let path = self.lock_path(&id);
        let shared = lock::wait(progress, &title, || Lock::try_shared(&path), &path)?;
        if let Ok(Some(manifest)) = self.verify(&id) {
            return Ok(self.hold(&id, shared, manifest, false));
        }
        drop(shared);
        self.held_now().remove(&id.flat());
        let mut lock = lock::wait(progress, &title, || Lock::try_exclusive(&path, &title), &path)?;
        match self.verify(&id) {
            // Another process built it while we waited.
            Ok(Some(manifest)) => {
                lock.share()?;
                return Ok(self.hold(&id, lock, manifest, false));
            }
            Ok(None) => {}
            Err(damage) => {
                progress.warn(format!("the cached {title} is damaged ({damage}); building it again"))
            }
        }
        self.sweep_entry(&id);
        let manifest = self.build(&id, key, build)?;
        lock.share()?;
        Ok(self.hold(&id, lock, manifest, true))
    }

    fn build(&self, id: &Id, key: &Key, build: impl FnOnce(&Path) -> Result<Facts>) -> Result<Manifest> {
        let temporary = self.temporary(id)?;
        let facts = build(&temporary.0)?;
        cancel::check()?;
        let mut files = Vec::new();
        for path in hash::files(&temporary.0)? {
            let full = temporary.0.join(&path);
            let size = fs::metadata(&full).map_err(|error| disk::error("read", &full, &error))?.len();
            files.push(FileRecord { sha256: hash::file(&full)?, path, size });
        }
        let manifest = Manifest {
            schema: SCHEMA.to_string(),
            class: id.class.clone(),
            name: id.name.clone(),
            key: id.key.clone(),
            created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            inputs: key.inputs.clone(),
            facts,
            files,
        };
        let text = serde_json::to_string_pretty(&manifest)
            .map_err(|error| Error::failed(format!("cannot write a manifest: {error}")))?;
        let path = temporary.0.join(MANIFEST);
        fs::write(&path, text).map_err(|error| disk::error("write", &path, &error))?;
        let dir = self.entry_dir(id);
        remove_tree(&dir);
        let class = self.dir.join(&id.class);
        fs::create_dir_all(&class).map_err(|error| disk::error("create the directory", &class, &error))?;
        fs::rename(&temporary.0, &dir).map_err(|error| disk::error("create", &dir, &error))?;
        Ok(manifest)
    }

    /// None: not there. Err: there, but not what was recorded; the text says how.
    fn verify(&self, id: &Id) -> std::result::Result<Option<Manifest>, String> {
        let dir = self.entry_dir(id);
        let text = match fs::read_to_string(dir.join(MANIFEST)) {
            Ok(text) => text,
            Err(_) if !dir.exists() => return Ok(None),
            Err(_) => return Err("its manifest is missing".to_string()),
        };
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|_| "its manifest is unreadable".to_string())?;
        if manifest.schema != SCHEMA || manifest.key != id.key {
            return Err("its manifest is another entry's".to_string());
        }
        let is_known = self.held_now().contains_key(&id.flat());
        for record in &manifest.files {
            let name = record.path.display();
            let path = dir.join(&record.path);
            let size = fs::metadata(&path).map_err(|_| format!("{name} is missing"))?.len();
            if size != record.size {
                return Err(format!("{name} has {size} bytes instead of {}", record.size));
            }
            if !is_known && size < HASHED_BYTES_MAX {
                let hash = hash::file(&path).map_err(|error| error.message)?;
                if hash != record.sha256 {
                    return Err(format!("{name} was altered"));
                }
            }
        }
        Ok(Some(manifest))
    }

    fn hold(&self, id: &Id, lock: Lock, manifest: Manifest, built: bool) -> Entry {
        let dir = self.entry_dir(id);
        // A cache that cannot be written to can still be read.
        let _ = fs::write(dir.join(USED), "");
        self.held_now().insert(id.flat(), lock);
        Entry { dir, facts: manifest.facts, built }
    }

    fn held_now(&self) -> std::sync::MutexGuard<'_, HashMap<String, Lock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there, largest first.
    pub fn usage(&self) -> Result<Vec<Usage>> {
        let mut all = Vec::new();
        for class in subdirs(&self.dir)? {
            for dir in subdirs(&class)? {
                // Only what carries our manifest is ours to count, and to clean.
                let Ok(text) = fs::read_to_string(dir.join(MANIFEST)) else { continue };
                let Ok(manifest) = serde_json::from_str::<Manifest>(&text) else { continue };
                if manifest.schema == SCHEMA {
                    let id = Id { class: manifest.class, name: manifest.name, key: manifest.key };
                    all.push(self.measure(id, dir));
                }
            }
        }
        for (class, name) in EXTRAS {
            let dir = self.dir.join(class);
            let id = Id { class: class.to_string(), name: name.to_string(), key: String::new() };
            let usage = self.measure(id, dir);
            if usage.bytes > 0 {
                all.push(usage);
            }
        }
        all.sort_by_key(|usage| std::cmp::Reverse(usage.bytes));
        Ok(all)
    }

    fn measure(&self, id: Id, dir: PathBuf) -> Usage {
        let mut bytes = 0;
        let mut used = UNIX_EPOCH;
        for path in hash::files(&dir).unwrap_or_default() {
            if let Ok(meta) = fs::metadata(dir.join(path)) {
                bytes += meta.len();
                used = used.max(meta.modified().unwrap_or(UNIX_EPOCH));
            }
        }
        Usage { class: id.class, name: id.name, key: id.key, dir, bytes, used }
    }

    /// Removes what was last used longer ago than `older_than` (None: everything), except what is in use.
    pub fn clean(&self, older_than: Option<Duration>, dry_run: bool) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        let now = SystemTime::now();
        for usage in self.usage()? {
            cancel::check()?;
            let age = now.duration_since(usage.used).unwrap_or_default();
            if older_than.is_some_and(|limit| age < limit) {
                continue;
            }
            let id = Id::of(&usage);
            let Some(_lock) = Lock::try_exclusive(&self.lock_path(&id), "clean")? else {
                cleaned.kept_locked += 1;
                continue;
            };
            if !dry_run {
                // Moved aside first: an interrupt must not leave half an entry under its name.
                let aside = self.temporary_name(&id);
                match fs::rename(&usage.dir, &aside) {
                    Ok(()) => remove_tree(&aside),
                    // Another `clean` was here first.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(disk::error("remove", &usage.dir, &error)),
                }
            }
            cleaned.bytes += usage.bytes;
            cleaned.removed.push(usage);
        }
        Ok(cleaned)
    }

    /// Waits until nobody else uses a part of the cache that is not an entry, e.g. "apt".
    pub(crate) fn lock_part(&self, progress: &Progress, part: &str) -> Result<Lock> {
        let id = Id {
            class: part.to_string(),
            name: EXTRAS.iter().find(|(class, _)| *class == part).map_or(part, |(_, name)| name).to_string(),
            key: String::new(),
        };
        let path = self.lock_path(&id);
        lock::wait(progress, &id.name, || Lock::try_exclusive(&path, &id.name), &path)
    }

    /// Removes what builds that died (SIGKILL, power) left in tmp/. A lock that can be had means: no builder lives.
    fn sweep(&self) {
        for dir in subdirs(&self.dir.join("tmp")).unwrap_or_default() {
            let Some(flat) = dir.file_name().and_then(|name| name.to_str()).and_then(owner) else { continue };
            let path = self.dir.join("locks").join(format!("{flat}.lock"));
            if let Ok(Some(_lock)) = Lock::try_exclusive(&path, "clean") {
                remove_tree(&dir);
            }
        }
    }

    /// The same for one entry whose exclusive lock the caller holds.
    fn sweep_entry(&self, id: &Id) {
        for dir in subdirs(&self.dir.join("tmp")).unwrap_or_default() {
            let name = dir.file_name().and_then(|name| name.to_str()).and_then(owner);
            if name == Some(id.flat().as_str()) {
                remove_tree(&dir);
            }
        }
    }

    fn temporary(&self, id: &Id) -> Result<TemporaryDir> {
        let path = self.temporary_name(id);
        fs::create_dir_all(&path).map_err(|error| disk::error("create the directory", &path, &error))?;
        Ok(TemporaryDir(path))
    }

    fn temporary_name(&self, id: &Id) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.dir.join("tmp").join(format!("{}.{}.{count}", id.flat(), std::process::id()))
    }

    fn entry_dir(&self, id: &Id) -> PathBuf {
        if id.key.is_empty() {
            return self.dir.join(&id.class);
        }
        self.dir.join(&id.class).join(id.leaf())
    }

    fn lock_path(&self, id: &Id) -> PathBuf {
        self.dir.join("locks").join(format!("{}.lock", id.flat()))
    }

    /// Backup programs know this file and skip the directory.
    fn tag(&self) -> Result<()> {
        let path = self.dir.join("CACHEDIR.TAG");
        if path.exists() {
            return Ok(());
        }
        let text = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by ceasefire; `ceasefire lab clean` empties it.\n";
        fs::write(&path, text).map_err(|error| disk::error("write", &path, &error))
    }
}

/// The entry a temporary directory "flat.PID.N" belongs to. Other names are not ours.
fn owner(name: &str) -> Option<&str> {
    let mut parts = name.rsplitn(3, '.');
    let count = parts.next()?;
    let pid = parts.next()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(count) && is_number(pid)).then(|| parts.next()).flatten()
}

fn clean_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._+~-".contains(c) { c } else { '_' }).collect()
}

fn subdirs(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| disk::error("list", dir, &error))? {
        let entry = entry.map_err(|error| disk::error("list", dir, &error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Best effort: what stays is swept at the next start.
pub(crate) fn remove_tree(dir: &Path) {
    let _ = fs::remove_dir_all(dir);
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
