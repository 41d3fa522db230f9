// SPDX-License-Identifier: GPL-2.0-only
//! Boots a plan on a machine and turns what the guests say into results.

use crate::boot::{self, console_path, Start};
use crate::catalog::Catalog;
use crate::image::Images;
use crate::plan::{Boot, Job, Plan, Request};
use crate::qemu::{self, Accel, Console, Cpu, Hardware};
use crate::when;
use ceasefire_artifacts::kernel::KernelImage;
use ceasefire_artifacts::machine::Machine;
use ceasefire_artifacts::{hash, Context};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{cancel, Error, Result, Step};
use ceasefire_results::aggregate::{aggregate, RowKey};
use ceasefire_results::protocol::{self, GuestLog};
use ceasefire_results::schema::{About, Environment, Host, Kernel, Qemu, Results, Row, Unmeasured};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// A boot's own time, beside what its jobs may take.
const BOOT_LIMIT_S: u64 = 90;
/// More guests at once would share cores, and their time limits with them.
const GUESTS_AT_ONCE_MAX: usize = 8;

/// A kernel and what it is told to do.
#[derive(Debug, Clone)]
pub struct Variant {
    pub kernel: KernelImage,
    /// `None` for a kernel without modes.
    pub mode: Option<String>,
    /// What chooses it on the command line, with a leading blank.
    pub flags: String,
}

impl Variant {
    /// As its rows are labelled.
    pub fn row_label(&self) -> String {
        let (kernel, mode) = (self.kernel.name.clone(), self.mode.clone());
        Row { kernel, mode, ..Row::default() }.kernel_label()
    }

    fn label(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{}-{mode}", self.kernel.name),
            None => self.kernel.name.clone(),
        }
    }
}

#[derive(Clone)]
pub struct Options {
    pub kernels: Vec<Variant>,
    pub machine: Machine,
    pub accel: Accel,
    pub cpu: Cpu,
    pub memory_mib: u32,
    pub kernel_arguments: String,
    /// Logs go to DIR/logs.
    pub out: PathBuf,
    /// Overrides the limit of every boot.
    pub limit: Option<Duration>,
    /// What reproduces these results.
    pub command: String,
    /// Machine flags as the user gave them, for the command that repeats one boot.
    pub flags: String,
    /// For hours of boots: one that ended well in an earlier run is taken from its log, and one without a
    /// verdict is a failed row, not the end of all.
    pub resumes: bool,
}

impl Options {
    /// `None` where the machine's own CPU decides.
    fn la57(&self) -> Option<bool> {
        (self.accel != Accel::Kvm).then_some(self.cpu.la57)
    }
}

/// One boot of the plan on one kernel.
struct Task<'a> {
    variant: &'a Variant,
    boot: &'a Boot,
    log: PathBuf,
}

type Logs = Vec<(RowKey, GuestLog)>;

struct Shared<'a> {
    waiting: VecDeque<Task<'a>>,
    running: Vec<String>,
    done: Vec<(usize, RowKey, GuestLog)>,
    total: usize,
    failure: Option<Error>,
    /// Rows of boots without a verdict, where these stop nobody else.
    lost: Vec<Unmeasured>,
}

