// SPDX-License-Identifier: GPL-2.0-only
//! The same workloads on this machine, with the kernel it runs: each task is a process.

use crate::catalog::Catalog;
use crate::executor::{Executor, Orders, Site, Task};
use crate::files;
use crate::kernels::Choice;
use crate::plan::{Boot, Job, Matrix, Plan};
use crate::switch::Switch;
use ceasefire_artifacts::{guest, Context};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Kind, Result};
use ceasefire_mechanism::Mechanism;
use ceasefire_results::aggregate::RowKey;
use ceasefire_results::parse_log;
use ceasefire_results::protocol::GuestLog;
use ceasefire_results::schema::{Environment, Kernel};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kernel's name in the rows.
const KERNEL: &str = "host";

/// Asked for, not looked at yet.
pub struct HostSite {
    modes: Vec<String>,
    /// The workloads, built elsewhere.
    given: Option<PathBuf>,
    binary: PathBuf,
}

pub struct Host {
    binary: PathBuf,
    /// Hash of the workloads' sources, unless they were built elsewhere.
    sources: Option<String>,
    nodes: u32,
    /// Without any, the kernel is taken as it is.
    modes: Vec<String>,
    switch: Option<Switch>,
    /// What a guest says of itself at its boot; nothing where it cannot be read.
    about: GuestLog,
    /// All that the running kernel may have.
    mechanisms: Vec<Mechanism>,
}

impl HostSite {
    pub fn new(modes: &[String], program: Option<PathBuf>) -> HostSite {
        HostSite { modes: modes.to_vec(), given: program, binary: PathBuf::new() }
    }
}

impl Site for HostSite {
    type Executor = Host;

    fn refuse(&mut self, _ctx: &Context, matrices: &mut [Matrix]) -> Result<()> {
        let cores = files::cores() as u32;
        for matrix in matrices {
            if matrix.cost {
                return Err(Error::usage("instructions are counted by the emulator, not on this machine")
                    .remedy("leave out --cost or --on host"));
            }
            if let Some(&vcpus) = matrix.vcpus.iter().find(|&&vcpus| vcpus > cores) {
                return Err(Error::usage(format!(
                    "{vcpus} CPUs were asked for and this machine has {cores}"
                ))
                .remedy(format!("choose --cpus between 1 and {cores}")));
            }
            matrix.nodes = Some(nodes().min(matrix.vcpus.iter().copied().min().unwrap_or(1)));
        }
        if let Some(path) = &self.given {
            self.binary = given_program(path)?;
        }
        Ok(())
    }

    fn packages(&self, _ctx: &Context) -> Result<()> {
        Ok(())
    }

    fn catalog(&mut self, ctx: &Context) -> Result<Catalog> {
        if self.given.is_none() {
            self.binary = guest::workloads_binary(ctx)?;
        }
        Catalog::of(&self.binary)
    }

    fn prepare(self, ctx: &Context, _plan: &Plan) -> Result<Host> {
        let mechanisms = ceasefire_mechanism::all(&ctx.root)?;
        let is_switched = !self.modes.is_empty() && !ctx.dry_run;
        let switch =
            if is_switched { Some(Switch::take(&ctx.progress, &mechanisms, &self.modes)?) } else { None };
        let said =
            exec::read(&Command::new(&self.binary).arg("boot").args(told(&mechanisms))).unwrap_or_default();
        Ok(Host {
            sources: if self.given.is_none() { Some(guest::source_hash(ctx)?) } else { None },
            binary: self.binary,
            nodes: nodes(),
            modes: self.modes,
            switch,
            about: parse_log(said.as_bytes()),
            mechanisms,
        })
    }
}

impl Host {
    fn command(&self, job: &Job) -> Command {
        let mut command = Command::new(&self.binary).args(["run", &job.workload]);
        command =
            command.args(["--threads", &job.threads.to_string(), "--repeats", &job.repeats.to_string()]);
        command = command.args(["--seed", &job.seed.to_string()]);
        if let Some(units) = job.units {
            command = command.args(["--units", &units.to_string()]);
        }
        for (key, value) in &job.settings {
            command = command.args(["--set", &format!("{key}={value}")]);
        }
        command.args(told(&self.mechanisms))
    }

    fn one(&self, job: &Job, limit: Option<Duration>) -> Result<GuestLog> {
        let limit = limit.unwrap_or(Duration::from_secs(job.timeout_s.into()));
        let said = exec::capture(&self.command(job), Some(limit))?;
        let mut log = parse_log(said.stdout.as_bytes());
        log.end_on_host(said.status.code());
        log.boot = self.about.boot.clone();
        if !log.outcome.is_complete() {
            let last = said.stderr.lines().last().unwrap_or("it said nothing");
            return Err(Error::failed(format!("{} ended without its result: {last}", job.workload)));
        }
        Ok(log)
    }
}

