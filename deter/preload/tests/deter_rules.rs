// SPDX-License-Identifier: GPL-2.0-only
//! The safety rules of interception, each a test: what the library takes, what it leaves alone, what is seen of it.

mod common;

use ceasefire_deter_preload as preload;
use common::{
    assert_facts, command, facts_of, finish, is_root, library, library_with, program, run, skip, text, ALL,
    STRICT,
};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

fn table(case: &str) -> String {
    facts_of(&program("table", &[]), case, Some((&library(), ALL)))
}

fn calls(case: &str) -> String {
    facts_of(&program("calls", &[]), case, Some((&library(), ALL)))
}

/// With the library a case says what it says without.
fn same(name: &str, case: &str, modes: &str) -> String {
    let program = program(name, &[]);
    let with = facts_of(&program, case, Some((&library(), modes)));
    assert_eq!(with, facts_of(&program, case, None), "{case} with {modes}");
    with
}

#[test]
fn rule_01_only_ranges_seen_mapped_private_anonymous_read_write() {
    let kept = [
        ("shared-answer", "0"),
        ("shared-kept", "1"),
        ("file-shared-answer", "0"),
        ("file-shared-kept", "1"),
    ];
    let file = [("file-private-answer", "0"), ("file-private-reads-file", "1")];
    let taken = ["private", "noreserve", "populated", "fixed", "by-syscall"].map(|kind| (kind, "ours"));
    let left = ["executable", "growsdown"].map(|kind| (kind, "kernel"));
    let more = [("locked", "EINVAL"), ("zero-device", "kernel"), ("made-writable", "kernel")];
    assert_facts(&table("kinds"), &[&taken[..], &left, &more, &kept, &file].concat());
    // Without the library none is ours: the test can tell.
    assert!(!facts_of(&program("table", &[]), "kinds", None).contains("ours"));
    assert_facts(
        &table("neighbours"),
        &[
            ("both", "ours"),
            ("mended", "ours"),
            ("across-shared-answer", "0"),
            ("across-shared-kept", "1"),
            ("below", "ours"),
            ("above", "ours"),
            ("rest-above", "ours"),
            ("rest-below", "ours"),
            ("replaced-answer", "0"),
            ("replaced-kept", "1"),
        ],
    );
}

#[test]
fn rule_01_ranges_that_changed_unseen_are_the_kernels_where_something_is_mapped() {
    let facts = same("table", "unseen", ALL);
    assert!(facts.contains("same-place 1\nanswer -1\nerror EINVAL\n"), "{facts}");
}

#[test]
fn rule_01_of_two_racing_changes_the_last_counts() {
    assert_facts(&table("racing"), &[("wrong", "0")]);
    assert_facts(&facts_of(&program("table", &[]), "racing", None), &[("wrong", "0")]);
    assert_facts(&table("crowd"), &[("wrong", "0"), ("most-are-ours", "1")]);
}

#[test]
fn rule_01_what_does_not_fit_into_the_table_passes_through() {
    let small = library_with(&["-DRANGES_MOST=8"]);
    let facts = facts_of(&program("table", &[]), "full", Some((&small, ALL)));
    assert!(facts.starts_with("ours 7\nhole-answer 0\nhole kernel\nbelow ours\nabove "), "{facts}");
    assert!(facts.contains("above kernel\n"), "{facts}");
    assert_eq!(
        facts.lines().filter(|line| line.starts_with("unmapped-") && line.ends_with(" ENOMEM")).count(),
        12
    );
    // A table with room for all takes both sides.
    let facts = table("full");
    assert!(facts.starts_with("ours 12\nhole-answer 0\nhole kernel\nbelow ours\nabove ours\n"), "{facts}");
}

#[test]
fn rule_02_what_changes_a_range_takes_it_out() {
    let facts = table("changes");
    let mut changes = 0;
    for line in facts.lines() {
        let (name, value) = line.split_once(' ').expect("name and value");
        let expected = match name {
            // This advice changes nothing.
            "willneed-middle" => "ours",
            "mremap-target" => "kernel",
            // Shared memory is there now, and keeps what it holds.
            "fixed-shared-middle" | "mremap-onto-middle" => "NOT-ZERO",
            _ if name.ends_with("-middle") => "kernel",
            _ => "ours",
        };
        changes += usize::from(name.ends_with("-middle") && value != "skipped");
        assert!(value == expected || value == "skipped", "{line}\n{facts}");
    }
    assert!(changes >= 20, "{facts}");
}

