// SPDX-License-Identifier: GPL-2.0-only
//! A prompt inside the guest, or one command there.

use crate::board::Board;
use crate::boot::{self, Start};
use crate::files;
use crate::guest::{Guest, GuestSite};
use crate::luggage::{self, Luggage, Program};
use crate::plan::{Boot, Matrix};
use crate::qemu::Console;
use crate::request::GuestSpec;
use crate::session::Session;
use ceasefire_artifacts::Context;
use ceasefire_base::exec;
use ceasefire_base::{Error, Kind, Result};
use ceasefire_results::parse_log;
use ceasefire_results::protocol::GuestLog;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The guest reads lines of 64 KiB (lab/guest/guest.h).
const COMMAND_BYTES_MAX: usize = 32 << 10;
/// Where nothing is said.
const CPUS: u32 = 4;
/// PID 1 stops a command after 600 s; the rest is the boot's.
const COMMAND_LIMIT: Duration = Duration::from_secs(700);

pub struct Request {
    pub spec: GuestSpec,
    /// `None`: as many as are usual, or as the machine has.
    pub cpus: Option<u32>,
    pub nodes: u32,
    pub task: Task,
    pub luggage: Luggage,
}

pub enum Task {
    Prompt,
    Command(String),
    /// Goes along, alone or in the directory.
    Script(PathBuf),
}

/// Call from the main thread: a prompt gives the terminal to the guest.
pub fn run(ctx: &Context, request: &Request) -> Result<()> {
    let board = Board::of(ctx, &request.spec)?;
    let cpus = request.cpus.unwrap_or(CPUS.min(board.cpus_max()));
    let shape = Matrix { vcpus: vec![cpus], nodes: Some(request.nodes), ..Matrix::default() };
    shape.validate()?;
    let (mut command, mut script) = (None, None);
    match &request.task {
        Task::Command(text) => command = Some(text.clone()),
        Task::Script(file) => script = Some(Program { file: file.clone(), args: Vec::new() }),
        Task::Prompt if !ctx.dry_run && !std::io::stdin().is_terminal() => {
            return Err(Error::usage("a prompt needs a terminal")
                .remedy("use --command TEXT or --script FILE, or run it in a terminal"))
        }
        Task::Prompt => {}
    }
    // Before minutes are spent on building.
    let luggage = request.luggage.clone().with_shell(board.processor()?);
    let packed = luggage::pack(ctx, &luggage, script.as_ref(), &board, &request.spec.machine)?;
    if let Some(name) = packed.as_ref().and_then(|packed| packed.program.as_ref()) {
        command = Some(exec::quote(format!("./{name}").as_ref()));
    }
    command.as_deref().map_or(Ok(()), check_command)?;
    let site =
        GuestSite::new(request.spec.clone()).with_luggage(packed.as_ref()).with_shape(cpus, request.nodes);
    let session = Session::open(ctx, site, Vec::new(), None)?;
    let shell = Shell { guest: &session.executor, boot: Boot::new(cpus, request.nodes) };
    match command {
        Some(line) => shell.command(ctx, &line),
        None => shell.prompt(ctx),
    }
}

/// Can the guest be told this command?
fn check_command(text: &str) -> Result<()> {
    let is_line = !text.trim().is_empty() && !text.contains(['\n', '\r', '\0']);
    if is_line && text.len() <= COMMAND_BYTES_MAX {
        return Ok(());
    }
    Err(Error::usage("a guest command is one line that is neither empty nor huge")
        .remedy("join lines with ;, or use --script FILE"))
}

struct Shell<'a> {
    guest: &'a Guest,
    boot: Boot,
}

impl Shell<'_> {
    /// Gives the terminal to the guest until it powers off.
    ///
    /// Errors: the guest ended without a verdict.
    fn prompt(&self, ctx: &Context) -> Result<()> {
        let job = "shell\n";
        let console = |log: &Path| Console::Terminal { verdict: boot::records_path(log) };
        if ctx.dry_run {
            return self.dry_run(job, console);
        }
        let scratch = files::scratch("shell")?;
        let log = scratch.path().join("shell");
        let initrd = self.guest.images.initrd_with_job(&self.boot, job, &log)?;
        let command = self.qemu(&initrd.path, console(&log))?;
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
    fn command(&self, ctx: &Context, line: &str) -> Result<()> {
        let job = format!("command {line}\n");
        let console = |log: &Path| Console::File(boot::console_path(log));
        if ctx.dry_run {
            return self.dry_run(&job, console);
        }
        let scratch = files::scratch("command")?;
        let log = scratch.path().join("command");
        let initrd = self.guest.images.initrd_with_job(&self.boot, &job, &log)?;
        let command = self.qemu(&initrd.path, console(&log))?;
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
    fn dry_run(&self, job: &str, console: impl Fn(&Path) -> Console) -> Result<()> {
        let log = std::env::temp_dir().join("ceasefire-dry-run/shell");
        let initrd = log.with_extension("initrd");
        exec::print_line(&self.guest.images.initrd_shell_with_job(&self.boot, job, &initrd));
        exec::print_line(&self.qemu(&initrd, console(&log))?.to_shell());
        Ok(())
    }

    fn qemu(&self, initrd: &Path, console: Console) -> Result<exec::Command> {
        Ok(self.guest.command(self.guest.kernel()?, &self.boot, initrd, console))
    }
}
