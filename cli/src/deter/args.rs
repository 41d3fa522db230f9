// SPDX-License-Identifier: GPL-2.0-only
//! The command line of remedies.

use ceasefire_deter::show;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Deter {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What could help a program, and why; changes nothing
    Plan(Plan),
    /// Start a program with remedies, and say whether they reached it; the exit code is its own
    Run(Run),
    /// Show a remedy ready to paste, or list all
    Show(Show),
    /// Change settings of this host, and change them back
    Host(Host),
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

#[derive(Debug, Args, Clone)]
pub struct Run {
    /// Names of remedies (`ceasefire deter plan`)
    #[arg(long, required = true, value_name = "NAME,…", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Also those that a program can notice
    #[arg(long)]
    pub loose: bool,
    /// Say nothing where all is in place
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