#[test]
fn rule_02_changes_of_unknown_ranges_take_all_out() {
    assert_facts(
        &table("process-advice"),
        &[("process_madvise", "kernel"), ("process_madvise-cold", "ours")],
    );
    assert_facts(&table("shm"), &[("shmat-answer", "0"), ("shmat-kept", "1")]);
    assert_facts(
        &table("locked-all"),
        &[("before", "ours"), ("locked", "EINVAL"), ("mapped-later", "EINVAL")],
    );
    // After these the program may be watched, or the library's own calls be forbidden.
    assert_facts(&table("seccomp"), &[("before", "ours"), ("after", "kernel")]);
    let facts = table("userfault");
    match facts.contains("skipped") {
        true => skip("userfaultfd is not allowed here"),
        false => assert_facts(&facts, &[("registered", "kernel"), ("mapped-later", "kernel")]),
    }
}

#[test]
fn rule_03_advice_is_answered_there_and_by_the_kernel_elsewhere() {
    let facts = same("calls", "answers", STRICT);
    for expected in
        ["free-all 0 EBADF", "free-hole -1 ENOMEM", "free-file -1 EINVAL", "pageout-locked -1 EINVAL"]
    {
        assert!(facts.contains(expected), "{expected}: {facts}");
    }
    same("calls", "answers", ALL);
    let lazily = |modes| facts_of(&program("calls", &[]), "lazily", Some((&library(), modes)));
    assert!(lazily("free").contains("lazy ours"));
    for modes in ["trim", "zero,loose", "", "free,unknown", "Free"] {
        assert!(lazily(modes).contains("lazy kernel"), "{modes}");
    }
}

#[test]
fn rule_04_dontneed_zeroes_there_and_nothing_else() {
    assert_facts(
        &calls("zeroing"),
        &[
            ("part", "0 EBADF"),
            ("below", "1"),
            ("zeroed", "1"),
            ("above", "1"),
            ("none", "0 EBADF"),
            ("still", "1"),
            ("long", "0 EBADF"),
            ("long-resident", "700"),
            ("long-zeroed", "1"),
            ("too-long", "0 EBADF"),
            ("too-long-resident", "0"),
            ("sparse-before", "22"),
            ("sparse-answer", "0"),
            ("sparse-error", "EBADF"),
            ("sparse-resident", "22"),
            ("sparse-zeroed", "1"),
        ],
    );
    assert_facts(
        &calls("shared-with-child"),
        &[("parent", "0 EBADF"), ("parent-zeroed", "1"), ("child", "0")],
    );
    // Where the library's own frame lies in what is dropped, the kernel drops it.
    assert_facts(
        &calls("own-stack"),
        &[("stack-answer", "0"), ("stack-error", "EBADF"), ("stack-zeroed", "1")],
    );
}

#[test]
fn rule_05_absent_pages_are_not_believed_to_be_zero() {
    // As on a host with swap, where mincore calls a page absent that holds something.
    let swapped = library_with(&["-DALL_ABSENT"]);
    let facts = facts_of(&program("calls", &[]), "zeroing", Some((&swapped, ALL)));
    for expected in ["zeroed 1", "below 1", "above 1", "long-zeroed 1", "sparse-zeroed 1", "long-resident 0"]
    {
        assert!(facts.lines().any(|line| line == expected), "{expected}: {facts}");
    }
}

#[test]
fn rule_06_zeroing_is_not_atomic_so_it_needs_a_word_of_its_own() {
    let risks = preload::Mode::Zero.risks();
    assert!(risks.iter().any(|risk| risk.contains("half of a page")), "{risks:?}");
    assert!(preload::setting(&[preload::Mode::Zero], false).is_err());
    let program = program("calls", &[]);
    assert!(
        !facts_of(&program, "zeroing", Some((&library(), "trim,free,zero"))).contains("long-resident 700")
    );
    assert!(facts_of(&program, "zeroing", Some((&library(), "zero,loose"))).contains("long-resident 700"));
}

