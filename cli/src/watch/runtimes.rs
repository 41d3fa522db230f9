// SPDX-License-Identifier: GPL-2.0-only
//! Which runtime and C library a process has, which version, and how it is set up: from its files' names and from what
//! its start told it.

use ceasefire_deter::program::{glibc_version, jdk_version, python_version};
use ceasefire_watch_model::java;
use ceasefire_watch_record::{Built, Runtime};
use std::path::{Path, PathBuf};

/// What is known of a process already.
pub struct Seen<'a> {
    /// Paths that it maps.
    pub files: &'a [&'a str],
    /// Without the program's name.
    pub arguments: &'a [String],
    /// NAME=value
    pub variables: &'a [String],
    pub built_with: &'a [Built],
}

pub fn of(tgid: u32, seen: &Seen<'_>) -> Vec<Runtime> {
    let root = PathBuf::from(format!("/proc/{tgid}/root"));
    // In its own file system: it may live in a container.
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let mut all = Vec::new();
    let mut add = |name: &str, version: Option<String>, detail: Option<String>| {
        if all.iter().all(|known: &Runtime| known.name != name) {
            all.push(Runtime { name: name.into(), version, detail });
        }
    };
    for path in seen.files.iter().filter(|path| !path.ends_with(" (deleted)")) {
        let file = path.rsplit('/').next().unwrap_or_default();
        match file {
            "libjvm.so" => {
                // …/lib/server/libjvm.so; the version is told beside bin/java.
                let home = Path::new(path).ancestors().nth(3).unwrap_or(Path::new("/"));
                let version = jdk_version(&inside(&home.join("bin/java").to_string_lossy()));
                add("java", version, Some(format!("({})", collector(seen))));
            }
            "libcoreclr.so" => add("dotnet", part_like_a_version(path), None),
            _ if file.starts_with("libjulia") => add("julia", after(file, ".so."), None),
            _ if file.starts_with("libpython3") || file.starts_with("python3") => {
                add("python", python_version(file), None)
            }
            _ if file.starts_with("beam.") => add("beam", part_after(path, "erts-"), None),
            _ if file.starts_with("libc.so.6") || file.starts_with("libc-2.") => {
                add("glibc", glibc_version(&inside(path)), None)
            }
            _ if file.starts_with("ld-musl") => add("musl", None, None),
            _ => {}
        }
    }
    for built in seen.built_with.iter().filter(|built| !ALLOCATORS.contains(&built.name.as_str())) {
        add(&built.name, built.version.clone(), None);
    }
    all
}

const ALLOCATORS: [&str; 3] = ["jemalloc", "tcmalloc", "mimalloc"];

fn collector(seen: &Seen<'_>) -> String {
    let value =
        |name: &str| seen.variables.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='));
    match java::collector(&java::options(value, seen.arguments)) {
        Some(collector) => format!("collector {collector}"),
        None => "collector of its own choice".into(),
    }
}

/// `/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so`
fn part_like_a_version(path: &str) -> Option<String> {
    let is_one = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit()) && part.contains('.');
    path.rsplit('/').find(is_one).map(str::to_string)
}

/// `/usr/lib/erlang/erts-13.1.5/bin/beam.smp`
fn part_after(path: &str, prefix: &str) -> Option<String> {
    path.split('/').find_map(|part| part.strip_prefix(prefix)).map(str::to_string)
}

fn after(file: &str, mark: &str) -> Option<String> {
    file.split_once(mark).map(|(_, rest)| rest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_told_by_its_files_and_its_start() {
        let arguments = ["-Xmx1g".to_string(), "-XX:+UseZGC".to_string(), "Main".to_string()];
        let built = |name: &str, version: Option<&str>| Built {
            name: name.into(),
            version: version.map(str::to_string),
            ..Built::default()
        };
        let seen = Seen {
            files: &[
                "/nowhere/jdk/lib/server/libjvm.so",
                "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so",
                "/usr/lib/erlang/erts-13.1.5/bin/beam.smp",
                "/usr/lib/libjulia-internal.so.1.10",
                "/usr/bin/python3.11",
            ],
            arguments: &arguments,
            variables: &[],
            built_with: &[built("jemalloc", None), built("go", Some("1.26.8"))],
        };
        let process = ceasefire_watch_record::Process {
            runtimes: of(std::process::id(), &seen),
            ..ceasefire_watch_record::Process::default()
        };
        assert_eq!(
            process.runs_on(),
            "java (collector ZGC), dotnet 8.0.1, beam 13.1.5, julia 1.10, python 3.11, go 1.26.8"
        );
    }
}