/// Runs all requests on all kernels; several guests at once, one for each core.
///
/// Errors: the first boot without a verdict stops the others; rows that failed inside a guest do not.
pub fn measure(
    ctx: &Context,
    catalog: &Catalog,
    requests: &[Request],
    images: &Images,
    options: &Options,
) -> Result<Results> {
    let mut plan = Plan::default();
    for request in requests {
        let more = request.plan(catalog)?;
        plan.boots.extend(more.boots);
        plan.skips.extend(more.skips);
    }
    let logs = options.out.join("logs");
    match (ctx.dry_run, options.resumes) {
        (true, _) => {}
        (false, true) => crate::files::output_directory(&logs)?,
        (false, false) => crate::files::log_directory(&logs)?,
    }
    // Longest first, so that the last guest to end is a short one.
    let mut order: Vec<(usize, &Variant, &Boot)> = Vec::new();
    for variant in &options.kernels {
        for boot in &plan.boots {
            order.push((order.len(), variant, boot));
        }
    }
    let tasks: Vec<Task> = order
        .iter()
        .map(|(index, variant, boot)| {
            let mut task = Task { variant, boot, log: PathBuf::new() };
            let label = format!("{}-{}", variant.label(), boot.label());
            // A boot that is to be found again is named by what it is, and equal ones by their number.
            let name = if options.resumes {
                let twins =
                    order[..*index].iter().filter(|(_, v, b)| v.label() == variant.label() && b == boot);
                format!("{label}-{}-{}", &identity(&task, images, options)[..16], twins.count() + 1)
            } else {
                format!("{:02}-{label}", index + 1)
            };
            task.log = logs.join(name);
            task
        })
        .collect();
    if ctx.dry_run {
        return dry_run(&tasks, images, options);
    }
    let (done, lost) = run_tasks(ctx, tasks, images, options)?;
    let mut results = collect(catalog, requests, &plan, done, options)?;
    results.failed.extend(lost);
    Ok(results)
}

/// Of all that decides what a boot counts: a log of this name was written by the same kernel, machine and job.
fn identity(task: &Task, images: &Images, options: &Options) -> String {
    let words = [
        task.variant.kernel.image_hash.clone(),
        task.variant.mode.clone().unwrap_or_default(),
        options.machine.sha256.clone().unwrap_or_default(),
        format!("{:?}", options.accel),
        qemu::cpu_model(options.accel, &options.cpu, task.boot.cost),
        options.memory_mib.to_string(),
        options.kernel_arguments.clone(),
        format!("{} {}", task.boot.vcpus, task.boot.nodes),
        images.identity(task.boot),
        task.boot.job_text(),
    ];
    hash::bytes(words.join("\n").as_bytes())
}

fn run_tasks(
    ctx: &Context,
    mut tasks: Vec<Task>,
    images: &Images,
    options: &Options,
) -> Result<(Logs, Vec<Unmeasured>)> {
    let numbers: Vec<PathBuf> = tasks.iter().map(|task| task.log.clone()).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.boot.weight()));
    let total = tasks.len();
    let step = ctx.progress.step(format!("measure: {total} {}", if total == 1 { "boot" } else { "boots" }));
    let shared = Mutex::new(Shared {
        waiting: tasks.into(),
        running: Vec::new(),
        done: Vec::new(),
        total,
        failure: None,
        lost: Vec::new(),
    });
    let lanes = match options.accel {
        // MTTCG and KVM use a core for every vCPU.
        Accel::Tcg { thread_mode: crate::plan::ThreadMode::Single, .. } => crate::files::cores(),
        _ => 1,
    }
    .clamp(1, GUESTS_AT_ONCE_MAX);
    std::thread::scope(|scope| {
        for _ in 0..lanes.min(total) {
            scope.spawn(|| lane(&shared, &step, &numbers, images, options));
        }
    });
    cancel::check()?;
    let shared = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(error) = shared.failure {
        return Err(error);
    }
    let mut done = shared.done;
    done.sort_by_key(|(number, ..)| *number);
    let runs: usize = done.iter().map(|(_, _, log)| log.runs.len()).sum();
    step.done(format!("{runs} runs"));
    Ok((done.into_iter().map(|(_, key, log)| (key, log)).collect(), shared.lost))
}

