// SPDX-License-Identifier: GPL-2.0-only
//! Starts a program with settings. Whether they reached it: [`crate::proof`].

use crate::settings::{Own, Settings};
use ceasefire_base::{disk, Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Puts a filter on the calling process. Runs between fork and exec: it allocates nothing.
pub type Install = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// What answers calls where no setting exists.
pub trait Interception {
    /// A shared object that needs the C library alone.
    fn shared_object(&self) -> Result<&'static [u8]>;
    /// What tells the library its modes, as the value of a variable.
    fn setting(&self, modes: &BTreeSet<String>) -> Result<String>;
    /// Takes the library out of a program where memory runs short. The file is new, and stays as long as the program.
    fn guard(&self, file: &Path) -> Result<Box<dyn Guard>>;
    /// Answers these causes' calls with success.
    fn filter(&self, answer: &BTreeSet<String>) -> Result<Install>;
}

/// Of one program, from outside.
pub trait Guard: Send {
    /// Looks at the memory of a process's cgroup; true once the library answers nothing any more.
    fn look(&mut self, pid: u32) -> bool;
    /// All calls go to the kernel from now on, in what the program has left, too; the file is gone.
    fn end(&mut self);
}

/// For a build without them.
pub struct NoInterception;

impl Interception for NoInterception {
    fn shared_object(&self) -> Result<&'static [u8]> {
        Err(missing("preload library"))
    }

    fn setting(&self, _: &BTreeSet<String>) -> Result<String> {
        Err(missing("preload library"))
    }

    fn guard(&self, _: &Path) -> Result<Box<dyn Guard>> {
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
/// Of a program that runs: STOP_PREFIX and its process.
const STOP_PREFIX: &str = "stop-";

/// A command with all that was chosen, ready to be started.
pub struct Launch {
    words: Vec<OsString>,
    settings: Settings,
    own: Option<Own>,
    filter: Option<Install>,
    affinity: Option<libc::cpu_set_t>,
}

impl Launch {
    /// `directory`: where our preload library may be kept.
    pub fn new(
        words: &[String],
        settings: Settings,
        interception: &dyn Interception,
        directory: Option<&Path>,
    ) -> Result<Launch> {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        all.extend(settings.arguments.iter().map(OsString::from));
        let own = match settings.intercept.is_empty() {
            true => None,
            false => Some(Own {
                preload: keep(interception.shared_object()?, directory)?,
                modes: interception.setting(&settings.intercept)?,
                stop: None,
            }),
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
        let all = self.own.iter().map(|own| &own.preload).chain(&self.settings.preload);
        all.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect()
    }

    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Where our library is preloaded: what stops it. Named after this process, which starts one program at most.
    pub fn guard(&mut self, interception: &dyn Interception) -> Result<Option<Box<dyn Guard>>> {
        let Some(own) = &mut self.own else { return Ok(None) };
        let Some(directory) = own.preload.parent() else { return Ok(None) };
        tidy(directory);
        let file = directory.join(format!("{STOP_PREFIX}{}", std::process::id()));
        let guard = interception.guard(&file)?;
        own.stop = Some(file);
        Ok(Some(guard))
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
fn keep(library: &[u8], directory: Option<&Path>) -> Result<PathBuf> {
    let Some(directory) = directory else {
        return Err(Error::usage("there is no directory for the preload library")
            .remedy("set HOME or XDG_CACHE_HOME to one of your own"));
    };
    // A service's user may have a home that is not there.
    let error = |action: &str, path: &Path, error: &io::Error| {
        disk::error(action, path, error)
            .remedy("set XDG_CACHE_HOME to a directory that it may write to, on a disk with space")
    };
    let path = directory.join(LIBRARY_NAME);
    if fs::read(&path).is_ok_and(|old| old == library) {
        return Ok(path);
    }
    fs::create_dir_all(directory).map_err(|cause| error("create the directory", directory, &cause))?;
    // Renamed into place: a program that maps the old one keeps it.
    let part = directory.join(format!(".{LIBRARY_NAME}.{}", std::process::id()));
    fs::write(&part, library).map_err(|cause| error("write", &part, &cause))?;
    fs::rename(&part, &path).map_err(|cause| error("write", &path, &cause))?;
    Ok(path)
}

/// What programs have left whose guard was killed.
fn tidy(directory: &Path) {
    let own = std::process::id();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(STOP_PREFIX).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid == own || !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(words: &[&str], settings: Settings) -> Result<Launch> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Launch::new(&words, settings, &NoInterception, None)
    }

    fn output(words: &[&str], settings: Settings) -> String {
        let mut command = launch(words, settings).expect("ready").command().expect("a command");
        String::from_utf8(command.output().expect("runs").stdout).expect("text")
    }

    #[test]
    fn variables_and_arguments_reach_the_program() {
        let environment = [("GODEBUG".to_string(), "a=1".to_string())].into();
        let settings = Settings { environment, arguments: vec!["x".into()], ..Settings::default() };
        assert_eq!(output(&["sh", "-c", "echo $GODEBUG $0"], settings), "a=1 x\n");
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
        let first = keep(b"one", Some(scratch.path())).expect("kept");
        assert_eq!(keep(b"one", Some(scratch.path())).expect("kept"), first);
        assert_eq!(fs::read(keep(b"two", Some(scratch.path())).expect("kept")).expect("there"), b"two");
        assert_eq!(fs::read_dir(scratch.path()).expect("there").count(), 1);
        assert!(keep(b"one", None).expect_err("refused").remedy.is_some_and(|it| it.contains("HOME")));
        let no_home = keep(b"one", Some(Path::new("/proc/no-home/deter"))).expect_err("refused");
        assert!(no_home.remedy.is_some_and(|it| it.contains("XDG_CACHE_HOME")));
    }

    #[test]
    fn what_a_killed_guard_has_left_is_removed() {
        let scratch = tempfile::tempdir().expect("a directory");
        for name in ["stop-4194304", "stop-1", "stop-x", "other"] {
            fs::write(scratch.path().join(name), "").expect("written");
        }
        tidy(scratch.path());
        let mut left: Vec<_> =
            fs::read_dir(scratch.path()).expect("there").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", "stop-1", "stop-x"]);
    }
}
