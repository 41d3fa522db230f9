// SPDX-License-Identifier: GPL-2.0-only
//! One trial. A process of its own starts the command, so that it inherits what the command leaves behind, ends that, and
//! tells the command's memory from its own: `ru_maxrss` begins with what the parent had.
//!
//! With a client the command is a server: it is stopped when the client has ended, and the output is the client's.

use crate::launch::{Guard, Interception, Launch};
use crate::proof::{prove, Proof};
use crate::settings::Settings;
use ceasefire_base::exec::{spawn, Command, Stream};
use ceasefire_base::{cancel, disk, Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks whether it has ended.
const STEP: Duration = Duration::from_millis(2);
/// More than what is left of a disk that took no report.
const PROBE: usize = 64 << 10;
/// Between two looks at its memory, and at that of its cgroup.
const SAMPLE: Duration = Duration::from_millis(10);
/// Fewer have seen the loader, and not the program.
const SAMPLES_MIN: u64 = 5;
/// What the command has left when it is asked to stop.
const GRACE: Duration = Duration::from_millis(500);
const GUARD: Duration = Duration::from_millis(500);
/// What a server has, to stop by itself once its client has ended.
const STOP_MAX: Duration = Duration::from_secs(20);
const PROOF_MAX: Duration = Duration::from_secs(1);

/// What the stage is told, as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub command: Vec<String>,
    pub settings: Settings,
    /// A directory of cgroup v2.
    pub cgroup: Option<PathBuf>,
    /// A shell command that has a server do its work.
    pub client: Option<String>,
    /// What a program can notice was asked for.
    pub is_loose: bool,
    /// Where our preload library may be kept.
    pub cache: Option<PathBuf>,
    pub report: PathBuf,
}

/// How a process ended: 255 is an exit code, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Code(i32),
    Signal(i32),
}

impl End {
    fn of(status: i32) -> End {
        match libc::WIFEXITED(status) {
            true => End::Code(libc::WEXITSTATUS(status)),
            false => End::Signal(libc::WTERMSIG(status)),
        }
    }
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The client's, where there is one.
    pub end: End,
    /// The server's, where it ended before its client.
    pub server_end: Option<End>,
    pub seconds: f64,
    pub faults: u64,
    /// Largest process; where it is less than this process had, the largest that was seen. None where it was not there for
    /// long enough to be seen.
    pub rss_kib: Option<u64>,
    /// Why a preload or filter is not there, or has done nothing from some moment on.
    pub absent: Option<String>,
    /// Processes that it left running, ended since.
    pub left: u32,
}

/// In the stage's own process.
pub fn perform(order: &Order, interception: &dyn Interception) -> Result<Report> {
    cancel::install()?;
    // SAFETY: plain system call; orphans of the command become ours.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    leave_terminal();
    let mut launch =
        Launch::new(&order.command, order.settings.clone(), interception, order.cache.as_deref())?;
    let (preloads, has_filter) = (launch.preloads(), launch.has_filter());
    let mut guard = launch.guard(interception)?;
    let mut command = launch.command()?;
    if let Some(cgroup) = &order.cgroup {
        enter(&mut command, cgroup)?;
    }
    if order.client.is_some() {
        // What a server says is no output of the work.
        command.stdout(std::io::stderr());
    }
    let own_kib = high_water_kib("self").unwrap_or(0);
    let begun = Instant::now();
    let child = command.spawn().map_err(|error| {
        if let Some(guard) = &mut guard {
            guard.end();
        }
        let name = order.command.first().map(String::as_str).unwrap_or_default();
        Error::usage(format!("cannot run {name}: {}", disk::reason(&error)))
            .remedy("check the command after --")
    })?;
    let pid = child.id();
    let seen = Arc::new(Seen::default());
    let sampler = sample(pid, Arc::clone(&seen), guard);
    let needs_proof = !preloads.is_empty() || has_filter;
    let prover =
        needs_proof.then(|| std::thread::spawn(move || prove(pid, &preloads, has_filter, PROOF_MAX)));
    let ended = match &order.client {
        None => wait(pid, None).map(|(status, usage)| (End::of(status), None, usage)),
        Some(client) => serve(pid, client),
    };
    let seconds = begun.elapsed().as_secs_f64();
    seen.is_over.store(true, Ordering::Relaxed);
    let _ = sampler.join();
    let (end, server_end, usage) = ended?;
    let mut absent = prover.and_then(|prover| prover.join().ok()).and_then(|proof| match proof {
        Proof::Absent(why) => Some(why),
        Proof::Present | Proof::Unknown(_) => None,
    });
    if seen.is_stopped.load(Ordering::Relaxed) {
        absent.get_or_insert_with(|| "memory ran short, and the preload library was stopped".into());
    }
    let left = end_orphans();
    cancel::check()?;
    let most = u64::try_from(usage.ru_maxrss).unwrap_or(0);
    let samples = seen.samples.load(Ordering::Relaxed);
    let rss_kib = largest(most, own_kib, seen.most_kib.load(Ordering::Relaxed), samples);
    Ok(Report {
        end,
        server_end,
        seconds,
        faults: u64::try_from(usage.ru_minflt).unwrap_or(0) + u64::try_from(usage.ru_majflt).unwrap_or(0),
        rss_kib,
        absent,
        left,
    })
}