/// What strict mode leaves alone, and `zero` cannot: it says so.
#[test]
fn rule_06_what_is_on_its_way_out_is_zeroed_too_and_that_is_said() {
    assert!(same("calls", "on-its-way", STRICT).contains("arrives as-sent"));
    assert!(calls("on-its-way").contains("arrives zeroed"));
    assert!(preload::Mode::Zero.risks().iter().any(|risk| risk.contains("vmsplice")));
}

#[test]
fn rule_07_unmapped_memory_is_gone() {
    let facts = same("calls", "gone", ALL);
    assert!(facts.contains("read-ends-with 11\nmincore -1\nmincore-error ENOMEM"), "{facts}");
}

/// Sanitizers are told apart by a function that each must have.
#[test]
fn rule_07_sanitizers_are_refused() {
    for name in ["__asan_init", "__hwasan_init", "__msan_init", "__tsan_init"] {
        let entry = format!("-Wl,--defsym={name}=main");
        let export = format!("-Wl,--export-dynamic-symbol={name}");
        let watched = program("calls", &[&entry, &export]);
        let facts = facts_of(&watched, "secure", Some((&library(), ALL)));
        assert!(facts.contains("drop kernel\n") && facts.contains("lazy kernel\n"), "{name}: {facts}");
        let why = preload::refusal(&watched).expect("a program").expect("a refusal");
        assert!(why.contains("Sanitizer"), "{why}");
    }
    assert_eq!(preload::refusal(&program("calls", &[])).expect("a program"), None);
    let folder = tempfile::tempdir().expect("a directory");
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").expect("a file");
    assert_eq!(preload::refusal(&script).expect("a script"), None);
    assert!(preload::refusal(&folder.path().join("nowhere")).is_err());
}

#[test]
fn rule_07_setuid_programs_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("permissions");
    // It needs the library by itself: a preload would be left out.
    let library = folder.path().join(preload::LIBRARY_NAME);
    std::fs::write(&library, preload::library()).expect("a file");
    let path = format!("-Wl,-rpath,{}", folder.path().display());
    let linked =
        program("calls", &["-Wl,--no-as-needed", &library.to_string_lossy(), "-Wl,--as-needed", &path]);
    let setuid = folder.path().join("setuid");
    std::fs::copy(linked, &setuid).expect("a copy");
    std::fs::set_permissions(&setuid, PermissionsExt::from_mode(0o4755)).expect("permissions");
    let why = preload::refusal(&setuid).expect("a program").expect("a refusal");
    assert!(why.contains("setuid"), "{why}");
    if !is_root() {
        return skip("only root can try a setuid program of another user");
    }
    let mut command = command(&setuid, &["secure"], None);
    command.env("CEASEFIRE_DETER", ALL).uid(65534).gid(65534);
    let output = finish(&mut command, b"", 60);
    let facts = String::from_utf8_lossy(&output.stdout);
    if facts.contains("secure 0") {
        return skip("the file system of temporary files ignores setuid");
    }
    assert!(
        facts.contains("secure 1\ndrop kernel\n") && facts.contains("lazy kernel\n"),
        "{}",
        text(&output)
    );
}

#[test]
fn rule_08_reused_memory_reads_zero() {
    let facts = same("calls", "reused", ALL);
    assert!(facts.contains("zero-after-drop 1\nzero-after-unmap 1\nzero-after-fixed 1"), "{facts}");
}

#[test]
fn rule_09_hints_and_fixed_addresses_get_what_they_ask_for() {
    let facts = same("calls", "addressed", ALL);
    assert!(
        facts.contains("noreplace-error EEXIST") && facts.contains("fixed-file 1\nreads-file 1"),
        "{facts}"
    );
}

#[test]
fn rule_10_memory_runs_out_where_it_would_without() {
    let facts = same("calls", "limited", ALL);
    assert!(facts.contains("error ENOMEM\nagain 1"), "{facts}");
}

