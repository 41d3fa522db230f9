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
/// Between two looks at its memory, and at that of its cgroup.
const SAMPLE: Duration = Duration::from_millis(10);
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

/// What it answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// As a shell would say it: 128 and the signal. The client's, where there is one.
    pub code: i32,
    /// The server's, where it ended before its client.
    pub server_code: Option<i32>,
    pub seconds: f64,
    pub faults: u64,
    /// Largest process; where it is less than this process had, the largest that was seen.
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
        None => wait(pid, None).map(|(status, usage)| (code(status), None, usage)),
        Some(client) => serve(pid, client),
    };
    let seconds = begun.elapsed().as_secs_f64();
    seen.is_over.store(true, Ordering::Relaxed);
    let _ = sampler.join();
    let (code, server_code, usage) = ended?;
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
    let rss = if most > own_kib { most } else { seen.most_kib.load(Ordering::Relaxed) };
    Ok(Report {
        code,
        server_code,
        seconds,
        faults: u64::try_from(usage.ru_minflt).unwrap_or(0) + u64::try_from(usage.ru_majflt).unwrap_or(0),
        rss_kib: (rss > 0).then_some(rss),
        absent,
        left,
    })
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
fn serve(server: u32, client: &str) -> Result<(i32, Option<i32>, libc::rusage)> {
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
            return Ok((code(client_status), Some(code(status)), usage));
        }
        if let Some((status, _)) = try_wait(client)? {
            end(server, libc::SIGTERM);
            let (_, usage) = wait(server, Some(STOP_MAX))?;
            return Ok((code(status), None, usage));
        }
        if cancel::requested() {
            end(client, libc::SIGKILL);
            wait(client, None)?;
            let (status, usage) = wait(server, None)?;
            return Ok((code(status), None, usage));
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
    fs::write(order_file, text).map_err(|error| disk::error("write", order_file, &error))?;
    let _ = fs::remove_file(&order.report);
    let command = Command::new("/proc/self/exe").args(["deter", "stage"]).arg(order_file);
    let mut child = spawn(&command, &Stream::File(stdout.into()), &Stream::File(stderr.into()))?;
    if child.wait(limit)?.is_none() {
        return Ok(None);
    }
    match fs::read_to_string(&order.report).ok().and_then(|text| serde_json::from_str(&text).ok()) {
        Some(report) => Ok(Some(report)),
        None => {
            let said = fs::read_to_string(stderr).unwrap_or_default();
            let said = said.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it ended early");
            Err(Error::failed(format!("a trial could not be run: {said}"))
                .remedy("run the command by itself first"))
        }
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

fn code(status: i32) -> i32 {
    match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => 128 + libc::WTERMSIG(status),
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
                seen.most_kib.fetch_max(high_water_kib(&pid.to_string()).unwrap_or(0), Ordering::Relaxed);
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
    fn a_status_is_what_a_shell_says() {
        assert_eq!(code(3 << 8), 3);
        assert_eq!(code(libc::SIGKILL), 137);
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
