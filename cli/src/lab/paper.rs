// SPDX-License-Identifier: GPL-2.0-only
//! `lab paper`: the paper's evaluation, figure by figure, each written as soon as it is measured.

use super::{measure, read};
use crate::args::{MachineArgs, Output, Paper as Args};
use ceasefire_artifacts::{guest, Context};
use ceasefire_base::progress::clock;
use ceasefire_base::{exec::print_line, Error, Kind, Result};
use ceasefire_report::paper as evaluation;
use ceasefire_results::paper::{figures, Paper};
use ceasefire_run::execute::Options;
use ceasefire_run::image::Images;
use ceasefire_run::paper::{self as plan, Run, Step};
use ceasefire_run::{files, plan::Request};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const DATA: &str = "paper.json";
const PAGE: &str = "paper.html";

pub fn run(ctx: &Context, args: &Args) -> Result<()> {
    let repeats = args.repeats.unwrap_or(if args.quick { plan::REPEATS_QUICK } else { plan::REPEATS });
    Request { repeats, ..Request::default() }.validate()?;
    let figures = plan::chosen(&args.only)?;
    let machine_args = MachineArgs::default();
    let choices = measure::choices(ctx, &args.kernel, &[], &machine_args)?;
    if choices.len() < 2 {
        return Err(Error::usage("one kernel alone has nothing to be held against")
            .remedy("name the unchanged kernel first: --kernel vanilla,NAME:MODE"));
    }
    let names: Vec<(String, bool)> =
        choices.iter().map(|choice| (choice.name(), choice.mode.as_deref() == Some("off"))).collect();
    let catalog = measure::catalog(ctx)?;
    let mut sections: Vec<(String, Vec<Step>)> = vec![("controls".into(), plan::controls(repeats))];
    sections.extend(figures.iter().map(|figure| (figure.id.to_string(), plan::steps(figure.works, repeats))));
    if ctx.dry_run {
        return show_plan(&sections, &catalog, &names);
    }

    let found = measure::machine_there_is(ctx, &machine_args)?;
    let output = Output { out: args.out.clone(), json: args.json };
    let _ours = measure::own(ctx, &output)?;
    measure::ensure_packages(ctx, &machine_args)?;
    let (mut packages, mut programs) = (BTreeSet::new(), BTreeSet::new());
    // Of all figures, so that what is chosen changes no boot's file system, and so no boot.
    for step in figures::FIGURES.iter().flat_map(|figure| plan::steps(figure.works, repeats)) {
        for boot in step.request.plan(&catalog)?.boots {
            packages.extend(boot.packages);
            programs.extend(boot.programs);
        }
    }
    let machine = measure::machine(ctx, found)?;
    let kernels = measure::kernels(ctx, &choices, &machine_args)?;
    let packages: Vec<String> = packages.into_iter().collect();
    let programs: Vec<String> = programs.into_iter().collect();
    let images = Images::prepare(ctx, &packages, &programs)?;
    let options = Options {
        cpu: measure::cpu(&machine_args, &machine)?,
        accel: measure::accel(ctx, &machine_args, &machine, &kernels[0].kernel, &images)?,
        kernels,
        machine,
        memory_mib: machine_args.memory,
        kernel_arguments: String::new(),
        out: args.out.clone(),
        limit: None,
        command: measure::command_line(),
        flags: String::new(),
        resumes: true,
    };
    let run = Run { ctx, catalog: &catalog, images: &images, options: &options, names: &names, repeats };
    let outcome = measured(&run, &figures, args, guest::source_hash(ctx)?);
    outcome.map_err(|error| match error.kind {
        Kind::Interrupted => {
            error.remedy("the same command goes on from there: every boot that ended is kept")
        }
        _ => error,
    })
}

fn measured(run: &Run, figures: &[&'static figures::Figure], args: &Args, workloads: String) -> Result<()> {
    let (data, page) = (args.out.join(DATA), args.out.join(PAGE));
    run.ctx
        .progress
        .note(format!("controls, then {} figures; what an earlier run measured is kept", figures.len()));
    let mut paper = run.begin()?;
    paper.environment.workloads = Some(workloads);
    if let Some(earlier) = earlier(&data).filter(|earlier| earlier.is_same_condition(&paper)) {
        earlier.figures.into_iter().for_each(|measured| paper.put(measured));
    }
    for (index, figure) in figures.iter().enumerate() {
        run.ctx.progress.note(format!("{} ({} of {})", figure.id, index + 1, figures.len()));
        run.figure(figure, &mut paper)?;
        files::write_whole(&data, paper.to_json()?.as_bytes())?;
        files::write_whole(&page, evaluation::html(&paper)?.as_bytes())?;
    }
    if args.json {
        print_line(paper.to_json()?.trim_end());
    } else {
        print_line(evaluation::render(&paper, &read::table_options()).trim_end());
        print_line(&format!("\n{}\n{}", page.display(), data.display()));
    }
    let failed: Vec<_> = paper.figures.iter().flat_map(|measured| &measured.failed).collect();
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Error::failed(format!(
            "{} of the rows failed; the first is {}: {}",
            failed.len(),
            first.workload,
            first.reason
        ))
        .remedy(format!("rerun: {}", first.rerun.as_deref().unwrap_or("ceasefire lab paper")))),
    }
}

/// Figures that this run does not measure again; a file of another form is written anew.
fn earlier(data: &Path) -> Option<Paper> {
    Paper::from_json(&std::fs::read(data).ok()?, &data.display().to_string()).ok()
}

/// Comments and commands, as every dry run: what boots, and how long it may take here.
fn show_plan(
    sections: &[(String, Vec<Step>)],
    catalog: &ceasefire_run::catalog::Catalog,
    names: &[(String, bool)],
) -> Result<()> {
    let cores = files::cores();
    let (mut boots, mut seconds) = (0, 0.0);
    for (name, steps) in sections {
        let (more_boots, more_seconds) = plan::estimate(steps, names, cores);
        boots += more_boots;
        seconds += more_seconds;
        print_line(&format!("# {name}: {more_boots} boots, about {}", span(more_seconds)));
        for command in plan::commands(steps, catalog, names)? {
            print_line(&command);
        }
    }
    print_line(&format!(
        "# in all {boots} boots, about {} on {cores} idle cores, kernels and machine built",
        span(seconds)
    ));
    Ok(())
}

fn span(seconds: f64) -> String {
    clock(Duration::from_secs_f64(seconds.max(0.0)))
}
