// SPDX-License-Identifier: GPL-2.0-only
//! What a session asks of the place where a plan runs: a guest, this machine, or whatever comes later. The session
//! knows no emulator, kernel or process; a place knows no order, resumption or results file.

use crate::catalog::Catalog;
use crate::kernels::Choice;
use crate::plan::{Boot, Matrix, Plan};
use ceasefire_artifacts::Context;
use ceasefire_base::Result;
use ceasefire_results::aggregate::RowKey;
use ceasefire_results::protocol::GuestLog;
use ceasefire_results::schema::Environment;
use std::path::PathBuf;
use std::time::Duration;

/// A place before anything is built in it.
pub trait Site {
    type Executor: Executor;

    /// Refuses what cannot be right, before minutes are spent; fits the matrices to what is there.
    fn refuse(&mut self, ctx: &Context, matrices: &mut [Matrix]) -> Result<()>;

    /// Sees to it that Debian packages are installed, all in one go: a build must not stop half-way to ask for one more.
    fn packages(&self, ctx: &Context) -> Result<()>;

    fn catalog(&mut self, ctx: &Context) -> Result<Catalog>;

    /// Builds what the plan needs.
    fn prepare(self, ctx: &Context, plan: &Plan) -> Result<Self::Executor>;
}

/// A place that is ready.
pub trait Executor: Sync {
    /// What runs, in the order of the rows.
    fn tasks(&self, plan: &Plan) -> Vec<Task>;

    /// Tasks at once. Each has a core of its own, and may be started in any order where there is more than one lane.
    fn lanes(&self) -> usize;

    /// Of all that decides what a task counts: a log of an earlier run is found again by it.
    fn identity(&self, task: &Task) -> String;

    /// Prints the commands that do it.
    fn show(&self, task: &Task);

    /// From start to verdict. An error means that nothing the task counted may be used.
    fn run(&self, task: &Task, orders: &mut Orders) -> Result<GuestLog>;

    /// Is this log, new or of an earlier run, of what the row says?
    fn check(&self, task: &Task, log: &GuestLog) -> Result<()>;

    /// Everything that decides what its rows count, beside what the log says of its boot.
    fn row(&self, task: &Task) -> RowKey;

    /// What is the same for all rows.
    fn environment(&self, logs: &[(RowKey, GuestLog)]) -> Environment;
}

/// Jobs of one boot, on a host of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// As its rows name it.
    pub kernel: String,
    pub choice: Choice,
    pub boot: Boot,
    /// Its files: LOG.jsonl, LOG.console, LOG.stderr.
    pub log: PathBuf,
}

/// What a task is told beside its jobs.
pub struct Orders<'a> {
    /// Overrides what its jobs may take.
    pub limit: Option<Duration>,
    /// The command that runs it alone.
    pub rerun: &'a str,
    /// Asked all the time: has it become useless?
    pub is_useless: &'a dyn Fn() -> bool,
    /// Told what it has said so far.
    pub on_progress: &'a mut dyn FnMut(&GuestLog),
}

impl Task {
    pub fn new(kernel: &str, choice: &Choice, boot: &Boot) -> Task {
        Task { kernel: kernel.into(), choice: choice.clone(), boot: boot.clone(), log: PathBuf::new() }
    }

    /// In progress lines.
    pub fn label(&self) -> String {
        let what = match self.boot.jobs.as_slice() {
            [job] => format!(" {} x{}", job.workload, job.threads),
            _ => String::new(),
        };
        format!("{} {}{what}", self.kernel_label(), self.boot.label())
    }

    /// In file names.
    pub fn kernel_label(&self) -> String {
        match &self.choice.mode {
            Some(mode) => format!("{}-{mode}", self.kernel),
            None => self.kernel.clone(),
        }
    }
}
