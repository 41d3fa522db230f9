// SPDX-License-Identifier: GPL-2.0-only
//! `compare`: two records, and an exit code that tells a pipeline whether a change helped or harmed.

use super::args::Compare;
use super::causes::causes;
use ceasefire_base::exec::print_line;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch_model::{Cause, Class, Snapshot, Stacks, Sum};
use ceasefire_watch_record::{Item, Reader};
use ceasefire_watch_views::compare::{self, Change, Figure, Shown, Side, WINDOWS_MIN};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

pub fn run(args: &Compare) -> Result<u8> {
    cancel::install()?;
    let wanted = causes(&args.cause)?;
    let figure = args.figure.into();
    let (mut before, kernel_before) = read(&args.before, figure, &wanted)?;
    let (mut after, kernel_after) = read(&args.after, figure, &wanted)?;
    (before.units, after.units) = args.units.unzip();
    let changes = compare::changes(&before, &after);
    let (name_before, name_after) = (args.before.to_string_lossy(), args.after.to_string_lossy());
    let shown = Shown { figure, names: [&name_before, &name_after], is_per_unit: args.units.is_some() };
    let windows_min = before.windows().min(after.windows());
    if args.json {
        print_line(&compare::json(&changes, &shown).to_string());
    } else {
        print_line(compare::render(&changes, &shown, args.top).trim_end());
        if windows_min < WINDOWS_MIN {
            print_line(&format!(
                "\nno intervals: a record has {windows_min} windows, and {WINDOWS_MIN} are needed (record for longer)"
            ));
        }
        if kernel_before != kernel_after {
            print_line(&format!("\nof two machines or kernels: {kernel_before}; {kernel_after}"));
        }
    }
    let all = compare::of_class(&changes, Class::User);
    match (args.fail_over, args.want_less) {
        (Some(percent), _) => judge(all, |change| harm(change, percent)),
        (_, Some(percent)) => judge(all, |change| no_gain(change, percent)),
        _ => Ok(0),
    }
}

/// Errors: what speaks against the change.
fn judge(all: Option<&Change>, objection: impl Fn(&Change) -> Option<String>) -> Result<u8> {
    let Some(change) = all else {
        return Err(Error::failed("neither record has user shootdowns: there is nothing to judge")
            .remedy("record while the work runs"));
    };
    match objection(change) {
        None => Ok(0),
        Some(why) => Err(Error::failed(why).remedy("`--cause` and the table above say where")),
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn harm(change: &Change, over: f64) -> Option<String> {
    let bound = 1.0 + over / 100.0;
    match (change.ratio, change.interval) {
        (None, _) if change.after > 0.0 => Some("there are shootdowns where there were none".into()),
        (Some(ratio), Some((least, _))) if least > bound => {
            Some(format!("shootdowns changed by {}, surely more than {over} %", percent(ratio)))
        }
        // Without an interval the figure itself must do.
        (Some(ratio), None) if ratio > bound => {
            Some(format!("shootdowns changed by {}; how sure that is cannot be told", percent(ratio)))
        }
        _ => None,
    }
}

fn no_gain(change: &Change, less: f64) -> Option<String> {
    let bound = 1.0 - less / 100.0;
    match (change.ratio, change.interval) {
        (Some(_), Some((_, most))) if most <= bound => None,
        (Some(ratio), Some(_)) => {
            Some(format!("shootdowns changed by {}, not surely by {less} % less", percent(ratio)))
        }
        (Some(ratio), None) => {
            Some(format!("shootdowns changed by {}; how sure that is cannot be told", percent(ratio)))
        }
        (None, _) => Some("there were no shootdowns before: nothing can become less".into()),
    }
}

/// Its windows, and what it was recorded on.
fn read(path: &Path, figure: Figure, causes: &[Cause]) -> Result<(Side, String)> {
    let about = |error: ceasefire_watch_record::Error| error.about(path);
    let file = File::open(path).map_err(|error| about(ceasefire_watch_record::Error::Io(error)))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(about)?;
    let mut side = Side::default();
    let mut window = Sum::default();
    let mut is_begun = false;
    let mut take = |window: Sum| {
        let mut window: Snapshot = window.snapshot(Stacks::default());
        window.sites.retain(|site| {
            causes.is_empty() || causes.iter().any(|cause| super::causes::is_same(cause, &site.cause))
        });
        // What is shorter is the rest that a recording ends with.
        if window.window_ns >= SHORTEST_NS {
            side.take(&window, figure);
        }
    };
    while let Some(item) = reader.next_item().map_err(about)? {
        cancel::check()?;
        let Item::Window(part) = item else { continue };
        // Only the first part of a window has a coverage.
        if !part.coverage.classes.is_empty() && std::mem::replace(&mut is_begun, true) {
            take(std::mem::take(&mut window));
        }
        window.add(*part);
    }
    if is_begun {
        take(window);
    }
    let environment = &reader.environment;
    Ok((side, format!("Linux {}, {} CPUs, {}", environment.kernel, environment.cpus, environment.cpu_model)))
}

const SHORTEST_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(ratio: Option<f64>, interval: Option<(f64, f64)>) -> Change {
        Change {
            row: (Class::User, None),
            before: 100.0,
            after: 100.0 * ratio.unwrap_or(1.0),
            ratio,
            interval,
        }
    }

    #[test]
    fn a_pipeline_fails_on_what_is_sure_alone() {
        assert_eq!(harm(&change(Some(1.2), Some((0.9, 1.6))), 5.0), None, "may be chance");
        assert!(harm(&change(Some(1.2), Some((1.1, 1.3))), 5.0).is_some());
        assert!(harm(&change(Some(1.2), None), 5.0).is_some(), "no interval: the figure decides");
        assert!(harm(&change(None, None), 5.0).is_some(), "new");
        assert_eq!(no_gain(&change(Some(0.5), Some((0.4, 0.6))), 30.0), None);
        assert!(no_gain(&change(Some(0.5), Some((0.2, 0.9))), 30.0).is_some(), "not sure");
        assert!(no_gain(&change(Some(0.5), None), 30.0).is_some());
    }
}
