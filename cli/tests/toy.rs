// SPDX-License-Identifier: GPL-2.0-only
//! Is a new mechanism one folder? The toy of cli/tests/toy is laid into a copy of the checkout, and no other file is touched.
mod common;

use common::{run, skip, succeed, Scratch, BINARY};
use std::fs;
use std::path::Path;
use std::process::Command;

const WORKLOAD: &str = "munmap";
const TITLE: &str = "toy flushes";

/// The checkout's files as git knows them, then the toy's.
fn copy_with_toy(to: &Path) -> bool {
    let script = "git ls-files -z --cached | xargs -0 cp --parents -t \"$1\" && cp -r cli/tests/toy/. \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-ec", script, "sh"]).arg(to).current_dir(common::root());
    run(&mut command).code == 0
}

fn in_copy(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).current_dir(root).env("CEASEFIRE_ROOT", root);
    command.env("NO_COLOR", "1").env("COLUMNS", "160");
    command
}

#[test]
fn a_folder_is_a_kernel_with_its_modes_and_counters() {
    let copy = Scratch::new("toy");
    if !copy_with_toy(&copy.0) {
        return skip("toy", "the checkout is no git repository");
    }
    let root = copy.0.as_path();
    // It is listed, and nowhere else known.
    let listed = succeed(&mut in_copy(root, &["lab", "list"])).stdout;
    assert!(listed.contains("toy that counts flush requests (modes: off, on)"), "{listed}");
    let here = succeed(&mut common::ceasefire(&["lab", "list"])).stdout;
    assert!(!here.contains("toy that counts"), "{here}");
    common::refused(&mut in_copy(root, &["lab", "run", "zero", "--kernel", "toy:full"]), 2, "no mode 'full'");

    // It runs in both modes.
    let out = root.join("results");
    let out_text = out.to_string_lossy().into_owned();
    let mut args = vec!["lab", "run", "control", WORKLOAD, "--kernel", "vanilla,toy:off,toy:on"];
    args.extend(["--cpus", "4", "--repeats", "2", "--out", &out_text]);
    let said = succeed(&mut in_copy(root, &args));

    // Its counter is in the table, in the JSON, and in the report with its meaning.
    assert!(said.stdout.contains("toy") && said.stdout.contains("flushes"), "{}", said.stdout);
    let text = fs::read_to_string(out.join("results.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let flushes = |kernel: &str, mode: Option<&str>| {
        let rows = results["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| {
            row["workload"] == WORKLOAD && row["kernel"] == kernel && row["mode"].as_str() == mode
        });
        let row = row.unwrap_or_else(|| panic!("no row of {kernel} {mode:?}"));
        let sent = row["sent_per_unit"]["median"].as_f64().expect("counted");
        assert!((sent - 1.0).abs() < 0.1, "it changes nothing: {row}");
        row["mechanisms"]["toy"]["flushes"]["median"].as_f64()
    };
    assert_eq!(flushes("vanilla", None), None, "vanilla has no toy");
    assert_eq!(flushes("toy", Some("off")), Some(0.0));
    let on = flushes("toy", Some("on")).expect("counted");
    assert!((1.0..1.5).contains(&on), "a flush request for each munmap: {on}");
    let page = fs::read_to_string(out.join("report.html")).expect("a report");
    for words in [TITLE, "Calls of flush_tlb_mm_range while the toy is on."] {
        assert!(page.contains(words), "{words}");
    }

    // And on a machine that never heard of it.
    let there = Scratch::new("toy-there");
    let data = there.file("results.json", text.as_bytes());
    let data = data.to_string_lossy();
    let mut report = Command::new(BINARY);
    report.args(["lab", "report", &data, "--output", "page.html"]).current_dir(&there.0);
    report.env_remove("CEASEFIRE_ROOT").env("COLUMNS", "160");
    succeed(&mut report);
    let page = fs::read_to_string(there.0.join("page.html")).expect("a report");
    assert!(page.contains(TITLE), "the file says what it needs");
}

fn replaced(path: &Path, pairs: &[(&str, &str)]) {
    let mut text = fs::read_to_string(path).expect("a file of the copy");
    for (from, to) in pairs {
        assert!(text.contains(from), "{}: {from}", path.display());
        text = text.replace(from, to);
    }
    fs::write(path, text).expect("written");
}

/// A base for another processor is a folder, too: what would be run is what it says, and nothing of x86 is left.
#[test]
fn a_base_says_architecture_compiler_image_and_machine() {
    let copy = Scratch::new("base");
    if !copy_with_toy(&copy.0) {
        return skip("another base", "the checkout is no git repository");
    }
    let root = copy.0.as_path();
    let script =
        "cp -r kernel/bases/linux-6.12-x86_64 kernel/bases/other && cp -r machine/x86_64 machine/other && \
                  cp kernel/recipes/vanilla.toml kernel/recipes/other.toml";
    succeed(Command::new("sh").args(["-ec", script]).current_dir(root));
    replaced(&root.join("kernel/recipes/other.toml"), &[("\"linux-6.12-x86_64\"", "\"other\"")]);
    replaced(
        &root.join("kernel/bases/other/base.toml"),
        &[
            ("name = \"x86_64\"", "name = \"otter\""),
            ("directory = \"x86\"", "directory = \"otter\""),
            ("target = \"bzImage\"", "target = \"uImage\""),
            ("arch/x86/boot/bzImage", "arch/otter/boot/uImage"),
            ("compiler = \"\"", "compiler = \"otter-linux-gnu-\""),
            ("machine = \"x86_64\"", "machine = \"other\""),
        ],
    );
    replaced(
        &root.join("machine/other/machine.toml"),
        &[
            ("--target-list=x86_64-softmmu", "--target-list=otter-softmmu"),
            ("program = \"qemu-system-x86_64\"", "program = \"qemu-system-otter\""),
            ("machine = \"pc\"", "machine = \"raft\""),
            ("cpu = \"max\"", "cpu = \"o604\""),
            ("console=ttyS0", "console=ttyO0"),
        ],
    );
    let said =
        run(&mut in_copy(root, &["lab", "run", "zero", "--kernel", "other", "--cpus", "2", "--dry-run"]));
    if said.code == 4 {
        return skip("another base", "the sources are not there");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    for words in [
        "ARCH=otter CROSS_COMPILE=otter-linux-gnu-",
        " uImage",
        "arch/otter/boot/uImage",
        "--target-list=otter-softmmu",
        "qemu-system-otter ",
        "-machine raft ",
        "-cpu o604,",
        "-append 'console=ttyO0 ",
    ] {
        assert!(said.stdout.contains(words), "{words}:\n{}", said.stdout);
    }
    for words in ["ARCH=x86_64", "bzImage", "-machine pc", "ttyS0", "--target-list=x86_64"] {
        assert!(!said.stdout.contains(words), "{words}:\n{}", said.stdout);
    }
    // One session has one machine.
    let both = in_copy(root, &["lab", "run", "zero", "--kernel", "vanilla,other", "--dry-run"]);
    common::refused(&mut { both }, 2, "boots on the machine");
}