#[test]
fn rule_11_it_stops_when_memory_runs_short() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("stop");
    let stop = preload::Stop::create(&path).expect("a stop file");
    assert!(preload::Stop::create(&path).is_err(), "one that is there is not taken");
    let stopping = |stop: Option<&preload::Stop>, name: &Path| {
        let mut command = command(&program("calls", &[]), &["stopping"], Some((&library(), ALL)));
        command.env(preload::STOP_VARIABLE, name).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program");
        let mut output = child.stdout.take().expect("its output");
        let mut line = String::new();
        while !line.ends_with('\n') {
            let mut byte = [0];
            assert_eq!(std::io::Read::read(&mut output, &mut byte).expect("a line"), 1);
            line.push(byte[0].into());
        }
        stop.map(preload::Stop::stop).transpose().expect("stopped");
        drop(child.stdin.take().map(|mut stdin| std::io::Write::write_all(&mut stdin, b"x")));
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut output, &mut rest).expect("the rest");
        assert!(child.wait().expect("an end").success());
        line + &rest
    };
    let facts = stopping(None, &path);
    assert!(facts.contains("before ours\nafter ours\n") && facts.contains("lazy ours\n"), "{facts}");
    assert!(facts.contains("trim 0"), "{facts}");
    let facts = stopping(Some(&stop), &path);
    assert!(facts.contains("before ours\nafter kernel\n") && facts.contains("lazy kernel\n"), "{facts}");
    assert!(facts.contains("trim 1"), "{facts}");
    // Whoever cannot be stopped does not start.
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").expect("a file");
    for name in [folder.path().join("nowhere"), empty, folder.path().to_path_buf()] {
        assert!(stopping(None, &name).contains("before kernel\nafter kernel\n"), "{}", name.display());
    }
}

#[test]
fn rule_11_events_and_pressure_are_read() {
    let events = "low 7\nhigh 2\nmax 3\noom 0\noom_kill 0\n";
    let pressure =
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
    let before = preload::Strain::parse(events, pressure);
    assert_eq!(before, preload::Strain { events: 5, waited_us: 5000 });
    assert_eq!(preload::Strain::parse("", "some nonsense\nx"), preload::Strain::default());
    assert!(!before.rose_since(before));
    assert!(!preload::Strain { waited_us: 6000, ..before }.rose_since(before));
    assert!(preload::Strain { waited_us: 60_000, ..before }.rose_since(before));
    assert!(preload::Strain { events: 6, ..before }.rose_since(before));
}

#[test]
fn rule_12_a_child_owns_nothing() {
    assert_facts(
        &table("forks").lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"),
        &[
            ("parent-before", "ours"),
            ("fork-child", "kernel"),
            ("fork-child-own", "ours"),
            ("grandchild", "kernel"),
            ("grandchild-own", "ours"),
            ("clone-child", "kernel"),
            ("parent-after", "ours"),
        ],
    );
    assert_facts(
        &table("vforks"),
        &[
            ("vfork-child-advises", "0"),
            ("parent-still", "ours"),
            ("vfork-child-unmaps", "0"),
            ("free-answer", "-1"),
            ("free-error", "ENOMEM"),
            ("dontneed-answer", "-1"),
            ("dontneed-error", "ENOMEM"),
            ("parent-later", "kernel"),
        ],
    );
    same("calls", "forking-threads", ALL);
}

#[test]
fn rule_13_files_are_never_kept() {
    same("calls", "files", ALL);
}

#[test]
fn rule_14_taking_permissions_away_is_never_left_out() {
    let facts = same("calls", "permissions", ALL);
    assert!(facts.contains("none-read 11\nread-only-read 0\nread-only-write 11\nwritable 0"), "{facts}");
}

