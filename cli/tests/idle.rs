// SPDX-License-Identifier: GPL-2.0-only
//! Mode idle alone: does a kernel without CONFIG_ABIS_FULL refuse mode full, and leave out what nobody holds all the same?

mod common;
use common::checked::{self, consoles, counted, lab};
use common::{ceasefire, row, run, Scratch};

const KERNEL: &str = "abis-idle-debug";

/// At boot, and at run time.
#[test]
fn mode_full_is_refused() {
    for mode in ["full", "full-hw"] {
        let out = Scratch::new("idle-refused");
        let kernel = checked::named(KERNEL, "off", &format!("abis={mode}"));
        let said = lab(&out, &["zero", "--cpus", "2", "--tlb", "hardware"], &kernel);
        assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
        let console = consoles(&out);
        let why = format!("abis: stays off, not {mode}: this kernel is built without it (CONFIG_ABIS_FULL)");
        assert!(console.lines().any(|line| line.ends_with(&why)), "{console}");

        let kernel = checked::named(KERNEL, "idle", "");
        let command = format!("write /sys/kernel/mm/abis/mode {mode}");
        let mut args = vec!["lab", "shell", "--command", &command, "--cpus", "2", "--tlb", "hardware"];
        args.extend(kernel.iter().map(String::as_str));
        assert_eq!(run(&mut ceasefire(&args)).code, 1, "{mode} was taken");
    }
    let knobs = checked::shell(
        "ls /sys/kernel/mm/abis",
        &["--cpus", "2", "--tlb", "hardware"],
        &checked::named(KERNEL, "idle", ""),
    );
    assert!(knobs.contains("round_every") && !knobs.contains("adaptive"), "{knobs}");
}

/// Each site leaves flushes out, the machine was asked at each, and none is left to single CPUs.
#[test]
fn idle_pages_are_not_flushed() {
    let args = ["elisions", "--units", "256", "--cpus", "4", "--tlb", "hardware"];
    let results = checked::clean(&args, &checked::named(KERNEL, "idle", ""));
    let row = row(&results, "elisions", 4);
    for site in ["zap", "protect", "remap", "migrate", "reclaim"] {
        let elided = counted(row, &format!("{site}_idle"));
        assert!(elided >= 256, "{site}: {elided} elided: {row}");
    }
    assert!(row["checked"].as_u64().is_some_and(|checked| checked > 1000), "{row}");
    for none in ["inserted", "narrowed", "hidden"] {
        assert_eq!(counted(row, none), 0, "{row}");
    }
}
