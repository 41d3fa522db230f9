// SPDX-License-Identifier: GPL-2.0-only
//! What a user takes into the guest: a directory, tools of this machine, and a program or script that runs there.
//! Everything is looked at here, before minutes are spent on what boots it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Result};

use crate::cpio::Archive;
use crate::elf::{self, Fit, Processor};
use crate::gather::{add_users, is_executable, read, Gatherer};

/// Where the directory lies in the guest, and the working directory there (lab/guest/guest.h, workloads/own/program.c).
const DIRECTORY: &str = "/work";
/// The program's words, each with a zero byte at its end (workloads/own/program.c).
const WORDS: &str = "/program";
/// Tools of this machine.
const TOOLS: &str = "/bin";
const SHELL: &str = "/bin/sh";
/// The guest's own.
const TOOLS_TAKEN: [&str; 1] = ["workloads"];
/// All commands in one program, which lists them.
const BUSYBOX: &str = "busybox";
const BUSYBOX_LIMIT: Duration = Duration::from_secs(10);
/// The guest's memory holds the archive, and at the same time what comes out of it; half of the rest is the program's.
const SHARE_OF_MEMORY: u64 = 4;
/// Whatever the memory: QEMU puts the archive below 4 GiB.
const MIB_MAX: u64 = 1024;
/// Of an entry, beside its content: header, name and padding.
const ENTRY_BYTES: u64 = 256;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Luggage {
    pub dir: Option<PathBuf>,
    /// Programs of this machine, which go to TOOLS, and directories, which go to where they lie here.
    pub tools: Vec<PathBuf>,
}

/// What is run of it. Where a directory goes along, the file lies in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub file: PathBuf,
    pub args: Vec<OsString>,
}

pub struct Packed {
    pub archive: Vec<u8>,
    /// The program's path below the directory.
    pub program: Option<String>,
}

impl Luggage {
    pub fn is_empty(&self) -> bool {
        *self == Luggage::default()
    }

    /// And this machine's shell, so that a command can say all that shells know; where there is none that a guest can
    /// run, the guest has a few words of its own (lab/guest/shell.c).
    pub fn with_shell(mut self, processor: Processor) -> Luggage {
        let is_along = self.tools.iter().any(|tool| tool.ends_with("sh"));
        if !is_along && fs::read(SHELL).is_ok_and(|content| elf::fit(&content, processor) == Fit::Program) {
            self.tools.push(SHELL.into());
        }
        self
    }

    /// The archive for a guest with that processor and so much memory.
    ///
    /// Errors: usage for what can never go along, a skip for what this machine lacks.
    pub fn pack(&self, program: Option<&Program>, processor: Processor, memory_mib: u32) -> Result<Packed> {
        let host = [PathBuf::from("/")];
        let mut packing = Packing {
            archive: Archive::new(),
            needed: Gatherer::new(&host),
            wished: Gatherer::new(&host),
            names: BTreeSet::new(),
            bytes: 0,
            processor,
            memory_mib,
        };
        if let Some(dir) = &self.dir {
            packing.root(dir)?;
        }
        let name = program.map(|program| packing.program(program, self.dir.as_deref())).transpose()?;
        // What is named itself stays, whatever busybox has.
        let (most, lists): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.tools.iter().partition(|tool| !tool.ends_with(BUSYBOX));
        for tool in most.into_iter().chain(lists) {
            packing.tool(tool)?;
        }
        Ok(Packed { archive: packing.finish()?, program: name })
    }
}

struct Packing<'a> {
    archive: Archive,
    /// What is run, and the tools.
    needed: Gatherer<'a>,
    /// What else may be started: one that lacks something says so in the guest.
    wished: Gatherer<'a>,
    /// Of the directory's files.
    names: BTreeSet<String>,
    bytes: u64,
    processor: Processor,
    memory_mib: u32,
}

