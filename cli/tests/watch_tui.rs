// SPDX-License-Identifier: GPL-2.0-only
//! Does `watch top` show what there is, at every size, obey its keys, and give the terminal back? Runs the real binary on
//! a terminal of its own, on this machine, as root. Screens are compared with those in `golden/`, their numbers masked;
//! UPDATE_EXPECT=1 renews them.

mod common;
#[path = "common/pty.rs"]
mod pty;

use common::{ceasefire, may_watch, refused, succeed, BINARY};
use expect_test::expect_file;
use pty::{End, Pty};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Shootdowns to look at, until it is dropped.
struct Storm(Child);

impl Storm {
    fn start() -> Storm {
        let mut command = Command::new(BINARY);
        command.args(["watch", "storm", "madvise-dontneed", "--rounds", "1000000000"]);
        // It lasts as long as it is looked at: a storm of real-time threads would leave the two CPUs to nobody else, also
        // not to the kernel's threads that move letters through a terminal.
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(|| {
                const CAP_SYS_NICE: libc::c_ulong = 23;
                libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
                libc::setpriority(libc::PRIO_PROCESS, 0, 10);
                Ok(())
            });
        }
        Storm(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a storm"))
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(args: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["watch", "top"]).args(args);
    command.env_remove("NO_COLOR").env("TERM", "xterm-256color").env("LC_ALL", "C");
    command.envs(environment.iter().copied());
    command
}

fn top(args: &[&str], columns: u16, rows: u16) -> Pty {
    Pty::spawn(&mut command(args, &[]), columns, rows)
}

/// How every end must be: the terminal as it was.
fn assert_restored(end: &End, code: i32) {
    assert_eq!(end.code, code, "{}", end.screen);
    assert!(end.is_restored, "the terminal's settings are not as they were");
    assert!(!end.is_alternate, "still on the other screen");
    assert!(!end.is_cursor_hidden, "the cursor is still hidden");
}

/// Numbers, units, versions and thus widths differ from run to run, and whether a maximum rose; and what else this
/// machine does.
fn masked(screen: &str) -> String {
    let mut lines = Vec::new();
    for line in screen.replace("<=", "  ").lines() {
        let mut text = String::new();
        for letter in line.chars() {
            match letter {
                '0'..='9' | ',' | '.' if text.ends_with('#') => {}
                '0'..='9' => text.push('#'),
                ' ' if text.ends_with(' ') => {}
                letter => text.push(letter),
            }
        }
        let mut words: Vec<&str> = text.split(' ').collect();
        for place in 1..words.len() {
            if words[place - 1] == "#" && ["ns", "us", "ms", "s"].contains(&words[place]) {
                words[place] = "TIME";
            }
        }
        let text = words.join(" ");
        lines.push(text.trim_end().to_string());
    }
    lines.join("\n").trim_end().to_string() + "\n"
}

fn compare(name: &str, screen: &str) {
    expect_file![common::root().join("cli/tests/golden").join(format!("{name}.txt"))].assert_eq(screen);
}

fn has_coverage(screen: &str) -> bool {
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    words.contains("user targets") && words.contains("saw ") && words.contains("overhead: ")
}

/// The tables show other programs, too: the filter leaves the storm, whose threads have these names.
fn only_the_storm(top: &mut Pty) -> String {
    top.press("f");
    top.wait("the filter's prompt", |screen| screen.contains("filter: _"));
    top.press("ceasefire\r");
    top.wait("the filtered storm", |screen| screen.contains("filter: ceasefire") && screen.contains("> "))
}

#[test]
fn every_key_does_what_help_says_at_80_and_40_columns() {
    if !may_watch() {
        return;
    }
    let _storm = Storm::start();
    for (columns, rows) in [(80, 24), (40, 20)] {
        let mut top = top(&["0.5", "--cause", "madvise-dontneed"], columns, rows);
        top.wait("the storm", |screen| screen.contains("ceasefire watch top") && screen.contains("> "));
        let see = |top: &mut Pty, what: &str, sign: &str| {
            let screen = top.wait(what, |screen| screen.contains(sign) && has_coverage(screen));
            println!("{what} at {columns} columns:\n{screen}\n");
            screen
        };
        see(&mut top, "senders", "[1 senders]");
        top.press("2");
        see(&mut top, "victims", "[2 victims]");
        top.press("\t");
        let screen = see(&mut top, "causes", "[3 causes]");
        assert!(screen.contains("> madvise-dontneed"), "{screen}");
        top.press("l");
        see(&mut top, "matrix", "[4 matrix]");
        top.press("1");
        see(&mut top, "senders again", "[1 senders]");

        top.press("s");
        see(&mut top, "the next order", "by RECEIVED\n");
        top.press("ssss");
        see(&mut top, "the order by sent", "by SENT/s\n");

        top.press("j");
        top.press("k");
        top.press("\x1b[B");
        top.press("\x1b[A");
        only_the_storm(&mut top);

        top.press("\r");
        let screen = see(&mut top, "the detail", "history of received/s");
        assert!(screen.contains("sender "), "{screen}");
        top.press("G");
        see(&mut top, "the detail's end", "madvise");
        top.press("\x1b");
        see(&mut top, "the way back", "[1 senders]");

        top.press("p");
        let paused = see(&mut top, "the pause", "PAUSED");
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert_eq!(top.screen(), paused, "nothing moves while it is paused");
        top.press("p");
        top.wait("the going on", |screen| !screen.contains("PAUSED"));
        top.press("r");
        top.wait("the start anew", |screen| screen.contains("for 0 ns") || screen.contains(" ms"));

        top.press("?");
        see(&mut top, "help", "1 2 3 4, Tab");
        top.press("\x1b");
        see(&mut top, "the way back from help", "[1 senders]");
        top.press("q");
        assert_restored(&top.end(), 0);
    }
}

/// Counted since the reset, so a storm must be there; everything else of this machine is left out by pid and cause.
#[test]
fn screens_are_as_they_were() {
    if !may_watch() {
        return;
    }
    let storm = Storm::start();
    let pid = storm.0.id().to_string();
    for (columns, rows) in [(80, 24), (40, 20)] {
        let mut top = top(&["0.5", "-p", &pid, "--cause", "madvise-dontneed"], columns, rows);
        for (key, view) in [("1", "senders"), ("2", "victims"), ("3", "causes"), ("4", "matrix")] {
            top.press(key);
            let is_there = |screen: &str| screen.contains(&format!("{view}]")) && screen.contains("> ");
            top.wait(view, is_there);
            // A figure of every column, not the zeroes of the first instant.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            let screen = top.wait(view, is_there);
            compare(&format!("watch-top-{view}-{columns}"), &rows_of_the_storm(&masked(&screen)));
        }
        top.press("?");
        let screen = top.wait("help", |screen| screen.contains("1 2 3 4, Tab"));
        // How much of it there is room for depends on the footer, which depends on this machine: what is lost on a busy
        // one takes lines of its own.
        let help = rows_of_the_storm(&masked(&screen));
        let lines: Vec<&str> =
            help.split_inclusive('\n').take_while(|line| !line.starts_with("saw ")).collect();
        let shown = lines.len().min(rows as usize - 8);
        assert!(shown + 12 >= rows as usize, "{shown} lines of help: {screen}");
        let name = format!("watch-top-help-{columns}");
        if shown + 8 == rows as usize {
            compare(&name, &lines[..shown].concat());
        } else {
            let golden = common::root().join("cli/tests/golden").join(format!("{name}.txt"));
            let golden = std::fs::read_to_string(golden).expect("the help");
            assert!(golden.starts_with(&lines[..shown].concat()), "{screen}");
        }
        top.press("\x1b");
        top.wait("the way back from help", |screen| screen.contains("matrix]"));
        top.press("q");
        assert_restored(&top.end(), 0);
    }
}

/// Up to and with the last of these words; parts behind it come and go with the width of numbers before them.
fn cut<'a>(line: &'a str, words: &[&str]) -> &'a str {
    let at = words.iter().try_fold(0, |at, word| Some(line[at..].find(word)? + at + word.len()));
    at.map_or(line, |at| &line[..at])
}

