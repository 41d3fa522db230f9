// SPDX-License-Identifier: GPL-2.0-only
//! Commands that are run to their end.

use super::child::{start, Stop};
use super::output::print_line;
use super::tail::{Lines, Tail, DISK_FULL};
use super::Command;
use crate::{disk, Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// Takes one line of output.
pub type OnLine<'a> = Box<dyn FnMut(&str) + 'a>;

/// What `run` does beside running.
#[derive(Default)]
pub struct Options<'a> {
    /// Print the command instead.
    pub dry_run: bool,
    /// Output is appended here, after a line with the command.
    pub log: Option<PathBuf>,
    /// Called for each line of output.
    pub on_line: Option<OnLine<'a>>,
    /// Called about twenty times a second.
    pub on_tick: Option<Box<dyn FnMut() + 'a>>,
    pub timeout: Option<Duration>,
    pub stop: Stop,
    /// Where the command writes and how much, for the sentence about a full disk.
    pub disk: Option<(PathBuf, u64)>,
    /// Keep it in our process group: it asks on the terminal, or may not be signalled by us (sudo).
    pub foreground: bool,
}

#[derive(Debug)]
pub struct Output {
    pub elapsed: Duration,
    /// The last lines of its output, both streams.
    pub tail: Vec<String>,
}

/// Runs a command to its end. Anything but exit status 0 is an error that carries the program's own words.
pub fn run(command: &Command, mut options: Options<'_>) -> Result<Output> {
    if options.dry_run {
        print_line(&command.to_shell());
        return Ok(Output { elapsed: Duration::ZERO, tail: Vec::new() });
    }
    let mut log = match &options.log {
        None => None,
        Some(path) => Some(open_log(path, command)?),
    };
    let (reading, writing) = pipe()?;
    let mut std_command = command.to_std()?;
    let twin = writing.try_clone().map_err(|error| no_pipe(&error))?;
    std_command.stdout(Stdio::from(writing)).stderr(Stdio::from(twin));
    let mut child = start(command, std_command, options.foreground)?;
    child.stop = options.stop;

    let mut tail = Tail::default();
    let mut lines = Lines::default();
    let mut log_error = None;
    let mut take = |bytes: &[u8], tail: &mut Tail| {
        if let (Some(file), None) = (&mut log, &log_error) {
            log_error = file.write_all(bytes).err();
        }
        // Nothing more to come: the last line may lack its newline.
        let bytes = if bytes.is_empty() { b"\n" } else { bytes };
        lines.push(bytes, &mut |line| {
            tail.push(line);
            if let Some(on_line) = &mut options.on_line {
                on_line(line);
            }
        });
    };
    let mut tick = || {
        if let Some(on_tick) = &mut options.on_tick {
            on_tick();
        }
    };
    let status =
        child.follow(&[&reading], options.timeout, &mut tick, &mut |_, bytes| take(bytes, &mut tail));
    take(&[], &mut tail);
    let ended = match status? {
        Some(status) => status,
        None => return Err(timed_out(command, options.timeout, options.log.as_deref())),
    };
    let disk_full = tail.says(&DISK_FULL) || log_error.as_ref().is_some_and(disk::is_full);
    if disk_full && !ended.success() {
        let (path, mib) = options.disk.unwrap_or_else(|| (PathBuf::from("."), 0));
        return Err(disk::full(&path, (mib > 0).then_some(mib)));
    }
    if !ended.success() {
        return Err(failure(command, ended, &tail, options.log.as_deref()));
    }
    if let (Some(error), Some(path)) = (log_error, &options.log) {
        return Err(disk::error("write", path, &error));
    }
    Ok(Output { elapsed: child.begun.elapsed(), tail: tail.lines.into() })
}

/// What a short command said.
#[derive(Debug)]
pub struct Captured {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a short command and keeps what it says; its exit status is the caller's to judge.
pub fn capture(command: &Command, timeout: Option<Duration>) -> Result<Captured> {
    let (out, out_writing) = pipe()?;
    let (err, err_writing) = pipe()?;
    let mut std_command = command.to_std()?;
    std_command.stdout(Stdio::from(out_writing)).stderr(Stdio::from(err_writing));
    let mut child = start(command, std_command, false)?;
    let mut said = [Vec::new(), Vec::new()];
    let status = child
        .follow(&[&out, &err], timeout, &mut || (), &mut |from, bytes| said[from].extend_from_slice(bytes))?;
    let status = status.ok_or_else(|| timed_out(command, timeout, None))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Captured { status, stdout: text(&said[0]), stderr: text(&said[1]) })
}

/// The standard output of a short command that must succeed.
pub fn read(command: &Command) -> Result<String> {
    let captured = capture(command, None)?;
    if captured.status.success() {
        return Ok(captured.stdout);
    }
    let mut tail = Tail::default();
    captured.stdout.lines().chain(captured.stderr.lines()).for_each(|line| tail.push(line));
    Err(failure(command, captured.status, &tail, None))
}

fn failure(command: &Command, status: ExitStatus, tail: &Tail, log: Option<&Path>) -> Error {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed (exit status {code})"),
        (None, Some(libc::SIGKILL)) => "was killed (signal 9; out of memory?)".to_string(),
        (None, Some(signal)) => format!("died of signal {signal}"),
        (None, None) => "failed".to_string(),
    };
    let words = tail.meaningful().join(" | ");
    let colon = if words.is_empty() { "" } else { ": " };
    let error = Error::failed(format!("{} {how}{colon}{words}", command.short()));
    with_log(error, log)
}

fn timed_out(command: &Command, limit: Option<Duration>, log: Option<&Path>) -> Error {
    let seconds = limit.unwrap_or_default().as_secs_f64();
    with_log(
        Error::failed(format!("{} did not end within {seconds} s and was stopped", command.short())),
        log,
    )
}

fn with_log(error: Error, log: Option<&Path>) -> Error {
    match log {
        Some(path) => error.remedy(format!("the whole output is in {}", path.display())),
        None => error,
    }
}

fn open_log(path: &Path, command: &Command) -> Result<File> {
    let open = || -> io::Result<File> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "$ {}", command.to_shell())?;
        Ok(file)
    };
    open().map_err(|error| disk::error("write", path, &error))
}

fn pipe() -> Result<(File, File)> {
    let mut ends = [0 as RawFd; 2];
    // SAFETY: `ends` has room for the two descriptors; on success both are new and ours alone.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(no_pipe(&io::Error::last_os_error()));
        }
        Ok((OwnedFd::from_raw_fd(ends[0]).into(), OwnedFd::from_raw_fd(ends[1]).into()))
    }
}

fn no_pipe(error: &io::Error) -> Error {
    Error::failed(format!("cannot make a pipe: {}", disk::reason(error)))
}