impl Packing<'_> {
    /// The guest runs what this machine runs: libraries and interpreters of this machine go along.
    fn is_alike(&self) -> bool {
        self.processor == Processor::default()
    }

    fn root(&mut self, dir: &Path) -> Result<()> {
        let about = fs::metadata(dir).map_err(|error| missing(dir, &error))?;
        if !about.is_dir() {
            return Err(unusable(dir, "is no directory")
                .remedy("give --dir a directory; a file alone goes along with --with"));
        }
        self.directory(dir, DIRECTORY, &about)
    }

    fn directory(&mut self, dir: &Path, inside: &str, about: &Metadata) -> Result<()> {
        self.archive.directory(inside, about.permissions().mode() & 0o7777);
        let listed = fs::read_dir(dir).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
        for entry in listed.map_err(|error| disk::error("list", dir, &error))? {
            let path = entry.path();
            let name = text_name(&path)?;
            let about = entry.metadata().map_err(|error| disk::error("read", &path, &error))?;
            self.entry(&path, &format!("{inside}/{name}"), &about)?;
            self.names.insert(name);
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, inside: &str, about: &Metadata) -> Result<()> {
        self.weigh(if about.is_file() { about.len() } else { 0 })?;
        if about.is_dir() {
            return self.directory(path, inside, about);
        }
        if about.is_symlink() {
            let target = fs::read_link(path).map_err(|error| disk::error("read", path, &error))?;
            let Some(target) = target.to_str() else {
                return Err(unusable(path, "points to a name that is no text").remedy("rename that"));
            };
            self.archive.symlink(inside, target);
            return Ok(());
        }
        if !about.is_file() {
            return Err(
                unusable(path, "is neither file, directory nor link").remedy("give a directory without it")
            );
        }
        let content = read(path)?;
        let mode = about.permissions().mode() & 0o7777;
        if mode & 0o111 != 0 && self.is_alike() {
            self.wished.add_needs_of(&content);
            interpreters(&content).iter().for_each(|path| self.wished.add(path));
        }
        self.archive.file(inside, mode, content);
        Ok(())
    }

    /// Its path below the directory.
    fn program(&mut self, program: &Program, dir: Option<&Path>) -> Result<String> {
        let file = &program.file;
        let about = fs::metadata(file).map_err(|error| missing(file, &error))?;
        if !about.is_file() {
            let what = if about.is_dir() { "is a directory" } else { "is no file" };
            return Err(unusable(file, what).remedy("give the path of a program or script"));
        }
        if dir.is_none() {
            self.weigh(about.len())?;
        }
        let content = self.runnable(file)?;
        if !is_executable(file)? {
            let quoted = exec::quote(file.as_os_str());
            return Err(unusable(file, "is not marked as executable").remedy(format!("chmod +x {quoted}")));
        }
        let name = match dir {
            Some(dir) => below(file, dir)?,
            None => text_name(file)?,
        };
        let inside = format!("{DIRECTORY}/{name}");
        if dir.is_none() {
            self.archive.directory(DIRECTORY, 0o755);
            self.archive.file(&inside, 0o755, content);
        }
        let mut words = Vec::new();
        for word in [inside.as_bytes()].into_iter().chain(program.args.iter().map(|word| word.as_bytes())) {
            words.extend_from_slice(word);
            words.push(0);
        }
        self.archive.file(WORDS, 0o644, words);
        Ok(name)
    }

    fn tool(&mut self, file: &Path) -> Result<()> {
        let about = fs::metadata(file).map_err(|error| missing(file, &error))?;
        if about.is_dir() {
            let full = fs::canonicalize(file).map_err(|error| missing(file, &error))?;
            let inside = full.to_str().ok_or_else(|| no_text(file))?;
            return self.directory(&full, inside, &about);
        }
        if !about.is_file() {
            return Err(unusable(file, "is no file").remedy("give --with a program of this machine"));
        }
        let name = text_name(file)?;
        if TOOLS_TAKEN.contains(&name.as_str()) {
            return Err(unusable(file, "has the name of a program that every guest has").remedy("rename it"));
        }
        self.weigh(about.len())?;
        let content = self.runnable(file)?;
        self.archive.file(&format!("{TOOLS}/{name}"), 0o755, content);
        if name == BUSYBOX && self.is_alike() {
            let said = exec::capture(&Command::new(file).arg("--list"), Some(BUSYBOX_LIMIT))?;
            link_commands(&said.stdout, &mut self.archive);
        }
        Ok(())
    }

    /// The content of a program or script that the guest can run, once it has what this one needs.
    fn runnable(&mut self, file: &Path) -> Result<Vec<u8>> {
        let content = read(file)?;
        match elf::fit(&content, self.processor) {
            Fit::Program => self.needed.add_needs_of(&content),
            Fit::Not(what) => {
                let programs = self.processor.programs();
                return Err(unusable(file, &format!("is {what}; the guest runs {programs}"))
                    .remedy(self.processor.advice()));
            }
            Fit::Other if !self.is_alike() => {
                let programs = self.processor.programs();
                return Err(unusable(file, &format!("is no program; the guest runs {programs}"))
                    .remedy("what runs scripts on this machine does not run there"));
            }
            Fit::Other => {
                let interpreters = interpreters(&content);
                if interpreters.is_empty() {
                    return Err(unusable(file, "is neither a program nor a script")
                        .remedy("let a script's first line say what runs it: #!/bin/sh"));
                }
                interpreters.iter().for_each(|path| self.needed.add(path));
            }
        }
        Ok(content)
    }

    fn weigh(&mut self, bytes: u64) -> Result<()> {
        self.bytes += bytes + ENTRY_BYTES;
        let most = (u64::from(self.memory_mib) / SHARE_OF_MEMORY).min(MIB_MAX);
        if self.bytes <= most << 20 {
            return Ok(());
        }
        let more = if most < MIB_MAX { ", or add --memory MIB: four times as much" } else { "" };
        Err(Error::usage(format!(
            "what goes along is larger than {most} MiB, too much for a guest with {} MiB of memory",
            self.memory_mib
        ))
        .remedy(format!("leave out what is not needed{more}")))
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        let needed = std::mem::take(&mut self.needed).finish()?.without_data()?;
        let is_along = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            self.archive.has(path) || self.names.contains(name)
        };
        if let Some(path) = needed.missing.iter().find(|path| !is_along(path)) {
            return Err(Error::skip(format!("what is to run in the guest needs {path}, which is not here"))
                .remedy("install it, or compile with -static, or put it into the directory"));
        }
        let wished = std::mem::take(&mut self.wished).finish()?.without_data()?;
        for mut gathered in [wished, needed] {
            // What the user named stays.
            gathered.files.retain(|path, _| !self.archive.has(path));
            for file in gathered.files.values() {
                self.weigh(fs::metadata(file).map_or(0, |about| about.len()))?;
            }
            gathered.add_to(&mut self.archive)?;
        }
        add_users(&mut self.archive);
        Ok(self.archive.into_bytes())
    }
}

