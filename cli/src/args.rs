// SPDX-License-Identifier: GPL-2.0-only
//! The command line, as clap sees it. Ranges are checked where their reason lives, not here.

use ceasefire_base::Result;
use ceasefire_results::compare::Mapping;
use ceasefire_results::paper::figures::EVALUATIONS;
use ceasefire_run::kernels::{Kernels, Source, Tree, USUAL};
use ceasefire_run::luggage::Luggage;
use ceasefire_run::machine::{Emulator, MachineSpec};
use ceasefire_run::mmtests;
use ceasefire_run::plan::ThreadMode;
use ceasefire_run::request::GuestSpec;
use ceasefire_run::tlb::Tlb;
use ceasefire_run::words::{self, OUT};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Heading of the options that every command has.
const COMMON: &str = "Common options";

#[derive(Debug, Parser)]
#[command(
    name = "ceasefire",
    version,
    about = "Fewer TLB shootdowns, with counts you can check.",
    max_term_width = 80
)]
pub struct Arguments {
    #[command(subcommand)]
    pub part: Part,
}

#[derive(Debug, Subcommand)]
pub enum Part {
    /// Build kernels, boot them in an emulator, count their TLB shootdowns
    Lab(Box<Lab>),
    /// Watch this machine: who interrupts whom, why, and for how long
    Watch(Box<crate::watch::args::Watch>),
    /// Find what makes a program send fewer, without changing it: remedies, tried and undone
    Deter(Box<crate::deter::args::Deter>),
}

#[derive(Debug, Args)]
pub struct Lab {
    #[command(subcommand)]
    pub verb: Verb,

    /// Print what would run; run nothing
    #[arg(long, global = true, help_heading = COMMON)]
    pub dry_run: bool,

    /// Show results and errors, no progress
    #[arg(long, short, global = true, help_heading = COMMON)]
    pub quiet: bool,

    /// Compiler jobs at once [default: one per CPU]
    #[arg(long, global = true, value_name = "N", help_heading = COMMON)]
    pub jobs: Option<usize>,

