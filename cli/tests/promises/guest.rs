// SPDX-License-Identifier: GPL-2.0-only
//! The machine with a disk, a port for promises, and a monitor that stops it.

use ceasefire_artifacts::Context;
use ceasefire_base::exec::Command;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_run::boot::console_path;
use ceasefire_run::guest::{Guest, GuestSite};
use ceasefire_run::image::Temporary;
use ceasefire_run::kernels::{Kernels, Source};
use ceasefire_run::machine::MachineSpec;
use ceasefire_run::plan::{Matrix, Plan, ThreadMode};
use ceasefire_run::qemu::Console;
use ceasefire_run::request::GuestSpec;
use ceasefire_run::session::Session;
use ceasefire_run::tlb::Tlb;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const KERNEL: &str = "batch-debug";
const PORT: &str = "ceasefire.promises";
/// Until the emulator listens.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// For each of its answers: stopping also writes what the disk's cache holds.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// So many that no run comes to their end.
const PROMISES: u64 = 1 << 40;

/// What a boot is like.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Of our kernel.
    pub mode: &'static str,
    pub cpus: u32,
    pub nodes: u32,
    pub tlb: &'static str,
    pub thread_mode: ThreadMode,
    /// KEY=VALUE of the workload.
    pub settings: Vec<(String, String)>,
    /// More words on the kernel's command line.
    pub words: String,
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            mode: "off+on",
            cpus: 4,
            nodes: 2,
            tlb: "hardware",
            thread_mode: ThreadMode::Single,
            settings: Vec::new(),
            words: String::new(),
            seed: 1,
        }
    }
}

/// Where a boot's files are.
pub struct Files {
    pub log: PathBuf,
    pub disk: PathBuf,
    pub records: PathBuf,
    monitor: PathBuf,
}

impl Files {
    pub fn in_directory(directory: &Path) -> Files {
        let file = |name: &str| directory.join(name);
        Files { log: file("boot"), disk: file("disk"), records: file("records"), monitor: file("monitor") }
    }
}

/// Our kernel in this mode, or another one; and words of ours on its command line.
fn kernels(mode: &str) -> (Kernels, String) {
    let named = |name: String| (Kernels::named(&[name], &[]), String::new());
    match (std::env::var_os("CEASEFIRE_PROMISES_IMAGE"), std::env::var("CEASEFIRE_PROMISES_KERNEL")) {
        (Some(image), _) => {
            let (abis, batch) = mode.split_once('+').unwrap_or_default();
            let source = Source::Image(PathBuf::from(image));
            (Kernels { source, ..Kernels::default() }, format!("abis={abis} batch={batch}"))
        }
        (None, Ok(name)) => named(name),
        (None, Err(_)) => named(format!("{KERNEL}:{mode}")),
    }
}

/// The emulator's command. Its initial file system goes with the second.
pub fn command(ctx: &Context, shape: &Shape, files: &Files) -> Result<(Command, Temporary)> {
    let (kernels, words) = kernels(shape.mode);
    let machine = MachineSpec {
        thread_mode: shape.thread_mode,
        tlb: Some(Tlb::parse(shape.tlb)?),
        kernel_args: format!("loglevel=5 {words} {}", shape.words).trim_end().into(),
        ..MachineSpec::default()
    };
    let matrix = Matrix {
        workloads: vec!["durable".into()],
        vcpus: vec![shape.cpus],
        nodes: Some(shape.nodes),
        seed: shape.seed,
        units: Some(PROMISES),
        settings: shape.settings.clone(),
        ..Matrix::default()
    };
    let site = GuestSite::new(GuestSpec { kernels, machine });
    let session = Session::open(ctx, site, vec![matrix.clone()], None)?;
    let guest: &Guest = &session.executor;
    let plan = Plan::of(&[matrix], &session.catalog)?;
    let boot = plan.boots.first().ok_or_else(|| Error::failed("nothing would be booted"))?;
    let variant = guest.kernel()?;
    let initrd = guest.images.initrd_with_job(boot, &variant.job(&boot.job_text()), &files.log)?;
    let console = Console::File(console_path(&files.log));
    let (disk, records) = (files.disk.display(), files.records.display());
    let command = guest
        .command(variant, boot, &initrd.path, console)
        .args(["-drive", &format!("file={disk},format=raw,cache=writeback,if=none,id=disk")])
        .args(["-device", "virtio-blk-pci,drive=disk"])
        .args(["-chardev", &format!("file,id=promises,path={records}")])
        .args(["-device", &format!("virtserialport,chardev=promises,name={PORT}")])
        .args(["-qmp", &format!("unix:{},server=on,wait=off", files.monitor.display())]);
    Ok((command, initrd))
}

/// The emulator's monitor (QMP: one JSON object a line).
pub struct Monitor {
    from: BufReader<UnixStream>,
    to: UnixStream,
}

impl Monitor {
    /// Waits until the emulator listens. `is_over`: it will not.
    pub fn connect(files: &Files, is_over: impl Fn() -> bool) -> Result<Monitor> {
        let begun = Instant::now();
        let to = loop {
            match UnixStream::connect(&files.monitor) {
                Ok(stream) => break stream,
                Err(error) if is_over() || begun.elapsed() > CONNECT_LIMIT => {
                    return Err(Error::failed(format!("the emulator's monitor: {error}")))
                }
                Err(_) => cancel::wait(Duration::from_millis(20))?,
            }
        };
        let copy = to.set_read_timeout(Some(ANSWER_LIMIT)).and_then(|()| to.try_clone());
        let from = BufReader::new(copy.map_err(|error| failed(&error))?);
        let mut monitor = Monitor { from, to };
        monitor.say("qmp_capabilities")?;
        Ok(monitor)
    }

    /// When it returns, no vCPU runs, and what the guest has written is in the disk's file.
    pub fn stop(&mut self) -> Result<()> {
        self.say("stop")
    }

    pub fn go_on(&mut self) -> Result<()> {
        self.say("cont")
    }

    fn say(&mut self, command: &str) -> Result<()> {
        self.to
            .write_all(format!("{{\"execute\":\"{command}\"}}\n").as_bytes())
            .map_err(|error| failed(&error))?;
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line).map_err(|error| failed(&error))? == 0 {
                return Err(Error::failed("the emulator's monitor is closed"));
            }
            let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            // Beside answers there is a greeting, and there are events.
            if said.get("return").is_some() {
                return Ok(());
            }
            if said.get("error").is_some() {
                return Err(Error::failed(format!(
                    "the emulator's monitor refuses {command}: {}",
                    line.trim()
                )));
            }
        }
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::failed(format!("the emulator's monitor: {error}"))
}
