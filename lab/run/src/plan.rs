// SPDX-License-Identifier: GPL-2.0-only
//! From a matrix of workloads, CPUs and threads to a list of boots, each with its jobs. Pure: nothing runs here.

use crate::catalog::{Catalog, Workload, GROUP_CONTROL, GROUP_NUMA, GROUP_OWN, GROUP_STRESS};
use ceasefire_base::{Error, Result};
use std::collections::BTreeSet;

/// More than the kernel config's NR_CPUS would silently boot fewer CPUs than asked.
pub const VCPUS_MAX: u32 = 64;
pub const NODES_MAX: u32 = 8;
/// Of the values of `--set`, each with boots of its own.
const COMBINATIONS_MAX: usize = 1000;
/// A guest job that takes longer is killed and reported as failed.
const JOB_TIMEOUT_S: u32 = 120;
const APP_TIMEOUT_S: u32 = 240;
/// For each repeat of a job, beside the above.
const REPEAT_TIMEOUT_S: u32 = 20;
/// In each it makes up to 1 GiB, and computes all again; `--timeout` ends a boot sooner.
const NUMA_REPEAT_TIMEOUT_S: u32 = 1200;
/// As long as its units ask for; `--timeout` ends a boot sooner.
const STRESS_TIMEOUT_S: u32 = 4 * 3600;
/// A program that nobody here knows.
const PROGRAM_TIMEOUT_S: u32 = 3600;

/// How the emulator runs several vCPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadMode {
    /// Round robin on one host thread, with a short slice.
    #[default]
    Single,
    /// One host thread per vCPU (MTTCG): true races.
    Multi,
}

impl ThreadMode {
    pub fn as_str(self) -> &'static str {
        match self {
            ThreadMode::Single => "single",
            ThreadMode::Multi => "multi",
        }
    }
}

/// Workloads times CPUs times threads; the same for a guest and for the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Names or groups; empty: see [`Catalog::select`].
    pub workloads: Vec<String>,
    /// Names left out of the groups above.
    pub except: Vec<String>,
    pub vcpus: Vec<u32>,
    /// `None`: as many as there are vCPUs.
    pub threads: Option<Vec<u32>>,
    /// `None`: one node, and two for the workloads that need them.
    pub nodes: Option<u32>,
    pub repeats: u32,
    /// Each measures all repeats. A cost row has a boot for each repeat instead.
    pub boots: u32,
    pub seed: u64,
    pub units: Option<u64>,
    /// A value may be a list with commas: each of its words is measured.
    pub settings: Vec<(String, String)>,
    pub cost: bool,
    /// The observer records each shootdown of these workloads.
    pub record: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub workload: String,
    pub threads: u32,
    pub repeats: u32,
    pub seed: u64,
    pub units: Option<u64>,
    pub settings: Vec<(String, String)>,
    pub cost: bool,
    pub record: bool,
    pub timeout_s: u32,
}

/// One boot of one machine shape, and what runs in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    pub vcpus: u32,
    pub nodes: u32,
    pub cost: bool,
    pub packages: Vec<String>,
    pub programs: Vec<String>,
    pub jobs: Vec<Job>,
}

/// A row that cannot be measured in the shape asked for; printed and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSkip {
    pub workload: String,
    pub threads: u32,
    pub reason: String,
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub boots: Vec<Boot>,
    pub skips: Vec<PlannedSkip>,
}

impl Plan {
    /// The boots of all matrices, in order.
    pub fn of(matrices: &[Matrix], catalog: &Catalog) -> Result<Plan> {
        let mut plan = Plan::default();
        for matrix in matrices {
            let more = matrix.plan(catalog)?;
            plan.boots.extend(more.boots);
            plan.skips.extend(more.skips);
        }
        Ok(plan)
    }

    /// Debian packages of the applications, and their programs; each once, sorted.
    pub fn applications(&self) -> (Vec<String>, Vec<String>) {
        let each = |of: fn(&Boot) -> &Vec<String>| {
            let all: BTreeSet<&String> = self.boots.iter().flat_map(of).collect();
            all.into_iter().cloned().collect()
        };
        (each(|boot| &boot.packages), each(|boot| &boot.programs))
    }
}

