// SPDX-License-Identifier: GPL-2.0-only
//! Advice is taken, and the count is taken again: it must fall. The printed command is what is run; what is to be changed
//! in code is changed in `idioms.c`. On this machine, as root.

mod common;
use common::{ceasefire, compile, may_watch, run, skip, succeed, Scratch, BINARY};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Of what was received before, at most so much is left.
const LEFT_MOST: f64 = 0.2;
/// Of less nothing is advised.
const RECEIVED_LEAST: u64 = 100;

fn program(name: &str) -> String {
    common::root().join(name).to_string_lossy().into_owned()
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

    /// Of what one process sends, whatever its threads are called: a line for a shell that `exec`s it.
    fn of_process(file: &Path, line: &str) -> Record {
        let file = file.to_string_lossy().into_owned();
        let _ = std::fs::remove_file(&file);
        // Until somebody watches.
        let line = format!("sleep 1; {line}");
        let mut process =
            Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).spawn().expect("a shell");
        let pid = process.id().to_string();
        succeed(&mut ceasefire(&["watch", "record", "--user-stacks", "-o", &file, "-p", &pid]));
        assert!(process.wait().expect("ours").success(), "{line}");
        Record(file)
    }

    fn view(&self, view: &str) -> Value {
        let said = succeed(&mut ceasefire(&["watch", "report", &self.0, "--view", view, "--json"]));
        serde_json::from_str(&said.stdout).expect("JSON")
    }

    /// Of the class that has most: advice is about one.
    fn received(&self, cause: &str) -> u64 {
        let stat = self.view("stat");
        let mut by_class: BTreeMap<String, u64> = BTreeMap::new();
        for site in stat["sites"].as_array().expect("sites").iter().filter(|site| site["cause"] == cause) {
            let targets = site["tally"]["targets"].as_u64().expect("a number");
            *by_class.entry(site["class"].to_string()).or_default() += targets;
        }
        by_class.into_values().max().unwrap_or(0)
    }

    /// What is advised about a cause: the change, and the command.
    fn advice(&self, cause: &str) -> (String, String) {
        let all = self.view("advice");
        let mut all = all["advice"].as_array().expect("a list").iter();
        let advice = all.find(|advice| advice["subject"] == cause);
        let advice = advice.unwrap_or_else(|| panic!("nothing is advised about {cause}"));
        let text = |field: &str| advice[field].as_str().expect("a text").to_string();
        println!("{cause}: {advice}");
        (text("change"), text("command"))
    }
}

/// Before, after, and before once more: what is gone afterwards may else be gone because somebody took the victim's CPU. A
/// skip is noted where too little was seen to be advised on.
fn falls(cause: &str, before: impl Fn() -> Record, after: impl Fn(&Record) -> Record) {
    for _ in 0..5 {
        let first = before();
        let was = first.received(cause);
        if was < RECEIVED_LEAST {
            continue;
        }
        let is = after(&first).received(cause);
        let again = before().received(cause);
        if again >= RECEIVED_LEAST {
            println!("{cause}: {was} received, then {is}, then {again}");
            assert!(is as f64 <= was as f64 * LEFT_MOST, "{cause}: {was}, then {is}");
            return;
        }
    }
    skip("watch storms", "other programs had the victim's CPU in each of five tries");
}

/// The same command as it is and as the advice has it.
fn take(scratch: &Scratch, cause: &str, command: &[&str]) {
    let file = scratch.0.join("taken.record");
    let command = format!("exec {}", command.join(" "));
    falls(
        cause,
        || Record::of_process(&file, &command),
        |before| {
            let (_, advised) = before.advice(cause);
            let line = advised.replace("COMMAND", &command).replace("ceasefire ", &format!("exec {BINARY} "));
            assert_ne!(line, advised, "no command to be run");
            // A program after -- is run by that one.
            Record::of_process(&file, &line.replace("-- exec ", "-- "))
        },
    );
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
        if compile("watch advice", "cc", &["-O1", "-pthread", "-o", &binary, &source]) {
            take(&scratch, cause, &[&[binary.as_str()], arguments].concat());
        }
    }
}

