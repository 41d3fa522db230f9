// SPDX-License-Identifier: GPL-2.0-only
//! `lab shell`.

use crate::args;
use ceasefire_artifacts::Context;
use ceasefire_base::Result;
use ceasefire_run::shell::{self, Request};

pub fn run(ctx: &Context, args: &args::Shell) -> Result<()> {
    let request = Request {
        spec: args.machine.guest(&args.kernel, args.mode.as_ref())?,
        cpus: args.cpus,
        nodes: args.nodes,
        command: args.command.clone(),
        with: args.with.clone(),
    };
    shell::run(ctx, &request)
}
