// SPDX-License-Identifier: GPL-2.0-only
//! Verbs that only read files: compare, report, publish, parse.

use super::terminal_width;
use crate::args;
use ceasefire_artifacts::context::find_root;
use ceasefire_base::{cancel, disk, exec::print_line, Error, Result};
use ceasefire_report::{page, paper, publish, regression, table};
use ceasefire_results::paper::Paper;
use ceasefire_results::{compare as comparison, protocol, Results};
use ceasefire_run::files;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

/// Thousands of rows take a few MiB.
const RESULTS_BYTES_MAX: u64 = 256 << 20;

pub fn table_options() -> table::Options {
    table::Options { width: terminal_width(), colour: table::use_colour(std::io::stdout().is_terminal()) }
}

fn results(path: &Path) -> Result<Results> {
    Results::from_json(&whole(path)?, &path.display().to_string())
}

fn whole(path: &Path) -> Result<Vec<u8>> {
    // A pipe or /dev/zero may be named too: nothing is read without an end.
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    file.take(RESULTS_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
    if bytes.len() as u64 > RESULTS_BYTES_MAX {
        return Err(Error::failed(format!("{} is too large for a results file", path.display()))
            .remedy("check the path; `ceasefire lab run` writes out/results.json"));
    }
    Ok(bytes)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    let error = disk::error("read", path, error);
    match error.remedy {
        Some(_) => error,
        None => error.remedy("check the path; `ceasefire lab run` writes out/results.json"),
    }
}

pub fn compare(args: &args::Compare) -> Result<()> {
    if args.fail_over.is_some_and(|percent| !percent.is_finite() || percent < 0.0) {
        return Err(
            Error::usage("--fail-over takes a percentage of 0 or more").remedy("for example --fail-over 5")
        );
    }
    let (before, after) = (results(&args.a)?, results(&args.b)?);
    let comparison = comparison::compare(&before, &after, &args.mappings()?)?;
    if args.json {
        print_line(&comparison.to_json()?);
    } else {
        print_line(ceasefire_report::comparison(&comparison, &table_options()).trim_end());
    }
    let Some(percent) = args.fail_over else { return Ok(()) };
    let worse = comparison.over(percent);
    match worse.first() {
        None => Ok(()),
        Some(worst) => Err(Error::failed(format!(
            "{} rose by more than {percent} %: {}",
            count(worse.len()),
            regression(worst)
        ))
        .remedy("look at the rows above; a higher --fail-over allows more")),
    }
}

fn count(figures: usize) -> String {
    if figures == 1 {
        "one figure".into()
    } else {
        format!("{figures} figures")
    }
}

pub fn report(path: &Path, output: &Path, picture: Option<&Path>) -> Result<()> {
    let (bytes, name) = (whole(path)?, path.display().to_string());
    if let Some(file) = picture {
        let drawn = ceasefire_report::picture(&Results::from_json(&bytes, &name)?)?;
        cancel::install()?;
        files::write_whole(file, drawn.as_bytes())?;
        print_line(&file.display().to_string());
        return Ok(());
    }
    let html = match Paper::is_meant(&bytes) {
        true => paper::html(&Paper::from_json(&bytes, &name)?)?,
        false => page::html(&Results::from_json(&bytes, &name)?)?,
    };
    cancel::install()?;
    files::write_whole(output, html.as_bytes())?;
    print_line(&output.display().to_string());
    Ok(())
}

/// Keeps these results in the checkout and writes every published figure from them; with `check` says which figures are not
/// what the kept results give.
pub fn publish(path: &Path, name: &str, check: bool) -> Result<()> {
    let root = find_root()?;
    if check {
        let differ = publish::check(&root)?;
        return match differ.is_empty() {
            true => Ok(()),
            false => Err(Error::failed(format!("not what the kept results give: {}", differ.join("; ")))
                .remedy("ceasefire lab publish writes them anew; do not edit them by hand")),
        };
    }
    let changed = publish::publish(&root, &whole(path)?, &path.display().to_string(), name)?;
    changed.iter().for_each(|file| print_line(&file.display().to_string()));
    Ok(())
}

/// A saved guest log: what it holds and how that boot ended. Exit 1 if it did not end well.
pub fn parse(path: &Path, json: bool) -> Result<()> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    let log = protocol::read_log(file).map_err(|error| cannot_read(path, &error))?;
    if json {
        print_line(&log.to_json()?);
    } else {
        print_line(log.summary().trim_end());
    }
    log.usable().map_err(|error| match error.remedy {
        Some(_) => error,
        None => error.remedy("give a log of a run: out/logs/*.jsonl"),
    })?;
    match log.fails.first() {
        Some(fail) => Err(Error::failed(format!("{} failed in the guest: {}", fail.workload, fail.reason))
            .remedy("run it alone with `ceasefire lab run`")),
        None => Ok(()),
    }
}
