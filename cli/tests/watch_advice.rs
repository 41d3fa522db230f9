// SPDX-License-Identifier: GPL-2.0-only
//! Advice is taken, and the count is taken again: it must fall. The printed command is what is run; what is to be changed
//! in code is changed in `idioms.c`. On this machine, as root.

mod common;
use common::{ceasefire, may_watch, run, skip, succeed, Scratch, BINARY};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Of what was received before, at most so much is left.
const LEFT_MOST: f64 = 0.2;

fn program(name: &str) -> String {
    common::root().join(name).to_string_lossy().into_owned()
}

/// False, and a skip is noted, where there is no such compiler.
fn compile(compiler: &str, args: &[&str]) -> bool {
    if Command::new(compiler).arg("--help").output().is_err() {
        skip("watch advice", &format!("{compiler} is not installed"));
        return false;
    }
    let said = run(Command::new(compiler).args(args));
    assert_eq!(said.code, 0, "{compiler}: {}{}", said.stdout, said.stderr);
    true
}

struct Record(String);

impl Record {
    /// Of the threads of one name, if there is one.
    fn of(file: &Path, comm: Option<&str>, command: &[&str]) -> Record {
        let file = file.to_string_lossy().into_owned();
        let filter: Vec<&str> = comm.map_or_else(Vec::new, |comm| vec!["--comm", comm]);
        let args =
            [&["watch", "record", "--user-stacks", "-o", &file], &filter[..], &["--"], command].concat();
        let _ = std::fs::remove_file(&file);
        succeed(&mut ceasefire(&args));
        Record(file)
    }

    fn view(&self, view: &str) -> Value {
        let said = succeed(&mut ceasefire(&["watch", "report", &self.0, "--view", view, "--json"]));
        serde_json::from_str(&said.stdout).expect("JSON")
    }

    fn received(&self, cause: &str) -> u64 {
        let stat = self.view("stat");
        let sites = stat["sites"].as_array().expect("sites").iter().filter(|site| site["cause"] == cause);
        sites.map(|site| site["tally"]["targets"].as_u64().expect("a number")).sum()
    }

    /// What is advised about a cause: the change, and the command. None where too little was seen; nothing but that is
    /// no reason to say nothing.
    fn advice(&self, cause: &str) -> Option<(String, String)> {
        if self.received(cause) < 100 {
            return None;
        }
        let all = self.view("advice");
        let mut all = all["advice"].as_array().expect("a list").iter();
        let advice = all.find(|advice| advice["subject"] == cause);
        let advice = advice.unwrap_or_else(|| panic!("nothing is advised about {cause}"));
        let text = |field: &str| advice[field].as_str().expect("a text").to_string();
        println!("{cause}: {advice}");
        Some((text("change"), text("command")))
    }
}

fn falls(cause: &str, before: u64, after: u64) {
    println!("{cause}: {before} received, then {after}");
    assert!(after as f64 <= before as f64 * LEFT_MOST, "{cause}: {before}, then {after}");
}

/// The same command as it is and as the advice has it; None where too little was seen to be advised on.
fn take(scratch: &Scratch, cause: &str, command: &[&str]) -> Option<()> {
    let name = Path::new(command[0]).file_name().expect("a name").to_string_lossy().into_owned();
    let file = scratch.0.join(format!("{name}.record"));
    let mut tries = (0..5).map(|_| Record::of(&file, None, command));
    let Some((before, advised)) = tries.find_map(|record| {
        let advised = record.advice(cause)?.1;
        Some((record.received(cause), advised))
    }) else {
        skip("watch storms", "other programs had the victim's CPU in each of five tries");
        return None;
    };
    let line = advised.replace("COMMAND", &command.join(" ")).replace("ceasefire ", &format!("{BINARY} "));
    assert_ne!(line, advised, "no command to be run");
    let after = Record::of(&file, None, &["sh", "-c", &line]);
    falls(cause, before, after.received(cause));
    Some(())
}

