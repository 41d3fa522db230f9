// SPDX-License-Identifier: GPL-2.0-only
//! Runs tasks, several at once, each from its log where an earlier run has done it.

use crate::boot;
use crate::executor::{Executor, Orders, Task};
use crate::plan::Job;
use crate::request::Request;
use ceasefire_artifacts::Context;
use ceasefire_base::{cancel, Error, Result, Step};
use ceasefire_results::protocol::{self, GuestLog};
use ceasefire_results::schema::Unmeasured;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct Run<'a, E> {
    pub ctx: &'a Context,
    pub executor: &'a E,
    pub request: &'a Request,
    pub tasks: &'a [Task],
    /// See `Session::resumes`.
    pub resumes: bool,
}

#[derive(Default)]
struct Shared {
    /// Indices of tasks.
    waiting: VecDeque<usize>,
    running: Vec<String>,
    done: Vec<(usize, GuestLog)>,
    failure: Option<Error>,
    /// Rows of tasks without a verdict, where these stop nobody else.
    lost: Vec<Unmeasured>,
}

/// How tasks ended.
pub struct Ended {
    /// Indices and logs of those that gave a verdict, in the tasks' order.
    pub done: Vec<(usize, GuestLog)>,
    /// The rows of those that did not.
    pub lost: Vec<Unmeasured>,
}

pub fn run<E: Executor>(run: &Run<E>) -> Result<Ended> {
    let total = run.tasks.len();
    let lanes = run.executor.lanes().clamp(1, total.max(1));
    let mut order: Vec<usize> = (0..total).collect();
    if lanes > 1 {
        // Longest first, so that the last to end is a short one.
        order.sort_by_key(|&index| std::cmp::Reverse(run.tasks[index].boot.weight()));
    }
    let what = if total == 1 { "run" } else { "runs" };
    let step = run.ctx.progress.step(format!("measure: {total} {what}"));
    let shared = Mutex::new(Shared { waiting: order.into(), ..Shared::default() });
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| lane(run, &shared, &step));
        }
    });
    cancel::check()?;
    let mut shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = shared.failure {
        return Err(error);
    }
    shared.done.sort_by_key(|(index, _)| *index);
    let rows: usize = shared.done.iter().map(|(_, log)| log.runs.len()).sum();
    step.done(format!("{rows} repeats"));
    Ok(Ended { done: shared.done, lost: shared.lost })
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lane<E: Executor>(run: &Run<E>, shared: &Mutex<Shared>, step: &Step) {
    loop {
        let index = {
            let mut state = lock(shared);
            if state.failure.is_some() || cancel::requested() {
                return;
            }
            match state.waiting.pop_front() {
                Some(index) => index,
                None => return,
            }
        };
        let task = &run.tasks[index];
        let label = task.label();
        let say = |what: &str| {
            let mut state = lock(shared);
            state.running.retain(|line| !line.starts_with(&format!("{label}: ")));
            if !what.is_empty() {
                state.running.push(format!("{label}: {what}"));
            }
            let running = state.running.join(", ");
            step.waiting(format!("{}/{} done; {running}", state.done.len(), run.tasks.len()));
        };
        say("starting");
        // One task without a verdict spoils the whole: the others need not run to their ends.
        let is_useless = || lock(shared).failure.is_some();
        let rerun = run.request.only(&task.boot, &task.choice).command();
        let mut orders = Orders {
            limit: run.request.limit,
            rerun: &rerun,
            is_useless: &is_useless,
            on_progress: &mut |log| say(&latest(log)),
        };
        let result = one(run, task, &mut orders);
        say("");
        let mut state = lock(shared);
        match result {
            Ok(log) => state.done.push((index, log)),
            Err(error) if run.resumes && !cancel::requested() => {
                state.lost.extend(task.boot.jobs.iter().map(|job| lost(task, job, &error, &rerun)))
            }
            Err(error) => {
                state.failure.get_or_insert(error);
            }
        }
    }
}

fn one<E: Executor>(run: &Run<E>, task: &Task, orders: &mut Orders) -> Result<GuestLog> {
    let log = match run.resumes.then(|| ended_well(&task.log)).flatten() {
        Some(log) => log,
        None => run.executor.run(task, orders)?,
    };
    run.executor.check(task, &log).map_err(|error| error.remedy(format!("rerun: {}", orders.rerun)))?;
    Ok(log)
}

/// The log of an earlier run, if that task gave its verdict and nothing in it failed.
fn ended_well(log: &Path) -> Option<GuestLog> {
    let file = std::fs::File::open(boot::records_path(log)).ok()?;
    let log = protocol::read_log(file).ok()?;
    (log.usable().is_ok() && log.fails.is_empty()).then_some(log)
}

/// What a task without a verdict was to measure.
fn lost(task: &Task, job: &Job, error: &Error, rerun: &str) -> Unmeasured {
    Unmeasured {
        workload: job.workload.clone(),
        reason: error.message.clone(),
        threads: Some(job.threads),
        kernel: Some(task.kernel.clone()),
        mode: task.choice.mode.clone(),
        vcpus: Some(task.boot.vcpus),
        nodes: Some(task.boot.nodes),
        set: task.boot.settings(),
        rerun: Some(rerun.into()),
        output: Vec::new(),
    }
}

/// What a guest is at, from its newest record.
fn latest(log: &GuestLog) -> String {
    match log.runs.last() {
        Some(run) => format!("after {} x{} #{}", run.workload, run.threads, run.repeat + 1),
        None if log.boot.is_some() => "booted".into(),
        None => "booting".into(),
    }
}
