// SPDX-License-Identifier: GPL-2.0-only
//! Starts a program with settings, and proves that they reached it: the loader skips a library that it cannot load with
//! one line on stderr, and static, Go and setuid programs ignore it silently.

use crate::program::mapped;
use crate::settings::Settings;
use ceasefire_base::{disk, Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Puts a filter on the calling process. Runs between fork and exec: it allocates nothing.
pub type Install = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// What answers calls where no setting exists.
pub trait Interception {
    /// A shared object that needs the C library alone.
    fn library(&self) -> Result<&'static [u8]>;
    /// Answers these causes' calls with success.
    fn filter(&self, answer: &BTreeSet<String>) -> Result<Install>;
}

/// For a build without them.
pub struct NoInterception;

impl Interception for NoInterception {
    fn library(&self) -> Result<&'static [u8]> {
        Err(missing("preload library"))
    }

    fn filter(&self, _: &BTreeSet<String>) -> Result<Install> {
        Err(missing("filter of system calls"))
    }
}

fn missing(what: &str) -> Error {
    Error::skip(format!("this ceasefire has no {what}"))
        .remedy("choose a remedy without: `ceasefire deter show` says what each sets")
}

const LIBRARY_NAME: &str = "libceasefire-deter.so";

/// A command with all that was chosen, ready to be started.
pub struct Launch {
    words: Vec<OsString>,
    settings: Settings,
    own: Option<PathBuf>,
    filter: Option<Install>,
    affinity: Option<libc::cpu_set_t>,
}

impl Launch {
    /// `directory`: where our preload library may be kept.
    pub fn new(
        words: &[String],
        settings: Settings,
        interception: &dyn Interception,
        directory: &Path,
    ) -> Result<Launch> {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        let at = all.len().min(1);
        all.splice(at..at, settings.arguments.iter().map(OsString::from));
        let own = match settings.intercept.is_empty() {
            true => None,
            false => Some(keep(interception.library()?, directory)?),
        };
        let filter = match settings.answer.is_empty() {
            true => None,
            false => Some(interception.filter(&settings.answer)?),
        };
        let affinity = settings.cpus.map(first_cpus).transpose()?;
        Ok(Launch { words: all, settings, own, filter, affinity })
    }

    /// Libraries that must be mapped once it runs.
    pub fn preloads(&self) -> Vec<PathBuf> {
        let all = self.own.iter().chain(&self.settings.preload);
        all.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect()
    }

    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// The command; what cannot be said in it happens between fork and exec.
    pub fn command(self) -> Result<Command> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Err(Error::usage("no command is given").remedy("put it after --"));
        };
        let before = std::env::var("LD_PRELOAD").ok();
        let mut command = Command::new(program);
        command.args(arguments).envs(self.settings.variables(before.as_deref(), self.own.as_ref()));
        let (filter, affinity) = (self.filter, self.affinity);
        // SAFETY: the closure runs between fork and exec: system calls alone, on data that was made before.
        unsafe {
            command.pre_exec(move || {
                if let Some(set) = &affinity {
                    if libc::sched_setaffinity(0, std::mem::size_of_val(set), set) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                filter.as_ref().map_or(Ok(()), |install| install())
            });
        }
        Ok(command)
    }

    /// Becomes the program: same process, terminal and exit code. Returns only if that fails.
    pub fn exec(self) -> Error {
        let name = self.words.first().cloned().unwrap_or_default();
        match self.command() {
            Ok(mut command) => {
                let error = command.exec();
                Error::usage(format!("cannot run {}: {}", name.to_string_lossy(), disk::reason(&error)))
                    .remedy("check the command after --")
            }
            Err(error) => error,
        }
    }
}

/// Our library as a file that the loader can map; written once.
fn keep(library: &[u8], directory: &Path) -> Result<PathBuf> {
    let path = directory.join(LIBRARY_NAME);
    if fs::read(&path).is_ok_and(|old| old == library) {
        return Ok(path);
    }
    fs::create_dir_all(directory).map_err(|error| disk::error("create the directory", directory, &error))?;
    // Renamed into place: a program that maps the old one keeps it.
    let part = directory.join(format!(".{LIBRARY_NAME}.{}", std::process::id()));
    fs::write(&part, library).map_err(|error| disk::error("write", &part, &error))?;
    fs::rename(&part, &path).map_err(|error| disk::error("write", &path, &error))?;
    Ok(path)
}

/// The first of those that we may use ourselves.
fn first_cpus(most: u32) -> Result<libc::cpu_set_t> {
    // SAFETY: both sets are plain data of their size.
    unsafe {
        let mut ours: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, std::mem::size_of_val(&ours), &mut ours) != 0 {
            let error = io::Error::last_os_error();
            return Err(Error::failed(format!(
                "cannot tell which CPUs may be used: {}",
                disk::reason(&error)
            )));
        }
        let mut few: libc::cpu_set_t = std::mem::zeroed();
        let all = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &ours));
        all.take(most as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut few));
        Ok(few)
    }
}

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

/// Starts a process that outlives our exec, looks at what we become, and tells it on stderr.
pub fn prove_after_exec(preloads: Vec<PathBuf>, has_filter: bool, is_quiet: bool, time: Duration) {
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
                    let proof = prove(pid, &preloads, has_filter, time);
                    let _ = tell(&proof, is_quiet);
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

    fn launch(words: &[&str], settings: Settings) -> Result<Launch> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Launch::new(&words, settings, &NoInterception, Path::new("/nonexistent"))
    }

    fn output(words: &[&str], settings: Settings) -> String {
        let mut command = launch(words, settings).expect("ready").command().expect("a command");
        String::from_utf8(command.output().expect("runs").stdout).expect("text")
    }

    #[test]
    fn variables_and_arguments_reach_the_program() {
        let environment = [("GODEBUG".to_string(), "a=1".to_string())].into();
        let settings = Settings {
            environment,
            arguments: vec!["-c".into(), "echo $GODEBUG $0".into()],
            ..Settings::default()
        };
        assert_eq!(output(&["sh", "x"], settings), "a=1 x\n");
    }

    #[test]
    fn one_cpu_is_one_cpu() {
        let settings = Settings { cpus: Some(1), ..Settings::default() };
        assert_eq!(output(&["nproc"], settings), "1\n");
    }

    #[test]
    fn what_is_not_built_in_is_refused() {
        let settings = Settings { answer: ["madvise-free".into()].into(), ..Settings::default() };
        assert!(launch(&["true"], settings).err().expect("refused").message.contains("no filter"));
        let settings = Settings { intercept: ["zero".into()].into(), ..Settings::default() };
        assert!(launch(&["true"], settings).err().expect("refused").message.contains("no preload library"));
    }

    #[test]
    fn the_library_is_kept_whole() {
        let scratch = tempfile::tempdir().expect("a directory");
        let first = keep(b"one", scratch.path()).expect("kept");
        assert_eq!(keep(b"one", scratch.path()).expect("kept"), first);
        assert_eq!(fs::read(keep(b"two", scratch.path()).expect("kept")).expect("there"), b"two");
        assert_eq!(fs::read_dir(scratch.path()).expect("there").count(), 1);
    }

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