/// Only the first row of a table, of the matrix's victims only the first, and no footer: who else was a victim, and
/// whether anything was lost, is this machine's.
fn rows_of_the_storm(masked: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let (mut has_row, mut is_matrix) = (false, false);
    for line in masked.lines() {
        if line.starts_with("saw ") {
            lines.push("saw ...");
            break;
        }
        let is_other_row = has_row && line.starts_with(' ');
        is_matrix |= line.starts_with(" SENDER \\ VICTIM");
        has_row |= line.starts_with("> ");
        if is_other_row || line.is_empty() || line.starts_with("kernel-range:") {
            continue;
        }
        lines.push(match () {
            () if line.starts_with("ceasefire watch top") => cut(line, &["for # TIME"]),
            () if line.starts_with("user:") => cut(line, &["received/s"]),
            () if is_matrix && line.starts_with("> ") => cut(line, &["#", "#", "#"]),
            () if is_matrix => cut(line, &["#"]),
            () => line,
        });
    }
    lines.join("\n") + "\n"
}

#[test]
fn a_resized_terminal_is_filled_anew_and_a_small_one_told() {
    if !may_watch() {
        return;
    }
    let mut top = top(&["0.5"], 80, 24);
    top.wait("the start", |screen| screen.contains("[1 senders]") && has_coverage(screen));
    top.resize(40, 20);
    top.wait("40 columns", |screen| screen.contains("[1 senders] 2 3 4") && has_coverage(screen));
    top.resize(30, 8);
    top.wait("the sentence", |screen| {
        screen.split_whitespace().collect::<Vec<_>>().join(" ").contains("needs 40 x 12 characters")
    });
    top.resize(120, 40);
    top.wait("120 columns", |screen| screen.contains(" 2 victims ") && has_coverage(screen));
    top.press("q");
    assert_restored(&top.end(), 0);
}

