// SPDX-License-Identifier: GPL-2.0-only
//! From a request to results, wherever it runs: refuse what can be refused, packages, catalog, plan, artefacts, run,
//! aggregate, judge, write.

use crate::boot;
use crate::catalog::Catalog;
use crate::executor::{Executor, Site, Task};
use crate::files;
use crate::lanes::{self, Ended, Run};
use crate::plan::{Boot, Job, Matrix, Plan};
use crate::request::Request;
use ceasefire_artifacts::lock::Lock;
use ceasefire_artifacts::{hash, Context};
use ceasefire_base::{Error, Result};
use ceasefire_results::aggregate::{aggregate, RowKey};
use ceasefire_results::protocol::GuestLog;
use ceasefire_results::schema::{About, Environment, Host, Recorded, Results, Unmeasured};
use std::fs;
use std::path::{Path, PathBuf};

/// Everything but the measurements themselves, ready.
pub struct Session<'a, E> {
    pub ctx: &'a Context,
    pub catalog: Catalog,
    pub executor: E,
    /// As the place can have them.
    matrices: Vec<Matrix>,
    out: PathBuf,
    /// For hours of boots: one that ended well in an earlier run is taken from its log, and one without a
    /// verdict is a failed row, not the end of all.
    pub resumes: bool,
    _own: Option<Lock>,
}

impl<'a, E: Executor> Session<'a, E> {
    /// Everything that comes before the first boot, the cheapest first. Nobody else writes to `out` while the session
    /// lives; a dry run writes nothing.
    pub fn open<S: Site<Executor = E>>(
        ctx: &'a Context,
        mut site: S,
        matrices: Vec<Matrix>,
        out: Option<&Path>,
    ) -> Result<Session<'a, E>> {
        let mut matrices = matrices;
        matrices.iter().try_for_each(Matrix::validate)?;
        site.refuse(ctx, &mut matrices)?;
        let _own = match out {
            Some(out) if !ctx.dry_run => Some(files::own_output_directory(&ctx.progress, out)?),
            _ => None,
        };
        site.packages(ctx)?;
        let catalog = site.catalog(ctx)?;
        let plan = Plan::of(&matrices, &catalog)?;
        let executor = site.prepare(ctx, &plan)?;
        let out = out.map(PathBuf::from).unwrap_or_default();
        Ok(Session { ctx, catalog, executor, matrices, out, resumes: false, _own })
    }

    /// Runs the request that the session was opened for. `None` in a dry run.
    pub fn measure(&self, request: &Request) -> Result<Option<Results>> {
        self.measure_on(&self.executor, request, &self.matrices)
    }

    /// Runs these matrices, whose artefacts the session has, on an executor made from the session's own.
    ///
    /// Errors: the first task without a verdict stops the others; rows that failed inside a guest do not.
    pub fn measure_on(
        &self,
        executor: &E,
        request: &Request,
        matrices: &[Matrix],
    ) -> Result<Option<Results>> {
        let plan = Plan::of(matrices, &self.catalog)?;
        let logs = self.out.join("logs");
        let tasks = self.named(executor, executor.tasks(&plan), &logs);
        if self.ctx.dry_run {
            tasks.iter().for_each(|task| executor.show(task));
            return Ok(None);
        }
        match self.resumes {
            true => files::output_directory(&logs)?,
            false => files::log_directory(&logs)?,
        }
        let run = Run { ctx: self.ctx, executor, request, tasks: &tasks, resumes: self.resumes };
        let Ended { done, lost } = lanes::run(&run)?;
        let ended: Vec<&Task> = done.iter().map(|(index, _)| &tasks[*index]).collect();
        let keyed: Vec<(RowKey, GuestLog)> =
            done.into_iter().map(|(index, log)| (executor.row(&tasks[index]), log)).collect();
        let mut results = aggregate(self.environment(executor, request, &keyed), &keyed)?;
        results.workloads = about_workloads(&self.catalog);
        for (task, (key, _)) in ended.iter().zip(&keyed).filter(|(task, _)| task.boot.is_recorded()) {
            match recorded(task, key) {
                Some(recorded) => results.recorded.push(recorded),
                None => results.problems.push(format!("{}: the observer left no record", task.label())),
            }
        }
        results.skipped.extend(plan.skips.iter().map(|skip| Unmeasured {
            workload: skip.workload.clone(),
            threads: Some(skip.threads),
            reason: skip.reason.clone(),
            ..Unmeasured::default()
        }));
        let keys = keyed.iter().map(|(key, _)| key);
        add_reruns(&mut results.failed, &ended.into_iter().zip(keys).collect::<Vec<_>>(), request);
        results.failed.extend(lost);
        Ok(Some(results))
    }

    /// Each with its log's path. One that is to be found again is named by what it is, and equal ones by their number.
    fn named(&self, executor: &E, mut tasks: Vec<Task>, logs: &Path) -> Vec<Task> {
        for index in 0..tasks.len() {
            let task = &tasks[index];
            let label = format!("{}-{}", task.kernel_label(), task.boot.label());
            let name = if self.resumes {
                let is_twin =
                    |other: &&Task| other.kernel_label() == task.kernel_label() && other.boot == task.boot;
                let twins = tasks[..index].iter().filter(is_twin).count();
                let identity = hash::bytes(executor.identity(task).as_bytes());
                format!("{label}-{}-{}", &identity[..16], twins + 1)
            } else {
                format!("{:02}-{label}", index + 1)
            };
            tasks[index].log = logs.join(name);
        }
        tasks
    }

    fn environment(&self, executor: &E, request: &Request, logs: &[(RowKey, GuestLog)]) -> Environment {
        Environment {
            ceasefire: env!("CARGO_PKG_VERSION").into(),
            commit: files::commit(&self.ctx.root),
            date: files::now_utc(),
            command: Some(request.command()),
            seed: request.matrices().first().map(|matrix| matrix.seed),
            host: Host {
                cores: Some(files::cores() as u32),
                cpu: files::cpu_name(),
                release: files::release(),
            },
            ..executor.environment(logs)
        }
    }
}

