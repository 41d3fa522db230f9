// SPDX-License-Identifier: GPL-2.0-only
//! Is bad input met with one sentence, a remedy and the right exit code? Needs neither QEMU nor root.

mod common;
use common::{ceasefire, refused, run, succeed, Scratch};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn lab(args: &[&str]) -> std::process::Command {
    let mut all = vec!["lab"];
    all.extend(args);
    ceasefire(&all)
}

#[test]
fn wrong_words_are_usage_errors() {
    for (args, fragment) in [
        (vec!["run", "no-such-workload"], "no-such-workload"),
        (vec!["run", "exactly_n"], "exactly_n"),
        (vec!["run", "--frobnicate"], "--frobnicate"),
        (vec!["run", "zero", "--kernel", "no-such-kernel"], "no-such-kernel"),
        (vec!["run", "zero", "--mode", "idle"], "idle"),
        (vec!["run", "zero", "--kernel", "vanilla:idle"], "vanilla has no mode 'idle'"),
        (vec!["run", "zero", "--kernel", "abis", "--mode", "fast"], "abis has no mode 'fast'"),
        (vec!["run", "zero", "--kernel", "vanilla,abis", "--mode", "idle"], "vanilla has no mode 'idle'"),
        (vec!["run", "zero", "--kernel", "abi"], "abi"),
        (vec!["shell", "--command", "true", "--mode", "idle"], "vanilla has no mode 'idle'"),
        (vec!["run", "zero", "--cpus", "many"], "many"),
        (vec!["run", "zero", "--boots", "0"], "0 boots"),
        (vec!["run", "zero", "--cost", "--boots", "2"], "--cost boots once for each repeat"),
        (vec!["run", "zero", "--on", "host", "--cpus", "1", "--boots", "2"], "takes no --boots 2"),
        (vec!["run", "zero", "--accel", "magic"], "magic"),
        (vec!["run", "zero", "--set", "novalue"], "novalue"),
        (vec!["run", "zero", "--set", "a=b c"], "a=b c"),
        (vec!["run", "zero", "--tlb", ""], "no preset ''"),
        (vec!["run", "zero", "--tlb", "fast"], "no preset 'fast'"),
        (vec!["run", "zero", "--tlb", "hardware,colour=red"], "no setting 'colour'"),
        (vec!["run", "zero", "--tlb", "access-bit=amd"], "access-bit"),
        (
            vec!["run", "zero", "--tlb", "plain,access-bit=intel"],
            "access-bit=intel is called access-bit=denied",
        ),
        (vec!["run", "zero", "--tlb", "entries=-1"], "entries"),
        (vec!["run", "zero", "--tlb", "entries=100,ways=12"], "100 entries"),
        (vec!["run", "zero", "--tlb", "psc=1,psc=2"], "psc twice"),
        (vec!["run", "zero", "--tlb", "stock,psc=1"], "stock"),
        (vec!["shell", "--command", "true", "--tlb", "fast"], "no preset 'fast'"),
        (vec!["run", "zero", "--machine", "stock", "--tlb", "plain"], "no TLB model"),
        (vec!["run", "zero", "--accel", "kvm", "--tlb", "plain"], "KVM"),
        (vec!["run", "zero", "--accel", "kvm", "--la57", "on"], "KVM"),
        (vec!["run", "zero", "--la57", "5"], "--la57"),
        (vec!["run", "zero", "--on", "host", "--tlb", "hardware"], "--tlb hardware"),
        (vec!["run", "zero", "--on", "host", "--la57", "on"], "--la57 on"),
        (vec!["run", "zero", "--qemu", "/no/such/qemu"], "/no/such/qemu"),
        (vec!["run", "zero", "--qemu", "/bin/true"], "/bin/true"),
        (vec!["run", "zero", "--qemu", "/etc/passwd"], "/etc/passwd"),
        (vec!["run", "zero", "--qemu", "/bin/true", "--machine", "stock"], "--machine"),
        (vec!["selftests", "cov"], "cov"),
        (vec!["selftests", "cow", "--subset", "some"], "some"),
        (vec!["selftests", "cow", "--mode", "idle"], "idle"),
        (vec!["selftests", "cow", "--cpus", "1"], "2 NUMA nodes"),
        (vec!["selftests", "cow", "--kernel", "no-such-kernel"], "no-such-kernel"),
        (vec!["selftests", "cow", "--timeout", "0"], "0 s"),
        (vec!["paper", "--only", "figure-9"], "figure-9"),
        (vec!["paper", "--kernel", "vanilla"], "nothing to be compared with"),
        (vec!["paper", "--kernel", "vanilla,no-such-kernel"], "no-such-kernel"),
        (vec!["paper", "--repeats", "0"], "0 repeats"),
        (vec!["paper", "--quick", "--repeats", "3"], "--quick"),
        (vec!["build", "no-such-kernel"], "no-such-kernel"),
        (vec!["clean", "--older-than", "banana"], "banana"),
        (vec!["fly"], "fly"),
    ] {
        refused(&mut lab(&args), 2, fragment);
    }
}