fn lane(shared: &Mutex<Shared>, step: &Step, numbers: &[PathBuf], images: &Images, options: &Options) {
    let lock = || shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        let task = {
            let mut state = lock();
            if state.failure.is_some() || cancel::requested() {
                return;
            }
            match state.waiting.pop_front() {
                Some(task) => task,
                None => return,
            }
        };
        let label = format!("{} {}", task.variant.label(), task.boot.label());
        let say = |what: &str| {
            let mut state = lock();
            state.running.retain(|line| !line.starts_with(&format!("{label}: ")));
            if !what.is_empty() {
                state.running.push(format!("{label}: {what}"));
            }
            step.waiting(format!("{}/{} done; {}", state.done.len(), state.total, state.running.join(", ")));
        };
        say("booting");
        // One boot without a verdict spoils the whole: the others need not run to their ends.
        let is_useless = || lock().failure.is_some();
        let result = one_boot(&task, images, options, &is_useless, &mut |log| say(&latest(log)));
        say("");
        let number = numbers.iter().position(|log| *log == task.log).unwrap_or(0);
        let mut state = lock();
        match result {
            Ok(log) => state.done.push((number, row_key(&task, options), log)),
            Err(error) if options.resumes && !cancel::requested() => {
                state.lost.extend(lost(&task, options, &error))
            }
            Err(error) => {
                state.failure.get_or_insert(error);
            }
        }
    }
}

/// What a boot without a verdict was to measure.
fn lost(task: &Task, options: &Options, error: &Error) -> Vec<Unmeasured> {
    let row = |job: &Job| Unmeasured {
        workload: job.workload.clone(),
        reason: error.message.clone(),
        threads: Some(job.threads),
        kernel: Some(task.variant.kernel.name.clone()),
        mode: task.variant.mode.clone(),
        vcpus: Some(task.boot.vcpus),
        nodes: Some(task.boot.nodes),
        rerun: Some(rerun(task, options)),
    };
    task.boot.jobs.iter().map(row).collect()
}

/// What a guest is at, from its newest record.
fn latest(log: &GuestLog) -> String {
    match log.runs.last() {
        Some(run) => format!("after {} x{} #{}", run.workload, run.threads, run.repeat + 1),
        None if log.boot.is_some() => "booted".into(),
        None => "booting".into(),
    }
}

fn one_boot(
    task: &Task,
    images: &Images,
    options: &Options,
    is_useless: &dyn Fn() -> bool,
    on_progress: &mut dyn FnMut(&GuestLog),
) -> Result<GuestLog> {
    let log = match options.resumes.then(|| ended_well(&task.log)).flatten() {
        Some(log) => log,
        None => fresh_boot(task, images, options, is_useless, on_progress)?,
    };
    let Variant { kernel, mode, .. } = task.variant;
    check_mode(&kernel.name, mode.as_deref(), &log)
        .map_err(|error| error.remedy(format!("rerun: {}", rerun(task, options))))?;
    Ok(log)
}

fn fresh_boot(
    task: &Task,
    images: &Images,
    options: &Options,
    is_useless: &dyn Fn() -> bool,
    on_progress: &mut dyn FnMut(&GuestLog),
) -> Result<GuestLog> {
    let initrd = images.initrd_for(task.boot, &task.log)?;
    let command = command_for(task, &initrd.path, options);
    let jobs: u64 = task.boot.jobs.iter().map(|job| u64::from(job.timeout_s)).sum();
    let start = Start {
        command: &command,
        log: &task.log,
        limit: options.limit.unwrap_or(Duration::from_secs(BOOT_LIMIT_S + jobs)),
        rerun: &rerun(task, options),
        is_useless,
    };
    boot::boot(&start, on_progress)
}

/// The log of an earlier run, if that boot gave its verdict and nothing in it failed.
fn ended_well(log: &Path) -> Option<GuestLog> {
    let file = std::fs::File::open(boot::records_path(log)).ok()?;
    let log = protocol::read_log(file).ok()?;
    (log.usable().is_ok() && log.fails.is_empty()).then_some(log)
}