impl Default for Matrix {
    fn default() -> Self {
        Matrix {
            workloads: Vec::new(),
            except: Vec::new(),
            vcpus: vec![1],
            threads: None,
            nodes: None,
            repeats: 1,
            boots: 1,
            seed: 1,
            units: None,
            settings: Vec::new(),
            cost: false,
            record: false,
        }
    }
}

impl Matrix {
    /// See [`Boot::is_counted_apart`].
    pub fn is_counted_apart(&self) -> bool {
        self.cost && self.vcpus.iter().any(|&vcpus| vcpus > 1)
    }

    /// Checks every number before anything is built or booted.
    pub fn validate(&self) -> Result<()> {
        for &vcpus in &self.vcpus {
            if vcpus == 0 || vcpus > VCPUS_MAX {
                return Err(Error::usage(format!("{vcpus} CPUs cannot be booted"))
                    .remedy(format!("choose --cpus between 1 and {VCPUS_MAX}")));
            }
            if let Some(nodes) = self.nodes {
                if nodes == 0 || nodes > NODES_MAX {
                    return Err(Error::usage(format!("{nodes} NUMA nodes cannot be built"))
                        .remedy(format!("choose --nodes between 1 and {NODES_MAX}")));
                }
                // What is counted may have to do with nodes that only have memory.
                if nodes > vcpus && !self.cost {
                    return Err(Error::usage(format!(
                        "{nodes} NUMA nodes need at least {nodes} CPUs, and --cpus says {vcpus}"
                    ))
                    .remedy(format!(
                        "use --cpus {nodes} or more, fewer --nodes, or --cost, with which nodes may have memory alone"
                    )));
                }
            }
            for &threads in self.threads.iter().flatten() {
                if threads == 0 || threads > vcpus {
                    return Err(Error::usage(format!(
                        "{threads} threads do not fit {vcpus} CPUs: every thread is pinned to a CPU of its own"
                    ))
                    .remedy(format!("choose --threads between 1 and {vcpus}")));
                }
            }
        }
        if self.repeats == 0 || self.repeats > 1000 {
            return Err(Error::usage(format!("{} repeats cannot be run", self.repeats))
                .remedy("choose --repeats between 1 and 1000"));
        }
        if self.boots == 0 || self.boots > 100 {
            return Err(Error::usage(format!("{} boots of the same machine cannot be run", self.boots))
                .remedy("choose --boots between 1 and 100"));
        }
        if self.boots > 1 && self.cost {
            return Err(Error::usage("--cost boots once for each repeat, and so has no use for --boots")
                .remedy("leave out --boots, and choose --repeats"));
        }
        let values = self.settings.iter().map(|(_, values)| values.split(',').count());
        if values.fold(1, usize::saturating_mul) > COMBINATIONS_MAX {
            return Err(Error::usage(format!(
                "--set has more than {COMBINATIONS_MAX} combinations of values"
            ))
            .remedy("measure fewer values at once"));
        }
        if self.record && self.cost {
            return Err(Error::usage("--cost counts instructions, and the observer's would be among them")
                .remedy("leave out --cost or --record"));
        }
        if self.units == Some(0) {
            return Err(Error::usage("0 units of work cannot be measured").remedy("choose --units 1 or more"));
        }
        Ok(())
    }

    /// The boots this matrix needs. `groups` of the catalog are accepted as names.
    pub fn plan(&self, catalog: &Catalog) -> Result<Plan> {
        self.validate()?;
        let mut chosen = catalog.select(&self.workloads)?;
        if !self.except.is_empty() {
            let left_out = catalog.select(&self.except)?;
            chosen.retain(|workload| left_out.iter().all(|other| other.name != workload.name));
        }
        if self.record && chosen.iter().all(|workload| workload.group == GROUP_CONTROL) {
            return Err(Error::usage("controls are not recorded: their figures are promised")
                .remedy("name other workloads beside them, or leave out --record"));
        }
        let is_named = |workload: &&&Workload| self.workloads.contains(&workload.name);
        if let Some((workload, why)) =
            chosen.iter().filter(is_named).find_map(|workload| Some((workload, workload.refusal.as_ref()?)))
        {
            return Err(Error::usage(format!("{} {why}", workload.name))
                .remedy("choose another workload, or a kernel of a machine that has it"));
        }
        let mut plan = Plan::default();
        let each = self.settings_each();
        for &vcpus in &self.vcpus {
            for (index, settings) in each.iter().enumerate() {
                self.plan_vcpus(vcpus, &chosen, settings, index == 0, &mut plan);
            }
        }
        Ok(plan)
    }

