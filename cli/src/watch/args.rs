// SPDX-License-Identifier: GPL-2.0-only
//! The observer's part of the command line.

use ceasefire_watch_views::{compare, hist};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
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
    /// Senders, victims, causes and who interrupts whom, live on the terminal
    Top(Top),
    /// Count by cause, sender and victim, while a command runs or until Ctrl-C
    Stat(Stat),
    /// One line for each shootdown
    Trace(Trace),
    /// Distributions of delivery, handler, initiator's wait and pages
    Hist(Hist),
    /// Kernel stacks by pages and by stolen time
    Stacks(Stacks),
    /// Who interrupts whom: senders down, victims across
    Matrix(Matrix),
    /// Write what is seen to a file that any machine can read
    Record(Record),
    /// Show what a record holds; needs neither root nor this machine
    Report(Report),
    /// Compare two records, before and after a change: rates by cause with intervals, and an exit status
    Compare(Compare),
    /// Serve counters to Prometheus and others, by HTTP or by a file for node_exporter, until it is ended
    Export(Export),
    /// Make known storms and see whether they are attributed to whom and what they should be
    Selftest(Selftest),
    /// Make one known storm (used by selftest)
    #[command(hide = true)]
    Storm(Storm),
}

/// Which senders are described; all are counted, and the report says how many were left out.
#[derive(Debug, Args, Clone, Default)]
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
    /// Only these causes; of victims, those whose sender had one of them
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cause: Vec<String>,
    /// Only those whose sender waited at least this long, in microseconds
    #[arg(long, value_name = "US")]
    pub min_us: Option<u64>,
}

impl Filters {
    /// As they were asked for.
    #[cfg(feature = "watch")]
    pub fn words(&self) -> Vec<String> {
        let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
        let parts = [
            number("--pid", self.pid.map(u64::from)),
            number("--tid", self.tid.map(u64::from)),
            self.comm.as_ref().map(|comm| format!("--comm {comm}")),
            self.cgroup.as_ref().map(|cgroup| format!("--cgroup {}", cgroup.display())),
            number("--cpu", self.cpu.map(u64::from)),
            (!self.cause.is_empty()).then(|| format!("--cause {}", self.cause.join(","))),
            number("--min-us", self.min_us),
        ];
        parts.into_iter().flatten().collect()
    }
}

#[derive(Debug, Args, Clone, Default)]
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
    /// Also those CPUs that are isolated or in nohz_full: who interrupted them; ends with 1 if anybody did
    #[arg(long, conflicts_with = "sender_only")]
    pub isolated: bool,
    /// Also how much of the whole system call the wait is; slows every system call on this machine
    #[arg(long, conflicts_with_all = ["sender_only", "no_stacks"])]
    pub whole_calls: bool,
    #[command(flatten)]
    pub window: Window,
}

#[derive(Debug, Args)]
pub struct Top {
    /// Seconds between two looks
    #[arg(value_parser = seconds, default_value = "1")]
    pub interval: Duration,
    /// Looks until the end
    pub count: Option<u64>,
    /// Stop after this long: 90s, 10m, 3h
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// No terminal needed: the reports of `stat`, one each interval
    #[arg(long)]
    pub plain: bool,
    /// No colours (as with NO_COLOR in the environment)
    #[arg(long)]
    pub no_color: bool,
    /// Only the sending side: no times, no victims, least overhead
    #[arg(long)]
    pub sender_only: bool,
    /// Also user stacks
    #[arg(long)]
    pub user_stacks: bool,
    /// User stacks with what the compiler made inline, from debug information; takes memory as that is large
    #[arg(long, requires = "user_stacks")]
    pub inlined: bool,
    /// Also what CPUs have each other run besides flushes (key x)
    #[arg(long)]
    pub cross_calls: bool,
    #[command(flatten)]
    pub filters: Filters,
}

#[derive(Debug, Args)]
pub struct Matrix {
    /// Also what CPUs have each other run besides flushes
    #[arg(long)]
    pub cross_calls: bool,
    #[command(flatten)]
    pub window: Window,
}

#[derive(Debug, Args)]
pub struct Trace {
    /// At the end, pages by process and cause, and what batching would save
    #[arg(long)]
    pub summary: bool,
    /// A line for each shootdown, also where several flushed one range piece by piece
    #[arg(long)]
    pub each: bool,
    /// Neighbours begin within this time after the first of them; in write-back, after the one before
    #[arg(long, value_name = "US", default_value_t = WITHIN_US, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub within_us: u64,
    /// Also user stacks (JSON)
    #[arg(long)]
    pub user_stacks: bool,
    /// User stacks with what the compiler made inline, from debug information; takes memory as that is large
    #[arg(long, requires = "user_stacks")]
    pub inlined: bool,
    #[command(flatten)]
    pub window: Window,
}

/// How long a flush may be put off for the next one, where nothing else is said.
pub const WITHIN_US: u64 = 1000;