/// The commands that busybox lists.
fn link_commands(list: &str, archive: &mut Archive) {
    for name in list.split_whitespace().filter(|name| !name.contains('/')) {
        let path = format!("{TOOLS}/{name}");
        if !archive.has(&path) && !TOOLS_TAKEN.contains(&name) {
            archive.symlink(&path, BUSYBOX);
        }
    }
}

/// What runs a script, by its first line; `env` is asked to find another. In the directory it comes along anyway.
fn interpreters(content: &[u8]) -> Vec<String> {
    let first = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(line) = first.strip_prefix(b"#!").and_then(|line| std::str::from_utf8(line).ok()) else {
        return Vec::new();
    };
    let mut words = line.split_ascii_whitespace();
    let Some(path) = words.next() else { return Vec::new() };
    let mut all = vec![path.to_string()];
    if path.ends_with("/env") {
        let found = words.next().and_then(exec::find_program);
        all.extend(found.and_then(|path| path.to_str().map(String::from)));
    }
    all
}

/// The path of a file in a directory, where links stay what they are but none leads out.
fn below(file: &Path, dir: &Path) -> Result<String> {
    let full = |path: &Path| fs::canonicalize(path).map_err(|error| missing(path, &error));
    let dir = full(dir)?;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = full(parent)?.join(file.file_name().unwrap_or_default());
    match named.strip_prefix(&dir) {
        Ok(path) if full(file)?.starts_with(&dir) => {
            path.to_str().map(String::from).ok_or_else(|| no_text(file))
        }
        _ => Err(unusable(file, "does not lie in the directory of --dir")
            .remedy("copy it there, or leave out --dir")),
    }
}

fn text_name(file: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(String::from).ok_or_else(|| no_text(file))
}

fn no_text(file: &Path) -> Error {
    unusable(file, "has a name that is no text").remedy("rename it")
}

fn unusable(path: &Path, why: &str) -> Error {
    Error::usage(format!("{} {why}", path.display()))
}

fn missing(path: &Path, error: &std::io::Error) -> Error {
    Error::usage(format!("cannot take {} along: {}", path.display(), disk::reason(error)))
        .remedy("check the path")
}

#[cfg(test)]
#[path = "luggage_tests.rs"]
mod tests;
