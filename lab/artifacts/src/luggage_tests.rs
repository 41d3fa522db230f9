// SPDX-License-Identifier: GPL-2.0-only
//! What goes along, and what is refused.

use super::*;
use ceasefire_base::Kind;
use std::os::unix::fs::symlink;

const MEMORY_MIB: u32 = 2048;

/// A directory as a user may have one.
struct Own(tempfile::TempDir);

impl Own {
    fn new() -> Own {
        let own = Own(tempfile::tempdir().expect("a directory"));
        own.file("bench/prog", 0o755, &elf::tests::file(None, &[]));
        own.file("bench/data/input", 0o640, b"text");
        own.file("bench/run.sh", 0o755, b"#!/bin/sh\n./prog\n");
        symlink("data/input", own.path("bench/link")).expect("a link");
        own
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, mode: u32, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        path
    }

    fn pack(&self, dir: Option<&str>, file: Option<&str>, memory_mib: u32) -> Result<Packed> {
        let luggage = Luggage { dir: dir.map(|dir| self.path(dir)), tools: Vec::new() };
        let program = file.map(|file| Program { file: self.path(file), args: vec!["a b".into(), "".into()] });
        luggage.pack(program.as_ref(), Processor::X86_64, memory_mib)
    }
}

/// Mode, and content's begin, of an entry; the form is that of `cpio::tests`.
fn entry(archive: &[u8], path: &str) -> Option<(u32, Vec<u8>)> {
    let mut at = 0;
    loop {
        let field = |index: usize| {
            let from = at + 6 + index * 8;
            let text = std::str::from_utf8(&archive[from..from + 8]).expect("a number");
            u32::from_str_radix(text, 16).expect("a number")
        };
        let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
        let name = &archive[at + 110..at + 110 + name_size - 1];
        let content = (at + 110 + name_size).next_multiple_of(4);
        if name == path.as_bytes() {
            return Some((mode, archive[content..content + size].to_vec()));
        }
        if name == b"TRAILER!!!" {
            return None;
        }
        at = (content + size).next_multiple_of(4);
    }
}

#[test]
fn a_directory_keeps_its_modes_links_and_subdirectories() {
    let own = Own::new();
    let packed = own.pack(Some("bench"), Some("bench/prog"), MEMORY_MIB).expect("packs");
    assert_eq!(packed.program.as_deref(), Some("prog"));
    let mode = |path: &str| entry(&packed.archive, path).map(|(mode, _)| mode);
    assert_eq!(mode("work/prog"), Some(0o100755));
    assert_eq!(mode("work/data/input"), Some(0o100640));
    assert_eq!(mode("work/data").map(|mode| mode & 0o170000), Some(0o040000));
    assert_eq!(entry(&packed.archive, "work/link"), Some((0o120777, b"data/input".to_vec())));
    assert_eq!(entry(&packed.archive, "program").expect("words").1, b"/work/prog\0a b\0\0");
    // The script beside it may be started by hand.
    assert!(mode("bin/sh").is_some_and(|mode| mode & 0o111 != 0));
    assert!(own.pack(Some("bench"), None, MEMORY_MIB).expect("packs").program.is_none());
}

#[test]
fn a_program_alone_and_one_below_are_found() {
    let own = Own::new();
    let packed = own.pack(None, Some("bench/prog"), MEMORY_MIB).expect("packs");
    assert_eq!(packed.program.as_deref(), Some("prog"));
    assert!(entry(&packed.archive, "work/prog").is_some());
    assert!(entry(&packed.archive, "work/data").is_none(), "nothing but the program");
    own.file("bench/deep/er/prog", 0o755, &elf::tests::file(None, &[]));
    let packed = own.pack(Some("bench"), Some("bench/deep/../deep/er/prog"), MEMORY_MIB).expect("packs");
    assert_eq!(packed.program.as_deref(), Some("deep/er/prog"));
    // A name that tells the program what to do stays.
    symlink("prog", own.path("bench/other-name")).expect("a link");
    let packed = own.pack(Some("bench"), Some("bench/other-name"), MEMORY_MIB).expect("packs");
    assert_eq!(packed.program.as_deref(), Some("other-name"));
}