/// A row of a mode that the guest never took would be a lie.
pub fn check_mode(kernel: &str, mode: Option<&str>, log: &GuestLog) -> Result<()> {
    let said = log.boot.as_ref().and_then(|boot| boot.mode.as_deref());
    match mode {
        Some(wanted) if said != Some(wanted) => Err(Error::failed(format!(
            "kernel {kernel} was booted with {}={wanted} and says its mode is {}",
            qemu::MODE_PARAMETER,
            said.unwrap_or("unknown")
        ))),
        _ => Ok(()),
    }
}

fn command_for(task: &Task, initrd: &Path, options: &Options) -> Command {
    let hardware = Hardware {
        qemu: &options.machine.qemu,
        firmware: &options.machine.firmware,
        kernel: &task.variant.kernel.bzimage,
        initrd,
        accel: options.accel,
        cpu: options.cpu,
        memory_mib: options.memory_mib,
        console: Console::File(console_path(&task.log)),
        mode: task.variant.mode.as_deref(),
        kernel_arguments: &options.kernel_arguments,
    };
    Command::new(hardware.qemu).args(qemu::arguments(&hardware, task.boot))
}

/// Prints, for every boot, the commands that make its initrd and start it.
fn dry_run(tasks: &[Task], images: &Images, options: &Options) -> Result<Results> {
    for task in tasks {
        let initrd = boot::beside(&task.log, "initrd");
        exec::print_line(&format!("# {} {}", task.variant.label(), task.boot.label()));
        exec::print_line(&images.initrd_shell(task.boot, &initrd));
        exec::print_line(&command_for(task, &initrd, options).to_shell());
    }
    Ok(Results::new(Environment::default()))
}

fn row_key(task: &Task, options: &Options) -> RowKey {
    let first: Option<&Job> = task.boot.jobs.first();
    let settings: Vec<String> =
        first.iter().flat_map(|job| &job.settings).map(|(key, value)| format!("{key}={value}")).collect();
    let cpu = qemu::cpu_model(options.accel, &options.cpu, task.boot.cost);
    RowKey {
        kernel: task.variant.kernel.name.clone(),
        mode: task.variant.mode.clone(),
        vcpus: task.boot.vcpus,
        nodes: task.boot.nodes,
        cost: task.boot.cost,
        cpu: task.boot.cost.then_some(cpu),
        la57: options.la57(),
        tlb: options.cpu.tlb.map(|tlb| tlb.to_string()),
        set: (!settings.is_empty()).then(|| settings.join(",")),
        ..RowKey::default()
    }
}

/// The command that runs this boot's jobs again, alone.
fn rerun(task: &Task, options: &Options) -> String {
    command_of(task.boot, &task.variant.flags, &options.flags)
}

/// The same for a boot of a plan: `kernel` and `machine` are what chooses them, each with a leading blank.
pub fn command_of(boot: &Boot, kernel: &str, machine: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut threads: Vec<String> = Vec::new();
    for job in &boot.jobs {
        if !names.contains(&job.workload.as_str()) {
            names.push(&job.workload);
        }
        let count = job.threads.to_string();
        if !threads.contains(&count) {
            threads.push(count);
        }
    }
    let mut line = format!("ceasefire lab run {} --cpus {}", names.join(" "), boot.vcpus);
    if threads != [boot.vcpus.to_string()] {
        line += &format!(" --threads {}", threads.join(","));
    }
    if boot.nodes > 1 {
        line += &format!(" --nodes {}", boot.nodes);
    }
    if boot.cost {
        line += " --cost";
    }
    if let Some(job) = boot.jobs.first() {
        line += &format!(" --repeats {} --seed {}", job.repeats, job.seed);
        if let Some(units) = job.units {
            line += &format!(" --units {units}");
        }
        for (key, value) in &job.settings {
            line += &format!(" --set {key}={value}");
        }
    }
    line + kernel + machine
}

