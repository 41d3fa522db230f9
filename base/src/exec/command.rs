// SPDX-License-Identifier: GPL-2.0-only
//! What is to be run, as a value.

use crate::{disk, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The caller's make must not hand its job server and flags to ours.
const ENV_DROPPED: [&str; 5] = ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "GNUMAKEFLAGS", "MAKEOVERRIDES"];

/// A program with its arguments: printed and run from the same description, so that they cannot differ.
#[derive(Debug, Clone, Default)]
pub struct Command {
    pub(super) program: OsString,
    args: Vec<OsString>,
    pub(super) cwd: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    env_removed: Vec<OsString>,
    stdin: Option<PathBuf>,
}

impl Command {
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command { program: program.as_ref().into(), ..Command::default() }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Command {
        self.args.push(arg.as_ref().into());
        self
    }

    pub fn args<I, S>(mut self, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Command {
        self.cwd = Some(dir.as_ref().into());
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Command {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Command {
        self.env_removed.push(name.as_ref().into());
        self
    }

    /// Reads its input from a file; without this there is none.
    pub fn stdin(mut self, file: impl AsRef<Path>) -> Command {
        self.stdin = Some(file.as_ref().into());
        self
    }

    pub fn program(&self) -> &OsStr {
        &self.program
    }

    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The command as one line that a shell understands.
    pub fn to_shell(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.env {
            line += &format!("{}={} ", name.to_string_lossy(), quote(value));
        }
        line += &quote(&self.program);
        for arg in &self.args {
            line.push(' ');
            line += &quote(arg);
        }
        if let Some(file) = &self.stdin {
            line += &format!(" < {}", quote(file.as_os_str()));
        }
        match &self.cwd {
            Some(dir) => format!("(cd {} && {line})", quote(dir.as_os_str())),
            None => line,
        }
    }

    /// How messages call it: "make bzImage" rather than forty options.
    pub(super) fn short(&self) -> String {
        let plain = |arg: &&OsString| {
            let text = arg.as_bytes();
            let is_word = !text.starts_with(b"-")
                && !text.starts_with(b"/")
                && !text.contains(&b'=')
                && !text.contains(&b' ');
            !text.is_empty() && text.len() <= 40 && is_word && text != b"env"
        };
        let name = Path::new(&self.program).file_name().unwrap_or(&self.program).to_os_string();
        let is_prefix = name == "env" || name == "sudo";
        let words = (!is_prefix).then_some(&name).into_iter();
        let words: Vec<_> = words.chain(self.args.iter().filter(plain)).take(3).collect();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn to_std(&self) -> Result<std::process::Command> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args);
        for name in ENV_DROPPED {
            command.env_remove(name);
        }
        for name in &self.env_removed {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        command.stdin(match &self.stdin {
            None => Stdio::null(),
            Some(file) => File::open(file).map_err(|error| disk::error("read", file, &error))?.into(),
        });
        Ok(command)
    }
}

/// One word for the shell. Ours, since crates quote `=` and `,` too: most options that we print would be in quotes.
pub fn quote(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
