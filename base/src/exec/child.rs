// SPDX-License-Identifier: GPL-2.0-only
//! A program that runs, in a process group of its own, and how it ends.

use super::{programs, Command};
use crate::{cancel, disk, guardian, Error, Result};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time between the polite signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long output of what the program left behind is still read after its end.
const DRAIN: Duration = Duration::from_millis(200);

/// How a program is asked to stop, before it is made to.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    pub signal: i32,
    pub grace: Duration,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { signal: libc::SIGTERM, grace: GRACE }
    }
}

/// Where a spawned program's output goes.
#[derive(Debug, Clone)]
pub enum Stream {
    Null,
    Inherit,
    /// Created or emptied.
    File(PathBuf),
    /// Taken by `Child::take_stdout` or `take_stderr`.
    Pipe,
}

impl Stream {
    fn to_stdio(&self) -> Result<Stdio> {
        Ok(match self {
            Stream::Null => Stdio::null(),
            Stream::Inherit => Stdio::inherit(),
            Stream::Pipe => Stdio::piped(),
            Stream::File(path) => {
                File::create(path).map_err(|error| disk::error("write", path, &error))?.into()
            }
        })
    }
}

/// Starts a command and leaves it running. It dies with the handle.
pub fn spawn(command: &Command, stdout: &Stream, stderr: &Stream) -> Result<Child> {
    let mut std_command = command.to_std()?;
    std_command.stdout(stdout.to_stdio()?).stderr(stderr.to_stdio()?);
    start(command, std_command, false)
}

/// Starts a command that has the terminal: input, output and process group are ours.
/// Call from a thread that outlives it: it is killed when that thread ends.
pub fn spawn_interactive(command: &Command) -> Result<Child> {
    let mut std_command = command.to_std()?;
    std_command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    start(command, std_command, true)
}

/// A running program.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    /// Leads a process group of its own.
    is_leader: bool,
    guardian: Option<RawFd>,
    pub(super) begun: Instant,
    pub(super) stop: Stop,
    status: Option<ExitStatus>,
}

impl Child {
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn set_stop(&mut self, stop: Stop) {
        self.stop = stop;
    }

    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.inner.stdout.take()
    }

    pub fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.inner.stderr.take()
    }

    /// The exit status if it has ended; whatever it left in its group is killed then.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() && self.has_ended()? {
            self.reap()?;
        }
        Ok(self.status)
    }

    /// Waits for the end, for the time limit (None) or for the user's interrupt (an error).
    /// In the last two cases it is stopped first.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<ExitStatus>> {
        self.follow(&[], timeout, &mut || (), &mut |_, _| ())
    }

    /// Asks, waits for the grace time, then kills the whole group.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(self.stop.signal);
        let end = Instant::now() + self.stop.grace;
        while Instant::now() < end {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill()
    }

    /// Kills the whole group at once.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        self.signal(libc::SIGKILL);
        self.reap()
    }

    fn signal(&self, signal: i32) {
        let pid = self.inner.id() as i32;
        let target = if self.is_leader { -pid } else { pid };
        if self.status.is_none() {
            // SAFETY: plain system call; the process is not reaped yet, so the number is still its own.
            unsafe { libc::kill(target, signal) };
        }
    }

    /// Has it ended? Leaves the zombie, so that its group's number stays taken.
    fn has_ended(&self) -> Result<bool> {
        // SAFETY: `info` is plain data that waitid() fills.
        let (result, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            (libc::waitid(libc::P_PID, self.inner.id(), &mut info, flags), info)
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                return Ok(false);
            }
            return Err(Error::failed(format!("cannot wait for a program: {}", disk::reason(&error))));
        }
        // SAFETY: waitid() succeeded, so the process id field is valid (0 if nothing has ended).
        Ok(unsafe { info.si_pid() } != 0)
    }

    fn reap(&mut self) -> Result<ExitStatus> {
        if self.is_leader {
            self.signal(libc::SIGKILL);
        }
        let status = self
            .inner
            .wait()
            .map_err(|error| Error::failed(format!("cannot wait for a program: {}", disk::reason(&error))))?;
        self.status = Some(status);
        if let Some(pipe) = self.guardian {
            guardian::tell(pipe, -(self.inner.id() as i32));
        }
        Ok(status)
    }

    /// Reads the sources until the program ends. None: time was up and it was stopped.
    pub(super) fn follow(
        &mut self,
        sources: &[&File],
        timeout: Option<Duration>,
        tick: &mut dyn FnMut(),
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<Option<ExitStatus>> {
        let mut open: Vec<bool> = vec![true; sources.len()];
        let mut ended_at: Option<Instant> = None;
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            tick();
            if cancel::requested() {
                self.terminate()?;
                return Err(Error::interrupted());
            }
            if timeout.is_some_and(|limit| self.begun.elapsed() >= limit) && ended_at.is_none() {
                self.terminate()?;
                return Ok(None);
            }
            let ready = poll(sources, &open, cancel::POLL);
            let mut has_read = false;
            for (at, source) in sources.iter().enumerate().filter(|(at, _)| ready[*at]) {
                let mut file: &File = source;
                match file.read(&mut buffer) {
                    Ok(0) => open[at] = false,
                    Ok(length) => {
                        has_read = true;
                        take(at, &buffer[..length]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => open[at] = false,
                }
            }
            if ended_at.is_none() && self.try_wait()?.is_some() {
                ended_at = Some(Instant::now());
            }
            // Someone who left the group may hold the pipe open for ever: read what there is, then go.
            if let Some(ended) = ended_at {
                let all_read = open.iter().all(|open| !open);
                if all_read || (!has_read && ended.elapsed() >= DRAIN) {
                    return Ok(self.status);
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.kill();
        }
    }
}

/// Waits until a source has something to read.
fn poll(sources: &[&File], open: &[bool], time: Duration) -> Vec<bool> {
    let mut waits: Vec<libc::pollfd> = sources
        .iter()
        .zip(open)
        .map(|(source, open)| libc::pollfd {
            fd: if *open { source.as_raw_fd() } else { -1 },
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the array is valid for its length; negative descriptors are ignored by poll().
    let count =
        unsafe { libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, time.as_millis() as i32) };
    waits.iter().map(|wait| count > 0 && wait.revents != 0).collect()
}

pub(super) fn start(
    command: &Command,
    mut std_command: std::process::Command,
    foreground: bool,
) -> Result<Child> {
    cancel::check()?;
    let guardian = if foreground { None } else { guardian::pipe() };
    if !foreground {
        std_command.process_group(0);
    }
    // SAFETY: the closure runs between fork and exec and makes system calls only.
    unsafe {
        std_command.pre_exec(move || {
            match guardian {
                Some(pipe) => guardian::tell(pipe, libc::getpid()),
                None => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                }
            }
            Ok(())
        });
    }
    let inner = std_command.spawn().map_err(|error| not_started(command, &error))?;
    Ok(Child {
        inner,
        is_leader: !foreground,
        guardian,
        begun: Instant::now(),
        stop: Stop::default(),
        status: None,
    })
}

fn not_started(command: &Command, error: &io::Error) -> Error {
    if let Some(dir) = command.cwd.as_ref().filter(|dir| !dir.is_dir()) {
        return Error::failed(format!("the directory {} is not there", dir.display()));
    }
    let name = command.program.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        return programs::missing_program(&name);
    }
    Error::failed(format!("cannot start {name}: {}", disk::reason(error)))
}
