// SPDX-License-Identifier: GPL-2.0-only
//! apt with private state in the cache: reads the package lists and fetches packages without root, source
//! packages included, and leaves the machine's own apt state alone. Ours, since bindings of libapt-pkg need a C++
//! compiler and its headers.

use super::{sources, version};
use crate::lock::Lock;
use crate::Context;
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Progress, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Package lists younger than this are not fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// Lists of Debian's main, binary and source, with apt's own caches.
const LISTS_MIB: u64 = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageKind {
    Binary,
    Source,
}

/// Holds the lock on the private state while it lives.
pub struct Apt {
    dir: PathBuf,
    progress: Progress,
    offline: bool,
    log: PathBuf,
    _lock: Lock,
}

impl Apt {
    /// With the package lists of this machine's release, or of another suite of Debian, which have a place of their own:
    /// so that a package of another release is never taken where nobody asked for it.
    pub fn open(context: &Context, suite: Option<&str>) -> Result<Apt> {
        if exec::find_program("apt-get").is_none() {
            return Err(super::not_debian("fetch Debian packages"));
        }
        let lock = context.cache.lock_part(&context.progress, "apt")?;
        let dir = context.cache.dir().join("apt").join(suite.unwrap_or_default());
        for below in ["lists/partial", "cache/archives/partial"] {
            let path = dir.join(below);
            fs::create_dir_all(&path).map_err(|error| disk::error("create the directory", &path, &error))?;
        }
        let own = machine_sources()?;
        let list =
            sources::render(&suite.map_or_else(|| own.clone(), |suite| sources::of_suite(&own, suite)));
        if list.is_empty() {
            return Err(Error::skip(
                "apt has no line for Debian's own packages (suite of this release, component main)",
            )
            .remedy("add one to /etc/apt/sources.list: deb <mirror>/debian <release> main"));
        }
        let apt = Apt {
            progress: context.progress.clone(),
            offline: context.offline,
            log: context.cache.dir().join("logs/apt.log"),
            dir,
            _lock: lock,
        };
        apt.write_if_other("private.sources", &list)?;
        apt.write_if_other("apt.conf", &apt.configuration())?;
        Ok(apt)
    }

    /// apt-get or apt-cache on the private state.
    pub fn command(&self, program: &str) -> Command {
        Command::new(program).arg("-c").arg(self.dir.join("apt.conf")).env("LC_ALL", "C.UTF-8")
    }

    /// Fetches the package lists unless they are fresh.
    pub fn refresh(&self) -> Result<()> {
        let time_of = |path: PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let Some(fetched) = time_of(self.stamp()) else { return self.refresh_now() };
        let is_older_than_list = time_of(self.dir.join("private.sources")).is_some_and(|list| fetched < list);
        match SystemTime::now().duration_since(fetched) {
            Ok(age) if age < FRESH && !is_older_than_list => Ok(()),
            _ => self.refresh_now(),
        }
    }

    pub fn refresh_now(&self) -> Result<()> {
        if self.offline {
            return Err(super::offline("the package lists cannot be fetched"));
        }
        // apt may wait for ever on a disk that fills under it.
        disk::require(&self.dir, LISTS_MIB)?;
        let step = self.progress.step("Debian: fetch the package lists");
        // Without this apt calls a failed update a success.
        let command = self.command("apt-get").args(["update", "-o", "APT::Update::Error-Mode=any"]);
        let options =
            Options { on_line: Some(Box::new(|line| step.waiting(line))), ..self.options(LISTS_MIB) };
        match exec::run(&command, options) {
            Ok(_) => step.done(""),
            // One source that does not answer is no reason to give up what the others have.
            Err(error) if error.kind == ceasefire_base::Kind::Failed && self.has_lists() => {
                step.done("some sources did not answer");
            }
            Err(error) => return Err(super::explain(error)),
        }
        fs::write(self.stamp(), "").map_err(|error| disk::error("write", &self.stamp(), &error))
    }

    /// What is offered, newest first.
    pub fn versions(&self, package: &str, kind: PackageKind) -> Result<Vec<String>> {
        let text = exec::read(&self.command("apt-cache").args(["madison", package]))?;
        Ok(parse_madison(&text, package, kind))
    }

    /// Fetches a binary package into a directory.
    pub fn download(&self, package: &str, version: &str, into: &Path) -> Result<PathBuf> {
        let what = format!("{package}={version}");
        let size = self.size_mib(&what);
        self.fetch(&["download", &what], &what, size, into, ".deb")
    }

    /// Fetches a source package (its .dsc is returned) into a directory.
    pub fn download_source(&self, package: &str, version: &str, into: &Path) -> Result<PathBuf> {
        let what = format!("{package}={version}");
        let args = ["source", "--download-only", "--only-source", &what];
        self.fetch(&args, &what, None, into, ".dsc")
    }

