// SPDX-License-Identifier: GPL-2.0-only
//! One trial. A process of its own starts the command, so that it inherits what the command leaves behind, ends that, and
//! tells the command's memory from its own: `ru_maxrss` begins with what the parent had.

use crate::launch::{prove, Interception, Launch, Proof};
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
/// Between two looks at its memory.
const SAMPLE: Duration = Duration::from_millis(10);
/// What the command has left when it is asked to stop.
const GRACE: Duration = Duration::from_millis(500);
const PROOF_MAX: Duration = Duration::from_secs(1);

/// What the stage is told, as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub command: Vec<String>,
    pub settings: Settings,
    /// A directory of cgroup v2.
    pub cgroup: Option<PathBuf>,
    /// Where our preload library may be kept.
    pub cache: PathBuf,
    pub report: PathBuf,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// As a shell would say it: 128 and the signal.
    pub code: i32,
    pub seconds: f64,
    pub faults: u64,
    /// Largest process; where it is less than this process had, the largest that was seen.
    pub rss_kib: Option<u64>,
    /// Why a preload or filter is not there.
    pub absent: Option<String>,
    /// Processes that it left running, ended since.
    pub left: u32,
}

/// In the stage's own process.
pub fn perform(order: &Order, interception: &dyn Interception) -> Result<Report> {
    cancel::install()?;
    // SAFETY: plain system call; orphans of the command become ours.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let launch = Launch::new(&order.command, order.settings.clone(), interception, &order.cache)?;
    let (preloads, has_filter) = (launch.preloads(), launch.has_filter());
    let mut command = launch.command()?;
    if let Some(cgroup) = &order.cgroup {
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
    }
    let own_kib = high_water_kib("self").unwrap_or(0);
    let begun = Instant::now();
    let child = command.spawn().map_err(|error| {
        let name = order.command.first().map(String::as_str).unwrap_or_default();
        Error::usage(format!("cannot run {name}: {}", disk::reason(&error)))
            .remedy("check the command after --")
    })?;
    let pid = child.id();
    let seen_kib = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let sampler = sample(pid, Arc::clone(&seen_kib), Arc::clone(&is_over));
    let needs_proof = !preloads.is_empty() || has_filter;
    let prover =
        needs_proof.then(|| std::thread::spawn(move || prove(pid, &preloads, has_filter, PROOF_MAX)));
    let (status, usage) = wait(pid)?;
    let seconds = begun.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    let _ = sampler.join();
    let absent = prover.and_then(|prover| prover.join().ok()).and_then(|proof| match proof {
        Proof::Absent(why) => Some(why),
        Proof::Present | Proof::Unknown(_) => None,
    });
    let left = end_orphans();
    cancel::check()?;
    let most = u64::try_from(usage.ru_maxrss).unwrap_or(0);
    let rss = if most > own_kib { most } else { seen_kib.load(Ordering::Relaxed) };
    Ok(Report {
        code: code(status),
        seconds,
        faults: u64::try_from(usage.ru_minflt).unwrap_or(0) + u64::try_from(usage.ru_majflt).unwrap_or(0),
        rss_kib: (rss > 0).then_some(rss),
        absent,
        left,
    })
}

/// From outside: runs the stage, which is this very program, and reads what it says.
pub fn run(
    order: &Order,
    order_file: &Path,
    stdout: &Path,
    stderr: &Path,
    limit: Option<Duration>,
) -> Result<Report> {
    let text = serde_json::to_string(order)
        .map_err(|error| Error::failed(format!("the trial cannot be written down: {error}")))?;
    fs::write(order_file, text).map_err(|error| disk::error("write", order_file, &error))?;
    let _ = fs::remove_file(&order.report);
    let command = Command::new("/proc/self/exe").args(["deter", "stage"]).arg(order_file);
    let mut child = spawn(&command, &Stream::File(stdout.into()), &Stream::File(stderr.into()))?;
    if child.wait(limit)?.is_none() {
        let seconds = limit.unwrap_or_default().as_secs();
        return Err(Error::failed(format!("the command has not ended after {seconds} s")).remedy(
            "try a command that ends, such as a script that starts a server and its client; or --limit",
        ));
    }
    match fs::read_to_string(&order.report).ok().and_then(|text| serde_json::from_str(&text).ok()) {
        Some(report) => Ok(report),
        None => {
            let said = fs::read_to_string(stderr).unwrap_or_default();
            let said = said.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it ended early");
            Err(Error::failed(format!("a trial could not be run: {said}"))
                .remedy("run the command by itself first"))
        }
    }
}

fn wait(pid: u32) -> Result<(i32, libc::rusage)> {
    let mut asked: Option<Instant> = None;
    loop {
        let mut status = 0;
        // SAFETY: both are plain data that wait4() fills; the child is ours and not reaped yet.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid as i32, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if got == pid as i32 {
            return Ok((status, usage));
        }
        if got < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(Error::failed(format!("cannot wait for the command: {}", disk::reason(&error))));
            }
        }
        if cancel::requested() {
            // The first time politely; the terminal, or whoever stops us, has told the group already.
            let is_late = asked.is_some_and(|at| at.elapsed() >= GRACE);
            if asked.is_none() || is_late {
                let signal = if is_late { libc::SIGKILL } else { libc::SIGTERM };
                // SAFETY: plain system call; the child is not reaped, so the number is its own.
                unsafe { libc::kill(pid as i32, signal) };
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

fn sample(pid: u32, most: Arc<AtomicU64>, is_over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let own = fs::read_link("/proc/self/exe").ok();
        while !is_over.load(Ordering::Relaxed) {
            // Before exec it is still us.
            if fs::read_link(format!("/proc/{pid}/exe")).ok() != own {
                most.fetch_max(high_water_kib(&pid.to_string()).unwrap_or(0), Ordering::Relaxed);
            }
            std::thread::sleep(SAMPLE);
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
            cache: "/c".into(),
            report: "/r".into(),
        };
        let text = serde_json::to_string(&order).expect("JSON");
        assert_eq!(serde_json::from_str::<Order>(&text).expect("the same"), order);
    }
}