    /// Every combination of the words of each setting; one without any where nothing is set.
    fn settings_each(&self) -> Vec<Vec<(String, String)>> {
        let mut each: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for (key, values) in &self.settings {
            let values = distinct(&values.split(',').collect::<Vec<_>>());
            let with = |one: &Vec<(String, String)>, value: &str| {
                one.iter().cloned().chain([(key.clone(), value.to_string())]).collect()
            };
            each = each.iter().flat_map(|one| values.iter().map(move |value| with(one, value))).collect();
        }
        each
    }

    fn plan_vcpus(
        &self,
        vcpus: u32,
        chosen: &[&Workload],
        settings: &[(String, String)],
        is_first: bool,
        plan: &mut Plan,
    ) {
        let all = [vcpus];
        let threads = self.threads.as_deref().unwrap_or(&all);
        // Controls beside other workloads are what they always are: settings are the others'.
        let is_alike = chosen.iter().all(|workload| workload.group == GROUP_CONTROL);
        // Applications carry a root file system, and node workloads another machine: each shape boots alone.
        let mut shapes: Vec<Boot> = Vec::new();
        for workload in chosen {
            let is_control = workload.group == GROUP_CONTROL;
            let is_set = is_alike || !is_control;
            if !is_set && !is_first {
                continue;
            }
            let needs_nodes = workload.needs("nodes");
            let nodes = self.nodes.unwrap_or(if needs_nodes { 2 } else { 1 });
            for &threads in threads {
                let skip = |reason: String| PlannedSkip { workload: workload.name.clone(), threads, reason };
                if threads < workload.threads_min {
                    // Not a gap in the measurement: with fewer threads the workload does not exist.
                    continue;
                }
                if needs_nodes && workload.refusal.is_none() && vcpus.min(nodes) < 2 {
                    if !is_first {
                        continue;
                    }
                    plan.skips.push(skip("needs 2 NUMA nodes, and so 2 CPUs".into()));
                    continue;
                }
                if let Some(why) = &workload.refusal {
                    if is_first {
                        plan.skips.push(skip(why.clone()));
                    }
                    continue;
                }
                let mut job = self.job(workload, threads);
                if is_set {
                    job.settings = settings.to_vec();
                }
                job.record = self.record && !is_control;
                let is_app = !workload.packages.is_empty();
                // What an earlier job left in the guest's queues would be counted in: a cost row boots alone. A record is of
                // one row.
                let shares_boot = |b: &&mut Boot| {
                    !self.cost
                        && !job.record
                        && !b.is_recorded()
                        && b.nodes == nodes
                        && b.packages.is_empty() != is_app
                        && b.jobs.iter().all(|other| other.settings == job.settings)
                };
                match shapes.iter_mut().find(shares_boot) {
                    Some(boot) => boot.add(workload, job),
                    None => {
                        let mut boot = Boot { cost: self.cost, ..Boot::new(vcpus, nodes) };
                        boot.add(workload, job);
                        shapes.push(boot);
                    }
                }
            }
        }
        // Instructions must repeat across boots, so each repeat of a cost row is a boot of its own.
        let boots_per_shape = if self.cost { self.repeats } else { self.boots };
        for shape in shapes {
            for _ in 0..boots_per_shape {
                plan.boots.push(shape.clone());
            }
        }
    }

