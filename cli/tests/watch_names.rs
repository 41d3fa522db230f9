// SPDX-License-Identifier: GPL-2.0-only
//! Whose code it is: frames of programs with symbols, in four languages, have names. On this machine, as root.

mod common;
use common::{ceasefire, compile, may_watch, skip, succeed, Scratch};
use std::path::Path;

/// Of 100 frames.
const NAMED_LEAST: f64 = 95.0;

fn source(name: &str) -> String {
    common::root().join("cli/tests/programs/names").join(name).to_string_lossy().into_owned()
}

/// User frames and how many received each stands for, from folded stacks: those of an object, or bare addresses.
fn user_frames(folded: &str) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for line in folded.lines() {
        let (stack, received) = line.rsplit_once(' ').expect("a count");
        let received = received.parse().expect("a number");
        let is_user = |frame: &&str| frame.ends_with(')') || frame.starts_with("0x") || frame.contains("+0x");
        let frames = stack.split(';').filter(is_user).map(|frame| (frame.to_string(), received));
        all.extend(frames);
    }
    all
}

/// Percent of the frames of `objects`, and of those that lie nowhere, that have names.
fn named(frames: &[(String, u64)], objects: &[&str]) -> f64 {
    let sum = |which: &dyn Fn(&str) -> bool| -> u64 {
        frames.iter().filter(|(frame, _)| which(frame)).map(|(_, received)| received).sum()
    };
    let is_bare = |frame: &str| frame.starts_with("0x");
    let of_objects = |frame: &str| objects.iter().any(|object| frame.contains(object));
    let (all, without) = (
        sum(&|frame| is_bare(frame) || of_objects(frame)),
        sum(&|frame| is_bare(frame) || of_objects(frame) && frame.contains("+0x")),
    );
    assert!(all > 0, "no frame of {objects:?}: {frames:?}");
    100.0 * (all - without) as f64 / all as f64
}

/// None, and a skip is noted, where the two threads never ran at once.
fn storm(cause: &str, command: &[&str]) -> Option<Vec<(String, u64)>> {
    folded(cause, &[], command).map(|folded| user_frames(&folded))
}

fn folded(cause: &str, options: &[&str], command: &[&str]) -> Option<String> {
    let comm = Path::new(command[0]).file_name().expect("a name").to_string_lossy();
    let watch = ["watch", "stacks", "--user-stacks", "--folded", "--cause", cause, "--comm", &comm];
    let args = [&watch, options, &["--"], command].concat();
    for _ in 0..5 {
        let folded = succeed(&mut ceasefire(&args)).stdout;
        if folded.contains(';') {
            return Some(folded);
        }
    }
    skip("watch storms", "other programs had the victim's CPU in each of five tries");
    None
}

/// Each function between main() and the C library's thin call, the one that called it as well.
fn all_are_there(frames: &[(String, u64)], functions: &[&str]) {
    for function in functions {
        assert!(frames.iter().any(|(frame, _)| frame.contains(function)), "{function}: {frames:?}");
    }
}

/// A compiler, its options but for what it writes, the source, and functions from the call to main().
type Language = (&'static str, &'static [&'static str], &'static str, &'static [&'static str]);

const LANGUAGES: [Language; 3] = [
    (
        "cc",
        &["-O2", "-fno-omit-frame-pointer", "-pthread"],
        "storm.c",
        &["madvise (", "storm_inner (", "storm_middle (", "storm_outer (", "main (storm)"],
    ),
    (
        "rustc",
        &["--edition", "2021", "-O", "-C", "force-frame-pointers=yes"],
        "storm.rs",
        &["madvise (", "Area::storm_inner (", "Area::storm_middle (", "storm::main ("],
    ),
    (
        "go",
        &["build"],
        "storm.go",
        &["syscall.Madvise (", "main.stormInner (", "main.stormOuter (", "main.main ("],
    ),
];

#[test]
fn frames_of_compiled_programs_have_names_and_who_called_is_among_them() {
    if !may_watch() {
        return;
    }
    for (compiler, options, name, functions) in LANGUAGES {
        let scratch = Scratch::new("names");
        let program = scratch.0.join("storm").to_string_lossy().into_owned();
        let file = source(name);
        let args = [options, &["-o", &program, &file]].concat();
        if !compile("watch names", compiler, &args) {
            continue;
        }
        let Some(frames) = storm("madvise-dontneed", &[&program, "20000"]) else { return };
        all_are_there(&frames, functions);
        let share = named(&frames, &["(storm)", "storm+0x"]);
        println!("{name}: {share:.2} % of the frames have names");
        assert!(share >= NAMED_LEAST, "{name}: {share} %: {frames:?}");
    }
}

/// A call that the compiler made inline has no frame; the debug information knows it.
#[test]
fn what_the_compiler_made_inline_is_a_frame_where_it_is_asked_for() {
    if !may_watch() {
        return;
    }
    for ((compiler, options, name, _), frames) in LANGUAGES.into_iter().zip([
        "storm_inner (storm);storm_inline (storm);",
        "Area::storm_inner (storm);storm::Area::storm_inline (storm);",
    ]) {
        let scratch = Scratch::new("names-inline");
        let program = scratch.0.join("storm").to_string_lossy().into_owned();
        let file = source(name);
        let args = [options, &["-g", "-o", &program, &file]].concat();
        if !compile("watch names", compiler, &args) {
            continue;
        }
        for (options, is_there) in [(&["--inlined"][..], true), (&[], false)] {
            let Some(folded) = folded("madvise-dontneed", options, &[&program, "2000"]) else { return };
            assert_eq!(folded.contains(frames), is_there, "{name} {options:?}: {folded}");
            assert_eq!(folded.contains("storm_inline"), is_there, "{name} {options:?}: {folded}");
        }
    }
}

/// Its code is made at run time; its names are what jcmd writes while it runs.
#[test]
fn frames_of_a_java_program_have_the_names_that_it_wrote() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("names-java");
    let directory = scratch.0.to_string_lossy().into_owned();
    // Not in memory: only what is written back is protected first.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("names-java.data").to_string_lossy().into_owned();
    if compile("watch names", "javac", &["-d", &directory, &source("Storm.java")]) {
        // All is compiled at once and stays where it is; what is interpreted has no names of its own.
        let java = ["java", "-XX:+PreserveFramePointer", "-Xcomp", "-XX:TieredStopAtLevel=1"];
        let (quiet, inlining) = ("-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Storm::*");
        let java = [&java[..], &[quiet, inlining, "-cp", &directory, "Storm", "150", &file]].concat();
        let Some(frames) = storm("msync", &java) else { return };
        // Names that come later stand in a record as well.
        let record = scratch.0.join("java.record").to_string_lossy().into_owned();
        let record_args = ["watch", "record", "--user-stacks", "-o", &record, "--"];
        succeed(&mut ceasefire(&[&record_args[..], &java].concat()));
        let folded = ["watch", "report", &record, "--view", "stacks", "--folded"];
        let folded = succeed(&mut ceasefire(&folded)).stdout;
        assert!(folded.contains("Storm.stormInner("), "{folded}");
        std::fs::remove_file(&file).expect("written by it");
        all_are_there(&frames, &["msync", "Storm.stormInner(", "Storm.stormOuter(", "Storm.main("]);
        let share = named(&frames, &["perf-"]);
        println!("Storm.java: {share:.2} % of the frames have names");
        assert!(share >= NAMED_LEAST, "{share} %: {frames:?}");
    }
}
