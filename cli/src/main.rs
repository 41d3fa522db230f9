// SPDX-License-Identifier: GPL-2.0-only
//! `ceasefire`: reads the command line, calls the part that does the work, prints what it says.

mod args;
mod lab;

use args::{Arguments, Part};
use ceasefire_base::{cancel, Error, Kind};
use clap::error::ErrorKind;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let outcome = cancel::install().and_then(|()| match arguments.part {
        Part::Lab(lab) => lab::run(lab),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => tell(&error),
    }
}

fn tell(error: &Error) -> ExitCode {
    eprintln!("error: {}", error.message);
    if let Some(remedy) = &error.remedy {
        eprintln!("  remedy: {remedy}");
    }
    ExitCode::from(error.kind.exit_code())
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
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let sentence = lines.next().unwrap_or("error: the command line cannot be read");
    // What clap lists below its sentence (missing arguments, possible values, a tip) is the remedy.
    let more: Vec<&str> = lines.take_while(|line| !line.starts_with("Usage:")).collect();
    let tip = more.join(" ").trim_start_matches("tip: ").to_string();
    let remedy = match tip.trim() {
        "" => "`ceasefire lab --help` lists what there is".to_string(),
        tip => tip.to_string(),
    };
    eprintln!("{sentence}\n  remedy: {remedy}");
    ExitCode::from(Kind::Usage.exit_code())
}
