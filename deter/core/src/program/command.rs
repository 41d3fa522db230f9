// SPDX-License-Identifier: GPL-2.0-only
//! A command that has not been started: its file, the interpreter that runs it, the libraries it would map.

use super::libraries::Search;
use super::object::{self, Object};
use super::{elf, kind, Program};
use crate::Kind;
use ceasefire_base::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Scripts that name scripts.
const DEPTH_MAX: usize = 4;
/// Linux reads no more of a script's first line.
const LINE_MAX: usize = 256;

/// `words`: the program and its arguments; `environment`: what it would be given.
pub fn of_command(words: &[String], environment: BTreeMap<String, String>) -> Result<Program> {
    let Some((name, arguments)) = words.split_first() else {
        return Err(Error::usage("no command is given").remedy("put it after --"));
    };
    let mut arguments = arguments.to_vec();
    let path_list = environment.get("PATH").cloned().unwrap_or_default();
    let mut path = locate(name, &path_list)?;
    let mut program = Program { environment, ..Program::default() };
    for _ in 0..DEPTH_MAX {
        let Some((interpreter, first)) = interpreter(&path, &path_list)? else { break };
        program.script.get_or_insert_with(|| path.clone());
        arguments.insert(0, path.to_string_lossy().into_owned());
        first.into_iter().rev().for_each(|word| arguments.insert(0, word));
        path = interpreter;
    }
    program.arguments = arguments;
    program.path = fs::canonicalize(&path).unwrap_or(path);
    program.privileged = privileged(&program.path);
    let bytes = object::read(&program.path);
    match &bytes {
        None => {
            program.notes.push(format!("{} cannot be read: what it is, is not known", program.path.display()))
        }
        Some(bytes) if !elf::is_elf(bytes) => program
            .notes
            .push(format!("{} is neither an ELF file nor a script with #!", program.path.display())),
        Some(_) => {}
    }
    program.objects.push(Object::of(&program.path, bytes.as_deref()));
    program.name = program.objects[0].name.clone();
    if let Some(bytes) = &bytes {
        let of = |name: &str| program.environment.get(name).map(String::as_str).unwrap_or_default();
        let (found, missing) =
            Search::new(of("LD_LIBRARY_PATH")).closure(&program.path, bytes, of("LD_PRELOAD"));
        program.objects.extend(found);
        for name in missing {
            program.notes.push(format!("the library {name} was not found where the loader looks"));
        }
    }
    kind::tell(&mut program, bytes.as_deref());
    if program.is(Kind::Shell) {
        let name = &program.name;
        program.notes.push(format!(
            "{name} starts other programs, which are not looked at: name the program itself, or -p PID while it runs"
        ));
    }
    Ok(program)
}

fn locate(name: &str, path_list: &str) -> Result<PathBuf> {
    let check = |path: PathBuf| -> Result<PathBuf> {
        let refused = |why: &str, remedy: &str| {
            Err(Error::usage(format!("{} {why}", path.display())).remedy(remedy.to_string()))
        };
        match fs::metadata(&path) {
            Err(_) => refused("is not there", "check the command after --"),
            Ok(meta) if meta.is_dir() => refused("is a directory", "name a program in it"),
            Ok(meta) if meta.mode() & 0o111 == 0 => {
                refused("cannot be executed", "chmod +x, or put its interpreter before it")
            }
            Ok(_) => Ok(path.clone()),
        }
    };
    if name.contains('/') {
        return check(PathBuf::from(name));
    }
    let directories = path_list.split(':').filter(|part| !part.is_empty());
    directories
        .map(|directory| Path::new(directory).join(name))
        .find(|path| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0))
        .ok_or_else(|| {
            Error::usage(format!("there is no program {name} on PATH"))
                .remedy("check the command after --, or name its file")
        })
}

