// SPDX-License-Identifier: GPL-2.0-only
//! A prompt inside the guest, or one command there.

use crate::boot::console_path;
use crate::files::Scratch;
use crate::image::Images;
use crate::plan::Boot;
use crate::qemu::{self, Accel, Console, Hardware};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Result};
use ceasefire_build::kernel::KernelImage;
use ceasefire_build::machine::Machine;
use ceasefire_build::Context;
use ceasefire_results::parse_log;
use std::fs;
use std::path::Path;

pub struct Shell<'a> {
    pub machine: &'a Machine,
    pub kernel: &'a KernelImage,
    pub accel: Accel,
    pub memory_mib: u32,
    pub kernel_arguments: &'a str,
    pub boot: Boot,
    /// Run this instead of a prompt.
    pub command: Option<&'a str>,
}

/// Gives the terminal to the guest until it powers off.
///
/// Errors: the guest ended without a verdict, or the command in it failed.
pub fn run(ctx: &Context, shell: &Shell, images: &Images) -> Result<()> {
    let job = match shell.command {
        Some(text) if text.contains('\n') => {
            return Err(Error::usage("a guest command is one line").remedy("join the lines with ;"))
        }
        Some(text) => format!("command {text}\n"),
        None => "shell\n".into(),
    };
    let scratch = Scratch::new("shell")?;
    in_directory(ctx, shell, images, &job, &scratch.path.join("shell"))
}

fn in_directory(ctx: &Context, shell: &Shell, images: &Images, job: &str, log: &Path) -> Result<()> {
    let verdict = log.with_extension("jsonl");
    let initrd = images.initrd_with_job(&shell.boot, job, log)?;
    let hardware = Hardware {
        qemu: &shell.machine.qemu,
        firmware: &shell.machine.firmware,
        kernel: &shell.kernel.bzimage,
        initrd: &initrd.path,
        accel: shell.accel,
        memory_mib: shell.memory_mib,
        console: Console::Terminal { verdict: verdict.clone(), is_prompt: shell.command.is_none() },
        kernel_arguments: shell.kernel_arguments,
    };
    let command = Command::new(&shell.machine.qemu).args(qemu::arguments(&hardware, &shell.boot));
    if ctx.dry_run {
        exec::print_line(&command.to_shell());
        return Ok(());
    }
    if shell.command.is_none() {
        ctx.progress
            .note("guest: `help` lists what there is, `exit` powers off, Ctrl-A x kills the emulator");
    }
    ctx.progress.clear();
    let status = exec::spawn_interactive(&command)?.wait(None)?;
    let bytes = fs::read(&verdict).map_err(|error| disk::error("read", &verdict, &error))?;
    let mut guest = parse_log(&bytes);
    guest.add_console(&fs::read(console_path(log)).unwrap_or_default());
    if !status.is_some_and(|status| status.success()) && !guest.outcome.is_complete() {
        return Err(Error::failed("the emulator was ended before the guest gave its verdict")
            .remedy("leave the prompt with `exit`"));
    }
    guest.usable()?;
    match guest.fails.first() {
        Some(fail) => {
            Err(Error::failed(fail.reason.clone()).remedy("its own words are on the console above"))
        }
        None => Ok(()),
    }
}
