// SPDX-License-Identifier: GPL-2.0-only
//! `lab paper`: a paper's evaluation, figure by figure, each written as soon as it is measured.

use super::read;
use crate::args::Paper as Args;
use ceasefire_artifacts::Context;
use ceasefire_base::{exec::print_line, Result};
use ceasefire_report::paper as page;
use ceasefire_results::paper::figures::{self, EVALUATIONS};
use ceasefire_results::schema::Unmeasured;
use ceasefire_run::paper::{self, Request, Times};
use ceasefire_run::words::Output;
use ceasefire_run::{files, session};

pub fn run(ctx: &Context, args: &Args) -> Result<()> {
    // The command line takes no other.
    let evaluation = figures::evaluation(&args.evaluation).unwrap_or(&EVALUATIONS[0]);
    let named = |list: &str| list.split(',').map(String::from).collect();
    let repeats = if args.quick { paper::REPEATS_QUICK } else { paper::REPEATS };
    let request = Request {
        evaluation,
        only: args.only.clone(),
        times: Times {
            repeats: args.boots.or(args.repeats).unwrap_or(repeats),
            is_of_boots: args.boots.is_some(),
        },
        kernels: args.kernel.clone().unwrap_or_else(|| named(evaluation.kernels)),
        output: Output { out: args.out.clone().unwrap_or_else(|| evaluation.out.into()), json: args.json },
    };
    let save = |paper: &_| files::write_whole(&request.page(), page::html(paper)?.as_bytes());
    let Some(paper) = paper::run(ctx, &request, &save)? else { return Ok(()) };
    if args.json {
        print_line(paper.to_json()?.trim_end());
    } else {
        print_line(page::render(&paper, &read::table_options()).trim_end());
        print_line(&format!("\n{}\n{}", request.page().display(), request.data().display()));
    }
    let failed: Vec<&Unmeasured> = paper.figures.iter().flat_map(|measured| &measured.failed).collect();
    session::judge(paper.figures.len(), &failed)
}
