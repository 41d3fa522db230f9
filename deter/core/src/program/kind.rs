// SPDX-License-Identifier: GPL-2.0-only
//! Which kinds a program is of: by its files' names and what is in them, never by its name alone.

use super::object::Object;
use super::{elf, Program};
use crate::Kind;
use ceasefire_watch_model::java;
use std::path::Path;

const LIBC_BYTES_MAX: u64 = 16 << 20;
const RELEASE_BYTES_MAX: u64 = 64 << 10;
/// Server class, where the JVM chooses G1: at least so many CPUs and so much memory.
const SERVER_CPUS: usize = 2;
const SERVER_MEMORY_KIB: u64 = 1792 << 10;

/// `bytes`: of the program's own file. Needs objects, arguments and environment.
pub fn tell(program: &mut Program, bytes: Option<&[u8]>) {
    let Some(own) = program.objects.first().cloned() else { return };
    let name = own.name.trim_end_matches(" (deleted)");
    let has = |text: &str| own.has(text);
    let maps = |part: &str| program.objects.iter().skip(1).any(|object| object.name.contains(part));
    let mut kinds = Vec::new();
    if let Some(bytes) = bytes.filter(|bytes| elf::is_elf(bytes)) {
        if elf::dynamic(bytes).is_some_and(|dynamic| dynamic.interpreter.is_none()) && !maps("ld-") {
            kinds.push(Kind::Static);
        }
        if let Some(version) = elf::go_version(bytes) {
            kinds.push(Kind::Go);
            program.versions.insert("go".into(), version);
        }
    }
    if let Some(libc) = program.objects.iter().find(|object| is_glibc(object)) {
        kinds.push(Kind::Glibc);
        if let Some(version) = glibc_version(&libc.path) {
            program.versions.insert("glibc".into(), version);
        }
    } else if maps("ld-musl") || maps("libc.musl") {
        kinds.push(Kind::Musl);
    }
    let python = own.has("PYTHONMALLOC") || program.objects.iter().any(|o| o.name.starts_with("libpython3"));
    if python {
        kinds.push(Kind::Cpython);
        let library = program.objects.iter().find(|object| object.name.starts_with("libpython3"));
        let names = library.into_iter().chain([&own]).map(|object| object.name.as_str());
        if names.clone().any(is_free_threaded) {
            kinds.push(Kind::CpythonFreeThreaded);
        }
        if let Some(version) = names.filter_map(python_version).next() {
            program.versions.insert("python".into(), version);
        }
    }
    if maps("libjvm") || maps("libjli") || has("JLI_Launch") {
        kinds.push(Kind::Jvm);
        kinds.push(collector(program));
        if let Some(version) = jdk_version(&own.path) {
            program.versions.insert("jdk".into(), version);
        }
    }
    if matches!(name, "sh" | "dash" | "bash" | "zsh" | "ksh" | "busybox" | "env" | "make" | "sudo" | "nice") {
        kinds.push(Kind::Shell);
    }
    let by_name = [
        (Kind::Node, name.starts_with("node") && has("NODE_OPTIONS") || maps("libnode.so")),
        (Kind::Beam, name.starts_with("beam") || name.starts_with("erlexec")),
        (Kind::Dotnet, maps("libcoreclr") || maps("libhostfxr") || has("hostfxr")),
        (Kind::Apache, matches!(name, "apache2" | "httpd") && has("EnableMMAP")),
        (Kind::Redis, (name.starts_with("redis-") || name.starts_with("valkey-")) && has("io-threads")),
        (Kind::Mariadb, matches!(name, "mariadbd" | "mysqld")),
        (Kind::Postgresql, name == "postgres"),
    ];
    kinds.extend(by_name.into_iter().filter(|(_, is)| *is).map(|(kind, _)| kind));
    if program.threads == Some(1) || kinds.contains(&Kind::Postgresql) {
        kinds.push(Kind::SingleThreaded);
    }
    program.kinds.extend(kinds);
    program.sanitizer = sanitizer(&program.objects);
}

fn is_glibc(object: &Object) -> bool {
    (object.name.starts_with("libc.so.6") || object.name.starts_with("libc-2."))
        && (object.has("GNU C Library") || !object.is_read)
}

fn sanitizer(objects: &[Object]) -> Option<String> {
    let linked = |object: &Object| {
        let library = ["libasan", "libtsan", "libmsan", "libhwasan"];
        library.iter().find(|part| object.name.starts_with(**part)).map(|part| part[3..].to_string())
    };
    let inside = |object: &Object| {
        let marks = [
            ("__asan_init", "asan"),
            ("__tsan_init", "tsan"),
            ("__msan_init", "msan"),
            ("__hwasan_init", "hwasan"),
        ];
        marks.iter().find(|(mark, _)| object.has(mark)).map(|(_, name)| (*name).to_string())
    };
    // Others, libstdc++ for one, name a sanitizer's function without having it.
    objects.iter().find_map(linked).or_else(|| objects.first().and_then(inside))
}