#[test]
fn the_c_librarys_settings_keep_what_the_c_library_gives_back() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("advice-glibc");
    for (name, cause, arguments) in
        [("churn", "madvise-dontneed", &["2", "300"][..]), ("threads", "munmap", &["300"])]
    {
        let binary = scratch.0.join(name).to_string_lossy().into_owned();
        let source = program(&format!("deter/trial/programs/{name}.c"));
        if compile("cc", &["-O1", "-pthread", "-o", &binary, &source]) {
            take(&scratch, cause, &[&[binary.as_str()], arguments].concat());
        }
    }
}

#[test]
fn a_java_heap_of_one_size_and_of_huge_pages_is_not_copied_on_write() {
    if !may_watch() {
        return;
    }
    let enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
    let is_never = std::fs::read_to_string(enabled).map_or(true, |text| text.contains("[never]"));
    if is_never {
        return skip("watch advice", "no transparent huge pages here");
    }
    let scratch = Scratch::new("advice-java");
    let classes = scratch.0.to_string_lossy().into_owned();
    if compile("javac", &["-d", &classes, &program("deter/trial/programs/Objects.java")]) {
        for collector in ["-XX:+UseG1GC", "-XX:+UseShenandoahGC"] {
            take(&scratch, "cow", &["java", collector, "-Xmx768m", "-cp", &classes, "Objects", "8"]);
        }
    }
}

/// 17 and newer give memory back when it rests: a new mapping over the old one.
#[test]
fn a_java_heap_of_one_size_gives_nothing_back() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("advice-uncommit");
    let classes = scratch.0.to_string_lossy().into_owned();
    if compile("javac", &["-d", &classes, &program("cli/tests/programs/advice/Uncommit.java")]) {
        let shenandoah = [
            "-XX:+UseShenandoahGC",
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:ShenandoahUncommitDelay=50",
            "-XX:ShenandoahGuaranteedGCInterval=100",
        ];
        for collector in [&["-XX:+UseG1GC"][..], &shenandoah] {
            let command = [&["java"], collector, &["-Xmx400m", "-cp", &classes, "Uncommit"]].concat();
            take(&scratch, "mmap", &command);
        }
    }
}

#[test]
fn gos_scavenger_and_a_jemalloc_within_the_program_are_known_and_kept() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("advice-built");
    let binary = |name: &str| scratch.0.join(name).to_string_lossy().into_owned();
    let (go, churn) = (binary("blocks"), binary("jechurn"));
    std::env::set_var("GO111MODULE", "off");
    if compile("go", &["build", "-buildvcs=false", "-o", &go, &program("deter/trial/programs/blocks.go")]) {
        take(&scratch, "madvise-dontneed", &[&go, "24"]);
    }
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.a";
    if !Path::new(library).exists() {
        return skip("watch advice", "libjemalloc.a is not installed");
    }
    let source = program("deter/trial/programs/churn.c");
    let libraries = ["-lm", "-ldl", "-lstdc++"];
    if compile("cc", &[&["-O1", "-pthread", "-o", &churn, &source, library], &libraries[..]].concat()) {
        std::env::set_var("MALLOC_CONF", "dirty_decay_ms:0");
        take(&scratch, "madvise-dontneed", &[&churn, "2", "100"]);
        std::env::remove_var("MALLOC_CONF");
    }
}