    /// Install no Debian package; say which are missing
    #[arg(long, global = true, help_heading = COMMON)]
    pub no_install: bool,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Boots of each machine, each measuring a row once, instead of three times in one: for figures
    /// that are published
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub boots: u32,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure the tour: controls, small workloads and Apache on up to 8 CPUs, with the mechanism off,
    /// idle and full
    Demo(Demo),
    /// Measure every workload on up to 16 CPUs, and count instructions (long)
    All(Output),
    /// Repeat a paper's evaluation, each of its figures beside ours; an interrupted run
    /// resumes
    Paper(Paper),
    /// Measure chosen workloads on chosen kernels and machines
    Run(Box<Run>),
    /// List workloads, kernels and modes
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Open a shell in the guest, or run one command there
    Shell(Shell),
    /// Run Linux's own memory-management tests in the guest and compare them with what they do on
    /// an unchanged kernel
    Selftests(Selftests),
    /// Build kernels and emulator into the cache, and print where they are
    Build {
        /// Kernels to build [default: all but those that only some tests need]
        kernels: Vec<String>,
    },
    /// Build Debian packages of a kernel with a mechanism for a real machine (docs/use/hardware.md)
    KernelDeb(KernelDeb),
    /// Install the Debian packages that a part is built with
    #[command(hide = true)]
    Prepare {
        #[arg(value_enum)]
        part: Prepared,
    },
    /// Compare two results files
    Compare(Compare),
    /// Write the HTML page of a results file again
    Report {
        /// A file that run, demo, all or paper wrote
        #[arg(value_name = "FILE", default_value = "out/results.json")]
        results: PathBuf,
        /// Where to write the page
        #[arg(long, short, value_name = "FILE", default_value = "out/report.html")]
        output: PathBuf,
        /// Write this SVG file instead: each mode's share of the baseline's shootdowns
        #[arg(long, value_name = "FILE")]
        picture: Option<PathBuf>,
    },
    /// Keep these results in docs/measured/data and write every published figure and the README's
    /// picture from them
    Publish {
        /// A file that demo, run or paper wrote
        #[arg(default_value = "out/results.json")]
        results: PathBuf,
        /// What a file that run wrote is kept as: it fills the block NAME-table
        #[arg(long = "as", value_name = "NAME", default_value = "demo")]
        name: String,
        /// Only say which published figures are not what the kept results give
        #[arg(long)]
        check: bool,
    },
    /// Read a saved guest log and say how that boot ended
    Parse {
        /// A file of out/logs/
        #[arg(value_name = "FILE")]
        log: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check what works on this machine, with a remedy for what does not
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the cache, or remove what was not used for a while
    Clean {
        /// Remove what was not used for this long: 30d, 12h; 0d removes everything
        #[arg(long, value_name = "AGE")]
        older_than: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Prepared {
    /// The live observer
    Watch,
}

#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Directory for results.json, report.html and the logs
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub out: PathBuf,
    /// Print the results as JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// An emulated machine
    Guest,
    /// This machine and the kernel it runs
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccelName {
    /// The emulator executes the guest
    Tcg,
    /// The processor executes the guest
    Kvm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThreadModeName {
    /// All vCPUs take turns on one host thread
    Single,
    /// Each vCPU has a host thread
    Multi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MachineName {
    /// The lab's QEMU, built from machine/
    Ours,
    /// The installed one: qemu-system-x86_64, or that of the kernel's processor
    Stock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// The emulated machine and its kernel; shared by run, shell and selftests.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Machine and kernel")]
pub struct MachineArgs {
    /// Boot this bzImage
    #[arg(long, value_name = "FILE", conflicts_with = "kernel_source")]
    pub kernel_image: Option<PathBuf>,
    /// Build a kernel from a copy of this source tree
    #[arg(long, value_name = "DIR")]
    pub kernel_source: Option<PathBuf>,
    /// With --kernel-source: a fragment of configuration over the kernel's own; the last one wins
    #[arg(long, value_name = "FILE", requires = "kernel_source")]
    pub config: Vec<PathBuf>,
    /// Append this text to the kernel's command line
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub kernel_args: String,
    /// What executes the guest
    #[arg(long, value_enum, value_name = "NAME", default_value_t = AccelName::Tcg)]
    pub accel: AccelName,
    /// How the emulator runs several vCPUs
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ThreadModeName::Single)]
    pub thread_mode: ThreadModeName,
    /// A vCPU's turn in microseconds, with --thread-mode single [default: 1000]
    #[arg(long, value_name = "US")]
    pub slice_us: Option<u32>,
    /// The emulator
    #[arg(long, value_enum, value_name = "NAME", default_value_t = MachineName::Ours)]
    pub machine: MachineName,
    /// Use this qemu-system-x86_64, or that of the kernel's processor
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub qemu: Option<PathBuf>,
    /// The vCPUs' TLBs: stock, plain, hardware or adversary, then settings:
    /// access-bit=ideal|dirty|denied, entries=N, ways=N, psc=N, speculation-us=N, seed=N,
    /// insert=on|off, broadcast=off|early|late, broadcast-pages=N [default: plain; selftests: adversary]
    #[arg(long, value_name = "PRESET,KEY=VALUE,…", allow_hyphen_values = true)]
    pub tlb: Option<String>,
    /// Five-level page tables, if the kernel has them
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, default_value_t = Switch::Off)]
    pub la57: Switch,
    /// Guest memory in MiB [default: 2048; powerpc: 64; selftests: 4096]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u32>,
}

/// What goes into the guest; shared by run and shell.
#[derive(Debug, Args, Clone)]
pub struct LuggageArgs {
    /// Copy this directory into the guest, as /work
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Copy this program of this machine and its libraries into the guest, as /bin/NAME; or a
    /// directory, to where it lies here (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
}

impl LuggageArgs {
    pub fn typed(&self) -> Luggage {
        Luggage { dir: self.dir.clone(), tools: self.with.clone() }
    }
}

impl Output {
    pub fn typed(&self) -> words::Output {
        words::Output { out: self.out.clone(), json: self.json }
    }
}

impl MachineArgs {
    pub fn spec(&self) -> Result<MachineSpec> {
        Ok(MachineSpec {
            emulator: match (&self.qemu, self.machine) {
                (Some(path), _) => Emulator::Given(path.clone()),
                (None, MachineName::Ours) => Emulator::Ours,
                (None, MachineName::Stock) => Emulator::Stock,
            },
            is_kvm: self.accel == AccelName::Kvm,
            thread_mode: match self.thread_mode {
                ThreadModeName::Single => ThreadMode::Single,
                ThreadModeName::Multi => ThreadMode::Multi,
            },
            slice_us: self.slice_us,
            tlb: self.tlb.as_deref().map(Tlb::parse).transpose()?,
            la57: self.la57 == Switch::On,
            memory_mib: self.memory,
            kernel_args: self.kernel_args.clone(),
        })
    }

    pub fn source(&self) -> Source {
        match (&self.kernel_image, &self.kernel_source) {
            (Some(image), _) => Source::Image(image.clone()),
            (None, Some(dir)) => Source::Tree(Tree { dir: dir.clone(), config: self.config.clone() }),
            (None, None) => Source::Recipes,
        }
    }

    /// With one kernel.
    pub fn guest(&self, kernel: &str, mode: Option<&String>) -> Result<GuestSpec> {
        let modes: Vec<String> = mode.into_iter().cloned().collect();
        let kernels = Kernels { source: self.source(), ..Kernels::named(&[kernel.to_string()], &modes) };
        Ok(GuestSpec { kernels, machine: self.spec()? })
    }
}

#[derive(Debug, Args, Clone)]
pub struct Run {
    /// Workloads or groups (`ceasefire lab list`) [default: all but the groups app, stress,
    /// hardware and numa]
    pub workloads: Vec<String>,
    /// Where they run
    #[arg(long, value_enum, value_name = "PLACE", default_value_t = Where::Guest)]
    pub on: Where,
    /// CPUs, one machine for each number [default: 4, or as many as it has; with --cost: 1]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cpus: Option<Vec<u32>>,
    /// NUMA nodes [default: 1; 2 for workloads that need them]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Threads [default: as many as CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub threads: Option<Vec<u32>>,
    /// How often each row is measured in a boot
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    /// Boots of each machine: figures may differ more between boots than between repeats
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub boots: u32,
    /// Seed of the workloads' random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Units of work in a repeat [default: each workload's own]
    #[arg(long, value_name = "N")]
    pub units: Option<u64>,
    /// Set an option of the workloads, but not of controls beside others; each of several values is measured
    /// (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE,…")]
    pub settings: Vec<String>,
    /// Kernels: NAME, or NAME:MODE
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = USUAL)]
    pub kernel: Vec<String>,
    /// Modes of these kernels, each a row [default: the one a kernel boots with; with --on host
    /// the one it is in]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub mode: Vec<String>,
    /// With --on host: a workloads program built elsewhere, for a machine without a compiler
    #[arg(long, value_name = "FILE")]
    pub workloads_program: Option<PathBuf>,
    /// Count instructions instead of shootdowns, with one boot for each repeat; on several CPUs the
    /// kernel's alone
    #[arg(long)]
    pub cost: bool,
    /// Record each shootdown, for `ceasefire watch report`: stacks, and pages by stack. For kernels that the
    /// observer can look into (observed, observed-…)
    #[arg(long)]
    pub record: bool,
    /// Stop a boot that takes longer than this many seconds
    #[arg(long, value_name = "S")]
    pub timeout: Option<u64>,
    /// Instead of workloads: run this program or script of yours in the guest, once a repeat;
    /// with --dir it lies in that directory
    #[arg(long, value_name = "FILE", conflicts_with = "workloads")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub luggage: LuggageArgs,
    /// Arguments of --program
    #[arg(last = true, value_name = "ARG", requires = "program")]
    pub arguments: Vec<OsString>,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub output: Output,
}

