// SPDX-License-Identifier: GPL-2.0-only
//! `export`: windows, one after the other, into counters for whoever scrapes them.

use super::args::{Export, Window};
use super::environment;
use super::live::Session;
use ceasefire_base::{cancel, disk, Result};
use ceasefire_watch::Options;
use ceasefire_watch_export::{render, replace, Form, Server, Totals, Units};
use ceasefire_watch_model::Snapshot;
use ceasefire_watch_record::{End, Environment, Recording};
use ceasefire_watch_views::numbers::time;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LISTEN: &str = "127.0.0.1:9986";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Where a host has both hierarchies.
const CGROUPS_BESIDE: &str = "/sys/fs/cgroup/unified";
/// Longest time until a signal is noticed.
const STEP: Duration = Duration::from_millis(500);
const RECORDS_MAX: usize = 16;
const RECORD_BYTES_MAX: u64 = 16 << 20;

pub fn run(args: &Export) -> Result<u8> {
    let listen = match (&args.listen, &args.textfile) {
        (Some(address), _) => Some(address.as_str()),
        (None, Some(_)) => None,
        (None, None) => Some(LISTEN),
    };
    if let Some(directory) = &args.evidence {
        fs::create_dir_all(directory)
            .map_err(|error| disk::error("create the directory", directory, &error))?;
    }
    let options = Options {
        // Only a record shows them.
        pairs: args.auto.is_some(),
        histograms: args.auto.is_some(),
        calls: args.cross_calls,
        // To time the probes, the kernel changes its own code, which interrupts every CPU.
        timing: false,
        ..Options::default()
    };
    let window = Window { duration: args.duration, ..Window::default() };
    // A port that is taken is told of before the probes are loaded.
    let server = listen.map(Server::listen).transpose()?;
    let mut session = Session::start(options, &window)?;
    session.look_every(STEP);
    let mut units = Units::new(PathBuf::from(match Path::new(CGROUPS_BESIDE).is_dir() {
        true => CGROUPS_BESIDE,
        false => CGROUPS,
    }));
    let mut totals = Totals::new(usize::try_from(args.units_max).unwrap_or(usize::MAX));
    show(args, server.as_ref(), &totals)?;
    if let Some(server) = &server {
        eprintln!("counters are at http://{}/metrics", server.address());
    }
    // Failures of the last interval: each is told once.
    let mut said: Vec<String> = Vec::new();
    loop {
        let is_over = session.wait(Some(args.interval), &mut |_, _| ())?;
        let window = session.window(&[])?;
        session.next();
        units.next();
        totals.take(&window, &mut units);
        // A disk that is full later on is no reason to stop counting.
        let mut failures = vec![show(args, server.as_ref(), &totals)];
        if let (Some(us), Some(directory)) = (args.auto, &args.evidence) {
            let stolen_ns = window.bursts.hundredth.map_or(0, |moment| moment.stolen_ns);
            if stolen_ns > us.saturating_mul(1000) {
                failures.push(keep(args, us, directory, &window, stolen_ns));
            }
        }
        let failed: Vec<String> =
            failures.into_iter().filter_map(|one| Some(one.err()?.to_string())).collect();
        for failure in failed.iter().filter(|failure| !said.contains(failure)) {
            eprintln!("note: {failure}; counting goes on");
        }
        said = failed;
        if is_over || cancel::requested() {
            return session.finish();
        }
    }
}

fn show(args: &Export, server: Option<&Server>, totals: &Totals) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    if let Some(server) = server {
        server.show(render(totals, version, Form::OpenMetrics), render(totals, version, Form::Prometheus));
    }
    match &args.textfile {
        Some(path) => replace(path, &render(totals, version, Form::Prometheus)),
        None => Ok(()),
    }
}

/// The window as a record, which `report` reads anywhere.
fn keep(args: &Export, us: u64, directory: &Path, window: &Snapshot, stolen_ns: u64) -> Result<()> {
    let about = Environment {
        interval_ns: u64::try_from(args.interval.as_nanos()).unwrap_or(u64::MAX),
        auto_us: Some(us),
        ..environment::here()
    };
    let path = directory.join(format!("burst-{}.record", window.wall_s));
    let mut recording = Recording::create(&path, &about, RECORD_BYTES_MAX)?;
    recording.window(window)?;
    let evidence = format!("handlers took {} of 10 ms", time(stolen_ns));
    let end = End {
        reason: format!("a burst: {evidence}"),
        events: 0,
        events_dropped: 0,
        evidence: Some(evidence.clone()),
    };
    recording.finish(&end)?;
    eprintln!("{evidence}: {}", path.display());
    let mut kept: Vec<PathBuf> = fs::read_dir(directory)
        .map_err(|error| disk::error("read", directory, &error))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.starts_with("burst-") && name.ends_with(".record"))
        })
        .collect();
    kept.sort();
    for old in kept.iter().rev().skip(RECORDS_MAX) {
        let _ = fs::remove_file(old);
    }
    Ok(())
}
