// SPDX-License-Identifier: GPL-2.0-only
//! The same workloads on this machine, with the kernel it runs.

use crate::catalog::Catalog;
use crate::execute::{about_workloads, environment};
use crate::files;
use crate::plan::{Job, Request};
use crate::switch::Switch;
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{Error, Kind, Progress, Result};
use ceasefire_results::aggregate::{aggregate, RowKey};
use ceasefire_results::protocol::{GuestLog, LogParser};
use ceasefire_results::schema::{Environment, Kernel, Results, Unmeasured};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The kernel's name in the rows.
const KERNEL: &str = "host";

/// Runs the request with the workloads binary, one process for each job and mode. The running kernel is set to each of
/// `modes` and back; without any, it is taken as it is.
pub fn measure(
    progress: &Progress,
    catalog: &Catalog,
    request: &Request,
    modes: &[String],
    binary: &Path,
    command: &str,
    dry_run: bool,
) -> Result<Results> {
    let cores = files::cores() as u32;
    if request.cost {
        return Err(Error::usage("instructions are counted by the emulator, not on this machine")
            .remedy("leave out --cost or --on host"));
    }
    if let Some(&vcpus) = request.vcpus.iter().find(|&&vcpus| vcpus > cores) {
        return Err(Error::usage(format!("{vcpus} CPUs were asked for and this machine has {cores}"))
            .remedy(format!("choose --cpus between 1 and {cores}")));
    }
    let nodes = nodes();
    let request = Request {
        nodes: Some(nodes.min(request.vcpus.iter().copied().min().unwrap_or(1))),
        ..request.clone()
    };
    let plan = request.plan(catalog)?;
    let jobs: Vec<(u32, &Job)> =
        plan.boots.iter().flat_map(|boot| boot.jobs.iter().map(|job| (boot.vcpus, job))).collect();
    if dry_run {
        for (_, job) in &jobs {
            for mode in modes {
                exec::print_line(&format!("# ABIS: {mode}"));
            }
            exec::print_line(&command_for(binary, job).to_shell());
        }
        return Ok(Results::new(Environment::default()));
    }
    let switch = if modes.is_empty() { None } else { Some(Switch::take(progress, modes)?) };
    let about = about(binary);
    let boot = about.boot.as_ref();
    let modes: Vec<Option<String>> = match switch {
        None => vec![boot.and_then(|boot| boot.mode.clone())],
        Some(_) => modes.iter().cloned().map(Some).collect(),
    };
    // One mode after the other for each workload: what a machine does by the hour is in all of them.
    let mut turns: Vec<(u32, &Job, Option<&str>)> = Vec::new();
    for (vcpus, job) in &jobs {
        turns.extend(modes.iter().map(|mode| (*vcpus, *job, mode.as_deref())));
    }
    let step = progress.step(format!("measure: {} workloads on this machine", turns.len()));
    let mut logs: Vec<(RowKey, GuestLog)> = Vec::new();
    for (index, (vcpus, job, mode)) in turns.iter().enumerate() {
        let shown = mode.map_or_else(String::new, |mode| format!(" ({mode})"));
        step.waiting(format!("{}/{}: {} x{}{shown}", index, turns.len(), job.workload, job.threads));
        if let (Some(switch), Some(mode)) = (&switch, mode) {
            switch.set(mode)?;
        }
        let program = command_for(binary, job);
        let rerun = |error: Error| error.remedy(format!("run it alone: {}", program.to_shell()));
        let limit = Duration::from_secs(job.timeout_s.into());
        let captured = exec::capture(&program, Some(limit)).map_err(|error| match error.kind {
            Kind::Failed => rerun(error),
            _ => error,
        })?;
        let mut parser = LogParser::new();
        parser.push(captured.stdout.as_bytes());
        let mut log = parser.finish();
        log.end_on_host(captured.status.code());
        if !log.outcome.is_complete() {
            let last = captured.stderr.lines().last().unwrap_or("it said nothing").to_string();
            return Err(rerun(Error::failed(format!("{} ended without its result: {last}", job.workload))));
        }
        let key = RowKey {
            kernel: KERNEL.into(),
            mode: mode.map(String::from),
            vcpus: *vcpus,
            nodes,
            ..RowKey::default()
        };
        logs.push((key, log));
    }
    step.done("");
    drop(switch);
    let kernel = Kernel {
        name: KERNEL.into(),
        release: files::release(),
        counters: Some(boot.map_or_else(|| "generic".into(), |boot| boot.counters.clone())),
        ..Kernel::default()
    };
    let environment = Environment {
        command: Some(command.into()),
        place: "host".into(),
        seed: Some(request.seed),
        kernels: vec![kernel],
        thp: thp(),
        pti: boot.and_then(|boot| boot.pti),
        pcid: boot.and_then(|boot| boot.pcid),
        invpcid: boot.and_then(|boot| boot.invpcid),
        cpu_flags: boot.and_then(|boot| boot.cpu_flags.clone()),
        ..environment()?
    };
    let mut results = aggregate(environment, &logs)?;
    results.workloads = about_workloads(catalog);
    results.skipped.extend(plan.skips.iter().map(|skip| Unmeasured {
        workload: skip.workload.clone(),
        threads: Some(skip.threads),
        reason: skip.reason.clone(),
        ..Unmeasured::default()
    }));
    Ok(results)
}

/// What a guest says of itself at its boot; nothing where it cannot be read.
fn about(binary: &Path) -> GuestLog {
    let said = exec::read(&Command::new(binary).arg("boot")).unwrap_or_default();
    let mut parser = LogParser::new();
    parser.push(said.as_bytes());
    parser.finish()
}

fn command_for(binary: &Path, job: &Job) -> Command {
    let mut command = Command::new(binary).args(["run", &job.workload]);
    command = command.args(["--threads", &job.threads.to_string(), "--repeats", &job.repeats.to_string()]);
    command = command.args(["--seed", &job.seed.to_string()]);
    if let Some(units) = job.units {
        command = command.args(["--units", &units.to_string()]);
    }
    for (key, value) in &job.settings {
        command = command.args(["--set", &format!("{key}={value}")]);
    }
    command
}

fn nodes() -> u32 {
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    let count = fs::read_dir("/sys/devices/system/node")
        .map(|dir| dir.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count());
    count.unwrap_or(1).max(1) as u32
}

/// The bracketed word of `always [madvise] never`.
fn thp() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}