/// Of a file that begins with `#!`: the interpreter and the words before the file's name. `env` is looked through.
fn interpreter(path: &Path, path_list: &str) -> Result<Option<(PathBuf, Vec<String>)>> {
    use std::io::Read;
    let mut first = Vec::new();
    let Ok(file) = fs::File::open(path) else { return Ok(None) };
    if file.take(LINE_MAX as u64).read_to_end(&mut first).is_err() || !first.starts_with(b"#!") {
        return Ok(None);
    }
    let line = first[2..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).trim().to_string();
    let (name, rest) = line.split_once([' ', '\t']).unwrap_or((&line, ""));
    let rest = rest.trim();
    let is_env = Path::new(name).file_name().is_some_and(|name| name == "env");
    if !is_env {
        let words = (!rest.is_empty()).then(|| rest.to_string());
        return Ok(Some((locate(name, path_list)?, words.into_iter().collect())));
    }
    // Without -S the rest is one word: `env python3`.
    let words = rest.trim_start_matches("-S").split_whitespace();
    let mut words = words.skip_while(|word| word.starts_with('-') || word.contains('='));
    let Some(name) = words.next() else { return Ok(None) };
    Ok(Some((locate(name, path_list)?, words.map(str::to_string).collect())))
}

/// Whether the loader would ignore LD_PRELOAD and tunables, and why.
pub(super) fn privileged(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    // SAFETY: two calls without preconditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if meta.mode() & libc::S_ISUID != 0 && meta.uid() != user {
        return Some("setuid".into());
    }
    if meta.mode() & libc::S_ISGID != 0 && meta.gid() != group {
        return Some("setgid".into());
    }
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    let attribute = b"security.capability\0";
    // SAFETY: both names end in NUL, and no value is stored.
    let length = unsafe { libc::getxattr(name.as_ptr(), attribute.as_ptr().cast(), std::ptr::null_mut(), 0) };
    (length > 0 && user != 0).then(|| "it has file capabilities".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn environment() -> BTreeMap<String, String> {
        BTreeMap::from([("PATH".to_string(), "/usr/sbin:/usr/bin:/sbin:/bin".to_string())])
    }

    fn look(words: &[&str]) -> Result<Program> {
        of_command(&words.iter().map(ToString::to_string).collect::<Vec<_>>(), environment())
    }

    #[test]
    fn a_program_of_the_system_is_recognised() {
        let program = look(&["cat", "x"]).expect("cat is there");
        assert!(program.is(Kind::Glibc) || program.is(Kind::Musl) || program.is(Kind::Static), "{program:?}");
        assert_eq!(program.arguments, ["x"]);
        assert!(program.privileged.is_none() && program.sanitizer.is_none());
        if program.is(Kind::Glibc) {
            assert!(
                crate::version::is_at_least(&program.versions["glibc"], "2.17"),
                "{:?}",
                program.versions
            );
        }
    }

    #[test]
    fn a_script_is_followed_to_its_interpreter() {
        let scratch = tempfile::tempdir().expect("a directory");
        let script = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
            path.to_string_lossy().into_owned()
        };
        let first = script("a", "#!/bin/sh -e\n");
        let program = look(&[&first, "y"]).expect("a script");
        assert_eq!(program.arguments, ["-e", &first, "y"]);
        assert!(
            program.is(Kind::Shell) && program.notes[0].contains("starts other programs"),
            "{:?}",
            program
        );
        let second = script("b", &format!("#!{first}\n"));
        assert_eq!(look(&[&second]).expect("two scripts").arguments, ["-e", &first, &second]);
        let third = script("c", "#!/usr/bin/env -S A=1 sh -x\n");
        assert_eq!(look(&[&third]).expect("by way of env").arguments, ["-x", &third]);
        let text = look(&[&script("d", "text")]).expect("looked at");
        assert!(text.notes[0].contains("neither an ELF file nor a script"), "{:?}", text.notes);
        let endless = script("e", &format!("#!{}\n", scratch.path().join("e").display()));
        assert!(look(&[&endless]).is_ok());
        let lost = script("f", "#!/no/such\n");
        assert!(look(&[&lost]).expect_err("lost").message.contains("/no/such is not there"));
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_a_remedy() {
        for (words, fragment) in [
            (&["no-such-program"][..], "on PATH"),
            (&["/no/such"], "is not there"),
            (&["/tmp"], "is a directory"),
            (&["/etc/passwd"], "cannot be executed"),
            (&[], "no command"),
        ] {
            let error = look(words).expect_err("refused");
            assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
        }
    }
}
