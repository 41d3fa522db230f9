// SPDX-License-Identifier: GPL-2.0-only
//! `lab shell`.

use crate::args;
use ceasefire_artifacts::Context;
use ceasefire_base::Result;
use ceasefire_run::shell::{self, Request, Task};

pub fn run(ctx: &Context, args: &args::Shell) -> Result<()> {
    let request = Request {
        spec: args.machine.guest(&args.kernel, args.mode.as_ref())?,
        cpus: args.cpus,
        nodes: args.nodes,
        task: match (&args.command, &args.script) {
            (Some(text), _) => Task::Command(text.clone()),
            (None, Some(file)) => Task::Script(file.clone()),
            (None, None) => Task::Prompt,
        },
        luggage: args.luggage.typed(),
    };
    shell::run(ctx, &request)
}