/// `None` where the row ended before the observer had written. The emulator makes the file, the guest fills it.
fn recorded(task: &Task, key: &RowKey) -> Option<Recorded> {
    let job = task.boot.jobs.first()?;
    let file = boot::watched_path(&task.log);
    let is_filled = fs::metadata(&file).is_ok_and(|about| about.len() > 0);
    is_filled.then(|| Recorded {
        workload: job.workload.clone(),
        threads: job.threads,
        kernel: key.kernel.clone(),
        mode: key.mode.clone(),
        vcpus: key.vcpus,
        nodes: key.nodes,
        set: key.set.clone(),
        file: file.display().to_string(),
        savings: None,
    })
}

/// Every row that failed gets the command that runs it alone: that of a job that would have made it, each job's once.
fn add_reruns(failed: &mut [Unmeasured], ended: &[(&Task, &RowKey)], request: &Request) {
    let mut jobs: Vec<(&Task, &RowKey, &Job)> = Vec::new();
    for (task, key) in ended {
        jobs.extend(task.boot.jobs.iter().map(|job| (*task, *key, job)));
    }
    for row in failed {
        let fits = |(_, key, job): &(&Task, &RowKey, &Job)| {
            job.workload == row.workload
                && row.threads.map_or(true, |threads| threads == job.threads)
                && row.kernel.as_ref() == Some(&key.kernel)
                && row.mode == key.mode
                && (row.vcpus, row.nodes) == (Some(key.vcpus), Some(key.nodes))
                && row.set == key.set
        };
        if let Some(found) = jobs.iter().position(fits) {
            let (task, _, job) = jobs.remove(found);
            let boot = Boot { jobs: vec![job.clone()], ..task.boot.clone() };
            row.rerun = Some(request.only(&boot, &task.choice).command());
        }
    }
}

fn about_workloads(catalog: &Catalog) -> Vec<About> {
    let about = |w: &crate::catalog::Workload| About {
        name: w.name.clone(),
        group: w.group.clone(),
        unit: w.unit.clone(),
        about: w.about.clone(),
        shared: w.shared,
    };
    catalog.workloads.iter().map(about).collect()
}

/// The files of results that may be shown.
pub struct Written {
    pub data: PathBuf,
    pub page: PathBuf,
}

/// Writes results.json and report.html. A failed control leaves the figures for study and no report.
pub fn write(results: &Results, out: &Path, page: impl Fn(&Results) -> Result<String>) -> Result<Written> {
    let json = results.to_json()?;
    if let Err(error) = results.reportable() {
        files::write_whole(&out.join("results.failed.json"), json.as_bytes())?;
        return Err(error);
    }
    let written = Written { data: out.join("results.json"), page: out.join("report.html") };
    files::write_whole(&written.data, json.as_bytes())?;
    files::write_whole(&written.page, page(results)?.as_bytes())?;
    Ok(written)
}

/// A row that failed is a failed run, and no row at all is a skip.
pub fn judge(rows: usize, failed: &[&Unmeasured]) -> Result<()> {
    if let Some(first) = failed.first() {
        let count = failed.len();
        let which =
            if count == 1 { "a row failed".to_string() } else { format!("{count} rows failed; the first") };
        let error = Error::failed(format!("{which}: {}: {}", first.workload, first.reason));
        return Err(match &first.rerun {
            Some(rerun) => error.remedy(format!("rerun: {rerun}")),
            None => error.remedy(format!("run it alone: ceasefire lab run {}", first.workload)),
        });
    }
    if rows == 0 {
        return Err(Error::skip("nothing could be measured here").remedy("see the reasons above"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
