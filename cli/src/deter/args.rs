// SPDX-License-Identifier: GPL-2.0-only
//! The command line of remedies.

use ceasefire_deter::show;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct Deter {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What could help a program, and why; changes nothing
    Plan(Plan),
    /// Run a command with each remedy that could help and with none, in turn, and rank them
    Try(Box<Try>),
    /// Start a program with remedies, and say whether they reached it; the exit code is its own
    Run(Run),
    /// Show a remedy ready to paste, or list all
    Show(Show),
    /// Change settings of this host, and change them back
    Host(Host),
    /// Run one trial (used by try)
    #[command(hide = true)]
    Stage { order: PathBuf },
}

#[derive(Debug, Args, Clone)]
pub struct Plan {
    /// The process to look at
    #[arg(long, short = 'p', value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Leave out remedies whose causes are not in this record of `ceasefire watch record`
    #[arg(long, value_name = "FILE")]
    pub seen: Option<PathBuf>,
    /// Also say of each other remedy why it does not apply
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The command to look at; it is not run
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Exit codes: 0 a remedy helps, 3 none helps, 1 a remedy changed the output.
#[derive(Debug, Args, Clone)]
pub struct Try {
    /// Try these alone; A+B is both together [default: all that could help]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Also those that a program can notice
    #[arg(long)]
    pub loose: bool,
    /// Rounds; in each, every remedy runs once
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    /// Units of work that every run does [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "unit")]
    pub units: Option<u64>,
    /// Count units of work: matches in what the command prints, line by line; a number in a group
    /// counts as so many
    #[arg(long, value_name = "REGEX")]
    pub unit: Option<String>,
    /// The command is a server: run this shell command against it, then stop it. Output and work are
    /// the client's; what ab, pgbench, redis-benchmark, sysbench and wrk have done is known
    #[arg(long, value_name = "CMD")]
    pub client: Option<String>,
    /// Accept an output if this shell command, which reads it, succeeds [default: it must be the
    /// same as without]
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// Leave out what takes more memory: +50%
    #[arg(long, value_name = "+N%", value_parser = rss_share, allow_hyphen_values = true)]
    pub max_rss: Option<f64>,
    /// End a run that takes longer: 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = crate::watch::args::seconds)]
    pub limit: Option<Duration>,
    /// Keep every trial here, and go on from what is there
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Count by /proc alone
    #[arg(long)]
    pub no_bpf: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show results and errors, no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// The program and its arguments: it must end by itself
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `+50%` is 1.5.
fn rss_share(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('+').and_then(|rest| rest.strip_suffix('%')).unwrap_or_default();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(1.0 + percent / 100.0),
        _ => Err("write it as +50%".into()),
    }
}

#[derive(Debug, Args, Clone)]
pub struct Run {
    /// Names of remedies (`ceasefire deter plan`)
    #[arg(long, required = true, value_name = "NAME,…", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Also those that a program can notice
    #[arg(long)]
    pub loose: bool,
    /// Say nothing where all is in place, not even the risks
    #[arg(long, short)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args, Clone)]
pub struct Show {
    /// Its name [default: list all]
    pub name: Option<String>,
    /// In this form
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = FormName::Shell)]
    pub form: FormName,
    /// Print the list as JSON
    #[arg(long, conflicts_with_all = ["name", "form"])]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormName {
    Shell,
    /// A drop-in of a service
    Systemd,
    /// Lines of a Dockerfile
    Docker,
    /// Part of a pod's template
    Kubernetes,
}

impl From<FormName> for show::Form {
    fn from(name: FormName) -> show::Form {
        match name {
            FormName::Shell => show::Form::Shell,
            FormName::Systemd => show::Form::Systemd,
            FormName::Docker => show::Form::Docker,
            FormName::Kubernetes => show::Form::Kubernetes,
        }
    }
}

#[derive(Debug, Args, Clone)]
pub struct Host {
    #[command(subcommand)]
    pub action: HostAction,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand, Clone)]
pub enum HostAction {
    /// Set what these remedies name, until `off` or the next restart of the machine
    On {
        /// Names (`ceasefire deter show`)
        #[arg(required = true, value_name = "NAME", value_delimiter = ',')]
        names: Vec<String>,
    },
    /// Put back what still has the value that we set
    Off,
    /// What is set, and what was there before
    Status,
}