/// A program of the user's own, a directory, a command: each mistake before anything is built.
#[test]
fn what_cannot_go_into_the_guest_is_refused() {
    let scratch = Scratch::new("luggage");
    let path = |name: &str| scratch.0.join(name).to_string_lossy().into_owned();
    let file = |name: &str, mode: u32, content: &[u8]| {
        fs::create_dir_all(scratch.0.join("dir")).expect("a directory");
        let file = scratch.file(name, content);
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
        path(name)
    };
    // Of another processor: the seventh word of the header is its number.
    let mut foreign = fs::read(common::BINARY).expect("the binary");
    foreign[18] = 183;
    let foreign = file("foreign", 0o755, &foreign);
    let text = file("text", 0o755, b"neither\n");
    let script = file("dir/script", 0o755, b"#!/bin/sh\n");
    let plain = file("plain", 0o644, b"#!/bin/sh\n");
    let lost = file("lost", 0o755, b"#!/no/such/shell\n");
    let large = file("dir/large", 0o644, b"");
    let (dir, missing) = (path("dir"), path("missing"));
    for (code, args, fragment) in [
        (2, vec!["run", "--program", &missing], "missing"),
        (2, vec!["run", "--program", &dir], "is a directory"),
        (2, vec!["run", "--program", &foreign], "a program for aarch64"),
        (2, vec!["run", "--program", &text], "neither a program nor a script"),
        (2, vec!["run", "--program", &plain], "not marked as executable"),
        (4, vec!["run", "--program", &lost], "/no/such/shell"),
        (2, vec!["run", "--program", &script, "--dir", &missing], "missing"),
        (2, vec!["run", "--program", &script, "--dir", &script], "no directory"),
        (2, vec!["run", "--program", &text, "--dir", &dir], "neither a program"),
        (2, vec!["run", "--program", &lost, "--dir", &dir], "does not lie in"),
        (2, vec!["run", "--program", &script, "--with", &missing], "missing"),
        (2, vec!["run", "--program", &script, "--set", "a=b"], "--set"),
        (2, vec!["run", "--program", &script, "--on", "host", "--cpus", "1"], "in the guest"),
        (2, vec!["run", "--program", &script, "--memory", "1"], "1 MiB"),
        (2, vec!["run", "zero", "--program", &script], "exclude each other"),
        (2, vec!["run", "--dir", &dir], "--program"),
        (2, vec!["run", "--", "x"], "--program"),
        (2, vec!["run", "program"], "which program"),
        (2, vec!["run", "zero", "own"], "which program"),
        (2, vec!["shell", "--script", &missing], "missing"),
        (2, vec!["shell", "--script", &script, "--command", "true"], "exclude each other"),
        (2, vec!["shell", "--command", "true", "--dir", &missing], "missing"),
        (2, vec!["shell", "--command", "true", "--with", &text], "neither a program"),
        (2, vec!["shell", "--command", " "], "neither empty"),
        (2, vec!["shell", "--command", "a\nb"], "one line"),
    ] {
        refused(&mut lab(&args), code, fragment);
    }
    // A hole: nobody reads it.
    fs::File::options().write(true).open(&large).and_then(|file| file.set_len(600 << 20)).expect("a size");
    for args in
        [vec!["run", "--program", &script, "--dir", &dir], vec!["shell", "--dir", &dir, "--command", "ls"]]
    {
        let said = refused(&mut lab(&args), 2, "larger than 512 MiB");
        assert!(said.stderr.contains("--memory"), "{}", said.stderr);
    }
}

