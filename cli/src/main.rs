// SPDX-License-Identifier: GPL-2.0-only
//! `ceasefire`: reads the command line, calls the part that does the work, prints what it says.

mod args;
mod deter;
mod lab;
mod terminal;
mod watch;

use args::{Arguments, Part};
use ceasefire_base::{exec, Error, Kind};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::Parser;
use std::error::Error as _;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let outcome = match arguments.part {
        Part::Lab(lab) => lab::run(*lab).map(|()| 0),
        Part::Watch(watch) => watch::run(*watch),
        Part::Deter(deter) => deter::run(*deter),
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
    let (sentence, remedy) = sentence_and_remedy(error);
    say(&sentence, Some(&remedy));
    ExitCode::from(Kind::Usage.exit_code())
}

/// From what clap knows of its error, not from what it would print.
fn sentence_and_remedy(error: &clap::Error) -> (String, String) {
    let words = |kind: ContextKind| -> Vec<String> {
        match error.get(kind) {
            Some(ContextValue::String(word)) => vec![word.clone()],
            Some(ContextValue::Strings(words)) => words.clone(),
            _ => Vec::new(),
        }
    };
    // clap shows an option with its value's name, --cpus <N,…>, and an argument as [NAME]....
    let option =
        |text: &String| text.split(' ').next().unwrap_or_default().trim_matches(['[', ']', '.']).to_string();
    let arguments: Vec<String> = words(ContextKind::InvalidArg).iter().map(option).collect();
    let argument = arguments.join(", ");
    let value = words(ContextKind::InvalidValue).join(" ");
    let sentence = match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => format!("there is no option {argument}"),
        ErrorKind::UnknownArgument => format!("'{argument}' is one argument too many"),
        ErrorKind::InvalidSubcommand => {
            format!("there is no command '{}'", words(ContextKind::InvalidSubcommand).join(" "))
        }
        ErrorKind::MissingRequiredArgument => format!("{argument} is missing"),
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} needs a value"),
        ErrorKind::InvalidValue => format!("{argument} cannot be '{value}'"),
        ErrorKind::ValueValidation => {
            let why = error.source().map_or_else(String::new, |why| format!(": {why}"));
            format!("{argument} cannot be '{value}'{why}")
        }
        ErrorKind::ArgumentConflict => match words(ContextKind::PriorArg).first().map(option) {
            Some(other) if other != argument => format!("{argument} and {other} exclude each other"),
            _ => format!("{argument} is given twice"),
        },
        kind => kind.as_str().unwrap_or("the command line cannot be read").to_string(),
    };
    let near = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let near: Vec<String> = near.into_iter().flat_map(words).collect();
    let valid = words(ContextKind::ValidValue);
    let remedy = match (near.is_empty(), valid.is_empty()) {
        (false, _) => format!("did you mean {}?", near.join(" or ")),
        (true, false) => format!("choose from: {}", valid.join(", ")),
        (true, true) => "add --help to see what the command takes".to_string(),
    };
    (sentence, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> (String, String) {
        let error = Arguments::try_parse_from(words).expect_err("refused");
        sentence_and_remedy(&error)
    }

    #[test]
    fn what_clap_knows_becomes_a_sentence_and_a_remedy() {
        let help = "add --help to see what the command takes";
        for (words, sentence, remedy) in [
            (&["lab", "run", "--frob"][..], "there is no option --frob", help),
            (&["lab", "run", "--repeat", "1"], "there is no option --repeat", "did you mean --repeats?"),
            (&["lab", "demo", "x"], "'x' is one argument too many", help),
            (&["lab", "rum"], "there is no command 'rum'", "did you mean run?"),
            (&["lab", "compare", "a"], "<B> is missing", help),
            (&["lab", "run", "--cpus"], "--cpus needs a value", help),
            (
                &["lab", "run", "--cpus", ""],
                "--cpus cannot be '': cannot parse integer from empty string",
                help,
            ),
            (&["lab", "run", "--cpus", "x"], "--cpus cannot be 'x': invalid digit found in string", help),
            (&["lab", "run", "--on", "mars"], "--on cannot be 'mars'", "choose from: guest, host"),
            (&["lab", "run", "--on", "hos"], "--on cannot be 'hos'", "did you mean host?"),
            (
                &["lab", "paper", "--quick", "--repeats", "3"],
                "--quick and --repeats exclude each other",
                help,
            ),
            (&["lab", "run", "--seed", "1", "--seed", "2"], "--seed is given twice", help),
        ] {
            let all: Vec<&str> = ["ceasefire"].iter().chain(words).copied().collect();
            assert_eq!(refused(&all), (sentence.to_string(), remedy.to_string()));
        }
    }
}
