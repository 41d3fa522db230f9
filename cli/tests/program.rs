// SPDX-License-Identifier: GPL-2.0-only
//! Does a program of the user's own run in the guest, and is it counted from its start to its end?

mod common;
use common::{ceasefire, lab_run, refused, row, run, skip, succeed, Scratch};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

/// The first argument is the number of calls that change the rights of one used page, while another thread spins on the
/// second CPU. PAUSE between them: see let_others_run() in workloads/workload.h.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int is_spinning;
static volatile char page[4096] __attribute__((aligned(4096)));

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(9);
}

static void *spin(void *unused)
{
	(void)unused;
	pin(1);
	for (;;) {
		is_spinning = 1;
		__builtin_ia32_pause();
	}
}

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t thread;

	for (int i = 1; i < argc; i++)
		printf("argument %d: %s\n", i, argv[i]);
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "fail") == 0) {
		fprintf(stderr, "the last words\n");
		return 3;
	}
	pin(0);
	page[0] = 1;
	if (pthread_create(&thread, NULL, spin, NULL))
		return 9;
	while (!is_spinning)
		sched_yield();
	for (int i = 0; i < calls; i++) {
		if (mprotect((void *)page, sizeof(page), i % 2 ? PROT_READ | PROT_WRITE : PROT_READ))
			return 9;
		if (i % 2)
			page[0]++;
		__builtin_ia32_pause();
	}
	_exit(0);
}
"#;

/// `None`, counted as skipped, where it cannot be compiled.
fn compiled(scratch: &Scratch, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = scratch.file(&format!("{name}.c"), SOURCE.as_bytes());
    let program = scratch.0.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source).args(flags);
    if run(&mut compiler).code == 0 {
        return Some(program);
    }
    skip("a program of one's own", "no C compiler with a static C library");
    None
}

#[test]
fn every_shootdown_of_a_program_is_counted() {
    let scratch = Scratch::new("program");
    let Some(program) = compiled(&scratch, "calls", &["-static"]) else { return };
    let path = program.to_string_lossy().into_owned();
    let received = |calls: &str| {
        let out = Scratch::new("program-out");
        let results = lab_run(&out, &["--program", &path, "--cpus", "2", "--repeats", "3", "--", calls]);
        let row = row(&results, "program", 2);
        assert_eq!((&row["unit"], &row["units"], &row["repeats"]), (&"run".into(), &1.into(), &3.into()));
        assert_eq!(row["program"], format!("calls {calls}"));
        let page = fs::read_to_string(out.0.join("report.html")).expect("a page");
        assert!(page.contains(&format!("calls {calls}")), "the page does not say what ran");
        let command = results["environment"]["command"].as_str().expect("a command");
        assert!(command.contains("--program ") && command.ends_with(&format!(" -- {calls}")), "{command}");
        ["requested_per_unit", "sent_per_unit", "received_per_unit", "received_irq_per_unit"].map(|field| {
            let [min, max] = ["min", "max"].map(|end| row[field][end].as_f64().expect("a figure"));
            println!("{calls} calls, {field}: {min} to {max}");
            (min, max)
        })
    };
    // Linux flushes in either direction; the rest is for whatever a busy machine lets come between.
    for (few, many) in received("0").into_iter().zip(received("1000")) {
        let (least, most) = (many.0 - few.1, many.1 - few.0);
        assert!(least >= 995.0 && most <= 1005.0, "{few:?} {many:?}");
    }
}

#[test]
fn a_program_that_fails_is_a_failed_row_with_its_last_words() {
    let scratch = Scratch::new("program");
    let Some(program) = compiled(&scratch, "calls", &["-static"]) else { return };
    let (path, out) = (program.to_string_lossy().into_owned(), scratch.0.join("out"));
    let out_dir = out.to_string_lossy().into_owned();
    let args =
        ["lab", "run", "--program", &path, "--cpus", "2", "--out", &out_dir, "--", "fail", "two words"];
    let said = refused(&mut ceasefire(&args), 1, "ended with exit code 3");
    for line in ["| argument 1: fail", "| argument 2: two words", "| the last words"] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
    assert!(said.stderr.contains("-- fail 'two words'"), "the rerun is another: {}", said.stderr);
    let failed = &common::results(&out)["failed"][0];
    assert_eq!(failed["output"].as_array().and_then(|lines| lines.last()), Some(&"the last words".into()));
}

/// A dynamic program, a script beside it, links, modes, and words with blanks in them.
#[test]
fn a_directory_goes_along_with_its_script() {
    let scratch = Scratch::new("program");
    let Some(program) = compiled(&scratch, "calls", &[]) else { return };
    let dir = scratch.0.join("dir");
    fs::create_dir_all(dir.join("sub")).expect("directories");
    fs::copy(&program, dir.join("sub/calls")).expect("copied");
    symlink("sub/calls", dir.join("link")).expect("a link");
    symlink("../calls.c", dir.join("outside")).expect("a link");
    let script = dir.join("a script");
    let text = "#!/bin/sh -e\ntest -L link\ntest ! -x data\nread word <data\necho \"read $word, $# words\"\ncat data | cat\n./link 5 \"$@\"\n";
    for (name, mode, content) in [("a script", 0o755, text), ("data", 0o640, "something\n")] {
        fs::write(dir.join(name), content).expect("a file");
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let (dir, script) = (dir.to_string_lossy().into_owned(), script.to_string_lossy().into_owned());
    let shell = |more: &[&str]| {
        let args = [&["lab", "shell", "--cpus", "2", "--dir", &dir][..], more].concat();
        succeed(&mut ceasefire(&args)).stdout
    };
    let lines = shell(&["--script", &script]);
    assert_eq!(lines.trim(), "read something, 0 words\nsomething\nargument 1: 5");
    let with = ["--with", "/bin/cat"];
    let command = "cat outside || './a script' \"one word\" two && for i in 1 é; do echo \"$i;b\" | cat; done; /bin/cat data";
    let lines = shell(&[&with[..], &["--command", command]].concat());
    for line in
        ["read something, 2 words", "argument 2: one word", "argument 3: two", "1;b", "é;b", "something"]
    {
        assert!(lines.lines().any(|said| said == line), "{line}: {lines}");
    }
}