/// Does an escape sequence choose a colour? 39 and 49 only take one away.
fn has_color(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut sequences = text.split("\x1b[").skip(1);
    sequences.any(|rest| {
        let Some(end) = rest.find(|c: char| !c.is_ascii_digit() && c != ';') else { return false };
        rest[end..].starts_with('m')
            && rest[..end].split(';').any(|code| match code.parse::<u32>() {
                Ok(code) => matches!(code, 30..=38 | 40..=48 | 90..=97 | 100..=107),
                Err(_) => false,
            })
    })
}

#[test]
fn without_color_there_is_none() {
    if !may_watch() {
        return;
    }
    type Case = (&'static [&'static str], &'static [(&'static str, &'static str)], bool);
    let cases: [Case; 4] = [
        (&[], &[], true),
        (&[], &[("NO_COLOR", "1")], false),
        (&["--no-color"], &[], false),
        (&[], &[("NO_COLOR", "")], true),
    ];
    for (args, environment, expected) in cases {
        let mut all = vec!["0.2"];
        all.extend(args);
        let mut top = Pty::spawn(&mut command(&all, environment), 80, 24);
        top.wait("the start", |screen| screen.contains("[1 senders]") && has_coverage(screen));
        top.press("?");
        top.wait("help", |screen| screen.contains("1 2 3 4, Tab"));
        top.press("\x03");
        let end = top.end();
        assert_restored(&end, 0);
        assert_eq!(has_color(&end.bytes), expected, "{args:?} {environment:?}");
    }
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    if !may_watch() {
        return;
    }
    for how in ["q", "\x03", "SIGINT", "SIGTERM", "SIGHUP"] {
        let mut top = top(&[], 80, 24);
        top.wait("the start", |screen| screen.contains("[1 senders]"));
        match how {
            "SIGINT" => top.signal(libc::SIGINT),
            "SIGTERM" => top.signal(libc::SIGTERM),
            "SIGHUP" => top.signal(libc::SIGHUP),
            key => top.press(key),
        }
        let end = top.end();
        println!("{how:?}: {}", end.code);
        assert_restored(&end, 0);
        assert_eq!(end.screen.trim(), "", "{how:?} leaves nothing behind");
    }
    for args in [&["0.1", "3"][..], &["0.1", "--for", "500ms"]] {
        assert_restored(&top(args, 80, 24).end(), 0);
    }
}

/// Also where nobody is told of it by a signal, as under nohup.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    if !may_watch() {
        return;
    }
    for prefix in ["", "trap '' HUP; "] {
        let script = format!("{prefix}exec '{BINARY}' watch top 0.2");
        let mut command = Command::new("sh");
        let mut top = Pty::spawn(command.args(["-c", &script]).env("TERM", "xterm"), 80, 24);
        top.wait("the start", |screen| screen.contains("[1 senders]"));
        let code = top.hang_up();
        assert!(code == 0 || code == 1, "{prefix}: {code}");
    }
}

/// Not a test of its own: the one below runs it on a terminal.
#[test]
#[ignore = "panics, on a terminal of its own"]
fn child_that_panics() {
    let _screen = ceasefire_watch_tui::Screen::enter().expect("a terminal");
    panic!("on purpose");
}

#[test]
fn a_panic_gives_the_terminal_back_and_its_words_stay() {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "child_that_panics", "--nocapture"]);
    let end = Pty::spawn(command.env("TERM", "xterm").env("RUST_BACKTRACE", "0"), 80, 24).end();
    assert_restored(&end, 101);
    let left = |sequence: &[u8]| end.bytes.windows(sequence.len()).position(|part| part == sequence);
    let (entered, left_at) = (left(b"\x1b[?1049h"), left(b"\x1b[?1049l"));
    assert!(entered.is_some() && entered < left_at, "the other screen was entered and left");
    assert!(
        end.screen.contains("on purpose"),
        "the panic's words stand on the usual screen:\n{}",
        end.screen
    );
}

#[test]
fn no_terminal_is_one_sentence_or_plain_reports() {
    refused(&mut ceasefire(&["watch", "top"]), 2, "standard output is not a terminal");
    let mut dumb = command(&[], &[("TERM", "dumb")]);
    let end = Pty::spawn(&mut dumb, 80, 24).end();
    assert_restored(&end, 2);
    assert!(end.screen.contains("remedy: add --plain"), "{}", end.screen);
    if !may_watch() {
        return;
    }
    let said = succeed(&mut ceasefire(&["watch", "top", "0.2", "2", "--plain"]));
    assert_eq!(said.stdout.matches("TLB shootdowns on this machine").count(), 2, "{}", said.stdout);
    assert_eq!(said.stdout.matches("user targets").count(), 2, "{}", said.stdout);
}

#[test]
fn bad_input_leaves_the_terminal_alone() {
    if !may_watch() {
        return;
    }
    for (args, sentence) in [
        (&["--cause", "weather"][..], "no cause named 'weather'"),
        (&["-p", "4194304"], "no process 4194304"),
        (&["0"], "10 ms"),
    ] {
        let end = top(args, 80, 24).end();
        assert_restored(&end, 2);
        assert!(end.screen.contains(sentence) && end.screen.contains("remedy: "), "{}", end.screen);
        assert!(!end.bytes.windows(8).any(|part| part == b"\x1b[?1049h"), "the screen was not touched");
    }
}