/// What is done in code: the cause, a word of the advice, and whether all that the program sends falls with it.
#[test]
fn what_is_to_be_changed_in_code_helps_there() {
    const IDIOMS: [(&str, &str, &str); 12] = [
        ("cow", "cow", "prefault"),
        ("reset", "cow", "write the image back"),
        ("fork", "fork", "posix_spawn"),
        ("give-back", "madvise-dontneed", "larger ranges"),
        ("unmap", "munmap", "use them again"),
        ("window", "mmap", "pread"),
        ("grow", "mremap", "reserve"),
        ("barrier", "mprotect", "larger ranges"),
        ("barriers", "membarrier", "once for many"),
        ("sync", "msync", "pwrite"),
        ("cut", "truncate", "rename"),
        ("collapse", "madvise-collapse", "before the threads run"),
    ];
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("advice-code");
    let binary = scratch.0.join("idioms").to_string_lossy().into_owned();
    let source = program("cli/tests/programs/advice/idioms.c");
    if !compile("cc", &["-O1", "-fno-omit-frame-pointer", "-pthread", "-o", &binary, &source]) {
        return;
    }
    // Not in memory: only what is written back is protected first.
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("idioms.data").to_string_lossy().into_owned();
    for (name, cause, word) in IDIOMS {
        let record =
            |way: &str| Record::of(&scratch.0.join(way), Some("idioms"), &[&binary, name, way, &data]);
        let mut tries = (0..5).map(|_| record("before"));
        let Some((before, (change, _))) =
            tries.find_map(|before| Some((before.received(cause), before.advice(cause)?)))
        else {
            skip("watch storms", "other programs had the victim's CPU in each of five tries");
            continue;
        };
        assert!(change.contains(word), "{name}: {change}");
        let after = record("after");
        falls(cause, before, after.received(cause));
    }
    std::fs::remove_file(&data).expect("written by it");
}

/// A file of the kernel's that is put back.
struct Setting(String, String);

impl Setting {
    fn set(path: &str, value: &str) -> Option<Setting> {
        let before = std::fs::read_to_string(path).ok()?.trim().to_string();
        std::fs::write(path, value).ok()?;
        Some(Setting(path.into(), before))
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.0, &self.1);
    }
}

#[test]
fn khugepaged_is_kept_from_collapsing_by_the_command_that_is_printed() {
    if !may_watch() {
        return;
    }
    let directory = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    let settings = (
        Setting::set(&format!("{directory}/scan_sleep_millisecs"), "10"),
        Setting::set(&format!("{directory}/pages_to_scan"), "100000"),
    );
    let (Some(_), Some(_)) = &settings else {
        return skip("watch advice", "khugepaged cannot be set up here");
    };
    let scratch = Scratch::new("advice-khugepaged");
    let binary = scratch.0.join("khugepaged").to_string_lossy().into_owned();
    if !compile("cc", &["-O1", "-pthread", "-o", &binary, &program("cli/tests/programs/advice/khugepaged.c")])
    {
        return;
    }
    let record = |name: &str| Record::of(&scratch.0.join(name), None, &[&binary, "3000"]);
    let mut tries = (0..5).map(|_| record("before"));
    let Some((before, (_, command))) =
        tries.find_map(|before| Some((before.received("thp-collapse"), before.advice("thp-collapse")?)))
    else {
        return skip("watch storms", "other programs had the victim's CPU in each of five tries");
    };
    assert!(run(Command::new("sh").args(["-c", &command])).code == 0, "{command}");
    // It is woken by the change, and ends the round that it is in.
    record("meanwhile");
    let after = record("after");
    falls("thp-collapse", before, after.received("thp-collapse"));
}

/// A command that shows the code shows it; a setting that is to be changed is there.
#[test]
fn commands_that_show_code_show_it() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("advice-storms");
    let file = scratch.0.join("storm.record");
    let mut shown = 0;
    for storm in [
        "madvise-dontneed",
        "munmap",
        "mprotect",
        "cow",
        "userfaultfd",
        "membarrier",
        "text-patching",
        "msync",
    ] {
        let record =
            Record::of(&file, Some("ceasefire"), &[BINARY, "watch", "storm", storm, "--rounds", "1000"]);
        let all = record.view("advice");
        for advice in all["advice"].as_array().expect("a list") {
            let command = advice["command"].as_str().expect("a text");
            if let Some(args) = command.strip_prefix("ceasefire watch report FILE ") {
                let args =
                    ["watch", "report", &record.0].into_iter().chain(args.split(' ')).collect::<Vec<_>>();
                let said = succeed(&mut ceasefire(&args)).stdout;
                assert!(!said.is_empty(), "{command}");
                shown += 1;
            } else if let Some((_, path)) =
                command.strip_prefix("echo ").and_then(|rest| rest.split_once(" > "))
            {
                assert!(Path::new(path).exists(), "{command}");
            }
        }
    }
    assert!(shown >= 3, "{shown} commands that show code");
}
