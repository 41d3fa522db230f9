// SPDX-License-Identifier: GPL-2.0-only
//! The command line, as clap sees it. Ranges are checked where their reason lives, not here.

use ceasefire_base::exec::quote;
use ceasefire_base::Result;
use ceasefire_results::compare::Mapping;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Fewer TLB shootdowns, with counts you can check.
#[derive(Debug, Parser)]
#[command(name = "ceasefire", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub part: Part,
}

#[derive(Debug, Subcommand)]
pub enum Part {
    /// Build kernels, boot them on an emulated machine, count their shootdowns
    Lab(Lab),
    /// See who interrupts whom on this machine, why, and for how long
    Watch(crate::watch::args::Watch),
}

#[derive(Debug, Args)]
pub struct Lab {
    #[command(subcommand)]
    pub verb: Verb,

    /// Print the exact commands instead of running them
    #[arg(long, global = true)]
    pub dry_run: bool,

    /// Only results and errors, no progress
    #[arg(long, short, global = true)]
    pub quiet: bool,

    /// Compiler jobs at once [default: one per CPU, plus one]
    #[arg(long, global = true, value_name = "N")]
    pub jobs: Option<usize>,

    /// Never install a Debian package; print the command instead
    #[arg(long, global = true)]
    pub no_install: bool,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The tour: controls and micro rows at 1, 2, 4 and 8 threads, idle mappings and Apache at 8, each with ABIS off, idle and full
    Demo(Output),
    /// Every workload in every shape, cost rows included
    All(Output),
    /// The ABIS paper's evaluation again, each figure beside ours (out/paper/paper.html); goes on where it was stopped
    Paper(Paper),
    /// Run chosen workloads on chosen machines and kernels
    Run(Run),
    /// The workloads, kernels and modes there are
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// A prompt inside the guest
    Shell(Shell),
    /// Linux's own tests of memory management, in the guest, against what they do on an unchanged kernel
    Selftests(Selftests),
    /// Build kernels and emulator into the cache, and say where they are
    Build {
        /// Kernels to build; where none is named, all but those that only some tests need (selftests-vanilla, checked-abis)
        kernels: Vec<String>,
    },
    /// Debian packages of the kernel with ABIS, with a configuration of your own, for a real machine (docs/use/hardware.md)
    KernelDeb(KernelDeb),
    /// Install the Debian packages that a part is built with
    #[command(hide = true)]
    Prepare {
        #[arg(value_enum)]
        part: Prepared,
    },
    /// Two results side by side
    Compare(Compare),
    /// Write the HTML page of a results file again
    Report {
        #[arg(default_value = "out/results.json")]
        results: PathBuf,
        /// Where to write the page
        #[arg(long, short, default_value = "out/report.html")]
        output: PathBuf,
    },
    /// Read a saved guest log and say how that boot ended
    Parse {
        log: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// What works on this machine, and the remedy for what does not
    Doctor {
        #[arg(long)]
        json: bool,
    },
    /// Show the cache and remove what has not been used for long
    Clean {
        /// Remove entries not used for this long: 30d, 12h, 0d for everything
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
pub struct Output {
    /// Where results.json, report.html and the logs go
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Also print the results as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// An emulated machine
    Guest,
    /// This machine, with the kernel it runs
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccelName {
    Tcg,
    Kvm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThreadModeName {
    /// Round robin on one host thread
    Single,
    /// One host thread per vCPU
    Multi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MachineName {
    /// Built from machine/
    Ours,
    /// The qemu-system-x86_64 that is installed
    Stock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// The emulated machine and its kernel; shared by run and shell.
#[derive(Debug, Args, Clone)]
pub struct MachineArgs {
    /// A bzImage, taken as it is
    #[arg(long, value_name = "FILE", conflicts_with = "kernel_source")]
    pub kernel_image: Option<PathBuf>,
    /// A kernel tree of your own; it is copied, never written to
    #[arg(long, value_name = "DIR")]
    pub kernel_source: Option<PathBuf>,
    /// Words appended to the kernel's command line
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub kernel_args: String,
    #[arg(long, value_enum, default_value_t = AccelName::Tcg)]
    pub accel: AccelName,
    #[arg(long, value_enum, default_value_t = ThreadModeName::Single)]
    pub thread_mode: ThreadModeName,
    /// Round-robin slice in microseconds [default: 1000]
    #[arg(long, value_name = "US")]
    pub slice_us: Option<u32>,
    #[arg(long, value_enum, default_value_t = MachineName::Ours)]
    pub machine: MachineName,
    /// A qemu-system-x86_64 of your own
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub qemu: Option<PathBuf>,
    /// The CPUs' TLBs: stock, plain or hardware, then settings: access-bit=ideal|intel, entries=N, ways=N, psc=N, speculation-us=N, seed=N, insert=on|off [default: plain]
    #[arg(long, value_name = "PRESET,KEY=VALUE,…", allow_hyphen_values = true)]
    pub tlb: Option<String>,
    /// Five-level page tables, if the kernel was built for them
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub la57: Switch,
    /// Guest memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = MEMORY_MIB)]
    pub memory: u32,
}

const MEMORY_MIB: u32 = 2048;

impl Default for MachineArgs {
    fn default() -> Self {
        MachineArgs {
            kernel_image: None,
            kernel_source: None,
            kernel_args: String::new(),
            accel: AccelName::Tcg,
            thread_mode: ThreadModeName::Single,
            slice_us: None,
            machine: MachineName::Ours,
            qemu: None,
            tlb: None,
            la57: Switch::Off,
            memory: MEMORY_MIB,
        }
    }
}

impl MachineArgs {
    /// Ours emulates and nothing else: KVM is used through the QEMU that is installed.
    pub fn uses_our_machine(&self) -> bool {
        self.machine == MachineName::Ours && self.accel == AccelName::Tcg && self.qemu.is_none()
    }

    /// The flags that differ from the defaults, as typed, with a leading blank each.
    pub fn flags(&self) -> String {
        let default = MachineArgs::default();
        let mut line = String::new();
        for (flag, path) in [("kernel-image", &self.kernel_image), ("kernel-source", &self.kernel_source)] {
            if let Some(path) = path {
                line += &format!(" --{flag} {}", quote(path.as_os_str()));
            }
        }
        if !self.kernel_args.is_empty() {
            line += &format!(" --kernel-args {}", quote(self.kernel_args.as_ref()));
        }
        if self.accel != default.accel {
            line += " --accel kvm";
        }
        if self.thread_mode != default.thread_mode {
            line += " --thread-mode multi";
        }
        if let Some(slice) = self.slice_us {
            line += &format!(" --slice-us {slice}");
        }
        if self.machine != default.machine {
            line += " --machine stock";
        }
        if let Some(path) = &self.qemu {
            line += &format!(" --qemu {}", quote(path.as_os_str()));
        }
        if let Some(spec) = &self.tlb {
            line += &format!(" --tlb {}", quote(spec.as_ref()));
        }
        if self.la57 != default.la57 {
            line += " --la57 on";
        }
        if self.memory != default.memory {
            line += &format!(" --memory {}", self.memory);
        }
        line
    }
}

#[derive(Debug, Args)]
pub struct Run {
    /// Workloads or groups; everything but the applications where none is named
    pub workloads: Vec<String>,
    #[arg(long, value_enum, default_value_t = Where::Guest)]
    pub on: Where,
    /// vCPUs, one machine for each number given [default: 4, and 1 with --cost]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cpus: Option<Vec<u32>>,
    /// NUMA nodes [default: 1, and 2 for the workloads that need them]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Threads [default: as many as CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub threads: Option<Vec<u32>>,
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Units of work [default: each workload's own]
    #[arg(long, value_name = "N")]
    pub units: Option<u64>,
    /// A workload's own option
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Kernels by name, or NAME:MODE for one mode of it
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "vanilla")]
    pub kernel: Vec<String>,
    /// Modes of kernels that have them, each a row of its own [default: the one a kernel boots with; with --on host the one
    /// it is in]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub mode: Vec<String>,
    /// With --on host: the program with the workloads, built elsewhere (for a machine without checkout and compiler)
    #[arg(long, value_name = "FILE")]
    pub workloads_program: Option<PathBuf>,
    /// Count instructions instead of shootdowns: one CPU, one boot for each repeat
    #[arg(long)]
    pub cost: bool,
    /// Stop a boot that takes longer, in seconds
    #[arg(long, value_name = "S")]
    pub timeout: Option<u64>,
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

#[derive(Debug, Args)]
pub struct Paper {
    /// Figures by name (figure-5, tlb-capacity, …); all where none is named
    #[arg(long, value_name = "FIGURE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Fewer repeats, to try it
    #[arg(long, conflicts_with = "repeats")]
    pub quick: bool,
    /// Of every row [default: 5, and 2 with --quick]
    #[arg(long, value_name = "N")]
    pub repeats: Option<u32>,
    /// Kernels as NAME or NAME:MODE, the unchanged one first
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "vanilla,abis:off,abis:full")]
    pub kernel: Vec<String>,
    /// Where paper.html, paper.json and the logs go, and what an earlier run measured is found
    #[arg(long, value_name = "DIR", default_value = "out/paper")]
    pub out: PathBuf,
    /// Also print the rows as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Shell {
    /// Run this one command instead of a prompt
    #[arg(long, value_name = "TEXT")]
    pub command: Option<String>,
    /// Take this program of this machine along, with its libraries, as /bin/NAME
    #[arg(long, value_name = "FILE")]
    pub with: Option<PathBuf>,
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub cpus: u32,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    #[arg(long, value_name = "NAME", default_value = "vanilla")]
    pub kernel: String,
    /// Mode of a kernel that has them [default: the one it boots with]
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

pub const SELFTEST_CPUS: u32 = 4;

/// The machine has the TLBs of hardware and 4096 MiB where --tlb and --memory do not say otherwise.
#[derive(Debug, Args)]
pub struct Selftests {
    /// Tests by name (docs/reference/selftests.md); those of the subset where none is named
    pub tests: Vec<String>,
    #[arg(long, value_enum, default_value_t = Subset::All)]
    pub subset: Subset,
    /// A kernel with what the tests need
    #[arg(long, value_name = "NAME", default_value = "selftests-vanilla")]
    pub kernel: String,
    /// A mode of that kernel
    #[arg(long, value_name = "NAME")]
    pub mode: Option<String>,
    #[arg(long, value_name = "N", default_value_t = SELFTEST_CPUS)]
    pub cpus: u32,
    /// Stop a boot that takes longer, in seconds
    #[arg(long, value_name = "S")]
    pub timeout: Option<u64>,
    /// Give every test N times its time: for a kernel with checkers, or a busy machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub patience: u32,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct KernelDeb {
    /// The configuration to start from [default: the running kernel's]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The kernel whose patches the packages carry
    #[arg(long, value_name = "NAME", default_value = ceasefire_artifacts::package::KERNEL)]
    pub kernel: String,
    /// Where the packages go
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The results to compare with (before)
    pub a: PathBuf,
    /// The results to judge (after)
    pub b: PathBuf,
    /// Exit 1 if a figure rose by more than this, beyond its spread
    #[arg(long, value_name = "PCT")]
    pub fail_over: Option<f64>,
    /// Compare rows of one kernel in A with those of another in B: vanilla=abis:full
    #[arg(long = "map", value_name = "A=B")]
    pub maps: Vec<String>,
    #[arg(long)]
    pub json: bool,
}

impl Compare {
    pub fn mappings(&self) -> Result<Vec<Mapping>> {
        self.maps.iter().map(|text| Mapping::parse(text)).collect()
    }
}