impl Run {
    pub fn needs_no_checkout(&self) -> bool {
        self.on == Where::Host && self.workloads_program.is_some()
    }
}

fn papers() -> PossibleValuesParser {
    PossibleValuesParser::new(EVALUATIONS.iter().map(|evaluation| evaluation.id))
}

#[derive(Debug, Args)]
pub struct Paper {
    /// Which paper's, by the mechanism that it is about
    #[arg(value_name = "PAPER", default_value = EVALUATIONS[0].id, value_parser = papers())]
    pub evaluation: String,
    /// Figures by name: figure-5, tlb-capacity, … [default: all]
    #[arg(long, value_name = "FIGURE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Two repeats, to try it
    #[arg(long, conflicts_with = "repeats")]
    pub quick: bool,
    /// How often each row is measured [default: 5]
    #[arg(long, value_name = "N")]
    pub repeats: Option<u32>,
    /// The same, each in a boot of its own: for figures to publish
    #[arg(long, value_name = "N", conflicts_with_all = ["repeats", "quick"])]
    pub boots: Option<u32>,
    /// Kernels as NAME or NAME:MODE, the unchanged one first [default: vanilla and the paper's,
    /// off and in its modes]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub kernel: Option<Vec<String>>,
    /// Directory for paper.html, paper.json and the logs; boots whose logs are there are not
    /// repeated [default: out/paper, or out/paper-NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the rows as JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Shell {
    /// Run this command line of the guest's shell instead of opening a prompt
    #[arg(long, value_name = "TEXT")]
    pub command: Option<String>,
    /// Run this script or program of yours instead, in /work of the guest
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub script: Option<PathBuf>,
    #[command(flatten)]
    pub luggage: LuggageArgs,
    /// CPUs of the guest [default: 4, or as many as the machine has]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// NUMA nodes of the guest
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// The kernel to boot
    #[arg(long, value_name = "NAME", default_value = USUAL)]
    pub kernel: String,
    /// The kernel's mode [default: the one it boots with]
    #[arg(long, value_name = "NAME")]
    pub mode: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subset {
    /// What `make test` runs: about a minute
    Short,
    /// Every test that passes on an unchanged kernel
    All,
}

#[derive(Debug, Args)]
pub struct Selftests {
    /// Tests by name (docs/reference/selftests.md) [default: those of --subset]
    pub tests: Vec<String>,
    /// Which tests, where none is named
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Subset::All)]
    pub subset: Subset,
    /// A kernel that has what the tests need
    #[arg(long, value_name = "NAME", default_value = mmtests::KERNEL)]
    pub kernel: String,
    /// The kernel's mode [default: the one it boots with]
    #[arg(long, value_name = "NAME")]
    pub mode: Option<String>,
    /// CPUs of the guest
    #[arg(long, value_name = "N", default_value_t = mmtests::CPUS)]
    pub cpus: u32,
    /// Stop a boot that takes longer than this many seconds
    #[arg(long, value_name = "S")]
    pub timeout: Option<u64>,
    /// Multiply every test's time limit, for a kernel with checkers or a busy machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub patience: u32,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct KernelDeb {
    /// Kernel configuration to start from [default: the running kernel's]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The kernel to package [default: the first whose mechanism offers packages]
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Directory for the packages
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Results before the change
    pub a: PathBuf,
    /// Results after the change
    pub b: PathBuf,
    /// Exit with 1 if a figure rose by more than this, beyond its spread
    #[arg(long, value_name = "PCT")]
    pub fail_over: Option<f64>,
    /// Compare a kernel in A with another in B, such as vanilla=NAME:MODE
    #[arg(long = "map", value_name = "A=B")]
    pub maps: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Compare {
    pub fn mappings(&self) -> Result<Vec<Mapping>> {
        self.maps.iter().map(|text| Mapping::parse(text)).collect()
    }
}