/// `most` is true where it is more than we had ourselves; else there is what was seen, where that was often enough.
fn largest(most: u64, own: u64, seen: u64, samples: u64) -> Option<u64> {
    match most > own {
        true => Some(most),
        false => (samples >= SAMPLES_MIN).then_some(seen),
    }
}

/// In the background, whoever reads from the terminal would be stopped for good: it finds none instead.
fn leave_terminal() {
    // SAFETY: system calls with integers, and a path that ends in NUL.
    unsafe {
        let terminal =
            libc::open(b"/dev/tty\0".as_ptr().cast(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        if terminal >= 0 {
            libc::ioctl(terminal, libc::TIOCNOTTY);
            libc::close(terminal);
        }
    }
}

/// The command moves itself there before it becomes the program.
fn enter(command: &mut std::process::Command, cgroup: &Path) -> Result<()> {
    let path = cgroup.join("cgroup.procs");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .map_err(|error| disk::error("write", &path, &error))?;
    // SAFETY: between fork and exec: one system call, on a descriptor that the closure owns.
    unsafe {
        command.pre_exec(move || match libc::write(file.as_raw_fd(), b"0".as_ptr().cast(), 1) {
            1 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    Ok(())
}

/// Runs the client, then stops the server: the client's code, the server's if it was first, and what the server used.
fn serve(server: u32, client: &str) -> Result<(End, Option<End>, libc::rusage)> {
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", client]).stdin(std::process::Stdio::null());
    let client = match shell.spawn() {
        Ok(client) => client.id(),
        Err(error) => {
            end(server, libc::SIGKILL);
            wait(server, None)?;
            return Err(Error::failed(format!("cannot run the client: {}", disk::reason(&error))));
        }
    };
    loop {
        if let Some((status, usage)) = try_wait(server)? {
            // What it asks will not be answered any more. What it has started is ended with all the rest.
            end(client, libc::SIGKILL);
            let (client_status, _) = wait(client, None)?;
            return Ok((End::of(client_status), Some(End::of(status)), usage));
        }
        if let Some((status, _)) = try_wait(client)? {
            end(server, libc::SIGTERM);
            let (_, usage) = wait(server, Some(STOP_MAX))?;
            return Ok((End::of(status), None, usage));
        }
        if cancel::requested() {
            end(client, libc::SIGKILL);
            wait(client, None)?;
            let (status, usage) = wait(server, None)?;
            return Ok((End::of(status), None, usage));
        }
        std::thread::sleep(STEP);
    }
}

fn end(pid: u32, signal: i32) {
    // SAFETY: plain system call; the child is not reaped, so the number is its own.
    unsafe { libc::kill(pid as i32, signal) };
}

/// From outside: runs the stage, which is this very program, and reads what it says. None where it took longer than
/// `limit`, and was ended.
pub fn run(
    order: &Order,
    order_file: &Path,
    stdout: &Path,
    stderr: &Path,
    limit: Option<Duration>,
) -> Result<Option<Report>> {
    let text = serde_json::to_string(order)
        .map_err(|error| Error::failed(format!("the trial cannot be written down: {error}")))?;
    fs::write(order_file, text).map_err(|error| scratch_error("write", order_file, &error))?;
    let _ = fs::remove_file(&order.report);
    let command = Command::new("/proc/self/exe").args(["deter", "stage"]).arg(order_file);
    let mut child = spawn(&command, &Stream::File(stdout.into()), &Stream::File(stderr.into()))?;
    if child.wait(limit)?.is_none() {
        return Ok(None);
    }
    match fs::read_to_string(&order.report).ok().and_then(|text| serde_json::from_str(&text).ok()) {
        Some(report) => Ok(Some(report)),
        None => Err(not_reported(&order.report, stderr)),
    }
}

/// Why there is no report: the disk is asked, too, since what is full takes no sentence either.
fn not_reported(report: &Path, stderr: &Path) -> Error {
    if let Err(error) = fs::write(report, [b' '; PROBE]) {
        return scratch_error("write", report, &error);
    }
    let said = fs::read_to_string(stderr).unwrap_or_default();
    let said = said.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it ended early");
    Error::failed(format!("a trial could not be run: {said}")).remedy("run the command by itself first")
}

/// About our own files, among them what the command prints.
pub fn scratch_error(action: &str, path: &Path, cause: &std::io::Error) -> Error {
    let error = disk::error(action, path, cause);
    match disk::is_full(cause) {
        true => error.remedy("free space there, or set TMPDIR to a directory on a larger file system"),
        false => error,
    }
}

/// Puts what follows into a process and a session of its own, of which this one only hands on the end: when we are killed,
/// our group is, too, and what is not in it still gets to end what the command has left. None in that process; the exit
/// code in this one.
pub fn apart() -> Result<Option<u8>> {
    cancel::install()?;
    let own = std::process::id();
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::failed(format!("cannot start a process: {}", disk::reason(&error))));
    }
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe {
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            // Who is gone already sends nothing.
            if libc::getppid() as u32 != own {
                libc::raise(libc::SIGTERM);
            }
        }
        return Ok(None);
    }
    let mut is_told = false;
    loop {
        if let Some((status, _)) = try_wait(child as u32)? {
            return Ok(Some(match End::of(status) {
                End::Code(code) => u8::try_from(code).unwrap_or(1),
                End::Signal(_) => 1,
            }));
        }
        if cancel::requested() && !is_told {
            is_told = true;
            end(child as u32, libc::SIGTERM);
        }
        std::thread::sleep(STEP);
    }
}

/// How a child has ended and what it used; None while it runs.
fn try_wait(pid: u32) -> Result<Option<(i32, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: both are plain data that wait4() fills; the child is ours and not reaped yet.
    let (got, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid as i32, &mut status, libc::WNOHANG, &mut usage), usage)
    };
    if got < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::failed(format!("cannot wait for the command: {}", disk::reason(&error))));
        }
    }
    Ok((got == pid as i32).then_some((status, usage)))
}

