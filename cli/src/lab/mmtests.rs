// SPDX-License-Identifier: GPL-2.0-only
//! `lab selftests`: Linux's own tests of memory management.

use crate::args::{self, Subset};
use ceasefire_artifacts::Context;
use ceasefire_base::{exec::print_line, Error, Result};
use ceasefire_report::selftests as table;
use ceasefire_run::mmtests::{self, Request};
use std::time::Duration;

pub fn run(ctx: &Context, request: &Request) -> Result<()> {
    let Some(report) = mmtests::run(ctx, request)? else { return Ok(()) };
    let shown = if request.output.json { report.to_json()? } else { table::table(&report) };
    print_line(shown.trim_end());
    let failed = report.failed();
    let Some(first) = failed.first() else { return Ok(()) };
    let problem = first.problem.as_deref().unwrap_or_default();
    let more = if failed.len() > 1 { format!(" (and {} more)", failed.len() - 1) } else { String::new() };
    let (logs, rerun) = (request.logs(), request.rerun(&first.name));
    Err(Error::failed(format!("selftest {}: {problem}{more}", first.name))
        .remedy(format!("logs: {}\n  rerun: {rerun}", logs.display())))
}

impl args::Selftests {
    pub fn request(&self) -> Result<Request> {
        Ok(Request {
            tests: self.tests.clone(),
            short: self.subset == Subset::Short,
            spec: self.machine.guest(&self.kernel, self.mode.as_ref())?,
            cpus: self.cpus,
            limit: self.timeout.map(Duration::from_secs),
            patience: self.patience,
            output: self.output.typed(),
        })
    }
}
