// SPDX-License-Identifier: GPL-2.0-only
//! A prompt inside the guest, or one command there.

use crate::boot::{self, Start};
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
use ceasefire_results::protocol::GuestLog;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// PID 1 stops a command after 600 s; the rest is the boot's.
const COMMAND_LIMIT: Duration = Duration::from_secs(700);

pub struct Shell<'a> {
    pub machine: &'a Machine,
    pub kernel: &'a KernelImage,
    pub accel: Accel,
    pub memory_mib: u32,
    pub kernel_arguments: &'a str,
    pub boot: Boot,
}

impl Shell<'_> {
    /// Gives the terminal to the guest until it powers off. Call from the main thread.
    ///
    /// Errors: the guest ended without a verdict.
    pub fn prompt(&self, ctx: &Context, images: &Images) -> Result<()> {
        let scratch = Scratch::new("shell")?;
        let log = scratch.path.join("shell");
        let verdict = boot::records_path(&log);
        let initrd = images.initrd_with_job(&self.boot, "shell\n", &log)?;
        let command = self.qemu(&initrd.path, Console::Terminal { verdict: verdict.clone() });
        if ctx.dry_run {
            exec::print_line(&command.to_shell());
            return Ok(());
        }
        ctx.progress
            .note("guest: `help` lists what there is, `exit` powers off, Ctrl-A x kills the emulator");
        ctx.progress.clear();
        exec::spawn_interactive(&command)?.wait(None)?;
        let bytes = fs::read(&verdict).map_err(|error| disk::error("read", &verdict, &error))?;
        let guest = parse_log(&bytes);
        if guest.verdict.is_none() {
            return Err(Error::failed("the emulator was ended before the guest gave its verdict")
                .remedy("leave the prompt with `exit`"));
        }
        guest.usable()
    }

    /// Runs one command in the guest and prints what it says.
    ///
    /// Errors: the guest ended without a verdict, or the command failed in it.
    pub fn command(&self, ctx: &Context, images: &Images, text: &str) -> Result<()> {
        if text.trim().is_empty() || text.contains('\n') {
            return Err(
                Error::usage("a guest command is one line that is not empty").remedy("join lines with ;")
            );
        }
        let scratch = Scratch::new("command")?;
        let log = scratch.path.join("command");
        let initrd = images.initrd_with_job(&self.boot, &format!("command {text}\n"), &log)?;
        let command = self.qemu(&initrd.path, Console::File(boot::console_path(&log)));
        if ctx.dry_run {
            exec::print_line(&command.to_shell());
            return Ok(());
        }
        let mut printed = 0;
        let mut print = |guest: &GuestLog| {
            for line in &guest.log[printed..] {
                exec::print_line(line);
            }
            printed = guest.log.len();
        };
        let rerun = "ceasefire lab shell";
        let start = Start { command: &command, log: &log, limit: COMMAND_LIMIT, rerun };
        let guest = boot::boot(&start, &mut print)?;
        print(&guest);
        match guest.fails.first() {
            Some(fail) => Err(Error::failed(fail.reason.clone()).remedy("its own words are above")),
            None => Ok(()),
        }
    }

    fn qemu(&self, initrd: &Path, console: Console) -> Command {
        let hardware = Hardware {
            qemu: &self.machine.qemu,
            firmware: &self.machine.firmware,
            kernel: &self.kernel.bzimage,
            initrd,
            accel: self.accel,
            memory_mib: self.memory_mib,
            console,
            kernel_arguments: self.kernel_arguments,
        };
        Command::new(&self.machine.qemu).args(qemu::arguments(&hardware, &self.boot))
    }
}
