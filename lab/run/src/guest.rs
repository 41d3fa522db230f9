// SPDX-License-Identifier: GPL-2.0-only
//! Emulated machines: each task is a boot of one kernel in one mode.

use crate::board::Board;
use crate::boot::{self, console_path, Start};
use crate::catalog::Catalog;
use crate::clock;
use crate::executor::{Executor, Orders, Site, Task};
use crate::files;
use crate::image::Images;
use crate::kernels::{Choice, Variant};
use crate::kvm;
use crate::luggage::Packed;
use crate::plan::{Boot, Matrix, Plan, ThreadMode};
use crate::qemu::{self, Accel, Console, Cpu, Hardware};
use crate::request::GuestSpec;
use ceasefire_artifacts::kernel;
use ceasefire_artifacts::machine::{self, Machine};
use ceasefire_artifacts::{debian, guest, Context};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{Error, Result};
use ceasefire_mechanism::Mechanism;
use ceasefire_results::aggregate::RowKey;
use ceasefire_results::protocol::GuestLog;
use ceasefire_results::schema::{Environment, Kernel, Qemu};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A boot's own time, beside what its jobs may take.
pub const BOOT_LIMIT_S: u64 = 90;
/// More guests at once would share cores, and their time limits with them.
const GUESTS_AT_ONCE_MAX: usize = 8;
/// Memory of a guest with nothing to do.
const PLAIN_MIB: u32 = 512;

/// Asked for, not built yet.
pub struct GuestSite {
    spec: GuestSpec,
    choices: Vec<Choice>,
    /// `None` until it has been looked for.
    board: Option<Board>,
    /// CPUs and NUMA nodes that no matrix says.
    shape: Option<(u32, u32)>,
    found: Option<Machine>,
    /// An archive for every boot, and the command of the program in it.
    luggage: Option<(PathBuf, Option<String>)>,
    /// Debian packages beside those of kernels and machine.
    more: Vec<&'static str>,
}

/// A machine, and kernels to boot on it.
#[derive(Debug, Clone)]
pub struct Guest {
    pub kernels: Vec<Variant>,
    pub machine: Machine,
    pub accel: Accel,
    pub cpu: Cpu,
    pub memory_mib: u32,
    /// See `Hardware`.
    pub tsc_khz: Option<u64>,
    pub kernel_args: String,
    /// The command of a program of the user's own.
    pub program: Option<String>,
    pub images: Images,
    /// Hash of the workloads' sources.
    pub sources: String,
}

impl GuestSite {
    pub fn new(spec: GuestSpec) -> GuestSite {
        GuestSite {
            spec,
            choices: Vec::new(),
            board: None,
            shape: None,
            found: None,
            luggage: None,
            more: Vec::new(),
        }
    }

    pub fn with_luggage(self, packed: Option<&Packed>) -> GuestSite {
        let luggage = packed.map(|packed| (packed.archive.clone(), packed.command.clone()));
        GuestSite { luggage, ..self }
    }

    pub fn with_shape(self, cpus: u32, nodes: u32) -> GuestSite {
        GuestSite { shape: Some((cpus, nodes)), ..self }
    }

    fn board(&self, ctx: &Context) -> Result<Board> {
        self.board.clone().map_or_else(|| Board::of(ctx, &self.spec), Ok)
    }

    pub fn with_packages(self, more: Vec<&'static str>) -> GuestSite {
        GuestSite { more, ..self }
    }
}

impl Site for GuestSite {
    type Executor = Guest;

    fn refuse(&mut self, ctx: &Context, matrices: &mut [Matrix]) -> Result<()> {
        let machine = &self.spec.machine;
        self.choices = self.spec.kernels.choices(ctx, machine)?;
        if matrices.iter().any(|matrix| matrix.record) {
            self.spec.kernels.check_observed(ctx, &self.choices)?;
        }
        let board = Board::find(ctx, &self.spec.kernels, &self.choices)?;
        // The board comes first: advice for a machine of another kind would be refused next.
        board.check(machine)?;
        machine.check()?;
        board.check_matrices(matrices)?;
        self.shape.map_or(Ok(()), |(cpus, nodes)| board.check_shape(cpus, nodes))?;
        self.found = machine.find(ctx, board.machine())?;
        self.board = Some(board);
        if matrices.iter().any(Matrix::is_counted_apart) {
            machine.check_counting(self.found.as_ref())?;
        }
        Ok(())
    }