impl Executor for Host {
    /// One mode after the other for each workload: what a machine does by the hour is in all of them.
    fn tasks(&self, plan: &Plan) -> Vec<Task> {
        let running = self.about.boot.as_ref().and_then(|boot| boot.mode.clone());
        let modes: Vec<Option<String>> = match self.modes.is_empty() {
            true => vec![running],
            false => self.modes.iter().cloned().map(Some).collect(),
        };
        let mut tasks = Vec::new();
        for boot in &plan.boots {
            for job in &boot.jobs {
                let boot = Boot { jobs: vec![job.clone()], ..boot.clone() };
                tasks.extend(modes.iter().map(|mode| {
                    Task::new(KERNEL, &Choice { kernel: KERNEL.into(), mode: mode.clone() }, &boot)
                }));
            }
        }
        tasks
    }

    fn lanes(&self) -> usize {
        1
    }

    fn identity(&self, task: &Task) -> String {
        let release = files::release().unwrap_or_default();
        format!("{release}\n{:?}\n{}", task.choice.mode, task.boot.job_text())
    }

    fn show(&self, task: &Task) {
        if let (false, Some(mode)) = (self.modes.is_empty(), &task.choice.mode) {
            exec::print_line(&format!("# mode: {mode}"));
        }
        task.boot.jobs.iter().for_each(|job| exec::print_line(&self.command(job).to_shell()));
    }

    fn run(&self, task: &Task, orders: &mut Orders) -> Result<GuestLog> {
        if let (Some(switch), Some(mode)) = (&self.switch, &task.choice.mode) {
            switch.set(mode)?;
        }
        let [job] = task.boot.jobs.as_slice() else {
            return Err(Error::failed("a task on this machine is one job"));
        };
        self.one(job, orders.limit).map_err(|error| match error.kind {
            Kind::Failed => error.remedy(format!("rerun: {}", orders.rerun)),
            _ => error,
        })
    }

    fn check(&self, _task: &Task, _log: &GuestLog) -> Result<()> {
        Ok(())
    }

    fn row(&self, task: &Task) -> RowKey {
        RowKey {
            kernel: task.kernel.clone(),
            mode: task.choice.mode.clone(),
            vcpus: task.boot.vcpus,
            nodes: self.nodes,
            set: task.boot.settings(),
            ..RowKey::default()
        }
    }

    fn environment(&self, logs: &[(RowKey, GuestLog)]) -> Environment {
        let boot = self.about.boot.as_ref();
        let kernel = Kernel {
            name: KERNEL.into(),
            release: files::release(),
            counters: Some(boot.map_or_else(|| "generic".into(), |boot| boot.counters.clone())),
            ..Kernel::default()
        };
        Environment {
            place: "host".into(),
            kernels: vec![kernel],
            mechanisms: counted(&self.mechanisms, logs),
            thp: boot.and_then(|boot| boot.thp.clone()),
            pti: boot.and_then(|boot| boot.pti),
            pcid: boot.and_then(|boot| boot.pcid),
            invpcid: boot.and_then(|boot| boot.invpcid),
            cpu_flags: boot.and_then(|boot| boot.cpu_flags.clone()),
            workloads: self.sources.clone(),
            ..Environment::default()
        }
    }
}

/// Those that counted anything.
fn counted(mechanisms: &[Mechanism], logs: &[(RowKey, GuestLog)]) -> Vec<Mechanism> {
    let is_counted = |mechanism: &&Mechanism| {
        logs.iter().flat_map(|(_, log)| &log.runs).any(|run| run.mechanisms.contains_key(&mechanism.name))
    };
    mechanisms.iter().filter(is_counted).cloned().collect()
}

/// What the workloads are told of mechanisms. Whether a kernel uses what its processor has, only its recipe tells.
fn told(mechanisms: &[Mechanism]) -> Vec<String> {
    let switched = mechanisms.iter().filter(|mechanism| mechanism.cpuid.is_none());
    switched.flat_map(|mechanism| ["--mechanism".to_string(), mechanism.argument()]).collect()
}

fn given_program(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|error| {
        Error::usage(format!("cannot use {} as the workloads: {}", path.display(), disk::reason(&error)))
            .remedy(
            "copy it from a checkout: `ceasefire lab run zero --on host --cpus 1 --dry-run` there says where it is",
        )
    })
}

fn nodes() -> u32 {
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    let count = fs::read_dir("/sys/devices/system/node")
        .map(|dir| dir.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count());
    count.unwrap_or(1).max(1) as u32
}