    fn fetch(
        &self,
        args: &[&str],
        what: &str,
        size_mib: Option<u64>,
        into: &Path,
        suffix: &str,
    ) -> Result<PathBuf> {
        if self.offline {
            return Err(super::offline(&format!("{what} cannot be fetched")));
        }
        let command = self.command("apt-get").args(["-q"]).args(args).cwd(into);
        for attempt in 0..2 {
            let step = self.progress.step(format!("Debian: fetch {what}"));
            let on_tick = || {
                let have = directory_mib(into) + directory_mib(&self.dir.join("cache/archives/partial"));
                match size_mib {
                    Some(size) => step.waiting(format!("{have}/{size} MiB")),
                    None => step.waiting(format!("{have} MiB")),
                }
            };
            let options =
                Options { on_tick: Some(Box::new(on_tick)), ..self.options(size_mib.unwrap_or(100)) };
            match exec::run(&command, options) {
                Ok(_) => {
                    step.done(format!("{} MiB", directory_mib(into)));
                    return find_suffix(into, suffix);
                }
                // A list that is hours old may name a file that was replaced since.
                Err(error) if attempt == 0 && error.message.contains("404") => {
                    drop(step);
                    self.refresh_now()?;
                }
                Err(error) => return Err(super::explain(error)),
            }
        }
        Err(Error::failed(format!("the mirror lists {what} but does not have it"))
            .remedy("try again later, or choose another mirror in /etc/apt"))
    }

    fn options(&self, mib: u64) -> Options<'static> {
        Options { log: Some(self.log.clone()), disk: Some((self.dir.clone(), mib)), ..Options::default() }
    }

    fn size_mib(&self, what: &str) -> Option<u64> {
        let text = exec::read(&self.command("apt-cache").args(["show", "--no-all-versions", what])).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Size: "))?;
        Some(line.trim().parse::<u64>().ok()? >> 20)
    }

    fn stamp(&self) -> PathBuf {
        self.dir.join("fetched")
    }

    fn has_lists(&self) -> bool {
        let is_list = |name: &str| name.contains("_Packages") || name.contains("_Sources");
        fs::read_dir(self.dir.join("lists"))
            .map(|entries| entries.flatten().any(|entry| is_list(&entry.file_name().to_string_lossy())))
            .unwrap_or(false)
    }

    fn configuration(&self) -> String {
        let dir = self.dir.display();
        format!(
            "// Written by ceasefire: package lists and downloads of its own, no root.\n\
             Dir::Etc::sourcelist \"{dir}/private.sources\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\n\
             Dir::State::lists \"{dir}/lists/\";\n\
             Dir::Cache \"{dir}/cache/\";\n\
             Dir::Cache::archives \"archives/\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\n\
             Dir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::Retries \"2\";\n\
             Acquire::http::Timeout \"30\";\n\
             Acquire::https::Timeout \"30\";\n\
             Acquire::GzipIndexes \"true\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n\
             #clear APT::Update::Pre-Invoke;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n"
        )
    }

    fn write_if_other(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(|error| disk::error("write", &path, &error))
    }
}

/// Debian's entries in the machine's own lists.
fn machine_sources() -> Result<Vec<sources::Source>> {
    let config = exec::read(&Command::new("apt-config").args([
        "shell",
        "LIST",
        "Dir::Etc::sourcelist/f",
        "PARTS",
        "Dir::Etc::sourceparts/d",
    ]))
    .unwrap_or_default();
    let place = |name: &str, default: &str| -> PathBuf {
        let value = config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        PathBuf::from(value.map_or(default, |value| value.trim_matches('\'')))
    };
    let mut files = vec![place("LIST", "/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir(place("PARTS", "/etc/apt/sources.list.d")) {
        let mut parts: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        parts.sort();
        files.extend(parts);
    }
    let mut all = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => all.extend(sources::parse_list(&text)),
            Some("sources") => all.extend(sources::parse_deb822(&text)),
            _ => {}
        }
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename =
        release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or_default();
    Ok(sources::debians_own(&all, codename.trim_matches('"')))
}

/// "qemu | 1:7.2+dfsg-7 | http://… bookworm/main Sources"
fn parse_madison(text: &str, package: &str, kind: PackageKind) -> Vec<String> {
    let sign = match kind {
        PackageKind::Binary => "Packages",
        PackageKind::Source => "Sources",
    };
    let mut versions: Vec<String> = Vec::new();
    for line in text.lines() {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, version, place] = columns[..] else { continue };
        if name == package && place.ends_with(sign) && !versions.iter().any(|known| known == version) {
            versions.push(version.to_string());
        }
    }
    versions.sort_by(|a, b| version::compare(b, a));
    versions
}

fn find_suffix(dir: &Path, suffix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).map_err(|error| disk::error("list", dir, &error))?;
    let found =
        entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(suffix));
    found.ok_or_else(|| {
        Error::failed(format!("apt-get reported success, but there is no {suffix} file in {}", dir.display()))
    })
}

fn directory_mib(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|meta| meta.is_file())
        .map(|meta| meta.len())
        .sum::<u64>()
        >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn madison_is_read_newest_first() {
        let text = "\
  qemu | 1:7.2+dfsg-7+deb12u9 | http://m.example/debian bookworm/main Sources
  qemu | 1:7.2+dfsg-7+deb12u18 | http://m.example/debian bookworm/main Sources
  qemu | 1:7.2+dfsg-7+deb12u18 | http://m.example/debian bookworm-updates/main Sources
  qemu | 1:9.0-1 | http://m.example/debian bookworm/main amd64 Packages
  qemu-utils | 1:8.0-1 | http://m.example/debian bookworm/main Sources
garbage | x
N: Unable to locate package y
";
        assert_eq!(
            parse_madison(text, "qemu", PackageKind::Source),
            ["1:7.2+dfsg-7+deb12u18", "1:7.2+dfsg-7+deb12u9"]
        );
        assert_eq!(parse_madison(text, "qemu", PackageKind::Binary), ["1:9.0-1"]);
        assert!(parse_madison("", "qemu", PackageKind::Binary).is_empty());
    }
}
