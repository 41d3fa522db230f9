// SPDX-License-Identifier: GPL-2.0-only
//! One boot from start to verdict: the emulator is watched, its death, silence and overtime are noticed.

use ceasefire_base::exec::{self, Child, Command, Stream};
use ceasefire_base::{cancel, disk, Error, Result};
use ceasefire_results::protocol::{GuestLog, LogParser};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Longest silence before the guest's first line: a boot takes 3 to 5 s, of a kernel that checks itself 40 s, and on a
/// busy machine a few times that.
const FIRST_LINE_S: u64 = 240;
/// After the verdict the guest powers itself off.
const POWER_OFF: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A boot that is ready to go.
pub struct Start<'a> {
    pub command: &'a Command,
    /// Files of this boot: PATH.jsonl, PATH.console, PATH.stderr.
    pub log: &'a Path,
    pub limit: Duration,
    /// The command that repeats this boot alone.
    pub rerun: &'a str,
    /// Asked all the time: has this boot become useless?
    pub is_useless: &'a dyn Fn() -> bool,
}

pub fn console_path(log: &Path) -> PathBuf {
    beside(log, "console")
}

pub fn records_path(log: &Path) -> PathBuf {
    beside(log, "jsonl")
}

/// What the observer saw in the guest.
pub fn watched_path(log: &Path) -> PathBuf {
    beside(log, "record")
}

/// LOG.EXTENSION. Not `with_extension`: a kernel's name may hold dots.
pub fn beside(log: &Path, extension: &str) -> PathBuf {
    let mut path = log.as_os_str().to_os_string();
    path.push(".");
    path.push(extension);
    path.into()
}

/// Runs one boot. `on_progress` is told what the guest has said so far.
///
/// Errors: the guest gave no verdict (panic, time limit, emulator's death), or the user interrupted.
pub fn boot(start: &Start, on_progress: &mut dyn FnMut(&GuestLog)) -> Result<GuestLog> {
    let stderr_path = beside(start.log, "stderr");
    let records_path = records_path(start.log);
    let mut records =
        File::create(&records_path).map_err(|error| disk::error("write", &records_path, &error))?;
    let mut child = exec::spawn(start.command, &Stream::Pipe, &Stream::File(stderr_path.clone()))?;
    let chunks = read_in_background(&mut child)?;

    let begun = Instant::now();
    let mut parser = LogParser::new();
    let mut verdict_at = None;
    let ended = loop {
        cancel::check()?;
        if (start.is_useless)() {
            return Err(Error::interrupted());
        }
        match chunks.recv_timeout(POLL) {
            Ok(bytes) => {
                records.write_all(&bytes).map_err(|error| disk::error("write", &records_path, &error))?;
                parser.push(&bytes);
                on_progress(parser.so_far());
            }
            // The emulator closed its output: it has ended or is about to.
            Err(RecvTimeoutError::Disconnected) => {
                break match child.wait(Some(POWER_OFF))? {
                    Some(status) => Ended::ByItself(status),
                    None => Ended::ByItself(child.kill()?),
                };
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if verdict_at.is_none() && parser.has_verdict() {
            verdict_at = Some(Instant::now());
        }
        if verdict_at.is_some_and(|at| at.elapsed() > POWER_OFF) {
            break Ended::ByItself(child.kill()?);
        }
        let is_silent = parser.so_far().boot.is_none();
        let limit = if is_silent { start.limit.min(Duration::from_secs(FIRST_LINE_S)) } else { start.limit };
        if verdict_at.is_none() && begun.elapsed() > limit {
            child.kill()?;
            // The saved log must say why it ends.
            let _ = writeln!(records, "{{\"kind\":\"timeout\",\"seconds\":{}}}", limit.as_secs());
            break Ended::AtLimit(limit);
        }
    };
    let has_verdict = parser.has_verdict();
    let mut log = parser.finish();
    if !log.outcome.is_complete() {
        log.add_console(&fs::read(console_path(start.log)).unwrap_or_default());
        if let Ended::AtLimit(limit) = &ended {
            log.timed_out(limit.as_secs());
        }
    }
    let log_name = if has_verdict { records_path } else { console_path(start.log) };
    let is_panic = matches!(log.outcome, ceasefire_results::Outcome::Panic(_));
    match (log.usable(), ended) {
        (Ok(()), _) => Ok(log),
        // An emulator that died explains more than the half log it left.
        (Err(error), Ended::ByItself(status)) if !has_verdict && !is_panic => {
            Err(with_rerun(death(status, &stderr_path, &error), &log_name, start.rerun))
        }
        (Err(error), _) => Err(with_rerun(error, &log_name, start.rerun)),
    }
}

enum Ended {
    ByItself(ExitStatus),
    AtLimit(Duration),
}

/// A pipe has no read with a time limit: a thread reads, the loop waits on its channel.
fn read_in_background(child: &mut Child) -> Result<Receiver<Vec<u8>>> {
    let mut stdout = child
        .take_stdout()
        .ok_or_else(|| Error::failed("the emulator was started without its output pipe"))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0u8; 4096];
        while let Ok(length) = stdout.read(&mut buffer) {
            if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

fn death(status: ExitStatus, stderr: &Path, log: &Error) -> Error {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("the emulator was killed by signal {signal}"),
        // It stops with 0 when the guest resets: then the guest's own log says more.
        (None, Some(0)) => return log.clone(),
        (None, code) => format!("the emulator ended with status {}", code.unwrap_or(-1)),
    };
    let words = fs::read_to_string(stderr).unwrap_or_default();
    match words.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => Error::failed(format!("{how} before the guest's verdict: {}", line.trim())),
        None => Error::failed(format!("{how} before the guest's verdict")),
    }
}

fn with_rerun(error: Error, log: &Path, rerun: &str) -> Error {
    let cause = error.remedy.clone().map(|text| format!("{text}; ")).unwrap_or_default();
    let shown = log.display();
    error.remedy(format!("{cause}log: {shown}\n  rerun: {rerun}"))
}