#[derive(Debug, Args)]
pub struct Record {
    /// The file; replaced when the recording is whole
    #[arg(short, long, value_name = "FILE", default_value = "watch.record")]
    pub output: PathBuf,
    /// Also every shootdown by itself (for trace, and for what batching would save)
    #[arg(long)]
    pub events: bool,
    /// Record so many of them; the rest are only counted
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub events_max: u64,
    /// Also user stacks
    #[arg(long)]
    pub user_stacks: bool,
    /// User stacks with what the compiler made inline, from debug information; takes memory as that is large
    #[arg(long, requires = "user_stacks")]
    pub inlined: bool,
    /// Also how much of the whole system call the wait is; slows every system call on this machine
    #[arg(long)]
    pub whole_calls: bool,
    /// Stop, and keep the evidence, once one victim loses more than this many microseconds at once
    #[arg(long, value_name = "US")]
    pub auto: Option<u64>,
    /// Time between windows [default: 1s, or more in long recordings]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Stop after this long: 90s, 10m, 3h
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Stop when the file is this large
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub size_max: u64,
    #[command(flatten)]
    pub filters: Filters,
    /// Record while this command runs, and return its exit status
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct Export {
    /// Serve OpenMetrics here, path /metrics [default: 127.0.0.1:9986, or nowhere with --textfile]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Write this file for node_exporter's textfile collector (NAME.prom)
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Time between two looks at the probes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub interval: Duration,
    /// So many systemd units, or cgroups, have series of their own; the rest is "other"
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub units_max: u64,
    /// Also what CPUs have each other run besides flushes
    #[arg(long)]
    pub cross_calls: bool,
    /// Keep a record of an interval in which handlers took more than this many microseconds of some 10 ms
    #[arg(long, value_name = "US", requires = "evidence")]
    pub auto: Option<u64>,
    /// The directory for these records, of which the last 16 stay
    #[arg(long, value_name = "DIR", requires = "auto")]
    pub evidence: Option<PathBuf>,
    /// Stop after this long: 90s, 10m, 3h
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Counts by cause, sender and victim
    Stat,
    /// Distributions
    Hist,
    /// Stacks by pages and by stolen time
    Stacks,
    /// Senders down, victims across
    Matrix,
    /// A line for each range (records with --events)
    Trace,
    /// What to change, with the figures that speak for it
    Advice,
    /// Pages by process and cause, the factor that ranges saved, and what batching would save
    Savings,
}

#[derive(Debug, Args)]
pub struct Report {
    /// A file that `ceasefire watch record` has written
    pub file: PathBuf,
    #[arg(long, value_enum, default_value_t = View::Stat)]
    pub view: View,
    #[arg(long)]
    pub json: bool,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// hist: how they are grouped
    #[arg(long, value_enum, default_value_t = By::All)]
    pub by: By,
    /// stacks: one line a stack, for flame graphs
    #[arg(long)]
    pub folded: bool,
    /// A report for each window; trace: a line for each shootdown
    #[arg(long)]
    pub each: bool,
    /// matrix, stacks: also what CPUs have each other run besides flushes
    #[arg(long)]
    pub cross_calls: bool,
    /// Only these causes
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cause: Vec<String>,
    /// Neighbours begin within this time after the first of them; in write-back, after the one before
    #[arg(long, value_name = "US", default_value_t = WITHIN_US, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub within_us: u64,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The record from before the change
    pub before: PathBuf,
    /// The record from after it
    pub after: PathBuf,
    /// Units of work done while each was recorded: figures are per unit, not per second
    #[arg(long, value_name = "N,M", value_parser = units)]
    pub units: Option<(f64, f64)>,
    /// What is compared
    #[arg(long = "by", value_enum, default_value_t = Compared::Received)]
    pub figure: Compared,
    /// End with 1 if user shootdowns have surely risen by more than this
    #[arg(long, value_name = "PERCENT", conflicts_with = "want_less")]
    pub fail_over: Option<f64>,
    /// End with 1 unless user shootdowns have surely fallen by at least this
    #[arg(long, value_name = "PERCENT")]
    pub want_less: Option<f64>,
    #[arg(long)]
    pub json: bool,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Only these causes
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cause: Vec<String>,
}

fn units(text: &str) -> Result<(f64, f64), String> {
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|units| units.is_finite() && *units > 0.0);
    let both = text.split_once(',').and_then(|(before, after)| Some((number(before)?, number(after)?)));
    both.ok_or_else(|| "units of work are two numbers above nothing, such as 1000,1200".into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compared {
    Received,
    Sent,
    /// Time in handlers
    Stolen,
    /// Time that senders waited
    Waited,
}

impl From<Compared> for compare::Figure {
    fn from(figure: Compared) -> compare::Figure {
        match figure {
            Compared::Received => compare::Figure::Received,
            Compared::Sent => compare::Figure::Sent,
            Compared::Stolen => compare::Figure::Stolen,
            Compared::Waited => compare::Figure::Waited,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    All,
    Cause,
    /// The initiator's wait by the number of targets
    Targets,
}

impl From<By> for hist::By {
    fn from(by: By) -> hist::By {
        match by {
            By::All => hist::By::All,
            By::Cause => hist::By::Cause,
            By::Targets => hist::By::Targets,
        }
    }
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
    /// User stacks with what the compiler made inline, from debug information; takes memory as that is large
    #[arg(long, requires = "user_stacks")]
    pub inlined: bool,
    /// Also what CPUs have each other run besides flushes
    #[arg(long)]
    pub cross_calls: bool,
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
    /// Sender's and victim's CPU, instead of the first two
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub cpus: Vec<u32>,
}

pub fn seconds(text: &str) -> Result<Duration, String> {
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