/// One CPU, one node, TLBs of its own, another processor: before anything is built.
#[test]
fn what_a_machine_with_another_processor_has_not_is_refused() {
    let scratch = Scratch::new("powerpc");
    let script = scratch.file("script", b"#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a mode");
    let script = script.to_string_lossy().into_owned();
    for (args, fragment) in [
        (vec!["run", "nosuch"], "nosuch"),
        (vec!["run", "pipe", "--cpus", "2"], "powerpc has 1 CPU, not 2"),
        (vec!["run", "pipe", "--cpus", "1,4"], "powerpc has 1 CPU, not 4"),
        (vec!["run", "pipe", "--nodes", "2", "--cost"], "powerpc has one NUMA node"),
        (vec!["run", "populate"], "needs 2 CPUs"),
        (vec!["run", "pipe", "migrate"], "needs 2 NUMA nodes"),
        (vec!["run", "apache"], "another processor"),
        (vec!["run", "pipe", "--thread-mode", "multi"], "has one CPU"),
        (vec!["run", "pipe", "--slice-us", "100"], "takes no turns"),
        (vec!["run", "pipe", "--tlb", "hardware"], "the TLBs of its processor"),
        (vec!["run", "pipe", "--la57", "on"], "five-level"),
        (vec!["run", "pipe", "--accel", "kvm"], "KVM has no other"),
        (vec!["run", "pipe", "--memory", "32"], "32 MiB"),
        (vec!["run", "pipe", "--memory", "4096"], "4096 MiB"),
        (vec!["run", "pipe", "--mode", "idle"], "ppc has no mode 'idle'"),
        (vec!["run", "--program", "/bin/true"], "a program for x86-64"),
        (vec!["run", "--program", &script], "is no program"),
        (vec!["shell", "--command", "true", "--cpus", "2"], "powerpc has 1 CPU, not 2"),
        (vec!["shell", "--command", "true", "--nodes", "2", "--cpus", "2"], "powerpc has 1 CPU"),
        (vec!["shell", "--command", "true", "--with", "/bin/true"], "a program for x86-64"),
        (vec!["selftests", "cow"], "Linux's own tests do not run on the machine powerpc"),
        (vec!["run", "pipe", "--record"], "the observer does not run on the machine powerpc"),
    ] {
        // Where the cross compiler is not installed, it need not be for these.
        let args = [&args[..], &["--kernel", "ppc", "--dry-run"]].concat();
        refused(&mut lab(&args), 2, fragment);
    }
    refused(&mut lab(&["run", "pipe", "--kernel", "vanilla,ppc"]), 2, "ppc on powerpc");
}

#[test]
fn a_near_miss_is_told_the_nearest_name() {
    let said = refused(&mut lab(&["run", "exactlyn"]), 2, "exactlyn");
    assert!(said.stderr.contains("exactly-n"), "{}", said.stderr);
    let said = refused(&mut lab(&["run", "zero", "--kernel", "vanila"]), 2, "vanila");
    assert!(said.stderr.contains("vanilla"), "{}", said.stderr);
}

#[test]
fn numbers_out_of_range_are_usage_errors() {
    for (args, fragment) in [
        (vec!["--cpus", "0"], "0 CPUs"),
        (vec!["--cpus", "5000"], "5000 CPUs"),
        (vec!["--cpus", "4", "--nodes", "8"], "8 NUMA nodes"),
        (vec!["--cpus", "4", "--nodes", "0"], "0 NUMA nodes"),
        (vec!["--cpus", "2", "--threads", "3"], "3 threads"),
        (vec!["--cpus", "2", "--threads", "0"], "0 threads"),
        (vec!["--repeats", "0"], "0 repeats"),
        (vec!["--units", "0"], "0 units"),
        (vec!["--memory", "1"], "1 MiB"),
        (vec!["--slice-us", "0"], "slice of 0"),
        (vec!["--slice-us", "100", "--machine", "stock"], "slice"),
        (vec!["--timeout", "0"], "0 s"),
        (vec!["--cost", "--cpus", "2", "--tlb", "stock"], "only the lab's own QEMU"),
        (vec!["--cost", "--cpus", "2", "--thread-mode", "multi"], "depend on the host"),
        (vec!["--on", "host", "--cost", "--cpus", "1"], "emulator"),
        (vec!["--jobs", "0"], "0 compiler jobs"),
    ] {
        let mut all = vec!["run", "zero"];
        all.extend(args);
        refused(&mut lab(&all), 2, fragment);
    }
}