fn collect(
    catalog: &Catalog,
    requests: &[Request],
    plan: &Plan,
    logs: Vec<(RowKey, GuestLog)>,
    options: &Options,
) -> Result<Results> {
    let first_boot = logs.iter().find_map(|(_, log)| log.boot.as_ref());
    let environment = Environment {
        command: Some(options.command.clone()),
        place: "guest".into(),
        seed: requests.first().map(|request| request.seed),
        kernels: about_kernels(&options.kernels, &logs),
        qemu: Some(about_machine(options)),
        thp: first_boot.and_then(|boot| boot.thp.clone()),
        pti: first_boot.and_then(|boot| boot.pti),
        pcid: first_boot.and_then(|boot| boot.pcid),
        invpcid: first_boot.and_then(|boot| boot.invpcid),
        cpu_flags: first_boot.and_then(|boot| boot.cpu_flags.clone()),
        ..environment()?
    };
    let mut results = aggregate(environment, &logs)?;
    results.workloads = about_workloads(catalog);
    for skip in &plan.skips {
        results.skipped.push(Unmeasured {
            workload: skip.workload.clone(),
            threads: Some(skip.threads),
            reason: skip.reason.clone(),
            ..Unmeasured::default()
        });
    }
    for failed in &mut results.failed {
        let threads = failed.threads.unwrap_or(1);
        failed.rerun = Some(format!(
            "ceasefire lab run {} --cpus {} --threads {threads}{}{}{}",
            failed.workload,
            failed.vcpus.unwrap_or(threads),
            words_of(failed, requests),
            flags_of(failed, options),
            options.flags
        ));
    }
    Ok(results)
}

/// Seed, units and settings, where all requests that may have asked for this row agree on them.
fn words_of(row: &Unmeasured, requests: &[Request]) -> String {
    let words = |request: &Request| {
        let mut words = format!(" --seed {}", request.seed);
        if let Some(units) = request.units {
            words += &format!(" --units {units}");
        }
        for (key, value) in &request.settings {
            words += &format!(" --set {key}={value}");
        }
        words
    };
    let named = |request: &&Request| request.workloads.contains(&row.workload);
    let mut all: Vec<String> = requests.iter().filter(named).map(words).collect();
    if all.is_empty() {
        all = requests.iter().map(words).collect();
    }
    all.dedup();
    if all.len() == 1 {
        all.remove(0)
    } else {
        String::new()
    }
}

fn flags_of<'a>(row: &Unmeasured, options: &'a Options) -> &'a str {
    let is_its =
        |variant: &&Variant| row.kernel.as_ref() == Some(&variant.kernel.name) && row.mode == variant.mode;
    options.kernels.iter().find(is_its).map_or("", |variant| &variant.flags)
}

/// What is the same for a guest and for the host.
pub fn environment() -> Result<Environment> {
    Ok(Environment {
        ceasefire: env!("CARGO_PKG_VERSION").into(),
        date: when::now_utc(),
        host: Host {
            cores: Some(crate::files::cores() as u32),
            cpu: crate::files::cpu_name(),
            release: crate::files::release(),
        },
        ..Environment::default()
    })
}

pub fn about_workloads(catalog: &Catalog) -> Vec<About> {
    let about = |w: &crate::catalog::Workload| About {
        name: w.name.clone(),
        group: w.group.clone(),
        unit: w.unit.clone(),
        about: w.about.clone(),
        shared: w.shared,
    };
    catalog.workloads.iter().map(about).collect()
}

/// Each once, whatever modes it ran in.
fn about_kernels(variants: &[Variant], logs: &[(RowKey, GuestLog)]) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = Vec::new();
    for variant in variants {
        if kernels.iter().all(|known| known.name != variant.kernel.name) {
            kernels.push(about_kernel(&variant.kernel, logs));
        }
    }
    kernels
}

