// SPDX-License-Identifier: GPL-2.0-only
//! A prompt inside the guest, or one command there.

use crate::boot::{self, Start};
use crate::files::Scratch;
use crate::image::Images;
use crate::plan::Boot;
use crate::qemu::{self, Accel, Console, Cpu, Hardware};
use ceasefire_artifacts::kernel::KernelImage;
use ceasefire_artifacts::machine::Machine;
use ceasefire_artifacts::Context;
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{Error, Kind, Result};
use ceasefire_results::parse_log;
use ceasefire_results::protocol::GuestLog;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The guest reads lines of 64 KiB (lab/guest/guest.h).
const COMMAND_BYTES_MAX: usize = 32 << 10;
/// PID 1 stops a command after 600 s; the rest is the boot's.
const COMMAND_LIMIT: Duration = Duration::from_secs(700);

pub struct Shell<'a> {
    pub machine: &'a Machine,
    pub kernel: &'a KernelImage,
    pub accel: Accel,
    pub cpu: Cpu,
    pub memory_mib: u32,
    /// `None` for a kernel without modes.
    pub mode: Option<&'a str>,
    pub kernel_arguments: &'a str,
    pub boot: Boot,
}

/// Can the guest be told this command? To be asked before minutes are spent on building.
pub fn check_command(text: &str) -> Result<()> {
    let is_line = !text.trim().is_empty() && !text.contains(['\n', '\r', '\0']);
    if is_line && text.len() <= COMMAND_BYTES_MAX {
        return Ok(());
    }
    Err(Error::usage("a guest command is one line that is neither empty nor huge")
        .remedy("join lines with ;"))
}

impl Shell<'_> {
    /// Gives the terminal to the guest until it powers off. Call from the main thread.
    ///
    /// Errors: the guest ended without a verdict.
    pub fn prompt(&self, ctx: &Context, images: &Images) -> Result<()> {
        let job = "shell\n";
        let console = |log: &Path| Console::Terminal { verdict: boot::records_path(log) };
        if ctx.dry_run {
            self.dry_run(images, job, console);
            return Ok(());
        }
        let scratch = Scratch::new("shell")?;
        let log = scratch.path.join("shell");
        let initrd = images.initrd_with_job(&self.boot, job, &log)?;
        let command = self.qemu(&initrd.path, console(&log));
        ctx.progress
            .note("guest: `help` lists what there is, `exit` powers off, Ctrl-A x kills the emulator");
        ctx.progress.clear();
        exec::spawn_interactive(&command)?.wait(None)?;
        // No file: the emulator did not come so far, and has said why on the terminal.
        let guest = parse_log(&fs::read(boot::records_path(&log)).unwrap_or_default());
        if guest.verdict.is_none() {
            return Err(Error::failed("the emulator ended before the guest gave its verdict")
                .remedy("leave the prompt with `exit`; if you did, the last words above say why"));
        }
        guest.usable()
    }

    /// Runs one command in the guest and prints what it says.
    ///
    /// Errors: the guest ended without a verdict, or the command failed in it.
    pub fn command(&self, ctx: &Context, images: &Images, text: &str) -> Result<()> {
        check_command(text)?;
        let job = format!("command {text}\n");
        let console = |log: &Path| Console::File(boot::console_path(log));
        if ctx.dry_run {
            self.dry_run(images, &job, console);
            return Ok(());
        }
        let scratch = Scratch::new("command")?;
        let log = scratch.path.join("command");
        let initrd = images.initrd_with_job(&self.boot, &job, &log)?;
        let command = self.qemu(&initrd.path, console(&log));
        let mut printed = 0;
        let mut print = |guest: &GuestLog| {
            for line in &guest.log[printed..] {
                exec::print_line(line);
            }
            printed = guest.log.len();
        };
        let start =
            Start { command: &command, log: &log, limit: COMMAND_LIMIT, rerun: "", is_useless: &|| false };
        let guest = boot::boot(&start, &mut print).map_err(|error| match error.kind {
            // The logs go with the scratch directory: what they say is shown here.
            Kind::Failed => {
                let console = fs::read(boot::console_path(&log)).unwrap_or_default();
                String::from_utf8_lossy(&console).lines().for_each(|line| ctx.progress.note(line));
                error.remedy("the guest's console, if it said anything, is above")
            }
            _ => error,
        })?;
        print(&guest);
        match guest.fails.first() {
            Some(fail) => Err(Error::failed(fail.reason.clone()).remedy("its own words are above")),
            None => Ok(()),
        }
    }

    /// Prints the commands that make the initrd and start the emulator.
    fn dry_run(&self, images: &Images, job: &str, console: impl Fn(&Path) -> Console) {
        let log = std::env::temp_dir().join("ceasefire-dry-run/shell");
        let initrd = log.with_extension("initrd");
        exec::print_line(&images.initrd_shell_with_job(&self.boot, job, &initrd));
        exec::print_line(&self.qemu(&initrd, console(&log)).to_shell());
    }

    fn qemu(&self, initrd: &Path, console: Console) -> Command {
        let hardware = Hardware {
            qemu: &self.machine.qemu,
            firmware: &self.machine.firmware,
            kernel: &self.kernel.bzimage,
            initrd,
            accel: self.accel,
            cpu: self.cpu,
            memory_mib: self.memory_mib,
            console,
            mode: self.mode,
            kernel_arguments: self.kernel_arguments,
        };
        Command::new(&self.machine.qemu).args(qemu::arguments(&hardware, &self.boot))
    }
}