/// Not every build of the JDK has Shenandoah.
fn is_known(option: &str) -> bool {
    let is_known = run(Command::new("java").args([option, "-version"])).code == 0;
    if !is_known {
        skip("watch advice", &format!("this java does not know {option}"));
    }
    is_known
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
    if compile("watch advice", "javac", &["-d", &classes, &program("deter/trial/programs/Objects.java")]) {
        for collector in
            ["-XX:+UseG1GC", "-XX:+UseShenandoahGC"].into_iter().filter(|option| is_known(option))
        {
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
    if compile(
        "watch advice",
        "javac",
        &["-d", &classes, &program("cli/tests/programs/advice/Uncommit.java")],
    ) {
        let shenandoah = [
            "-XX:+UseShenandoahGC",
            "-XX:+UnlockExperimentalVMOptions",
            "-XX:ShenandoahUncommitDelay=50",
            "-XX:ShenandoahGuaranteedGCInterval=100",
        ];
        let collectors = [&["-XX:+UseG1GC"][..], &shenandoah].into_iter();
        for collector in collectors.filter(|options| is_known(options[0])) {
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
    if compile("watch advice", "go", &["build", "-o", &go, &program("deter/trial/programs/blocks.go")]) {
        take(&scratch, "madvise-dontneed", &[&go, "24"]);
    }
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.a";
    if !Path::new(library).exists() {
        return skip("watch advice", "libjemalloc.a is not installed");
    }
    let source = program("deter/trial/programs/churn.c");
    let libraries = ["-lm", "-ldl", "-lstdc++"];
    if compile(
        "watch advice",
        "cc",
        &[&["-O1", "-pthread", "-o", &churn, &source, library], &libraries[..]].concat(),
    ) {
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
    if !compile("watch advice", "cc", &["-O1", "-fno-omit-frame-pointer", "-pthread", "-o", &binary, &source])
    {
        return;
    }
    // Not in memory: only what is written back is protected first.
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("idioms.data").to_string_lossy().into_owned();
    for (name, cause, word) in IDIOMS {
        let record =
            |way: &str| Record::of(&scratch.0.join(way), Some("idioms"), &[&binary, name, way, &data]);
        let changed = |before: &Record| {
            let (change, _) = before.advice(cause);
            assert!(change.contains(word), "{name}: {change}");
            record("after")
        };
        falls(cause, || record("before"), changed);
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
    if !compile(
        "watch advice",
        "cc",
        &["-O1", "-pthread", "-o", &binary, &program("cli/tests/programs/advice/khugepaged.c")],
    ) {
        return;
    }
    let record = |name: &str| Record::of(&scratch.0.join(name), None, &[&binary, "3000"]);
    let before = || {
        std::fs::write(format!("{directory}/scan_sleep_millisecs"), "10").expect("set up before");
        record("before")
    };
    falls("thp-collapse", before, |before| {
        let (_, command) = before.advice("thp-collapse");
        assert_eq!(run(Command::new("sh").args(["-c", &command])).code, 0, "{command}");
        // It is woken by the change, and ends the round that it is in.
        record("meanwhile");
        record("after")
    });
}

/// A memory cgroup of version 1 or 2 with a limit, beneath that of this test.
struct Limited {
    path: std::path::PathBuf,
    knob: &'static str,
}

impl Limited {
    const BYTES: &'static str = "41943040";

    fn new() -> Option<Limited> {
        let version_2 = "/sys/fs/cgroup/cgroup.controllers";
        let (root, knob) = match Path::new(version_2).exists() {
            true => ("/sys/fs/cgroup", "memory.max"),
            false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let path = Path::new(root).join(format!("ceasefire-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Limited { path, knob };
        group.limit().then_some(group)
    }

    fn limit(&self) -> bool {
        std::fs::write(self.path.join(self.knob), Limited::BYTES).is_ok()
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// The file is larger than what its group may use, so the program reclaims what it has read; with the limit that is
/// advised it does not.
#[test]
fn a_file_over_its_groups_limit_is_reclaimed_until_the_limit_is_raised() {
    if !may_watch() {
        return;
    }
    let Some(group) = Limited::new() else {
        return skip("watch advice", "no memory cgroup can be made here");
    };
    let scratch = Scratch::new("advice-limit");
    let binary = scratch.0.join("limit").to_string_lossy().into_owned();
    if !compile(
        "watch advice",
        "cc",
        &["-O1", "-pthread", "-o", &binary, &program("cli/tests/programs/advice/limit.c")],
    ) {
        return;
    }
    // Not in memory: there is nothing that such a file could be written to.
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("limit.data").to_string_lossy().into_owned();
    let joined = format!("echo $$ > {}/cgroup.procs && exec {binary} {data} 20", group.path.display());
    let record = |way: &str| Record::of_process(&scratch.0.join("limit.record"), &(joined.clone() + way));
    let before = || {
        assert!(group.limit(), "set up before");
        record("")
    };
    falls("reclaim", before, |before| {
        let (change, command) = before.advice("reclaim");
        assert!(change.contains("limit of its memory cgroup"), "{change}");
        assert_eq!(run(Command::new("sh").args(["-c", &command])).code, 0, "{command}");
        record("")
    });
    // The other half of the advice, with the limit as it was.
    falls("reclaim", before, |_| record(" pread"));
    std::fs::remove_file(&data).expect("written by it");
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
