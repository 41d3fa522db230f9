// SPDX-License-Identifier: GPL-2.0-only
//! What every builder is handed: where things are, how to speak, what is allowed.

use crate::cache::Cache;
use crate::debian;
use ceasefire_base::{exec, Error, Progress, Result, Step, Verbosity};
use std::path::{Path, PathBuf};

/// Its presence makes a directory the checkout's root.
const ROOT_MARK: &str = "kernel/bases";

#[derive(Clone)]
pub struct Context {
    /// The checkout.
    pub root: PathBuf,
    pub cache: Cache,
    pub progress: Progress,
    /// Print the commands instead of running them.
    pub dry_run: bool,
    /// Processors to compile with.
    pub jobs: usize,
    /// Never ask the network (CEASEFIRE_OFFLINE=1).
    pub offline: bool,
    /// Missing Debian packages may be installed (not with CEASEFIRE_NO_INSTALL=1).
    pub may_install: bool,
}

impl Context {
    pub fn open(progress: Progress) -> Result<Context> {
        Context::of(find_root()?, progress)
    }

    /// Where nothing is built, no checkout is needed.
    pub fn without_checkout(progress: Progress) -> Result<Context> {
        Context::of(PathBuf::from("/"), progress)
    }

    fn of(root: PathBuf, progress: Progress) -> Result<Context> {
        Ok(Context {
            root,
            cache: Cache::open()?,
            progress,
            dry_run: false,
            jobs: std::thread::available_parallelism().map_or(1, |count| count.get()),
            offline: is_set("CEASEFIRE_OFFLINE"),
            may_install: !is_set("CEASEFIRE_NO_INSTALL"),
        })
    }

    /// Sees to it that Debian packages are installed.
    pub fn ensure(&self, packages: &[&str]) -> Result<()> {
        debian::ensure_packages(self, packages)
    }

    /// Begins a step; in a dry run nothing goes on that is worth a line.
    pub(crate) fn step(&self, name: impl Into<String>) -> Step {
        match self.dry_run {
            true => Progress::new(Verbosity::Quiet).step(name),
            false => self.progress.step(name),
        }
    }

    /// Where the results of a dry run's commands would lie, so that the next printed command finds them.
    pub(crate) fn dry_dir(&self, name: &str) -> PathBuf {
        self.cache.dir().join("dry-run").join(name)
    }

    /// Under --dry-run: a comment among the printed commands.
    pub(crate) fn dry_comment(&self, text: &str) {
        exec::print_line(&format!("# {text}"));
    }
}

/// Set, and to something other than 0.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The checkout: `$CEASEFIRE_ROOT`, or upward from the working directory, or from this binary.
pub fn find_root() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("CEASEFIRE_ROOT").filter(|dir| !dir.is_empty()) {
        let dir = PathBuf::from(dir);
        return root_at(&dir).ok_or_else(|| {
            Error::usage(format!("CEASEFIRE_ROOT is {}, but there is no {ROOT_MARK} in it", dir.display()))
                .remedy("set CEASEFIRE_ROOT to a checkout of Ceasefire, or unset it and work inside one")
        });
    }
    let places = [std::env::current_dir(), std::env::current_exe()];
    let found = places.iter().flatten().find_map(|place| place.ancestors().find_map(root_at));
    found.ok_or_else(|| {
        Error::usage(format!("no checkout of Ceasefire here: no {ROOT_MARK} in this directory or above it"))
            .remedy("run it inside the checkout, or set CEASEFIRE_ROOT to it")
    })
}

fn root_at(dir: &Path) -> Option<PathBuf> {
    if !dir.join(ROOT_MARK).is_dir() {
        return None;
    }
    std::fs::canonicalize(dir).ok()
}