fn about_kernel(kernel: &KernelImage, logs: &[(RowKey, GuestLog)]) -> Kernel {
    let boot = logs.iter().find(|(key, _)| key.kernel == kernel.name).and_then(|(_, log)| log.boot.as_ref());
    Kernel {
        name: kernel.name.clone(),
        base: kernel.source_version.clone(),
        release: boot.map(|boot| boot.release.clone()).or_else(|| kernel.release.clone()),
        source_checked: kernel.source_checked,
        series: kernel.series_hash.clone(),
        config: kernel.config_hash.clone(),
        counters: boot.map(|boot| boot.counters.clone()),
    }
}

fn about_machine(options: &Options) -> Qemu {
    let (accel, thread_mode, slice_us) = match options.accel {
        Accel::Kvm => ("kvm", None, None),
        Accel::Tcg { thread_mode, slice_us } => ("tcg", Some(thread_mode.as_str().to_string()), slice_us),
    };
    Qemu {
        version: options.machine.version.clone(),
        series: options.machine.series_hash.clone(),
        accel: accel.into(),
        thread_mode,
        slice_us,
        cpu: Some(qemu::cpu_model(options.accel, &options.cpu, false)),
        memory_mib: Some(options.memory_mib.into()),
        origin: options.machine.origin.as_str().into(),
        sha256: options.machine.sha256.clone(),
        la57: options.la57(),
        tlb: options.cpu.tlb.map(|tlb| tlb.record()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_results::parse_log;

    #[test]
    fn a_row_that_failed_is_run_again_with_its_settings() {
        let request = |workload: &str, units, set: &[(&str, &str)]| Request {
            workloads: vec![workload.into()],
            units,
            seed: 7,
            settings: set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            ..Request::default()
        };
        let row = Unmeasured { workload: "apache".into(), ..Unmeasured::default() };
        let apache = request("apache", Some(40), &[("bytes", "9000")]);
        let micro = request("micro", None, &[]);
        assert_eq!(words_of(&row, &[micro.clone(), apache.clone()]), " --seed 7 --units 40 --set bytes=9000");
        assert_eq!(words_of(&row, &[request("apps", Some(3), &[])]), " --seed 7 --units 3");
        assert_eq!(words_of(&row, &[apache, request("apache", None, &[])]), "", "nobody knows which");
    }

    fn variant(name: &str, mode: Option<&str>, flags: &str) -> Variant {
        Variant {
            kernel: KernelImage {
                name: name.into(),
                bzimage: PathBuf::new(),
                config: None,
                release: None,
                source_version: None,
                source_checked: None,
                series_hash: None,
                config_hash: None,
                image_hash: String::new(),
                modes: Vec::new(),
                dir: None,
            },
            mode: mode.map(String::from),
            flags: flags.into(),
        }
    }

    #[test]
    fn a_guest_in_another_mode_than_its_row_fails() {
        let log = |mode: &str| {
            let text = format!("{{\"kind\":\"boot\",\"protocol\":1,\"mode\":{mode}}}\n");
            parse_log(text.as_bytes())
        };
        for (wanted, said, fits) in [
            (Some("idle"), "\"idle\"", true),
            (Some("idle"), "\"off\"", false),
            (Some("off"), "null", false),
            (None, "null", true),
            (None, "\"off\"", true),
        ] {
            let result = check_mode("abis", wanted, &log(said));
            assert_eq!(result.is_ok(), fits, "{wanted:?} {said}");
        }
        let error = check_mode("abis", Some("idle"), &log("\"off\"")).expect_err("another");
        assert_eq!(error.message, "kernel abis was booted with abis=idle and says its mode is off");
    }

    #[test]
    fn modes_of_one_kernel_are_one_kernel_in_the_environment() {
        let variants = [
            variant("vanilla", None, ""),
            variant("abis", Some("off"), ""),
            variant("abis", Some("idle"), ""),
        ];
        let names: Vec<String> =
            about_kernels(&variants, &[]).into_iter().map(|kernel| kernel.name).collect();
        assert_eq!(names, ["vanilla", "abis"]);
        assert_eq!(variants.map(|variant| variant.label()), ["vanilla", "abis-off", "abis-idle"]);
    }
}