/// The library says it: "GNU C Library (…) stable release version 2.36."
pub fn glibc_version(path: &Path) -> Option<String> {
    let bytes = super::object::read_up_to(path, LIBC_BYTES_MAX)?;
    let mark = b"release version ";
    let at = super::object::find(&bytes, mark)? + mark.len();
    let text: String = bytes.get(at..)?.iter().take(16).map(|byte| char::from(*byte)).collect();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some(text[..end].trim_end_matches('.').to_string()).filter(|version| !version.is_empty())
}

/// `python3.11`, `libpython3.11.so.1.0`.
pub fn python_version(name: &str) -> Option<String> {
    let rest = name.trim_start_matches("lib").strip_prefix("python")?;
    let parts: Vec<&str> = rest.splitn(3, '.').collect();
    let minor = parts.get(1)?;
    let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    (end > 0).then(|| format!("{}.{}", parts[0], &minor[..end]))
}

/// `python3.13t`, `libpython3.13t.so.1.0`.
fn is_free_threaded(name: &str) -> bool {
    let name = name.split(".so").next().unwrap_or_default();
    python_version(name).is_some() && name.ends_with('t')
}

/// Of the file `release` beside `bin`.
pub fn jdk_version(java: &Path) -> Option<String> {
    let bytes = super::object::read_up_to(&java.parent()?.parent()?.join("release"), RELEASE_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let value = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    Some(value.trim_matches('"').to_string())
}

/// As the JVM chooses: the last flag, else by the machine.
fn collector(program: &Program) -> Kind {
    match java::collector(&java_options(program)) {
        Some("Serial") => Kind::JvmSerial,
        Some("Parallel") => Kind::JvmParallel,
        Some("G1") => Kind::JvmG1,
        Some("ZGC") => Kind::JvmZ,
        Some("Shenandoah") => Kind::JvmShenandoah,
        _ => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            match cpus >= SERVER_CPUS && memory_kib().unwrap_or(u64::MAX) >= SERVER_MEMORY_KIB {
                true => Kind::JvmG1,
                false => Kind::JvmSerial,
            }
        }
    }
}

/// In the order in which the JVM reads them; the last one wins.
pub fn java_options(program: &Program) -> Vec<String> {
    java::options(|name| program.environment.get(name).map(String::as_str), &program.arguments)
}

/// What the largest heap is, where that is given. The JVM's own choice, a quarter of memory, is nothing to be touched unasked.
pub fn java_heap(program: &Program) -> Option<String> {
    java::heap(&java_options(program)).map(str::to_string)
}

fn memory_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_version_is_in_its_files_name() {
        assert_eq!(python_version("python3.11"), Some("3.11".into()));
        assert_eq!(python_version("libpython3.9.so.1.0"), Some("3.9".into()));
        assert_eq!(python_version("python3"), None);
        assert_eq!(python_version("perl"), None);
        assert!(is_free_threaded("python3.13t") && is_free_threaded("libpython3.13t.so.1.0"));
        assert!(!is_free_threaded("python3.13") && !is_free_threaded("libpython3.13.so.1.0"));
    }

    #[test]
    fn the_last_collector_that_was_named_is_it() {
        let mut program = Program { arguments: vec!["-XX:+UseZGC".into(), "A".into()], ..Program::default() };
        assert_eq!(collector(&program), Kind::JvmZ);
        program.environment.insert("JAVA_TOOL_OPTIONS".into(), "-XX:+UseShenandoahGC -Xmx1g".into());
        assert_eq!(collector(&program), Kind::JvmZ);
        program.arguments.clear();
        assert_eq!(collector(&program), Kind::JvmShenandoah);
        assert_eq!(java_heap(&program), Some("1g".into()));
    }

    #[test]
    fn a_sanitizer_is_linked_or_in_the_program_itself() {
        let object = |name: &str, text: &[u8]| Object::of(Path::new(name), Some(text));
        assert_eq!(sanitizer(&[object("a", b"__asan_init")]), Some("asan".into()));
        assert_eq!(sanitizer(&[object("a", b""), object("libasan.so.8", b"")]), Some("asan".into()));
        assert_eq!(sanitizer(&[object("a", b""), object("libstdc++.so.6", b"__tsan_init")]), None);
    }
}