    fn job(&self, workload: &Workload, threads: u32) -> Job {
        Job {
            workload: workload.name.clone(),
            threads,
            repeats: if self.cost { 1 } else { self.repeats },
            seed: self.seed,
            units: self.units,
            settings: Vec::new(),
            cost: self.cost,
            record: false,
            timeout_s: self.repeats
                * if workload.group == GROUP_NUMA { NUMA_REPEAT_TIMEOUT_S } else { REPEAT_TIMEOUT_S }
                + match workload {
                    w if w.group == GROUP_STRESS => STRESS_TIMEOUT_S,
                    w if w.group == GROUP_OWN => PROGRAM_TIMEOUT_S,
                    w if !w.packages.is_empty() => APP_TIMEOUT_S,
                    _ => JOB_TIMEOUT_S,
                },
        }
    }
}

impl Boot {
    /// A machine with nothing to do.
    pub fn new(vcpus: u32, nodes: u32) -> Boot {
        Boot { vcpus, nodes, cost: false, packages: Vec::new(), programs: Vec::new(), jobs: Vec::new() }
    }

    /// All instructions count, and are the guest's time.
    pub fn is_timed_by_instructions(&self) -> bool {
        self.cost && self.vcpus == 1
    }

    /// The machine tells the kernel's instructions from those of loops that wait.
    pub fn is_counted_apart(&self) -> bool {
        self.cost && self.vcpus > 1
    }

    /// The observer writes down each shootdown of its job.
    pub fn is_recorded(&self) -> bool {
        self.jobs.iter().any(|job| job.record)
    }

    fn add(&mut self, workload: &Workload, job: Job) {
        for (mine, theirs) in
            [(&mut self.packages, &workload.packages), (&mut self.programs, &workload.programs)]
        {
            for name in theirs {
                if !mine.contains(name) {
                    mine.push(name.clone());
                }
            }
        }
        self.jobs.push(job);
    }

    /// What asks for these jobs alone.
    pub fn matrix(&self) -> Matrix {
        let names: Vec<String> = self.jobs.iter().map(|job| job.workload.clone()).collect();
        let threads: Vec<u32> = distinct(&self.jobs.iter().map(|job| job.threads).collect::<Vec<_>>());
        let mut matrix = Matrix {
            workloads: distinct(&names),
            vcpus: vec![self.vcpus],
            threads: (threads != [self.vcpus]).then_some(threads),
            nodes: (self.nodes > 1).then_some(self.nodes),
            cost: self.cost,
            ..Matrix::default()
        };
        if let Some(job) = self.jobs.first() {
            matrix.repeats = job.repeats;
            matrix.seed = job.seed;
            matrix.units = job.units;
            matrix.settings = job.settings.clone();
            matrix.record = job.record;
        }
        matrix
    }

    /// A guess at the work, to start long boots first.
    pub fn weight(&self) -> u32 {
        let per_job = if self.packages.is_empty() { 1 } else { 8 };
        self.vcpus * per_job * self.jobs.len() as u32
    }

    /// Shown in progress lines and used in file names.
    pub fn label(&self) -> String {
        let mut label = format!("{}cpu", self.vcpus);
        if self.nodes > 1 {
            label.push_str(&format!("-{}node", self.nodes));
        }
        if !self.packages.is_empty() {
            label.push_str("-apps");
        }
        if self.cost {
            label.push_str("-cost");
        }
        label
    }

    /// `KEY=VALUE,…` of its jobs, which share them.
    pub fn settings(&self) -> Option<String> {
        let pairs = &self.jobs.first()?.settings;
        let words: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        (!words.is_empty()).then(|| words.join(","))
    }

    /// The text of /job in the guest.
    pub fn job_text(&self) -> String {
        self.jobs.iter().map(|job| job.line() + "\n").collect()
    }
}

impl Job {
    /// One `run` line of /job.
    pub fn line(&self) -> String {
        let mut line = format!(
            "run {} threads={} repeats={} seed={} timeout_s={}",
            self.workload, self.threads, self.repeats, self.seed, self.timeout_s
        );
        if let Some(units) = self.units {
            line.push_str(&format!(" units={units}"));
        }
        if self.cost {
            line.push_str(" cost=1");
        }
        if self.record {
            line.push_str(" record=1");
        }
        for (key, value) in &self.settings {
            line.push_str(&format!(" set={key}={value}"));
        }
        line
    }
}

/// What is asked for twice is one thing.
pub fn distinct<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
