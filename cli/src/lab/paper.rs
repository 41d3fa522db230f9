// SPDX-License-Identifier: GPL-2.0-only
//! `lab paper`: the paper's evaluation, figure by figure, each written as soon as it is measured.

use super::read;
use crate::args::Paper as Args;
use ceasefire_artifacts::Context;
use ceasefire_base::{exec::print_line, Result};
use ceasefire_report::paper as evaluation;
use ceasefire_results::schema::Unmeasured;
use ceasefire_run::paper::{self, Request};
use ceasefire_run::words::Output;
use ceasefire_run::{files, session};

pub fn run(ctx: &Context, args: &Args) -> Result<()> {
    let request = Request {
        only: args.only.clone(),
        repeats: args.repeats.unwrap_or(if args.quick { paper::REPEATS_QUICK } else { paper::REPEATS }),
        kernels: args.kernel.clone(),
        output: Output { out: args.out.clone(), json: args.json },
    };
    let save = |paper: &_| files::write_whole(&request.page(), evaluation::html(paper)?.as_bytes());
    let Some(paper) = paper::run(ctx, &request, &save)? else { return Ok(()) };
    if args.json {
        print_line(paper.to_json()?.trim_end());
    } else {
        print_line(evaluation::render(&paper, &read::table_options()).trim_end());
        print_line(&format!("\n{}\n{}", request.page().display(), request.data().display()));
    }
    let failed: Vec<&Unmeasured> = paper.figures.iter().flat_map(|measured| &measured.failed).collect();
    session::judge(paper.figures.len(), &failed)
}
