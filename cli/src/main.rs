// SPDX-License-Identifier: GPL-2.0-only
//! `ceasefire`: reads the command line, calls the part that does the work, prints what it says.

mod args;
mod lab;
mod watch;

use args::{Arguments, Part};
use ceasefire_base::{exec, Error, Kind};
use clap::error::ErrorKind;
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let outcome = match arguments.part {
        Part::Lab(lab) => lab::run(lab).map(|()| 0),
        Part::Watch(watch) => watch::run(watch),
    };
    match outcome.and_then(|code| exec::check_output().map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => tell(&error),
    }
}

fn tell(error: &Error) -> ExitCode {
    say(&error.message, error.remedy.as_deref());
    ExitCode::from(error.kind.exit_code())
}

/// Not eprintln!, which panics when nobody reads.
fn say(sentence: &str, remedy: Option<&str>) {
    let remedy = remedy.map_or_else(String::new, |remedy| format!("  remedy: {remedy}\n"));
    let _ = write!(std::io::stderr(), "error: {sentence}\n{remedy}");
}

/// clap's errors in our form: one sentence and a remedy. Help and version are no errors.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { Kind::Usage.exit_code() } else { 0 });
    }
    let (sentence, remedy) = sentence_and_remedy(&error.render().to_string());
    say(&sentence, Some(&remedy));
    ExitCode::from(Kind::Usage.exit_code())
}

/// What clap lists below its sentence is part of it (missing arguments), or the remedy (possible values, a tip).
fn sentence_and_remedy(text: &str) -> (String, String) {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("the command line cannot be read");
    let mut sentence = first.trim_start_matches("error: ").to_string();
    let is_pointless = |line: &&str| {
        line.starts_with("For more information")
            || (line.starts_with("tip: to pass") && line.contains("as a value"))
    };
    let more: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:")).filter(|line| !is_pointless(line)).collect();
    let mut more = more.join(" ");
    if sentence.ends_with(':') {
        sentence = format!("{sentence} {more}");
        more.clear();
    }
    let remedy = match more.trim_start_matches("tip: ") {
        "" => "`--help` after the command lists what it takes".to_string(),
        tip => tip.to_string(),
    };
    (sentence, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> (String, String) {
        let error = Arguments::try_parse_from(words).expect_err("refused");
        sentence_and_remedy(&error.render().to_string())
    }

    #[test]
    fn claps_words_become_a_sentence_and_a_remedy() {
        let help = "`--help` after the command lists what it takes";
        for (words, sentence, remedy) in [
            (&["lab", "run", "--frob"][..], "unexpected argument '--frob' found", help),
            (&["lab", "compare", "a"], "the following required arguments were not provided: <B>", help),
            (&["lab", "run", "--cpus", ""], "invalid value '' for '--cpus", help),
            (&["lab", "run", "--repeat", "1"], "unexpected argument '--repeat' found", "'--repeats'"),
            (
                &["lab", "run", "--on", "mars"],
                "invalid value 'mars' for '--on",
                "[possible values: guest, host]",
            ),
        ] {
            let all: Vec<&str> = ["ceasefire"].iter().chain(words).copied().collect();
            let (said, helps) = refused(&all);
            assert!(said.starts_with(sentence) && !said.contains('\n'), "{said}");
            assert!(helps.contains(remedy), "{said}: {helps}");
        }
    }
}
