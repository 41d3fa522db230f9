// SPDX-License-Identifier: GPL-2.0-only
//! `lab selftests`.

use super::measure;
use crate::args::{self, MachineArgs, Subset};
use ceasefire_artifacts::{debian, selftests as build, Context};
use ceasefire_base::{exec, Error, Result};
use ceasefire_results::selftest::Report;
use ceasefire_run::execute::Variant;
use ceasefire_run::image::Images;
use ceasefire_run::plan::Request;
use ceasefire_run::{files, selftests};
use std::time::Duration;

/// Some tests move pages between nodes.
const NODES: u32 = 2;
/// mremap_test alone maps 4 GiB at once.
const MEMORY_MIB: u32 = 4096;

pub fn run(ctx: &Context, args: &args::Selftests) -> Result<()> {
    let shape = Request { vcpus: vec![args.cpus], nodes: Some(NODES), ..Request::default() };
    shape.validate()?;
    let limit = args.timeout.map(Duration::from_secs);
    if limit.is_some_and(|limit| limit.is_zero()) {
        return Err(Error::usage("a time limit of 0 s stops every boot").remedy("choose --timeout 1 or more"));
    }
    let machine_args = with_defaults(&args.machine);
    let names = [args.kernel.clone()];
    let modes: Vec<String> = args.mode.iter().cloned().collect();
    let choices = measure::choices(ctx, &names, &modes, &machine_args)?;
    let memory_mib = measure::check_machine(&machine_args)?;
    let list = build::list(ctx)?;
    let chosen = selftests::choose(&list, &args.tests, args.subset == Subset::Short)?;
    let found = measure::machine_there_is(ctx, &machine_args)?;
    let _ours = measure::own(ctx, &args.output)?;
    measure::ensure_packages(ctx, &machine_args)?;
    debian::ensure_packages(ctx, &build::packages())?;
    let machine = measure::machine(ctx, found)?;
    let cpu = measure::cpu(&machine_args, &machine)?;
    let kernels = measure::kernels(ctx, &choices, &machine_args)?;
    let Variant { kernel, mode, .. } = &kernels[0];
    let images = Images::prepare(ctx, &[], &[])?.with(build::archive(ctx)?);
    let accel = measure::accel(ctx, &machine_args, &machine, kernel, &images)?;
    let logs = selftests::logs(&args.output.out);
    let rerun = rerun(args);
    let options = selftests::Options {
        machine: &machine,
        kernel,
        accel,
        cpu,
        memory_mib,
        kernel_arguments: &machine_args.kernel_args,
        mode: mode.as_deref(),
        cpus: args.cpus,
        nodes: NODES,
        logs: &logs,
        limit,
        patience: args.patience,
        command: measure::command_line(),
        rerun: &rerun,
    };
    match selftests::measure(ctx, &list, &chosen, &images, &options)? {
        Some(report) => finish(&report, args, &rerun),
        None => Ok(()),
    }
}

fn finish(report: &Report, args: &args::Selftests, rerun: &str) -> Result<()> {
    let json = report.to_json()?;
    files::write_whole(&args.output.out.join("selftests.json"), json.as_bytes())?;
    exec::print_line(
        if args.output.json {
            json.trim_end().to_string()
        } else {
            ceasefire_report::selftests::table(report)
        }
        .trim_end(),
    );
    let failed = report.failed();
    let Some(first) = failed.first() else { return Ok(()) };
    let more = if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
    let problem = first.problem.as_deref().unwrap_or_default();
    Err(Error::failed(format!("selftest {}: {problem}{more}", first.name)).remedy(format!(
        "logs: {}\n  rerun: {rerun} {}",
        selftests::logs(&args.output.out).display(),
        first.name
    )))
}

/// The TLBs of hardware, and the memory that the tests want, unless others were asked for.
fn with_defaults(given: &MachineArgs) -> MachineArgs {
    let mut machine = given.clone();
    if machine.tlb.is_none() && machine.uses_our_machine() {
        machine.tlb = Some("hardware".to_string());
    }
    if machine.memory == MachineArgs::default().memory {
        machine.memory = MEMORY_MIB;
    }
    machine
}

/// The command up to the test's name.
fn rerun(args: &args::Selftests) -> String {
    let mut line = format!("ceasefire lab selftests --kernel {}", args.kernel);
    if let Some(mode) = &args.mode {
        line += &format!(" --mode {mode}");
    }
    if args.cpus != args::SELFTEST_CPUS {
        line += &format!(" --cpus {}", args.cpus);
    }
    if args.patience != 1 {
        line += &format!(" --patience {}", args.patience);
    }
    line + &args.machine.flags()
}