#[test]
fn more_cpus_than_this_machine_has_are_refused_on_the_host() {
    let cores = std::thread::available_parallelism().expect("known").get();
    let cpus = (cores + 1).to_string();
    if cores < 64 {
        refused(&mut lab(&["run", "zero", "--on", "host", "--cpus", &cpus]), 2, "this machine has");
    }
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let scratch = Scratch::new("cli");
    let path = |name: &str, content: &[u8]| scratch.file(name, content).to_string_lossy().into_owned();
    let text = path("text", b"not a kernel");
    let empty = path("empty", b"");
    let half = path("half.json", br#"{"schema": "ceasefire.results/1", "environ"#);
    let newer = path("newer.json", br#"{"schema": "ceasefire.results/99", "rows": []}"#);
    let other = path("other.json", br#"{"schema": "something.else/1"}"#);
    let array = path("array.json", b"[]");
    let binary = path("binary", &[0xff; 4096]);
    let missing = scratch.0.join("missing").to_string_lossy().into_owned();
    let dir = scratch.0.to_string_lossy().into_owned();

    for (code, args, fragment) in [
        (2, vec!["run", "zero", "--kernel-image", &text], "text"),
        (2, vec!["run", "zero", "--kernel-image", &empty], "empty"),
        (2, vec!["run", "zero", "--kernel-image", &missing], "missing"),
        (2, vec!["run", "zero", "--kernel-source", &missing], "missing"),
        (2, vec!["run", "zero", "--kernel-source", &dir], "Linux"),
    ] {
        refused(&mut lab(&args), code, fragment);
    }
    for file in [&half, &newer, &other, &array, &binary, &empty, &missing, &dir] {
        let report = scratch.0.join("report.html").to_string_lossy().into_owned();
        let name = file.rsplit('/').next().expect("a name");
        for args in [vec!["compare", file, file], vec!["report", file, "--output", &report]] {
            let said = run(&mut lab(&args));
            assert!([1, 2].contains(&said.code), "{args:?}: {}", said.stderr);
            assert!(said.stderr.contains(name), "{args:?} does not name the file: {}", said.stderr);
            assert!(said.stderr.contains("remedy: "), "{args:?}: {}", said.stderr);
        }
        assert!(!scratch.0.join("report.html").exists(), "half a report was written");
    }
    for file in [&binary, &empty, &missing, &dir] {
        let said = run(&mut lab(&["parse", file]));
        assert!([1, 2].contains(&said.code), "{file}: {}", said.stderr);
        assert!(said.stderr.contains("error: ") && said.stderr.contains("remedy: "), "{}", said.stderr);
    }
}

/// Stored rows alone: nothing is booted, and the file is told from a results file by its schema.
#[test]
fn the_papers_page_is_written_again_from_its_rows() {
    let scratch = Scratch::new("paper");
    let stored = common::root().join("lab/report/tests/golden/paper.json");
    let text = fs::read_to_string(&stored).expect("the stored rows");
    let page = scratch.0.join("paper.html");
    let output = page.to_string_lossy().into_owned();
    succeed(&mut lab(&["report", &stored.to_string_lossy(), "--output", &output]));
    let html = fs::read_to_string(&page).expect("a page");
    for expected in ["vm-scalability: six cases", "figure-8</code>", "</html>"] {
        assert!(html.contains(expected), "{expected}");
    }
    let newer =
        scratch.file("newer.json", text.replace("ceasefire.paper/1", "ceasefire.paper/99").as_bytes());
    let newer = newer.to_string_lossy().into_owned();
    let none = scratch.0.join("none.html").to_string_lossy().into_owned();
    refused(&mut lab(&["report", &newer, "--output", &none]), 2, "newer.json");
    assert!(!scratch.0.join("none.html").exists(), "half a page was written");
}

#[test]
fn the_plan_of_the_paper_says_what_boots_and_how_long() {
    let said = succeed(&mut lab(&["paper", "--dry-run", "--quick", "--only", "figure-7,figure-5"]));
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("# controls: 6 boots, about 00:"), "{}", said.stdout);
    assert!(lines.iter().any(|line| line.starts_with("# figure-5: 21 boots")), "{}", said.stdout);
    assert!(lines.last().is_some_and(|last| last.starts_with("# in all 39 boots")), "{}", said.stdout);
    let commands = lines.iter().filter(|line| line.starts_with("ceasefire lab run "));
    assert_eq!(commands.count(), 12, "one command a boot: {}", said.stdout);
    assert!(said.stdout.contains("pbzip2 --cpus 8 --threads 4 --repeats 2"), "{}", said.stdout);
}

#[test]
fn a_missing_compiler_is_named() {
    let cache = Scratch::new("nocc");
    refused(
        lab(&["list"]).env("CEASEFIRE_CACHE", &cache.0).env("CC", "no-such-compiler"),
        4,
        "no-such-compiler",
    );
}

#[test]
fn a_missing_package_prints_the_command_instead() {
    let cache = Scratch::new("nopkg");
    // A dpkg-query that knows no package stands for a machine where nothing is installed.
    let bin = cache.0.join("bin");
    fs::create_dir(&bin).expect("made");
    let fake = bin.join("dpkg-query");
    fs::write(&fake, "#!/bin/sh\nexit 1\n").expect("written");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
    let said = refused(
        lab(&["run", "zero", "--no-install"]).env("PATH", path).env("CEASEFIRE_CACHE", &cache.0),
        4,
        "flex",
    );
    assert!(said.stderr.contains("apt-get install"), "{}", said.stderr);
}

#[test]
fn an_output_directory_that_cannot_be_written_is_named() {
    let scratch = Scratch::new("out");
    let file = scratch.file("taken", b"kept");
    let out = file.to_string_lossy().into_owned();
    let args = ["run", "zero", "--on", "host", "--cpus", "1", "--repeats", "1", "--out", &out];
    refused(&mut lab(&args), 1, "taken");
    assert_eq!(fs::read(&file).expect("there"), b"kept");
}

#[test]
fn outside_a_checkout_one_sentence_says_so() {
    // A copy: the binary below target/ finds the checkout it was built in.
    let scratch = Scratch::new("nowhere");
    let copy = scratch.0.join("ceasefire");
    fs::copy(common::BINARY, &copy).expect("copied");
    let mut command = std::process::Command::new(&copy);
    command.args(["lab", "list"]).current_dir(&scratch.0).env_remove("CEASEFIRE_ROOT");
    refused(&mut command, 2, "checkout");
}

#[test]
fn without_the_observer_one_sentence_says_how_to_get_it() {
    for args in [vec!["watch", "stat"], vec!["watch", "check"], vec!["watch", "trace", "--json"]] {
        let said = refused(&mut ceasefire(&args), 4, "without the observer");
        assert!(said.stderr.contains("make watch"), "{}", said.stderr);
    }
    refused(&mut ceasefire(&["watch", "fly"]), 2, "fly");
    refused(&mut ceasefire(&["watch", "stat", "1y"]), 2, "1y");
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [vec!["--help"], vec!["--version"], vec!["lab", "--help"], vec!["lab", "run", "--help"]] {
        let said = succeed(&mut ceasefire(&args));
        assert!(!said.stdout.is_empty() && said.stderr.is_empty());
    }
    assert_eq!(run(&mut ceasefire(&[])).code, 2);
}

#[test]
fn help_fits_80_columns() {
    let lab = ["demo", "all", "paper", "run", "list", "shell", "selftests", "build", "kernel-deb", "compare"];
    let lab = lab.iter().chain(&["report", "parse", "doctor", "clean"]).map(|verb| vec!["lab", *verb]);
    for command in [vec![], vec!["lab"]].into_iter().chain(lab) {
        for flag in ["-h", "--help"] {
            let mut args = command.clone();
            args.push(flag);
            let said = succeed(ceasefire(&args).env("COLUMNS", "200"));
            for line in said.stdout.lines() {
                assert!(line.chars().count() <= 80, "{args:?}: '{line}' is wider than 80 columns");
            }
        }
    }
}

#[test]
fn lists_fit_a_narrow_terminal_and_have_a_json_form() {
    let said = succeed(lab(&["list"]).env("COLUMNS", "40"));
    for line in said.stdout.lines() {
        assert!(line.chars().count() <= 40, "'{line}' is wider than 40 columns");
    }
    let said = succeed(&mut lab(&["list", "--json"]));
    let value: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(value["schema"], "ceasefire.list/1");
    let names: Vec<&str> = value["workloads"]
        .as_array()
        .expect("workloads")
        .iter()
        .filter_map(|workload| workload["name"].as_str())
        .collect();
    for name in
        ["zero", "exactly-n", "madvise-scaling", "migrate", "cow-mt-seq", "mmap-read", "msync-mt", "apache"]
    {
        assert!(names.contains(&name), "{name} is not listed: {names:?}");
    }
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let script = format!("{} lab list | head -n 1", common::BINARY);
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(common::root())
        .output()
        .expect("sh runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(!output.stdout.is_empty(), "nothing came through the pipe: {stderr}");
}

#[test]
fn dry_run_prints_commands_and_starts_nothing() {
    let out = Scratch::new("dry");
    let dir = out.0.join("out");
    let said =
        succeed(&mut lab(&["run", "exactly-n", "--cpus", "8", "--dry-run", "--out", &dir.to_string_lossy()]));
    assert!(said.stdout.contains("-smp 8"), "{}", said.stdout);
    assert!(said.stdout.contains("run exactly-n threads=8"), "{}", said.stdout);
    assert!(!dir.exists(), "a dry run wrote something");
    let said = succeed(&mut lab(&["run", "exactly-n", "--cpus", "2", "--boots", "3", "--dry-run"]));
    assert_eq!(said.stdout.matches("run exactly-n threads=2 repeats=3").count(), 3, "{}", said.stdout);
    let said = succeed(&mut lab(&["run", "--program", common::BINARY, "--dry-run", "--", "a b"]));
    assert!(said.stdout.contains("run program threads=4"), "{}", said.stdout);
    assert!(said.stdout.contains("ceasefire-dry-run/luggage.cpio"), "{}", said.stdout);
}

/// One kernel and so one build, each boot in both modes.
#[test]
fn the_demo_shows_off_beside_idle() {
    let said = succeed(&mut lab(&["demo", "--dry-run"]));
    let boots = |mode: &str| said.stdout.lines().filter(|line| line.contains(mode)).count();
    assert!(boots(" abis=off") > 0 && boots(" abis=off") == boots(" abis=idle"), "{}", said.stdout);
    assert!(!said.stdout.contains("# vanilla "), "{}", said.stdout);
}

#[test]
fn dry_run_says_what_the_tlbs_are_like() {
    for (args, cpu) in [
        (vec![], "-cpu max,-la57,tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal -smp"),
        (
            vec!["--tlb", "plain,insert=on"],
            "-cpu max,-la57,tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal,tlb-insert=on -smp",
        ),
        (
            vec!["--tlb", "broadcast=late"],
            "-cpu max,-la57,tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal,invlpgb=on,tlb-broadcast=late,\
             tlb-broadcast-pages=8 -smp",
        ),
        (vec!["--tlb", "stock", "--la57", "on"], "-cpu max,-pcid,-invpcid,tlb-model=off -smp"),
        (
            vec!["--tlb", "hardware,seed=7", "--cost", "--cpus", "1"],
            "-cpu max,-erms,-fsrm,-la57,tlb-model=on,tlb-oracle=on,tlb-access-bit=dirty,tlb-entries=1536,\
             tlb-ways=12,tlb-psc=64,tlb-speculation-us=100,tlb-seed=7 -smp",
        ),
    ] {
        let mut all = vec!["run", "zero", "--dry-run"];
        all.extend(args);
        let said = succeed(&mut lab(&all));
        assert!(said.stdout.contains(cpu), "{}", said.stdout);
        all.extend(["--kernel-args", "nopcid"]);
        assert!(succeed(&mut lab(&all)).stdout.contains("nopcid"));
    }
}

/// A program that answers like a QEMU without our patches is taken, and has no TLBs to set.
#[test]
fn a_qemu_of_ones_own_is_asked_what_it_can_do() {
    let scratch = Scratch::new("qemu");
    let fake = scratch.file(
        "qemu",
        b"#!/bin/sh\ncase $1 in --version) echo 'QEMU emulator version 9.9.9' ;; -device) echo 'pcid=<bool>' ;; esac\n",
    );
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = fake.to_string_lossy().into_owned();
    let said = succeed(&mut lab(&["run", "zero", "--dry-run", "--qemu", &path]));
    assert!(said.stdout.contains(&path) && said.stdout.contains("-cpu max,-la57 -smp"), "{}", said.stdout);
    refused(&mut lab(&["run", "zero", "--qemu", &path, "--tlb", "plain"]), 2, "no TLB model");
    refused(&mut lab(&["run", "zero", "--qemu", &path, "--slice-us", "100"]), 2, "slice");
}
