// SPDX-License-Identifier: GPL-2.0-only
//! The lab's verbs: each reads its arguments, calls the lab, prints the outcome.

mod clean;
mod kernel_deb;
mod measure;
mod mmtests;
mod paper;
mod read;
mod recorded;
#[cfg(test)]
mod round_trip;
mod shell;

use crate::args::{Lab, Prepared, Verb};
use ceasefire_artifacts::{guest, kernel, machine, Context};
use ceasefire_base::text::wrap;
use ceasefire_base::{cancel, exec::print_line, Error, Progress, Result, Verbosity};
use ceasefire_run::catalog::Catalog;
use ceasefire_run::doctor;
use ceasefire_run::presets::Preset;
use std::collections::BTreeSet;

/// The compiler for its probes, and what loads them, as static libraries.
const OBSERVER_PACKAGES: [&str; 6] = ["clang", "libelf-dev", "zlib1g-dev", "pkg-config", "gcc", "make"];

pub fn run(lab: Lab) -> Result<()> {
    let progress = Progress::new(if lab.quiet { Verbosity::Quiet } else { Verbosity::Normal });
    // Reading a file needs neither cache nor checkout, and a signal may simply end it.
    match lab.verb {
        Verb::Compare(args) => return read::compare(&args),
        Verb::Report { results, output, picture } => {
            return read::report(&results, &output, picture.as_deref())
        }
        Verb::Publish { results, name, check } => return read::publish(&results, &name, check),
        Verb::Parse { log, json } => return read::parse(&log, json),
        _ => {}
    }
    cancel::install()?;
    let mut ctx = match &lab.verb {
        Verb::Run(run) if run.needs_no_checkout() => Context::without_checkout(progress)?,
        _ => Context::open(progress)?,
    };
    ctx.dry_run = lab.dry_run;
    ctx.may_install &= !lab.no_install;
    if let Some(jobs) = lab.jobs {
        if jobs == 0 || jobs > 1024 {
            return Err(Error::usage(format!("{jobs} compiler jobs cannot be run"))
                .remedy("choose --jobs between 1 and 1024"));
        }
        ctx.jobs = jobs;
    }
    match lab.verb {
        Verb::Demo(demo) => measure::preset(&ctx, Preset::Demo(demo.boots), &demo.output),
        Verb::All(output) => measure::preset(&ctx, Preset::All, &output),
        Verb::Run(run) => measure::run(&ctx, &run.request_on(&ctx)?),
        Verb::Paper(args) => paper::run(&ctx, &args),
        Verb::List { json } => list(&ctx, json),
        Verb::Shell(args) => shell::run(&ctx, &args),
        Verb::Selftests(args) => mmtests::run(&ctx, &args.request()?),
        Verb::Build { kernels } => build(&ctx, &kernels),
        Verb::KernelDeb(args) => kernel_deb::run(&ctx, &args),
        Verb::Prepare { part: Prepared::Watch } => ctx.ensure(&OBSERVER_PACKAGES),
        Verb::Doctor { json } => examine(&ctx, json),
        Verb::Clean { older_than } => clean::run(&ctx, older_than.as_deref()),
        Verb::Compare(_) | Verb::Report { .. } | Verb::Publish { .. } | Verb::Parse { .. } => Ok(()),
    }
}

fn build(ctx: &Context, names: &[String]) -> Result<()> {
    let specs = kernel::list(ctx)?;
    for name in names {
        kernel::known(&specs, name)?;
    }
    let every = || specs.iter().filter(|spec| !spec.only_by_name).map(|spec| spec.name.clone()).collect();
    let wanted: Vec<String> = if names.is_empty() { every() } else { names.to_vec() };
    // A dry run prints commands and comments alone.
    let mark = if ctx.dry_run { "# " } else { "" };
    let mut machines = BTreeSet::new();
    for name in &wanted {
        machines.insert(kernel::machine_of(ctx, kernel::known(&specs, name)?)?);
    }
    for name in &machines {
        let machine = machine::build(ctx, name)?;
        print_line(&format!("{mark}QEMU {}: {}", machine.version, machine.qemu.display()));
    }
    for name in &wanted {
        let image = kernel::build(ctx, name)?;
        print_line(&format!("{mark}kernel {}: {}", image.name, image.file.display()));
    }
    Ok(())
}

fn list(ctx: &Context, json: bool) -> Result<()> {
    let catalog = Catalog::of(&guest::workloads_binary(ctx)?)?;
    let kernels = kernel::list(ctx)?;
    if json {
        let kernels: Vec<serde_json::Value> = kernels
            .iter()
            .map(|spec| {
                serde_json::json!({
                    "name": spec.name, "about": spec.about, "modes": spec.modes, "base": spec.base,
                    "config": spec.config, "mechanisms": spec.mechanisms,
                })
            })
            .collect();
        let value = serde_json::json!({
            "schema": "ceasefire.list/1", "workloads": catalog.workloads, "kernels": kernels
        });
        print_line(&value.to_string());
        return Ok(());
    }
    let width = terminal_width();
    let name_width = catalog.workloads.iter().map(|w| w.name.len()).max().unwrap_or(0);
    for group in catalog.groups() {
        print_line(&format!("{group}:"));
        for workload in catalog.workloads.iter().filter(|w| w.group == group) {
            let text = format!("{} (per {})", workload.about, workload.unit);
            print_wrapped(&workload.name, name_width, &text, width);
        }
    }
    print_line("kernels:");
    for spec in &kernels {
        let modes = if spec.modes.is_empty() {
            String::new()
        } else {
            format!(" (modes: {})", spec.modes.join(", "))
        };
        print_wrapped(&spec.name, name_width, &format!("{}{modes}", spec.about), width);
    }
    Ok(())
}

/// Name and text side by side, or on a narrow terminal one below the other.
fn print_wrapped(name: &str, name_width: usize, text: &str, width: usize) {
    let is_narrow = width < name_width + 34;
    let indent = if is_narrow { 6 } else { name_width + 4 };
    if is_narrow {
        print_line(&format!("  {name}"));
    }
    let first = if is_narrow { " ".repeat(indent) } else { format!("  {name:name_width$}  ") };
    wrap(text, &first, indent, width).iter().for_each(|line| print_line(line.trim_end()));
}

fn examine(ctx: &Context, json: bool) -> Result<()> {
    let checks = doctor::examine(ctx)?;
    if json {
        let value = serde_json::json!({"schema": "ceasefire.doctor/1", "checks": checks});
        print_line(&value.to_string());
    } else {
        print_line(doctor::table(&checks).trim_end());
    }
    let missing: Vec<&str> =
        checks.iter().filter(|c| !c.ok && !c.optional).map(|c| c.name.as_str()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::skip(format!("not ready: {}", missing.join(", "))).remedy("see the remedies above"))
}

/// Columns of standard output; a pipe gets 120.
fn terminal_width() -> usize {
    crate::terminal::width(120)
}
