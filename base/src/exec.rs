// SPDX-License-Identifier: GPL-2.0-only
//! The one place that starts other programs. Each gets a process group of its own, which is killed when the
//! user interrupts, when time is up and when the handle is dropped; the guardian sees to it if we are killed.

use crate::{cancel, disk, guardian, Error, Result};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Lines kept to explain a failure.
const TAIL_LINES: usize = 400;
/// A line longer than this is cut: some programs print megabytes without a newline.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Time between the polite signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long output of what the program left behind is still read after its end.
const DRAIN: Duration = Duration::from_millis(200);
/// The caller's make must not hand its job server and flags to ours.
const ENV_DROPPED: [&str; 5] = ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "GNUMAKEFLAGS", "MAKEOVERRIDES"];

/// Debian's package for a program.
const PACKAGES: &[(&str, &str)] = &[
    ("ar", "binutils"),
    ("as", "binutils"),
    ("bc", "bc"),
    ("bison", "bison"),
    ("cargo", "cargo"),
    ("cpio", "cpio"),
    ("dpkg-source", "dpkg-dev"),
    ("file", "file"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("git", "git"),
    ("ld", "binutils"),
    ("make", "make"),
    ("mke2fs", "e2fsprogs"),
    ("ninja", "ninja-build"),
    ("patch", "patch"),
    ("pkg-config", "pkg-config"),
    ("python3", "python3"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("strip", "binutils"),
    ("sudo", "sudo"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// A program with its arguments: printed and run from the same description, so that they cannot differ.
#[derive(Debug, Clone, Default)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
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
    fn short(&self) -> String {
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

    fn to_std(&self) -> Result<std::process::Command> {
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

/// One word for the shell.
pub fn quote(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

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
    begun: Instant,
    stop: Stop,
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
    fn follow(
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

fn start(command: &Command, mut std_command: std::process::Command, foreground: bool) -> Result<Child> {
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
        return missing_program(&name);
    }
    Error::failed(format!("cannot start {name}: {}", disk::reason(error)))
}

/// The error for a program that is not installed.
pub fn missing_program(name: &str) -> Error {
    let error = Error::skip(format!("the program {name} is not installed"));
    match PACKAGES.iter().find(|(program, _)| *program == name) {
        Some((_, package)) => {
            // SAFETY: geteuid() has no preconditions.
            let sudo = if unsafe { libc::geteuid() } == 0 { "" } else { "sudo " };
            error.remedy(format!("{sudo}apt-get install {package}"))
        }
        None => error.remedy(format!("install {name}, or put its directory on PATH")),
    }
}

/// Looks a program up on PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
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

/// The first error of `print_line`.
static OUTPUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Somebody read our output and reads no more.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// A line on standard output; a reader that went away is no reason to fail.
pub fn print_line(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        match error.kind() {
            io::ErrorKind::BrokenPipe => READER_GONE.store(true, Ordering::Relaxed),
            _ => drop(OUTPUT_ERROR.set(error)),
        }
    }
}

/// True if nothing that is printed from now on will be read: what would print for ever may end.
pub fn output_is_over() -> bool {
    READER_GONE.load(Ordering::Relaxed) || OUTPUT_ERROR.get().is_some() || reader_has_left()
}

/// Asked of a pipe: a write would tell only where there is something to write.
fn reader_has_left() -> bool {
    let mut out = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: one descriptor, and room for its answer; it does not wait.
    unsafe { libc::poll(&mut out, 1, 0) == 1 && out.revents & libc::POLLERR != 0 }
}

/// Err if a line could not be written, e.g. to a file on a full disk.
pub fn check_output() -> Result<()> {
    match OUTPUT_ERROR.get() {
        None => Ok(()),
        Some(error) => {
            Err(Error::failed(format!("cannot write to standard output: {}", disk::reason(error)))
                .remedy("free space, or send the output elsewhere"))
        }
    }
}

/// How programs say that the disk is full.
const DISK_FULL: [&str; 3] =
    ["No space left on device", "Disk quota exceeded", "don't have enough free space"];

/// Signs of a line that explains a failure.
const TELLING: [&str; 14] = [
    "error:",
    "Error:",
    "ERROR",
    "E: ",
    "fatal",
    "FAILED",
    "cannot ",
    "can't ",
    "No such file",
    "not found",
    "undefined reference",
    "No rule to make",
    "denied",
    "Unable to",
];

#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    fn push(&mut self, line: &str) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_string());
    }

    fn says(&self, phrases: &[&str]) -> bool {
        self.lines.iter().any(|line| phrases.iter().any(|phrase| line.contains(phrase)))
    }

    /// At most three lines that say why: the first errors, or else the last words.
    fn meaningful(&self) -> Vec<String> {
        let trimmed = || self.lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let shorten = |line: &str| -> String { line.chars().take(200).collect() };
        // "make[1]: *** … Error 1" only says that something below failed.
        let telling: Vec<String> = trimmed()
            .filter(|line| TELLING.iter().any(|sign| line.contains(sign)) && !line.contains("] Error "))
            .take(3)
            .map(shorten)
            .collect();
        if !telling.is_empty() {
            return telling;
        }
        let all: Vec<&str> = trimmed().collect();
        all.iter().skip(all.len().saturating_sub(3)).map(|line| shorten(line)).collect()
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' {
                if !self.rest.is_empty() {
                    take(&String::from_utf8_lossy(&self.rest));
                    self.rest.clear();
                }
            } else if self.rest.len() < LINE_BYTES_MAX {
                self.rest.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn sh(script: &str) -> Command {
        Command::new("sh").arg("-c").arg(script)
    }

    fn alive(pid: i32) -> bool {
        // A zombie nobody reaps still answers kill(pid, 0); its state is Z.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    }

    fn gone_soon(pid: i32) -> bool {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !alive(pid)
        })
    }

    #[test]
    fn what_is_printed_is_what_runs() {
        for words in [
            vec!["a b", "it's", "$HOME", "", "plain", "back\\slash", "new\nline", "*", "a=b", "~", "#x"],
            vec!["'", "''", "\"", "`id`", ";", "&", "-n", "é"],
        ] {
            let command = Command::new("printf").arg("%s\\0").args(&words).env("X", "a 'b'").cwd("/");
            let direct = read(&command).expect("runs");
            let pasted = read(&sh(&command.to_shell())).expect("runs in a shell");
            assert_eq!(direct, pasted, "{}", command.to_shell());
            assert_eq!(direct, words.iter().map(|word| format!("{word}\0")).collect::<String>());
        }
    }

    #[test]
    fn a_failure_carries_the_programs_words_and_the_log() {
        let log = std::env::temp_dir().join(format!("ceasefire-exec-{}.log", std::process::id()));
        let script = "echo fine; echo 'x.c:1: error: no semicolon' >&2; echo 'make: *** [x] Error 1'; exit 3";
        let options = Options { log: Some(log.clone()), ..Options::default() };
        let error = run(&sh(script), options).expect_err("fails");
        assert_eq!(error.kind, Kind::Failed);
        assert_eq!(error.message, "sh failed (exit status 3): x.c:1: error: no semicolon");
        assert!(error.remedy.is_some_and(|remedy| remedy.contains("ceasefire-exec-")));
        let text = std::fs::read_to_string(&log).expect("log");
        assert!(text.starts_with("$ sh -c ") && text.contains("\nfine\n"), "{text}");
        std::fs::remove_file(log).expect("removed");
    }

    #[test]
    fn lines_reach_the_callback_in_order() {
        let mut seen = Vec::new();
        let on_line = Box::new(|line: &str| seen.push(line.to_string()));
        let options = Options { on_line: Some(on_line), ..Options::default() };
        run(&sh("printf 'a\\rb\\n\\n'; echo c >&2; printf d"), options).expect("runs");
        assert_eq!(seen, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_missing_program_is_a_skip_with_its_package() {
        let error = read(&Command::new("no-such-program-here")).expect_err("missing");
        assert_eq!(error.kind, Kind::Skip);
        let error = missing_program("ninja");
        assert!(error.remedy.is_some_and(|remedy| remedy.ends_with("apt-get install ninja-build")));
        let error = read(&Command::new("true").cwd("/no/such/dir")).expect_err("no directory");
        assert_eq!(error.message, "the directory /no/such/dir is not there");
    }

    #[test]
    fn a_full_disk_is_recognised() {
        let options = Options { disk: Some(("/tmp".into(), 2500)), ..Options::default() };
        let error = run(&sh("echo 'cc1: No space left on device' >&2; exit 1"), options).expect_err("fails");
        assert!(error.message.starts_with("disk full: "), "{error:?}");
        assert!(error.message.ends_with("the step needs about 2500 MiB"), "{error:?}");
    }

    #[test]
    fn time_limit_and_drop_kill_grandchildren_too() {
        let mut grandchild = 0;
        let on_line = Box::new(|line: &str| grandchild = line.parse().unwrap_or(0));
        let options = Options {
            on_line: Some(on_line),
            timeout: Some(Duration::from_millis(300)),
            stop: Stop { signal: libc::SIGTERM, grace: Duration::from_millis(50) },
            ..Options::default()
        };
        let error = run(&sh("trap '' TERM; sleep 600 & echo $!; wait"), options).expect_err("too long");
        assert!(error.message.contains("did not end within 0.3 s"), "{error:?}");
        assert!(grandchild > 1 && gone_soon(grandchild), "{grandchild} lives");

        let mut child =
            spawn(&sh("sleep 600 & echo $!; wait"), &Stream::Pipe, &Stream::Null).expect("starts");
        let mut out = child.take_stdout().expect("piped");
        let mut digits = [0u8; 16];
        let length = out.read(&mut digits).expect("a number");
        let pid: i32 = String::from_utf8_lossy(&digits[..length]).trim().parse().expect("a number");
        assert!(alive(pid));
        drop(child);
        assert!(gone_soon(pid), "{pid} lives");
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed_and_does_not_hold_us() {
        let begun = Instant::now();
        let output = run(&sh("sleep 600 & echo $!"), Options::default()).expect("runs");
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(gone_soon(output.tail[0].parse().expect("a number")));
    }

    /// Not a test of its own: the process that the next test kills.
    #[test]
    fn victim() {
        let Some(file) = std::env::var_os("CEASEFIRE_TEST_VICTIM") else { return };
        let script = "sleep 600 & echo $! > \"$0.new\"; mv \"$0.new\" \"$0\"; wait";
        let _ = run(&sh(script).arg(file), Options::default());
    }

    #[test]
    fn nothing_outlives_us_even_when_we_are_killed() {
        let file = std::env::temp_dir().join(format!("ceasefire-victim-{}", std::process::id()));
        let program = std::env::current_exe().expect("own path");
        let command = Command::new(program)
            .args(["--exact", "exec::tests::victim"])
            .env("CEASEFIRE_TEST_VICTIM", &file);
        let mut child = spawn(&command, &Stream::Null, &Stream::Null).expect("starts");
        let grandchild = (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok()
        });
        let grandchild = grandchild.expect("the victim started its child");
        assert!(alive(grandchild));
        child.kill().expect("killed");
        std::fs::remove_file(file).expect("removed");
        assert!(gone_soon(grandchild), "{grandchild} outlived its starter");
    }

    #[test]
    fn messages_call_commands_by_few_words() {
        let command = Command::new("sudo").args(["-n", "env", "A=b", "apt-get", "install", "-y", "x"]);
        assert_eq!(command.short(), "apt-get install x");
        assert_eq!(Command::new("/bin/make").args(["-C", "/t", "-j3", "bzImage"]).short(), "make bzImage");
    }

    #[test]
    fn dry_run_starts_nothing() {
        let options = Options { dry_run: true, ..Options::default() };
        run(&Command::new("no-such-program-here"), options).expect("only printed");
    }
}
