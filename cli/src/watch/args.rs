// SPDX-License-Identifier: GPL-2.0-only
//! The observer's part of the command line.

use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct Watch {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What works on this machine, and the remedy for what does not
    Check {
        #[arg(long)]
        json: bool,
    },
    /// Count by cause, sender and victim, while a command runs or until Ctrl-C
    Stat(Stat),
    /// One line for each shootdown
    Trace(Trace),
    /// Distributions of delivery, handler, initiator's wait and pages
    Hist(Hist),
    /// Kernel stacks by pages and by stolen time
    Stacks(Stacks),
    /// Who interrupts whom: senders down, victims across
    Matrix(Stat),
    /// Make known storms and see whether they are attributed to whom and what they should be
    Selftest(Selftest),
    /// Make one known storm (used by selftest)
    #[command(hide = true)]
    Storm(Storm),
}

/// Which senders are described; all are counted, and the report says how many were left out.
#[derive(Debug, Args, Clone)]
pub struct Filters {
    /// Only shootdowns sent by this process
    #[arg(long, short = 'p', value_name = "PID")]
    pub pid: Option<u32>,
    /// Only those sent by this thread
    #[arg(long, short = 't', value_name = "TID")]
    pub tid: Option<u32>,
    /// Only those sent by threads of this name
    #[arg(long, short = 'n', value_name = "NAME")]
    pub comm: Option<String>,
    /// Only those sent from this cgroup (its directory)
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<std::path::PathBuf>,
    /// Only those sent by this CPU
    #[arg(long, short = 'c', value_name = "CPU")]
    pub cpu: Option<u32>,
    /// Only these causes (in tables of causes, senders and stacks)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cause: Vec<String>,
    /// Only those whose sender waited at least this long, in microseconds
    #[arg(long, value_name = "US")]
    pub min_us: Option<u64>,
}

#[derive(Debug, Args, Clone)]
pub struct Window {
    /// Seconds between reports
    #[arg(value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Reports until the end
    pub count: Option<u64>,
    /// Stop after this long: 90s, 10m, 3h
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// One JSON document for each report
    #[arg(long)]
    pub json: bool,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub filters: Filters,
    /// Watch while this command runs, and return its exit status
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct Stat {
    /// Only the sending side: no times, no victims, least overhead
    #[arg(long)]
    pub sender_only: bool,
    /// Only counts: no stacks, so no causes
    #[arg(long)]
    pub no_stacks: bool,
    #[command(flatten)]
    pub window: Window,
}

#[derive(Debug, Args)]
pub struct Trace {
    /// At the end, the counts of everything seen
    #[arg(long)]
    pub summary: bool,
    /// Also user stacks (JSON)
    #[arg(long)]
    pub user_stacks: bool,
    #[command(flatten)]
    pub window: Window,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    All,
    Cause,
    /// The initiator's wait by the number of targets
    Targets,
}

#[derive(Debug, Args)]
pub struct Hist {
    #[arg(long, value_enum, default_value_t = By::All)]
    pub by: By,
    #[command(flatten)]
    pub window: Window,
}

#[derive(Debug, Args)]
pub struct Stacks {
    /// One line a stack, for flame graphs; counts targets
    #[arg(long)]
    pub folded: bool,
    /// Also user stacks
    #[arg(long)]
    pub user_stacks: bool,
    #[command(flatten)]
    pub window: Window,
}

#[derive(Debug, Args)]
pub struct Selftest {
    /// Only these storms; all where none is named
    pub storms: Vec<String>,
    /// Shootdowns of each storm [default: each storm's own]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u64>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Storm {
    pub name: String,
    #[arg(long, default_value_t = 0)]
    pub rounds: u64,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit() && c != '.') {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("a time is a number and a unit: 500ms, 2s, 10m, 3h".into()),
    };
    let seconds = number.parse::<f64>().map_err(|_| "this is no number of seconds".to_string())? * factor;
    match seconds {
        short if short < 0.01 => Err("less than 10 ms cannot be watched".into()),
        long if long > 366.0 * 86_400.0 => Err("more than a year is too long".into()),
        fine => Ok(Duration::from_secs_f64(fine)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_limits() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("3h"), Ok(Duration::from_secs(10_800)));
        for wrong in ["", "0", "-1", "x", "1y", "1e99h", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