#[test]
fn what_cannot_go_along_is_said_in_one_sentence() {
    let own = Own::new();
    let mut foreign = elf::tests::file(None, &[]);
    foreign[18] = 183;
    own.file("bench/foreign", 0o755, &foreign);
    own.file("bench/plain", 0o644, &elf::tests::file(None, &[]));
    own.file("bench/text", 0o755, b"echo no first line\n");
    own.file("bench/strange", 0o755, b"#!/no/such/shell\n");
    own.file("bench/lacking", 0o755, &elf::tests::file(None, &["libno-such.so.9"]));
    own.file("elsewhere/prog", 0o755, &elf::tests::file(None, &[]));
    symlink("../elsewhere/prog", own.path("bench/outside")).expect("a link");
    fs::create_dir(own.path("empty")).expect("a directory");
    for (dir, file, kind, fragment) in [
        (None, "bench/none", Kind::Usage, "no such file"),
        (Some("empty"), "empty/prog", Kind::Usage, "no such file"),
        (Some("none"), "bench/prog", Kind::Usage, "no such file"),
        (Some("bench/prog"), "bench/prog", Kind::Usage, "is no directory"),
        (None, "bench", Kind::Usage, "is a directory"),
        (None, "bench/foreign", Kind::Usage, "is a program for aarch64"),
        (None, "bench/plain", Kind::Usage, "not marked as executable"),
        (None, "bench/text", Kind::Usage, "neither a program nor a script"),
        (Some("bench"), "elsewhere/prog", Kind::Usage, "does not lie in the directory"),
        (Some("bench"), "bench/outside", Kind::Usage, "does not lie in the directory"),
        (None, "bench/strange", Kind::Skip, "needs /no/such/shell"),
        (None, "bench/lacking", Kind::Skip, "libno-such.so.9"),
    ] {
        let error = own.pack(dir, Some(file), MEMORY_MIB).err().unwrap_or_else(|| panic!("{file} was taken"));
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
    }
    // A library of the user's own comes with the directory, and what nobody starts may lack what it likes.
    own.file("bench/libno-such.so.9", 0o644, b"");
    own.pack(Some("bench"), Some("bench/lacking"), MEMORY_MIB).expect("packs");
    own.pack(Some("bench"), Some("bench/prog"), MEMORY_MIB).expect("packs");
    // Neither does a file that is none.
    let _socket = std::os::unix::net::UnixListener::bind(own.path("bench/socket")).expect("a socket");
    let error = own.pack(Some("bench"), None, MEMORY_MIB).err().expect("refused");
    assert!(error.message.contains("socket is neither file"), "{error:?}");
}

#[test]
fn data_of_this_machine_stays_here() {
    let own = Own::new();
    let secret = own.file("secret", 0o600, b"text");
    let inside = secret.display().to_string()[1..].to_string();
    own.file("bench/reads", 0o755, format!("#!{}\n", secret.display()).as_bytes());
    own.file("bench/loads", 0o755, &elf::tests::file(Some(&format!("/{inside}")), &["../../../etc/passwd"]));
    symlink("../secret", own.path("bench/points")).expect("a link");
    let packed = own.pack(Some("bench"), None, MEMORY_MIB).expect("packs");
    assert!(entry(&packed.archive, &inside).is_none());
    assert!(entry(&packed.archive, "usr/lib/x86_64-linux-gnu/../../../etc/passwd").is_none());
    assert_eq!(entry(&packed.archive, "work/points"), Some((0o120777, b"../secret".to_vec())));
    for program in ["bench/reads", "bench/loads"] {
        let error = own.pack(None, Some(program), MEMORY_MIB).err().expect("refused");
        assert!(error.kind == Kind::Skip && error.message.contains("secret"), "{error:?}");
    }
}

#[test]
fn what_is_larger_than_the_guest_is_refused_unread() {
    let own = Own::new();
    let file = fs::File::options().write(true).open(own.path("bench/data/input")).expect("a file");
    // A hole: nobody has to read it.
    file.set_len(600 << 20).expect("a size");
    for (dir, file) in [(Some("bench"), None), (None, Some("bench/data/input"))] {
        let error = own.pack(dir, file, MEMORY_MIB).err().expect("refused");
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.message.contains("larger than 512 MiB"), "{error:?}");
        assert!(error.remedy.is_some_and(|remedy| remedy.contains("--memory")));
    }
    file.set_len(5 << 30).expect("a size");
    let error = own.pack(Some("bench"), None, 64 << 10).err().expect("refused");
    assert!(error.message.contains("larger than 1024 MiB"), "{error:?}");
    assert!(error.remedy.is_some_and(|remedy| !remedy.contains("--memory")));
}

