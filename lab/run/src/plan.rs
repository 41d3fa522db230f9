// SPDX-License-Identifier: GPL-2.0-only
//! From a matrix of workloads, CPUs and threads to a list of boots, each with its jobs. Pure: nothing runs here.

use crate::catalog::{Catalog, Workload, GROUP_CONTROL, GROUP_OWN, GROUP_STRESS};
use ceasefire_base::{Error, Result};
use std::collections::BTreeSet;

/// More than the kernel config's NR_CPUS would silently boot fewer CPUs than asked.
pub const VCPUS_MAX: u32 = 64;
pub const NODES_MAX: u32 = 8;
/// A guest job that takes longer is killed and reported as failed.
const JOB_TIMEOUT_S: u32 = 120;
const APP_TIMEOUT_S: u32 = 240;
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
    /// Names or groups; empty means every workload outside the groups `app` and `stress`.
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
    pub settings: Vec<(String, String)>,
    pub cost: bool,
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
                if nodes > vcpus {
                    return Err(Error::usage(format!(
                        "{nodes} NUMA nodes need at least {nodes} CPUs, and --cpus says {vcpus}"
                    ))
                    .remedy(format!("use --cpus {nodes} or more, or fewer --nodes")));
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
        let mut plan = Plan::default();
        for &vcpus in &self.vcpus {
            self.plan_vcpus(vcpus, &chosen, &mut plan);
        }
        Ok(plan)
    }

    fn plan_vcpus(&self, vcpus: u32, chosen: &[&Workload], plan: &mut Plan) {
        let all = [vcpus];
        let threads = self.threads.as_deref().unwrap_or(&all);
        // Controls beside other workloads are what they always are: settings are the others'.
        let is_alike = chosen.iter().all(|workload| workload.group == GROUP_CONTROL);
        // Applications carry a root file system, and node workloads another machine: each shape boots alone.
        let mut shapes: Vec<Boot> = Vec::new();
        for workload in chosen {
            let needs_nodes = workload.needs("nodes");
            let nodes = self.nodes.unwrap_or(if needs_nodes { 2 } else { 1 });
            for &threads in threads {
                let skip = |reason: String| PlannedSkip { workload: workload.name.clone(), threads, reason };
                if threads < workload.threads_min {
                    // Not a gap in the measurement: with fewer threads the workload does not exist.
                    continue;
                }
                if nodes > vcpus || (needs_nodes && nodes < 2) {
                    plan.skips.push(skip("needs 2 NUMA nodes, and so 2 CPUs".into()));
                    continue;
                }
                let mut job = self.job(workload, threads);
                if !is_alike && workload.group == GROUP_CONTROL {
                    job.settings.clear();
                }
                let is_app = !workload.packages.is_empty();
                // What an earlier job left in the guest's queues would be counted in: a cost row boots alone.
                let shares_boot = |b: &&mut Boot| {
                    !self.cost
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
            settings: self.settings.clone(),
            cost: self.cost,
            timeout_s: 20 * self.repeats
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
mod tests {
    use super::*;
    use ceasefire_base::Kind;

    fn catalog() -> Catalog {
        let text = r#"
{"name":"zero","group":"control","unit":"call","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"mprotect","group":"micro","unit":"call","about":"a","threads_min":2,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"migrate","group":"micro","unit":"page","about":"a","threads_min":2,"needs":["nodes"],"packages":[],"programs":[],"shared":false}
{"name":"apache","group":"app","unit":"request","about":"a","threads_min":1,"needs":[],"packages":["apache2-bin"],"programs":["/usr/sbin/apache2"],"shared":false}
"#;
        Catalog::parse(text).expect("the sample catalog parses")
    }

    fn matrix() -> Matrix {
        Matrix { workloads: vec![], vcpus: vec![4], repeats: 3, ..Matrix::default() }
    }

    #[test]
    fn numbers_out_of_range_are_usage_errors() {
        let cases: Vec<fn(&mut Matrix)> = vec![
            |r| r.vcpus = vec![0],
            |r| r.vcpus = vec![5000],
            |r| r.nodes = Some(0),
            |r| r.nodes = Some(8),
            |r| r.threads = Some(vec![0]),
            |r| r.threads = Some(vec![5]),
            |r| r.repeats = 0,
            |r| r.boots = 0,
            |r| r.boots = 101,
            |r| (r.vcpus, r.boots, r.cost) = (vec![1], 2, true),
            |r| r.units = Some(0),
        ];
        for change in cases {
            let mut matrix = matrix();
            change(&mut matrix);
            let error = matrix.validate().expect_err("must be refused");
            assert_eq!(error.kind, Kind::Usage);
            assert!(error.remedy.is_some(), "{error} has no remedy");
        }
        matrix().validate().expect("the unchanged matrix is right");
    }

    #[test]
    fn instructions_are_the_time_of_one_cpu_and_counted_apart_on_several() {
        let cost = |vcpus: &[u32]| Matrix { cost: true, vcpus: vcpus.to_vec(), ..matrix() };
        assert!(!cost(&[1]).is_counted_apart() && cost(&[1, 8]).is_counted_apart());
        assert!(!matrix().is_counted_apart(), "that is no cost row");
        for boot in cost(&[1, 8]).plan(&catalog()).expect("plans").boots {
            assert_eq!(boot.is_timed_by_instructions(), boot.vcpus == 1);
            assert_eq!(boot.is_counted_apart(), boot.vcpus == 8);
        }
    }

    #[test]
    fn node_workloads_boot_a_machine_of_their_own() {
        let plan = matrix().plan(&catalog()).expect("plans");
        let shapes: Vec<_> = plan.boots.iter().map(|b| (b.nodes, b.jobs.len())).collect();
        assert_eq!(shapes, [(1, 2), (2, 1)]);
        assert!(plan.skips.is_empty());
    }

    #[test]
    fn what_is_left_out_is_neither_run_nor_skipped() {
        let mut matrix = matrix();
        matrix.vcpus = vec![1];
        matrix.except = vec!["migrate".into()];
        let plan = matrix.plan(&catalog()).expect("plans");
        assert!(plan.skips.is_empty());
        assert_eq!(plan.boots.len(), 1);
        assert_eq!(plan.boots[0].jobs[0].workload, "zero");
        matrix.except = vec!["migrat".into()];
        assert_eq!(matrix.plan(&catalog()).expect_err("unknown").kind, Kind::Usage);
    }

    #[test]
    fn a_machine_too_small_for_two_nodes_is_a_counted_skip() {
        let mut matrix = matrix();
        matrix.nodes = Some(1);
        let plan = matrix.plan(&catalog()).expect("plans");
        assert_eq!(plan.skips.len(), 1);
        assert_eq!(plan.skips[0].workload, "migrate");
    }

    #[test]
    fn every_cost_repeat_is_a_boot() {
        let mut matrix = matrix();
        matrix.vcpus = vec![1];
        matrix.cost = true;
        matrix.repeats = 5;
        let plan = matrix.plan(&catalog()).expect("plans");
        assert_eq!(plan.boots.len(), 5);
        assert!(plan.boots.iter().all(|b| b.jobs.len() == 1 && b.jobs[0].repeats == 1 && b.jobs[0].cost));
    }

    #[test]
    fn each_of_several_boots_has_all_repeats() {
        let mut matrix = matrix();
        matrix.workloads = vec!["zero".into()];
        matrix.boots = 5;
        let plan = matrix.plan(&catalog()).expect("plans");
        assert_eq!(plan.boots.len(), 5);
        assert!(plan.boots.iter().all(|boot| boot.jobs.len() == 1 && boot.jobs[0].repeats == 3));
    }

    #[test]
    fn a_boots_own_matrix_plans_the_same_boot() {
        for change in [
            |_: &mut Matrix| {},
            |m: &mut Matrix| m.workloads = vec!["all".into()],
            |m: &mut Matrix| m.threads = Some(vec![1, 2, 4]),
            |m: &mut Matrix| (m.nodes, m.units) = (Some(2), Some(9)),
            |m: &mut Matrix| (m.vcpus, m.cost) = (vec![1], true),
            |m: &mut Matrix| m.settings = vec![("pages".into(), "8".into())],
        ] {
            let mut matrix = matrix();
            change(&mut matrix);
            for boot in matrix.plan(&catalog()).expect("plans").boots {
                let again = boot.matrix().plan(&catalog()).expect("plans").boots;
                let text = |boot: &Boot| {
                    let words = boot.job_text();
                    // A boot of a cost row has time for the repeats of the others.
                    if boot.cost {
                        words.replace("timeout_s=180", "timeout_s=140")
                    } else {
                        words
                    }
                };
                assert_eq!(again.len(), 1, "{boot:?}");
                assert_eq!((text(&again[0]), again[0].nodes), (text(&boot), boot.nodes));
            }
        }
    }

    #[test]
    fn controls_are_not_changed_with_what_they_stand_beside() {
        let mut matrix = matrix();
        matrix.settings = vec![("pages".into(), "8".into())];
        let settings_of = |matrix: &Matrix, name: &str| {
            let boots = matrix.plan(&catalog()).expect("plans").boots;
            let mut jobs = boots.iter().flat_map(|boot| &boot.jobs);
            jobs.find(|job| job.workload == name).map(|job| job.settings.clone())
        };
        matrix.workloads = vec!["zero".into(), "mprotect".into()];
        assert_eq!(settings_of(&matrix, "zero"), Some(Vec::new()));
        assert_eq!(settings_of(&matrix, "mprotect"), Some(matrix.settings.clone()));
        matrix.workloads = vec!["zero".into()];
        assert_eq!(settings_of(&matrix, "zero"), Some(matrix.settings.clone()));
    }

    #[test]
    fn applications_are_only_run_when_named() {
        let all = matrix().plan(&catalog()).expect("plans");
        assert!(all.boots.iter().all(|b| b.packages.is_empty()));
        let mut matrix = matrix();
        matrix.workloads = vec!["apache".into()];
        let plan = matrix.plan(&catalog()).expect("plans");
        assert_eq!(plan.boots.len(), 1);
        assert_eq!(plan.boots[0].packages, ["apache2-bin"]);
    }

    #[test]
    fn job_lines_carry_every_choice() {
        let job = Job {
            workload: "munmap".into(),
            threads: 8,
            repeats: 3,
            seed: 7,
            units: Some(100),
            settings: vec![("pages".into(), "32".into())],
            cost: true,
            timeout_s: 60,
        };
        assert_eq!(
            job.line(),
            "run munmap threads=8 repeats=3 seed=7 timeout_s=60 units=100 cost=1 set=pages=32"
        );
    }
}
