// SPDX-License-Identifier: GPL-2.0-only
//! Whether settings reached a program, looked up in the process: the loader skips a library that it cannot load with one
//! line on stderr, and static, Go and setuid programs ignore it silently.

use crate::launch::Guard;
use crate::program::mapped;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at a program's memory.
const LOOK_MS: i32 = 1000;

/// What became of the settings, once the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// All there.
    Present,
    /// Not mapped, or no filter: no effect.
    Absent(String),
    /// It ended, or could not be looked at.
    Unknown(String),
}

/// Looks at a process until all is there, or for so long.
pub fn prove(pid: u32, preloads: &[PathBuf], has_filter: bool, time: Duration) -> Proof {
    let end = Instant::now() + time;
    let own = fs::read_link("/proc/self/exe").ok();
    loop {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let files = mapped(pid);
        let is_late = Instant::now() >= end;
        match (exe, files) {
            // Not exec'ed yet, or the prover's own program.
            (Some(exe), _) if Some(&exe) == own.as_ref() && !is_late => {}
            (Some(_), Ok(files)) if !files.is_empty() => {
                let lacks = |path: &&PathBuf| !files.iter().any(|file| Path::new(file) == path.as_path());
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                let filtered = !has_filter || status.lines().any(|line| line == "Seccomp:\t2");
                match preloads.iter().find(lacks) {
                    None if filtered => return Proof::Present,
                    None if is_late => return Proof::Absent("the filter is not there".into()),
                    Some(path) if is_late => {
                        return Proof::Absent(format!("{} is not mapped", path.display()));
                    }
                    _ => {}
                }
            }
            _ if is_gone(pid) => return Proof::Unknown("it ended before it could be looked at".into()),
            _ if is_late => return Proof::Unknown("it may not be looked at".into()),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().map_or(true, |rest| rest.is_empty() || rest.starts_with(['Z', 'X']))
}

/// Starts a process that outlives our exec: it looks at what we become, tells it on stderr, and stops our library once
/// memory runs short. It ends when the program does.
pub fn prove_after_exec(
    preloads: Vec<PathBuf>,
    has_filter: bool,
    guard: Option<Box<dyn Guard>>,
    is_quiet: bool,
    time: Duration,
) {
    if preloads.is_empty() && !has_filter {
        return;
    }
    let pid = std::process::id();
    // SAFETY: this process has one thread; the children end by _exit. The first one is reaped at once, so that the program
    // that we become has no child of which it does not know.
    unsafe {
        match libc::fork() {
            0 => {
                if libc::fork() == 0 {
                    step_aside(guard.is_some());
                    let _ = tell(&prove(pid, &preloads, has_filter, time), is_quiet);
                    if let Some(guard) = guard {
                        keep_watch(pid, guard);
                    }
                }
                libc::_exit(0);
            }
            child if child > 0 => {
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
            _ => {}
        }
    }
}

/// Whoever reads what the program prints waits for nobody else. A guard ends with the program, not before.
fn step_aside(is_guard: bool) {
    // SAFETY: system calls with integers, and a path that ends in NUL.
    unsafe {
        let null = libc::open(b"/dev/null\0".as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 0);
            libc::dup2(null, 1);
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            if is_guard {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

fn keep_watch(pid: u32, mut guard: Box<dyn Guard>) {
    // SAFETY: a system call with integers. The process is ours, until now, or was: then it is gone at once.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    let mut is_told = false;
    while !is_gone(pid) {
        if !is_told && guard.look(pid) {
            is_told = true;
            let _ = writeln!(
                io::stderr(),
                "ceasefire: memory runs short: from now on the kernel gets what the program gives back"
            );
        }
        // Without a pidfd (before Linux 5.3) it is only a pause.
        let mut wanted = libc::pollfd { fd: process, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which is ours.
        if unsafe { libc::poll(&mut wanted, 1, LOOK_MS) } > 0 {
            break;
        }
    }
    guard.end();
}

fn tell(proof: &Proof, is_quiet: bool) -> io::Result<()> {
    let mut stderr = io::stderr();
    match proof {
        Proof::Present if is_quiet => Ok(()),
        Proof::Present => writeln!(stderr, "ceasefire: the remedy is in place"),
        Proof::Absent(why) => writeln!(stderr, "ceasefire: the remedy has no effect: {why}"),
        Proof::Unknown(why) => {
            writeln!(stderr, "ceasefire: whether the remedy is in place is not known: {why}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn presence_is_proved_not_assumed() {
        let mut child = Command::new("sleep").arg("30").spawn().expect("sleep");
        let libraries: Vec<PathBuf> = loop {
            let files = mapped(child.id()).expect("ours");
            let found: Vec<PathBuf> =
                files.iter().filter(|f| f.contains("libc.so")).map(PathBuf::from).collect();
            if !found.is_empty() {
                break found;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(prove(child.id(), &libraries, false, Duration::ZERO), Proof::Present);
        let other = [PathBuf::from("/no/such.so")];
        let proof = prove(child.id(), &other, false, Duration::ZERO);
        assert_eq!(proof, Proof::Absent("/no/such.so is not mapped".into()));
        assert!(matches!(prove(child.id(), &[], true, Duration::ZERO), Proof::Absent(_)));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(matches!(prove(child.id(), &other, false, Duration::ZERO), Proof::Unknown(_)));
    }
}