    fn packages(&self, ctx: &Context) -> Result<()> {
        let mut needed: BTreeSet<String> = self.more.iter().map(|name| name.to_string()).collect();
        if self.spec.kernels.are_built() {
            let names = self.choices.iter().map(|choice| choice.kernel.as_str());
            needed.extend(kernel::packages(ctx, names)?);
        }
        let board = self.board(ctx)?;
        needed.extend(board.architecture.packages_guest.iter().cloned());
        if self.spec.machine.is_ours() {
            needed.extend(machine::packages(ctx, board.machine())?);
        }
        debian::ensure_packages(ctx, &needed.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn catalog(&mut self, ctx: &Context) -> Result<Catalog> {
        // Even a dry run must know which workloads exist, and only the program can tell.
        let mut catalog = Catalog::of(&guest::workloads_binary(ctx)?)?;
        self.board(ctx)?.mark(&mut catalog);
        Ok(catalog)
    }

    fn prepare(self, ctx: &Context, plan: &Plan) -> Result<Guest> {
        let board = self.board(ctx)?;
        let GuestSpec { kernels, machine: wanted } = &self.spec;
        let machine = self.found.map_or_else(|| machine::build(ctx, board.machine()), Ok)?;
        let (packages, programs) = plan.applications();
        let (luggage, program) = self.luggage.unzip();
        let with_luggage = |images: Images| match &luggage {
            Some(archive) => images.with(archive.clone()),
            None => images,
        };
        let guest = Guest {
            cpu: wanted.cpu(&machine)?,
            accel: wanted.accel(&machine),
            kernels: kernels.build(ctx, &self.choices)?,
            machine,
            memory_mib: board.memory_mib(wanted.memory_mib),
            // KVM is not the emulator's counter: the guest's kernel has its own ways there.
            tsc_khz: if wanted.is_kvm { None } else { clock::tsc_khz() },
            kernel_args: wanted.kernel_args.clone(),
            program: program.flatten(),
            images: with_luggage(Images::prepare(ctx, &board.architecture, &packages, &programs)?),
            sources: guest::source_hash(ctx)?,
        };
        if wanted.is_kvm && !ctx.dry_run {
            kvm::probe(ctx, |log, limit| guest.boot_empty(log, limit))?;
        }
        Ok(guest)
    }
}

impl Guest {
    /// The emulator's command line for this boot.
    pub fn command(&self, variant: &Variant, boot: &Boot, initrd: &Path, console: Console) -> Command {
        // The files of a boot lie together.
        let record = match &console {
            Console::File(path) if boot.is_recorded() => Some(path.with_extension("record")),
            _ => None,
        };
        let hardware = Hardware {
            qemu: &self.machine.qemu,
            firmware: &self.machine.firmware,
            shape: &self.machine.guest,
            kernel: &variant.image.file,
            initrd,
            accel: self.accel,
            cpu: self.cpu,
            memory_mib: self.memory_mib,
            record: record.as_deref(),
            console,
            tsc_khz: self.tsc_khz,
            mode_words: &variant.boot_words(),
            kernel_arguments: &self.kernel_args,
        };
        Command::new(hardware.qemu).args(qemu::arguments(&hardware, boot))
    }

    /// One vCPU, nothing to do.
    fn boot_empty(&self, log: &Path, limit: Duration) -> Result<()> {
        let plain =
            Guest { cpu: Cpu::default(), memory_mib: PLAIN_MIB, kernel_args: String::new(), ..self.clone() };
        let empty = Boot::new(1, 1);
        let initrd = plain.images.initrd_for(&empty, log)?;
        let variant = Variant { choice: Choice::default(), ..plain.kernel()?.clone() };
        let command = plain.command(&variant, &empty, &initrd.path, Console::File(console_path(log)));
        let start = Start { command: &command, log, limit, rerun: "", is_useless: &|| false };
        boot::boot(&start, &mut |_| ()).map(drop)
    }

    /// The first, where one is meant.
    pub fn kernel(&self) -> Result<&Variant> {
        self.kernels.first().ok_or_else(|| {
            Error::usage("no kernel is named").remedy("name one: `ceasefire lab list` shows all")
        })
    }

    /// `None` where the machine's own CPU decides, and where none has them.
    fn la57(&self) -> Option<bool> {
        let is_known = self.accel != Accel::Kvm && !self.machine.guest.cpu_without_la57.is_empty();
        is_known.then_some(self.cpu.la57)
    }

    fn variant(&self, task: &Task) -> Result<&Variant> {
        self.kernels
            .iter()
            .find(|variant| variant.choice == task.choice)
            .ok_or_else(|| Error::failed(format!("kernel {} was not prepared", task.kernel_label())))
    }

    fn about_kernel(&self, variant: &Variant, logs: &[(RowKey, GuestLog)]) -> Kernel {
        let image = &variant.image;
        let boot =
            logs.iter().find(|(key, _)| key.kernel == image.name).and_then(|(_, log)| log.boot.as_ref());
        Kernel {
            name: image.name.clone(),
            base: image.source_version.clone(),
            release: boot.map(|boot| boot.release.clone()).or_else(|| image.release.clone()),
            source_checked: image.source_checked,
            series: image.series_hash.clone(),
            config: image.config_hash.clone(),
            counters: boot.map(|boot| boot.counters.clone()),
        }
    }

    fn about_machine(&self) -> Qemu {
        Qemu {
            version: self.machine.version.clone(),
            series: self.machine.series_hash.clone(),
            accel: self.accel.name().into(),
            thread_mode: self.accel.thread_mode().map(|mode| mode.as_str().to_string()),
            slice_us: self.accel.slice_us(),
            cpu: Some(qemu::cpu_model(&self.machine.guest, self.accel, &self.cpu, &Boot::new(1, 1))),
            memory_mib: Some(self.memory_mib.into()),
            origin: self.machine.origin.as_str().into(),
            sha256: self.machine.sha256.clone(),
            la57: self.la57(),
            tlb: self.cpu.tlb.map(|tlb| tlb.record()),
        }
    }
}

impl Executor for Guest {
    fn tasks(&self, plan: &Plan) -> Vec<Task> {
        let of = |variant: &Variant| {
            let task = |boot: &Boot| Task::new(&variant.image.name, &variant.choice, boot);
            plan.boots.iter().map(task).collect::<Vec<_>>()
        };
        self.kernels.iter().flat_map(of).collect()
    }

    fn lanes(&self) -> usize {
        match self.accel.thread_mode() {
            Some(ThreadMode::Single) => files::cores().min(GUESTS_AT_ONCE_MAX),
            // MTTCG and KVM use a core for every vCPU.
            _ => 1,
        }
    }

    fn identity(&self, task: &Task) -> String {
        let image = self.variant(task).map(|variant| variant.image.image_hash.clone());
        let words = [
            image.unwrap_or_default(),
            task.choice.mode.clone().unwrap_or_default(),
            self.machine.sha256.clone().unwrap_or_default(),
            format!("{:?}", self.accel),
            qemu::cpu_model(&self.machine.guest, self.accel, &self.cpu, &task.boot),
            self.memory_mib.to_string(),
            self.kernel_args.clone(),
            self.program.clone().unwrap_or_default(),
            format!("{} {}", task.boot.vcpus, task.boot.nodes),
            self.images.identity(&task.boot),
            self.variant(task).map(|variant| variant.job(&task.boot.job_text())).unwrap_or_default(),
        ];
        words.join("\n")
    }

    fn show(&self, task: &Task) {
        let Ok(variant) = self.variant(task) else { return };
        let initrd = boot::beside(&task.log, "initrd");
        exec::print_line(&format!("# {} {}", task.kernel_label(), task.boot.label()));
        let job = variant.job(&task.boot.job_text());
        exec::print_line(&self.images.initrd_shell_with_job(&task.boot, &job, &initrd));
        let console = Console::File(console_path(&task.log));
        exec::print_line(&self.command(variant, &task.boot, &initrd, console).to_shell());
    }

    fn run(&self, task: &Task, orders: &mut Orders) -> Result<GuestLog> {
        let variant = self.variant(task)?;
        let job = variant.job(&task.boot.job_text());
        let initrd = self.images.initrd_with_job(&task.boot, &job, &task.log)?;
        let console = Console::File(console_path(&task.log));
        let command = self.command(variant, &task.boot, &initrd.path, console);
        let jobs: u64 = task.boot.jobs.iter().map(|job| u64::from(job.timeout_s)).sum();
        let start = Start {
            command: &command,
            log: &task.log,
            limit: orders.limit.unwrap_or(Duration::from_secs(BOOT_LIMIT_S + jobs)),
            rerun: orders.rerun,
            is_useless: orders.is_useless,
        };
        boot::boot(&start, orders.on_progress)
    }

    fn check(&self, task: &Task, log: &GuestLog) -> Result<()> {
        check_mode(self.variant(task)?, log)
    }

    fn row(&self, task: &Task) -> RowKey {
        let cpu = qemu::cpu_model(&self.machine.guest, self.accel, &self.cpu, &task.boot);
        RowKey {
            kernel: task.kernel.clone(),
            mode: task.choice.mode.clone(),
            kernel_args: (!self.kernel_args.is_empty()).then(|| self.kernel_args.clone()),
            vcpus: task.boot.vcpus,
            nodes: task.boot.nodes,
            cost: task.boot.cost,
            accel: Some(self.accel.name().into()),
            thread_mode: self.accel.thread_mode().map(|mode| mode.as_str().into()),
            slice_us: self.accel.slice_us(),
            cpu: task.boot.cost.then_some(cpu),
            la57: self.la57(),
            tlb: self.cpu.tlb.map(|tlb| tlb.to_string()),
            set: task.boot.settings(),
            program: self.program.clone(),
            is_recorded: task.boot.is_recorded(),
        }
    }

    fn environment(&self, logs: &[(RowKey, GuestLog)]) -> Environment {
        let boot = logs.iter().find_map(|(_, log)| log.boot.as_ref());
        let mut kernels: Vec<Kernel> = Vec::new();
        let mut mechanisms: Vec<Mechanism> = Vec::new();
        for own in self.kernels.iter().flat_map(|variant| &variant.image.mechanisms) {
            if mechanisms.iter().all(|known| known.name != own.name) {
                mechanisms.push(own.clone());
            }
        }
        for variant in &self.kernels {
            // Each once, whatever modes it ran in.
            if kernels.iter().all(|known| known.name != variant.image.name) {
                kernels.push(self.about_kernel(variant, logs));
            }
        }
        Environment {
            place: "guest".into(),
            mechanisms,
            kernels,
            qemu: Some(self.about_machine()),
            thp: boot.and_then(|boot| boot.thp.clone()),
            pti: boot.and_then(|boot| boot.pti),
            pcid: boot.and_then(|boot| boot.pcid),
            invpcid: boot.and_then(|boot| boot.invpcid),
            cpu_flags: boot.and_then(|boot| boot.cpu_flags.clone()),
            workloads: Some(self.sources.clone()),
            ..Environment::default()
        }
    }
}

/// A row of a mode that the guest never took would be a lie.
pub fn check_mode(variant: &Variant, log: &GuestLog) -> Result<()> {
    let said = log.boot.as_ref().and_then(|boot| boot.mode.as_deref());
    match variant.choice.mode.as_deref() {
        Some(wanted) if said != Some(wanted) => Err(Error::failed(format!(
            "kernel {} was booted with {} and says its mode is {}",
            variant.image.name,
            variant.boot_words(),
            said.unwrap_or("unknown")
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_artifacts::kernel::KernelImage;
    use ceasefire_results::parse_log;

    fn variant(mode: Option<&str>) -> Variant {
        let mechanism = Mechanism {
            name: "toy".into(),
            modes: vec!["off".into(), "idle".into()],
            boot: Some("toys".into()),
            counters: Some("/sys/kernel/debug/toy/counters".into()),
            ..Mechanism::default()
        };
        let image = KernelImage { name: "toy".into(), mechanisms: vec![mechanism], ..KernelImage::default() };
        Variant { choice: Choice { kernel: "toy".into(), mode: mode.map(String::from) }, image }
    }

    #[test]
    fn a_job_says_first_what_the_kernels_mechanisms_are() {
        assert_eq!(
            variant(None).job("run zero\n"),
            "mechanism toy,counters=/sys/kernel/debug/toy/counters\nrun zero\n"
        );
        assert_eq!(variant(None).boot_words(), "");
    }

    #[test]
    fn a_guest_in_another_mode_than_its_row_fails() {
        let log = |mode: &str| {
            let text = format!("{{\"kind\":\"boot\",\"protocol\":1,\"mode\":{mode}}}\n");
            parse_log(text.as_bytes())
        };
        for (wanted, said, fits) in [
            (Some("idle"), "\"idle\"", true),
            (Some("idle"), "\"off\"", false),
            (Some("off"), "null", false),
            (None, "null", true),
            (None, "\"off\"", true),
        ] {
            let result = check_mode(&variant(wanted), &log(said));
            assert_eq!(result.is_ok(), fits, "{wanted:?} {said}");
        }
        let error = check_mode(&variant(Some("idle")), &log("\"off\"")).expect_err("another");
        assert_eq!(error.message, "kernel toy was booted with toys=idle and says its mode is off");
    }
}
