// SPDX-License-Identifier: GPL-2.0-only
//! A process that runs, read from /proc. It is neither stopped nor traced.

use super::object::{self, Object};
use super::{kind, Program};
use ceasefire_base::{Error, Result};
use ceasefire_watch_model::ranges;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Entry of the auxiliary vector: the loader ignores what could be abused.
const AT_SECURE: u64 = 23;
const NAME_MAX: usize = 4096;

pub fn of_process(pid: u32) -> Result<Program> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let Ok(status) = fs::read_to_string(directory.join("status")) else {
        return Err(Error::usage(format!("there is no process {pid}")).remedy("`ps -e` lists processes"));
    };
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    if field("Tgid") != Some(pid.to_string().as_str()) {
        let process = field("Tgid").unwrap_or_default().to_string();
        return Err(
            Error::usage(format!("{pid} is a thread of process {process}")).remedy(format!("-p {process}"))
        );
    }
    if field("VmSize").is_none() {
        return Err(Error::usage(format!("{pid} is a thread of the kernel, or has ended"))
            .remedy("remedies for the kernel's own: ceasefire deter show"));
    }
    let maps = fs::read(directory.join("maps")).map_err(|error| denied(pid, &error))?;
    if maps.is_empty() {
        return Err(denied(pid, &io::Error::from_raw_os_error(libc::EACCES)));
    }
    let path = fs::read_link(directory.join("exe")).map_err(|error| denied(pid, &error))?;
    let mut program = Program {
        pid: Some(pid),
        threads: field("Threads").and_then(|text| text.parse().ok()),
        cpus_allowed: field("Cpus_allowed_list").map(|list| ranges::parse(list).len() as u32),
        environment: environment(&fs::read(directory.join("environ")).unwrap_or_default()),
        arguments: words(&fs::read(directory.join("cmdline")).unwrap_or_default())
            .into_iter()
            .skip(1)
            .collect(),
        ..Program::default()
    };
    let namespace = |of: &Path| fs::read_link(of.join("ns/mnt")).ok();
    let is_elsewhere = namespace(&directory) != namespace(Path::new("/proc/self"));
    // Its own root: what it maps is not what has that name here.
    let root = if is_elsewhere { directory.join("root") } else { PathBuf::from("/") };
    if is_elsewhere {
        program.notes.push(format!(
            "process {pid} runs in a container: libraries to preload must be in its file system, \
             variables in its own definition"
        ));
    }
    let exe = object::read(&directory.join("exe"));
    program.objects.push(Object::of(&path, exe.as_deref()));
    let mut replaced = Vec::new();
    for name in mapped_files(&maps) {
        if name == path.to_string_lossy() {
            continue;
        }
        let (name, is_deleted) = match name.strip_suffix(" (deleted)") {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let here = root.join(name.trim_start_matches('/'));
        let bytes = (!is_deleted).then(|| object::read(&here)).flatten();
        if is_deleted && name.contains(".so") {
            replaced.push(Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        if name.contains(".so") {
            let mut object = Object::of(Path::new(name), bytes.as_deref());
            object.path = here;
            program.objects.push(object);
        }
    }
    if !replaced.is_empty() {
        program.notes.push(format!(
            "{} was replaced since process {pid} started: what it knows is told by its name",
            replaced.join(", ")
        ));
    }
    program.name = program.objects[0].name.clone();
    program.path = path;
    if is_secure(&fs::read(directory.join("auxv")).unwrap_or_default()) {
        program.privileged = Some("it was started with more rights than its user".into());
    }
    kind::tell(&mut program, exe.as_deref());
    Ok(program)
}

fn denied(pid: u32, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::failed(format!("process {pid} has ended"))
            .remedy("name one that runs, or its command after --"),
        // SAFETY: geteuid() has no preconditions.
        _ if unsafe { libc::geteuid() } == 0 => {
            Error::skip(format!("root of this container may not read what process {pid} maps"))
                .remedy("run it on the host, or name the program's command after --")
        }
        _ => Error::skip(format!("process {pid} is not yours: its libraries and settings cannot be read"))
            .remedy(format!("sudo ceasefire deter plan -p {pid}, or name its command after --")),
    }
}

fn words(bytes: &[u8]) -> Vec<String> {
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn environment(bytes: &[u8]) -> BTreeMap<String, String> {
    let pairs = words(bytes);
    pairs
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .collect()
}

/// Files of /proc/PID/maps, each once, in its order.
fn mapped_files(maps: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(maps);
    let mut files: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some(at) = line.find('/').filter(|_| line.len() < NAME_MAX) else { continue };
        let name = &line[at..];
        if !files.iter().any(|file| file == name) {
            files.push(name.to_string());
        }
    }
    files
}

/// Files that a process maps now: what was preloaded must be there.
pub fn mapped(pid: u32) -> io::Result<Vec<String>> {
    fs::read(format!("/proc/{pid}/maps")).map(|maps| mapped_files(&maps))
}

fn is_secure(auxv: &[u8]) -> bool {
    let number = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(u64::from_ne_bytes).unwrap_or(0);
    auxv.chunks_exact(16).any(|entry| number(&entry[..8]) == AT_SECURE && number(&entry[8..]) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn this_process_is_known() {
        let own = of_process(std::process::id()).expect("runs");
        assert!(own.threads.is_some_and(|threads| threads > 0));
        assert!(own.is(Kind::Glibc) || own.is(Kind::Static), "{:?}", own.kinds);
        assert!(own.privileged.is_none() && own.cpus_allowed.is_some_and(|cpus| cpus > 0));
        assert!(mapped(std::process::id()).expect("ours").iter().any(|file| file.starts_with('/')));
    }

    #[test]
    fn who_is_none_is_refused() {
        assert!(of_process(4_194_304).expect_err("nobody").message.contains("no process"));
        let error = denied(1, &io::Error::from_raw_os_error(libc::EACCES));
        assert!(error.remedy.expect("a remedy").contains("command after --"));
    }

    #[test]
    fn names_with_blanks_and_the_secure_mark_are_read() {
        let maps = b"1-2 r-xp 0 00:1 5  /a b/c.so (deleted)\n2-3 rw-p 0 00:0 0  [heap]\n3-4 r--p 0 0:1 5 /a b/c.so (deleted)\n";
        assert_eq!(mapped_files(maps), ["/a b/c.so (deleted)"]);
        let entry = |kind: u64, value: u64| [kind.to_ne_bytes(), value.to_ne_bytes()].concat();
        assert!(is_secure(&[entry(3, 7), entry(AT_SECURE, 1)].concat()));
        assert!(!is_secure(&[entry(AT_SECURE, 0), entry(3, 1)].concat()));
    }
}