/// Until it has ended. When we are interrupted, or after `most`, it is asked to end, and then made to.
fn wait(pid: u32, most: Option<Duration>) -> Result<(i32, libc::rusage)> {
    let begun = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(ended) = try_wait(pid)? {
            return Ok(ended);
        }
        if cancel::requested() || most.is_some_and(|most| begun.elapsed() >= most) {
            // The first time politely; the terminal, or whoever stops us, has told the group already.
            let is_late = asked.is_some_and(|at| at.elapsed() >= GRACE);
            if asked.is_none() || is_late {
                end(pid, if is_late { libc::SIGKILL } else { libc::SIGTERM });
                asked = Some(Instant::now());
            }
        }
        std::thread::sleep(STEP);
    }
}

/// Kills what the command has left, and what that has left; how many there were.
fn end_orphans() -> u32 {
    let mut ended = 0;
    for _ in 0..1000 {
        // SAFETY: no status is asked for; children of ours alone are reaped.
        let got = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        if got < 0 {
            return ended;
        }
        if got == 0 {
            for pid in children() {
                // SAFETY: plain system call; the process is a child of ours that is not reaped.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            std::thread::sleep(STEP);
        } else {
            ended += 1;
        }
    }
    ended
}

fn children() -> Vec<i32> {
    let own = std::process::id();
    let is_ours = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
        parent == Some(own)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

/// Highest memory of its present program.
fn high_water_kib(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().split(' ').next()?.parse().ok()
}

/// What was seen of the program while it ran.
#[derive(Default)]
struct Seen {
    most_kib: AtomicU64,
    samples: AtomicU64,
    is_stopped: AtomicBool,
    is_over: AtomicBool,
}

fn sample(pid: u32, seen: Arc<Seen>, mut guard: Option<Box<dyn Guard>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let own = fs::read_link("/proc/self/exe").ok();
        let mut looked = Instant::now();
        while !seen.is_over.load(Ordering::Relaxed) {
            // Before exec it is still us.
            if fs::read_link(format!("/proc/{pid}/exe")).ok() != own {
                if let Some(kib) = high_water_kib(&pid.to_string()) {
                    seen.most_kib.fetch_max(kib, Ordering::Relaxed);
                    seen.samples.fetch_add(1, Ordering::Relaxed);
                }
            }
            if let Some(guard) = guard.as_mut().filter(|_| looked.elapsed() >= GUARD) {
                looked = Instant::now();
                seen.is_stopped.fetch_or(guard.look(pid), Ordering::Relaxed);
            }
            std::thread::sleep(SAMPLE);
        }
        if let Some(mut guard) = guard {
            guard.end();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_no_signal() {
        assert_eq!(End::of(255 << 8), End::Code(255));
        assert_eq!(End::of(libc::SIGKILL), End::Signal(9));
    }

    #[test]
    fn memory_that_nobody_saw_is_not_made_up() {
        assert_eq!(largest(9000, 8000, 1, 0), Some(9000));
        assert_eq!(largest(8000, 8000, 900, 1), None, "one look may have been at the loader");
        assert_eq!(largest(8000, 8000, 1500, SAMPLES_MIN), Some(1500));
    }

    #[test]
    fn a_disk_without_room_is_named() {
        let scratch = tempfile::tempdir().expect("a directory");
        let full = scratch.path().join("report");
        std::os::unix::fs::symlink("/dev/full", &full).expect("linked");
        let error = not_reported(&full, Path::new("/no/such"));
        assert!(error.message.starts_with("disk full"), "{error:?}");
        assert!(error.remedy.is_some_and(|it| it.contains("TMPDIR")));
        let said = scratch.path().join("stderr");
        fs::write(&said, "x\nerror: no luck\n").expect("written");
        assert!(not_reported(&scratch.path().join("other"), &said).message.ends_with(": no luck"));
    }

    #[test]
    fn memory_is_read() {
        assert!(high_water_kib("self").is_some_and(|kib| kib > 100));
        assert_eq!(high_water_kib("4194304"), None);
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = Order {
            command: vec!["a".into(), "ü \n".into()],
            settings: Settings { cpus: Some(1), ..Settings::default() },
            cgroup: None,
            client: Some("curl x".into()),
            is_loose: true,
            cache: Some("/c".into()),
            report: "/r".into(),
        };
        let text = serde_json::to_string(&order).expect("JSON");
        assert_eq!(serde_json::from_str::<Order>(&text).expect("the same"), order);
    }
}
