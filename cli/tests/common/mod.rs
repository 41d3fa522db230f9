// SPDX-License-Identifier: GPL-2.0-only
//! Runs the real binary, as a user would, with a clean environment where that matters.
#![allow(dead_code)] // each test file uses its own part

pub mod checked;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const BINARY: &str = env!("CARGO_BIN_EXE_ceasefire");

/// A directory of this test's own, removed afterwards.
pub struct Scratch(pub PathBuf, tempfile::TempDir);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let prefix = format!("ceasefire-{name}-");
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir().expect("a scratch directory");
        Scratch(directory.path().to_path_buf(), directory)
    }

    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a scratch file");
        path
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli/ has a parent").to_path_buf()
}

/// `ceasefire ARGS` in the checkout.
pub fn ceasefire(args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).current_dir(root()).env("NO_COLOR", "1").env("COLUMNS", "100");
    command
}

pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

pub fn run(command: &mut Command) -> Said {
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    Said {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// The run must succeed; what it said is shown if it did not.
pub fn succeed(command: &mut Command) -> Said {
    let said = run(command);
    assert_eq!(said.code, 0, "{command:?}\n--- stdout\n{}\n--- stderr\n{}", said.stdout, said.stderr);
    said
}

/// The run must be refused: this exit code, one `error:` sentence holding `fragment`, one `remedy:`.
pub fn refused(command: &mut Command, code: i32, fragment: &str) -> Said {
    let said = run(command);
    let context = format!("{command:?}\n--- stdout\n{}\n--- stderr\n{}", said.stdout, said.stderr);
    assert_eq!(said.code, code, "{context}");
    let errors: Vec<&str> = said.stderr.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "one sentence expected: {context}");
    assert!(errors[0].contains(fragment), "'{fragment}' not in the sentence: {context}");
    assert!(said.stderr.lines().any(|l| l.trim_start().starts_with("remedy: ")), "no remedy: {context}");
    assert!(!said.stderr.contains("panicked"), "{context}");
    said
}

/// Tells the tier's runner that something could not be tried here.
pub fn skip(name: &str, reason: &str) {
    println!("SKIP: {name}: {reason}");
    if let Some(path) = std::env::var_os("CEASEFIRE_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).expect("the skip list");
        writeln!(file, "{name}: {reason}").expect("the skip list");
    }
}

/// False, and a skip is noted, where this machine does not let us watch. Anything else that is wrong with it is a failure.
pub fn may_watch() -> bool {
    let said = run(&mut ceasefire(&["watch", "check"]));
    match said.code {
        0 => true,
        4 => {
            skip("watch", "this machine does not allow BPF programs (root is needed)");
            false
        }
        code => panic!("watch check ended with {code}: {}{}", said.stdout, said.stderr),
    }
}

/// Runs a compiler. False, and a skip is noted, where there is none; a program that it refuses is a failure.
pub fn compile(test: &str, compiler: &str, args: &[&str]) -> bool {
    if Command::new(compiler).arg("--help").output().is_err() {
        skip(test, &format!("{compiler} is not installed"));
        return false;
    }
    // Of Go: no module, and no version control, is asked for.
    let go = [("GO111MODULE", "off"), ("GOFLAGS", "-buildvcs=false")];
    let said = run(Command::new(compiler).args(args).envs(go));
    assert_eq!(said.code, 0, "{compiler}: {}{}", said.stdout, said.stderr);
    true
}

/// Results of one `lab run`, as JSON.
pub fn results(out: &Path) -> serde_json::Value {
    let text = fs::read_to_string(out.join("results.json")).expect("results.json was written");
    serde_json::from_str(&text).expect("results.json is JSON")
}

/// `lab run ARGS` into `out`, which must succeed.
pub fn lab_run(out: &Scratch, args: &[&str]) -> serde_json::Value {
    let out_dir = out.0.to_string_lossy().into_owned();
    let mut all = vec!["lab", "run", "--out", &out_dir];
    all.extend(args);
    succeed(&mut ceasefire(&all));
    results(&out.0)
}

/// The row of a workload at a thread count.
pub fn row<'a>(results: &'a serde_json::Value, workload: &str, threads: u64) -> &'a serde_json::Value {
    results["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .find(|r| r["workload"] == workload && r["threads"] == threads)
        .unwrap_or_else(|| panic!("no row {workload} at {threads} threads"))
}

pub fn median(row: &serde_json::Value, field: &str) -> f64 {
    row[field]["median"].as_f64().unwrap_or_else(|| panic!("{field} has no median: {row}"))
}

/// Within a share of the expectation.
pub fn close(measured: f64, expected: f64, share: f64) -> bool {
    (measured - expected).abs() <= expected.abs() * share
}