/// What the library asks of others, and when.
#[test]
fn rule_15_no_allocation_no_lookup_signals_blocked_errno_kept() {
    let library = library();
    let readelf = |option: &str| {
        let output = std::process::Command::new("readelf").args(["-W", option]).arg(&library).output();
        String::from_utf8_lossy(&output.expect("readelf").stdout).into_owned()
    };
    let needed: Vec<String> =
        readelf("-d").lines().filter(|line| line.contains("(NEEDED)")).map(str::to_owned).collect();
    assert!(needed.len() == 1 && needed[0].contains("[libc.so.6]"), "{needed:?}");
    assert!(readelf("-d").contains("BIND_NOW"));
    let symbols = readelf("--dyn-syms");
    let mut asked: Vec<&str> = symbols
        .lines()
        .filter(|line| line.contains(" UND "))
        .filter_map(|line| line.split_whitespace().nth(7)?.split('@').next())
        .collect();
    asked.sort_unstable();
    asked.dedup();
    let compiler =
        ["_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__"];
    asked.retain(|name| !compiler.contains(name));
    // dlsym for malloc_trim alone, which no signal handler may call. None of these allocates.
    let known =
        ["__asan_init", "__environ", "__errno_location", "__hwasan_init", "__msan_init", "__tsan_init"];
    assert_eq!(asked, [&known[..], &["dlsym", "environ", "getauxval"]].concat());
    // Programs with an older libc start, too.
    for version in
        readelf("-V").split("Name: GLIBC_").skip(1).filter_map(|rest| rest.split_whitespace().next())
    {
        assert!(["2.2.5", "2.16"].contains(&version), "GLIBC_{version}");
    }
    let facts = same("calls", "signals", ALL);
    assert!(facts.contains("many 1\nwrong 0"), "{facts}");
    same("calls", "signals", STRICT);
}

#[test]
fn rule_15_it_works_before_constructors() {
    // A library that is loaded, and so started, before ours is.
    let early = program("early", &["-shared", "-fPIC"]);
    let (library, early) = (library().display().to_string(), early.display().to_string());
    for both in [format!("{library}:{early}"), format!("{early}:{library}")] {
        let output = run(&program("calls", &[]), &["reused"], Some((Path::new(&both), ALL)));
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains("early ours\n"), "{}", text(&output));
    }
}

#[test]
fn rule_16_the_programs_own_mallopt_wins() {
    let facts = same("calls", "malloc-settings", ALL);
    assert!(facts.contains("mallopt 1\ntrim-threshold 1\nmapped 0\nmapped 1"), "{facts}");
    let trimming = |modes| facts_of(&program("calls", &[]), "trimming", Some((&library(), modes)));
    assert!(trimming("trim").contains("trim ours"));
    for modes in ["free", "", "trim,nonsense"] {
        assert!(trimming(modes).contains("trim libc"), "{modes}");
    }
}

#[test]
fn rule_17_presence_is_proved() {
    let library = library();
    for (more, present) in [(&[][..], true), (&["-static"][..], false)] {
        let program = program("calls", more);
        let mut command = command(&program, &["waiting"], Some((&library, STRICT)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program");
        let mut ready = [0; 7];
        std::io::Read::read_exact(child.stdout.as_mut().expect("output"), &mut ready).expect("it is ready");
        assert_eq!(preload::is_present(child.id(), &library).expect("maps"), present, "{more:?}");
        assert!(!preload::is_present(child.id(), Path::new("/nowhere.so")).expect("maps"));
        drop(child.stdin.take());
        child.wait().expect("an end");
        assert!(preload::is_present(child.id(), &library).is_err(), "a process that is gone has no maps");
        assert_eq!(preload::refusal(&program).expect("a program").is_some(), !present);
    }
}

#[test]
fn rule_18_the_risks_of_the_filter_are_said() {
    let risks = preload::Filter::risks().join("\n");
    for word in ["no_new_privs", "cannot be removed", "not mapped", "µs"] {
        assert!(risks.contains(word), "{word}: {risks}");
    }
}

/// Switched off, or with a word that it does not know, the library is as good as not there.
#[test]
fn without_modes_nothing_is_done() {
    for modes in ["", "loose", "trim,frea", "free;zero", " free"] {
        let output = run(&program("table", &[]), &["kinds"], Some((&library(), modes)));
        assert!(output.status.success() && !text(&output).contains("ours"), "{modes}: {}", text(&output));
    }
}
