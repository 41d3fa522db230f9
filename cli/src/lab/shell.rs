// SPDX-License-Identifier: GPL-2.0-only
//! `lab shell`.

use super::measure;
use crate::args;
use ceasefire_artifacts::{apps, Context};
use ceasefire_base::{Error, Result};
use ceasefire_run::files::{self, Scratch};
use ceasefire_run::image::Images;
use ceasefire_run::plan::{Boot, Request};
use ceasefire_run::shell::{self, Shell};
use std::io::IsTerminal;

pub fn run(ctx: &Context, args: &args::Shell) -> Result<()> {
    let shape = Request { vcpus: vec![args.cpus], nodes: Some(args.nodes), ..Request::default() };
    shape.validate()?;
    if args.command.is_none() && !ctx.dry_run && !std::io::stdin().is_terminal() {
        return Err(
            Error::usage("a prompt needs a terminal").remedy("use --command TEXT, or run it in a terminal")
        );
    }
    if let Some(text) = &args.command {
        shell::check_command(text)?;
    }
    if args.with.is_some() && ctx.dry_run {
        return Err(Error::usage(
            "--with and --dry-run exclude each other: the archive is made for one boot",
        )
        .remedy("leave out one of them"));
    }
    // Before minutes are spent on building.
    let program = args.with.as_deref().map(apps::of_host).transpose()?;
    let modes: Vec<String> = args.mode.iter().cloned().collect();
    let choices = measure::choices(ctx, std::slice::from_ref(&args.kernel), &modes, &args.machine)?;
    let memory_mib = measure::check_machine(&args.machine)?;
    let found = measure::machine_there_is(ctx, &args.machine)?;
    measure::ensure_packages(ctx, &args.machine)?;
    let machine = measure::machine(ctx, found)?;
    let cpu = measure::cpu(&args.machine, &machine)?;
    let kernels = measure::kernels(ctx, &choices, &args.machine)?;
    let scratch = Scratch::new("with")?;
    let mut images = Images::prepare(ctx, &[], &[])?;
    if let Some(program) = program {
        let archive = scratch.path.join("program.cpio");
        files::write_whole(&archive, &program)?;
        images = images.with(archive);
    }
    let accel = measure::accel(ctx, &args.machine, &machine, &kernels[0].kernel, &images)?;
    let shell = Shell {
        machine: &machine,
        kernel: &kernels[0].kernel,
        accel,
        cpu,
        memory_mib,
        mode: kernels[0].mode.as_deref(),
        kernel_arguments: &args.machine.kernel_args,
        boot: Boot::new(args.cpus, args.nodes),
    };
    match &args.command {
        Some(text) => shell.command(ctx, &images, text),
        None => shell.prompt(ctx, &images),
    }
}