#[test]
fn the_first_line_of_a_script_names_what_runs_it() {
    for (text, expected) in [
        ("#!/bin/sh\nx", &["/bin/sh"][..]),
        ("#! /work/sh -e\n", &["/work/sh"]),
        ("#!/bin/sh", &["/bin/sh"]),
        ("#!\n", &[]),
        ("# !/bin/sh\n", &[]),
        ("", &[]),
        ("\u{7f}ELF", &[]),
    ] {
        assert_eq!(interpreters(text.as_bytes()), expected, "{text}");
    }
    let found = interpreters(b"#!/usr/bin/env sh\n");
    assert_eq!(found[0], "/usr/bin/env");
    assert!(found[1].ends_with("/sh"), "{found:?}");
}

/// With the libraries that it loads.
#[test]
fn a_tool_of_this_machine_goes_along() {
    let own = Own::new();
    let tools = vec![PathBuf::from("/bin/true"), PathBuf::from("/bin/sh")];
    let packed = Luggage { dir: None, tools }.pack(None, Processor::X86_64, MEMORY_MIB).expect("packs");
    for path in ["bin/true", "bin/sh", "etc/passwd"] {
        assert!(entry(&packed.archive, path).is_some(), "{path}");
    }
    let taken = own.file("workloads", 0o755, &elf::tests::file(None, &[]));
    let bench = fs::canonicalize(own.path("bench")).expect("a path");
    let packed = Luggage { dir: None, tools: vec![bench.clone()] }
        .pack(None, Processor::X86_64, MEMORY_MIB)
        .expect("packs");
    assert!(entry(&packed.archive, &format!("{}/run.sh", &bench.display().to_string()[1..])).is_some());
    for (tool, fragment) in
        [(taken, "every guest has"), (own.path("none"), "no such"), (PathBuf::from("/dev/null"), "no file")]
    {
        let error = Luggage { dir: None, tools: vec![tool] }
            .pack(None, Processor::X86_64, MEMORY_MIB)
            .err()
            .expect("refused");
        assert!(error.kind == Kind::Usage && error.message.contains(fragment), "{error:?}");
    }
}

#[test]
fn busybox_brings_its_commands_but_none_that_is_there() {
    let mut archive = Archive::new();
    archive.file("/bin/cat", 0o755, b"own".to_vec());
    link_commands("sh\ncat\n[\nworkloads\n", &mut archive);
    let archive = archive.into_bytes();
    assert_eq!(entry(&archive, "bin/sh"), Some((0o120777, b"busybox".to_vec())));
    assert!(entry(&archive, "bin/[").is_some());
    assert_eq!(entry(&archive, "bin/cat"), Some((0o100755, b"own".to_vec())));
    assert!(entry(&archive, "bin/workloads").is_none());
}

/// Neither this machine's programs nor what runs its scripts goes where nothing of it runs.
#[test]
fn a_guest_with_another_processor_gets_nothing_of_this_machine() {
    let own = Own::new();
    let pack = |dir: Option<&str>, file: &str| {
        let luggage = Luggage { dir: dir.map(|dir| own.path(dir)), tools: Vec::new() };
        let program = Program { file: own.path(file), args: Vec::new() };
        luggage.pack(Some(&program), Processor::PowerPc, MEMORY_MIB)
    };
    own.file("bench/theirs", 0o755, &elf::tests::powerpc(None));
    own.file("bench/loaded", 0o755, &elf::tests::powerpc(Some("/lib/ld.so.1")));
    let packed = pack(Some("bench"), "bench/theirs").expect("packs");
    assert_eq!(packed.program.as_deref(), Some("theirs"));
    assert!(entry(&packed.archive, "work/run.sh").is_some(), "a file of the directory");
    assert!(entry(&packed.archive, "bin/sh").is_none());
    for (file, fragment) in [
        ("bench/prog", "is a program for x86-64; the guest runs static 32-bit programs"),
        ("bench/run.sh", "is no program"),
        ("bench/loaded", "is not linked statically"),
    ] {
        let error = pack(Some("bench"), file).err().unwrap_or_else(|| panic!("{file} was taken"));
        assert_eq!(error.kind, Kind::Usage, "{error:?}");
        assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
    }
    assert_eq!(Luggage::default().with_shell(Processor::PowerPc).tools, Vec::<PathBuf>::new());
}
