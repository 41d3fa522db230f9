// SPDX-License-Identifier: GPL-2.0-only
//! `try`: the command with each remedy and with none, in turn; then which one helps.

use super::args::Try;
use super::interception::{self, Ours};
use super::plan::environment;
use super::run::{cache, chosen};
use super::{counting, lines, table};
use ceasefire_base::exec::{print_line, spawn, Command, Stream};
use ceasefire_base::progress::clock;
use ceasefire_base::{cancel, disk, Error, Progress, Result, Verbosity};
use ceasefire_deter::launch::Launch;
use ceasefire_deter::machine::{idle_cpus, Machine};
use ceasefire_deter::plan::{plan, why_not};
use ceasefire_deter::program::{of_command, Program};
use ceasefire_deter::remedy::{self, Remedy};
use ceasefire_deter::settings::Settings;
use ceasefire_deter::trial::cgroup::Cgroup;
use ceasefire_deter::trial::counter::Counter;
use ceasefire_deter::trial::rank::{rank, Ranking, ROUNDS_MIN};
use ceasefire_deter::trial::scratch::Scratch;
use ceasefire_deter::trial::stage::{self, End, Order, Report};
use ceasefire_deter::trial::state::{compare_outputs, Keeper, Request, State, Trial};
use ceasefire_deter::trial::units::Units;
use ceasefire_deter::trial::{report, NONE};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds beyond which nobody waits for the end.
const REPEATS_MAX: u32 = 1000;
/// What is said where there are fewer rounds.
pub const TOO_FEW_ROUNDS: &str = "three rounds are needed to tell";
/// A check that takes longer, where no limit is given, waits for something.
const CHECK_MAX: Duration = Duration::from_secs(600);
/// Of what a command says on stderr, so much is looked at for its last line.
const LOG_END: u64 = 64 << 10;
/// How long is looked at which CPUs are idle.
const IDLE_LOOK: Duration = Duration::from_millis(500);
/// Shootdowns need somebody to interrupt.
const IDLE_CPUS_MIN: u32 = 2;

pub fn run(args: &Try) -> Result<u8> {
    cancel::install()?;
    if args.repeats == 0 || args.repeats > REPEATS_MAX {
        let why = if args.repeats == 0 { "nothing could be compared" } else { "nobody waits for that many" };
        return Err(Error::usage(format!("--repeats {}: {why}", args.repeats))
            .remedy(format!("{ROUNDS_MIN} to {REPEATS_MAX}; fewer show that it runs, and tell nothing")));
    }
    let units = Units::new(args.units, args.unit.as_deref(), args.client.as_deref())?;
    let program = of_command(&args.command, environment())?;
    let machine = Machine::here(Path::new("/"));
    let mut notes = Vec::new();
    if (args.repeats as usize) < ROUNDS_MIN {
        notes.push(TOO_FEW_ROUNDS.to_string());
    }
    notes.extend(plan(&program, &machine, None, remedy::all()).removed);
    notes.extend(program.notes.iter().cloned());
    let remedies = candidates(args, &program, &machine, &mut notes)?;
    let request = Request {
        command: args.command.clone(),
        names: std::iter::once(NONE.to_string()).chain(remedies.keys().cloned()).collect(),
        repeats: args.repeats,
        units: units.label(),
        check: args.check.clone(),
        client: args.client.clone(),
        counter: String::new(),
    };
    if remedies.is_empty() {
        let nothing =
            format!("there is no remedy to try for {}; `ceasefire deter plan --all` says why", program.name);
        if args.json {
            notes.push(nothing);
            let nothing = report::json(&State::new(request), &Ranking::default(), &[], &notes, false);
            print_line(&nothing.to_string());
        } else {
            notes.iter().for_each(|note| lines::say("note: ", note));
            lines::say("", &nothing);
        }
        return Ok(report::NONE_HELPS);
    }
    let cgroup = Cgroup::create();
    if cgroup.is_none() {
        notes.push("it runs in our own cgroup: one of its own needs cgroup v2, and root".into());
    }
    let (mut counter, why_proc) = counting::counter(cgroup.as_ref(), args.no_bpf)?;
    // That flushes are not counted then, the counter says itself.
    notes.extend(why_proc.map(|why| format!("the observer is not used: {why}")));
    if let Some(idle) = idle_cpus(IDLE_LOOK).filter(|idle| *idle < IDLE_CPUS_MIN) {
        let idle = ceasefire_base::text::count(u64::from(idle), "CPU");
        notes.push(format!("{idle} idle before the first round: what is received depends on what else runs"));
    }
    let request = Request { counter: counter.name().to_string(), ..request };
    let (mut keeper, mut state) = match &args.state {
        Some(path) => Keeper::open(path, request).map(|(keeper, state)| (Some(keeper), state))?,
        None => (None, State::new(request)),
    };
    let scratch = Scratch::new()?;
    let verbosity = if args.quiet { Verbosity::Quiet } else { Verbosity::Normal };
    let progress = Progress::new(verbosity);
    if !args.quiet {
        for (name, settings) in &remedies {
            for risk in interception::risks(settings) {
                lines::warn(&format!("risk of {name}: {risk}"));
            }
        }
    }
    let mut bench = Bench { args, units, cgroup: cgroup.as_ref(), scratch: &scratch };
    let (begun, before) = (Instant::now(), state.trials.len());
    let only = received_only(&remedies);
    loop {
        let Some((name, round)) = state.next() else {
            // More rounds than three were asked for to be sure already.
            let close = match args.repeats as usize {
                ROUNDS_MIN => rank(&state.request.names, &state.trials, &only, args.max_rss).close(),
                _ => Vec::new(),
            };
            match state.look_again(close) {
                true => continue,
                false => break,
            }
        };
        cancel::check().map_err(|error| interrupted(error, args))?;
        let left = state.left();
        let done = state.trials.len() - before;
        let of = if round < args.repeats { args.repeats } else { args.repeats * 2 };
        let step = progress.step(format!("{name}, round {} of {of}", round + 1));
        if done > 0 {
            step.waiting(format!("about {} left", clock(begun.elapsed() / done as u32 * left as u32)));
        }
        let empty = Settings::default();
        let settings = remedies.get(&name).unwrap_or(&empty);
        // Of all that were made so far none has found a count.
        let may_be_lacking = state.trials.iter().all(|trial| trial.units == 1.0);
        let trial = bench.trial(&name, round, settings, counter.as_mut(), &mut notes, may_be_lacking);
        let trial = trial.map_err(|error| interrupted(error, args))?;
        step.done(trial.failed.clone().unwrap_or_else(|| format!("{:.1} s", trial.seconds)));
        if let (NONE, Some(why)) = (name.as_str(), &trial.failed) {
            return Err(Error::failed(format!("the command fails without any remedy: {why}")).remedy(
                "run it by itself until it succeeds each time, and ends: a script can start a server and its client, \
                 or --client; --limit gives it more time",
            ));
        }
        if let (NONE, Some(why)) = (name.as_str(), &trial.changed) {
            return Err(Error::usage(format!("{why}, of the command as it is"))
                .remedy("try the check by itself: it reads the output, and succeeds where that is good"));
        }
        state.trials.push(trial);
        if let Some(keeper) = &mut keeper {
            keeper.save(&state)?;
        }
    }
    let is_compared = args.check.is_some() || compare_outputs(&mut state.trials);
    if !is_compared {
        notes.push("its output differs from run to run, so it was not compared: --check CMD can".into());
    }
    let ranking = rank(&state.request.names, &state.trials, &only, args.max_rss);
    let lost = counter.lost();
    match args.json {
        true => print_line(&report::json(&state, &ranking, &lost, &notes, is_compared).to_string()),
        false => table::print(&state, &ranking, &lost, &notes),
    }
    Ok(report::exit_code(&ranking))
}

fn interrupted(error: Error, args: &Try) -> Error {
    match (error.kind, &args.state) {
        (ceasefire_base::Kind::Interrupted, Some(_)) => error.remedy("the same command goes on from here"),
        (ceasefire_base::Kind::Interrupted, None) => error.remedy("with --state FILE a trial can go on"),
        _ => error,
    }
}

/// Names of which every part lets fewer be interrupted, and no flush be left out.
fn received_only(remedies: &BTreeMap<String, Settings>) -> BTreeSet<String> {
    let is_it = |name: &str| remedy::named(name).is_ok_and(|remedy| remedy.is_received_only);
    remedies.keys().filter(|name| name.split('+').all(is_it)).cloned().collect()
}

/// What is tried, by name, ready to be set.
fn candidates(
    args: &Try,
    program: &Program,
    machine: &Machine,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, Settings>> {
    let mut found: Vec<(String, Vec<&'static Remedy>)> = Vec::new();
    if args.with.is_empty() {
        for choice in plan(program, machine, None, remedy::all()).helps {
            let remedy = choice.remedy;
            if remedy.is_host() || remedy.is_change_only() || (remedy.is_loose && !args.loose) {
                continue;
            }
            match choice.first {
                Some(first) => notes.push(format!("{} was not tried: {first}", remedy.name)),
                None => found.push((remedy.name.clone(), vec![remedy])),
            }
        }
    }
    for name in &args.with {
        let parts: Vec<String> = name.split('+').map(str::to_string).collect();
        let all = chosen(&parts, args.loose)?;
        match all.iter().find_map(|remedy| Some((remedy, why_not(remedy, program, machine)?))) {
            Some((remedy, why)) => {
                notes.push(format!("{} was not tried, it has no effect: {why}", remedy.name))
            }
            None => found.push((name.clone(), all)),
        }
    }
    let mut ready = BTreeMap::new();
    for (name, all) in found {
        let settings = Settings::of(&all, program)?;
        let ours = Ours { is_loose: args.loose };
        let launch = interception::check(&settings, program)
            .and_then(|()| Launch::new(&args.command, settings.clone(), &ours, cache().as_deref()));
        match launch {
            Ok(_) => drop(ready.insert(name, settings)),
            Err(error) if args.with.is_empty() => {
                notes.push(format!("{name} was not tried: {}", error.message))
            }
            Err(error) => return Err(error),
        }
    }
    Ok(ready)
}

struct Bench<'a> {
    args: &'a Try,
    units: Units,
    cgroup: Option<&'a Cgroup>,
    scratch: &'a Scratch,
}

impl Bench<'_> {
    fn trial(
        &mut self,
        name: &str,
        round: u32,
        settings: &Settings,
        counter: &mut dyn Counter,
        notes: &mut Vec<String>,
        may_be_lacking: bool,
    ) -> Result<Trial> {
        let file = |name: &str| self.scratch.file(name);
        let order = Order {
            command: self.args.command.clone(),
            settings: settings.clone(),
            cgroup: self.cgroup.map(|cgroup| cgroup.path().to_path_buf()),
            client: self.args.client.clone(),
            is_loose: self.args.loose,
            cache: cache(),
            report: file("report.json"),
        };
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        counter.begin()?;
        let ran = stage::run(&order, &file("order.json"), &stdout, &stderr, self.args.limit);
        let counts = counter.end();
        if let Some(cgroup) = self.cgroup {
            cgroup.kill();
        }
        let (ran, counts) = (ran?, counts?);
        let Some(ran) = ran else {
            let seconds = self.args.limit.unwrap_or_default().as_secs_f64();
            let failed = Some(format!("it has not ended after {seconds} s"));
            return Ok(Trial { remedy: name.to_string(), round, failed, ..Trial::default() });
        };
        if ran.left > 0 {
            let note = "it left processes running, which were ended: it may have gone into the background";
            if !notes.iter().any(|other| other == note) {
                notes.push(note.to_string());
            }
        }
        let read = fs::File::open(&stdout).and_then(|output| self.units.read(output));
        let (mut units, output_hash) = read.map_err(|error| disk::error("read", &stdout, &error))?;
        if units == 0 && may_be_lacking && self.units.is_guess() && ran.end == End::Code(0) {
            notes.push(format!("{} is not in what the client prints: a run is a unit", self.units.label()));
            self.units = Units::Fixed(1);
            units = 1;
        }
        let failed = self.failed(&ran, units, &stderr);
        let changed = if failed.is_none() { self.check(&stdout)? } else { None };
        Ok(Trial {
            remedy: name.to_string(),
            round,
            units: units as f64,
            flushes: counts.flushes,
            received: counts.received,
            causes_flushes: counts.causes_flushes,
            causes: counts.causes,
            rss_kib: ran.rss_kib,
            faults: ran.faults,
            seconds: ran.seconds,
            output_hash,
            failed,
            changed,
            no_effect: ran.absent,
        })
    }

    fn failed(&self, ran: &Report, units: u64, stderr: &Path) -> Option<String> {
        let whose = if self.args.client.is_some() { "the client" } else { "it" };
        let (whose, end) = match ran.server_end {
            Some(End::Code(0)) => {
                return Some(
                    "the server went into the background, or ended, before its client: `daemon off;`, \
                     `-DFOREGROUND` and the like keep it in front"
                        .into(),
                )
            }
            Some(end) => ("the server ended before its client, and", end),
            None => (whose, ran.end),
        };
        let says = last_line(stderr);
        match end {
            End::Signal(signal) => Some(format!("{whose} was ended by signal {signal}{says}")),
            End::Code(0) => {
                let lack = self.units.lack().filter(|_| units == 0)?;
                Some(format!("no line that {whose} prints {lack}"))
            }
            End::Code(code) => Some(format!("{whose} exited with {code}{says}")),
        }
    }

    /// The user's own look at the output: why it does not accept it.
    fn check(&self, stdout: &Path) -> Result<Option<String>> {
        let Some(check) = &self.args.check else { return Ok(None) };
        let stderr = self.scratch.file("check");
        let command = Command::new("/bin/sh").args(["-c", check]).stdin(stdout);
        let limit = self.args.limit.unwrap_or(CHECK_MAX);
        let mut child = spawn(&command, &Stream::Null, &Stream::File(stderr.clone()))?;
        match child.wait(Some(limit))? {
            Some(status) if status.success() => Ok(None),
            Some(_) => {
                Ok(Some(format!("the check `{check}` does not accept the output{}", last_line(&stderr))))
            }
            None => {
                let seconds = limit.as_secs_f64();
                Err(Error::failed(format!("the check `{check}` has not ended after {seconds} s"))
                    .remedy("it must end by itself once its input has; --limit gives it more time"))
            }
        }
    }
}

/// Of what was said, behind a colon.
fn last_line(stderr: &Path) -> String {
    let said = end_of(stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last = ceasefire_base::text::clean(last.trim());
    if last.is_empty() {
        String::new()
    } else {
        format!(": {last:.120}")
    }
}

/// A log may be larger than memory.
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_END)))?;
    let mut end = Vec::new();
    file.take(LOG_END).read_to_end(&mut end)?;
    Ok(end)
}

/// The process of one trial.
pub fn perform(file: &Path) -> Result<u8> {
    if let Some(code) = stage::apart()? {
        return Ok(code);
    }
    let text = fs::read_to_string(file).map_err(|error| disk::error("read", file, &error))?;
    let order: Order = serde_json::from_str(&text).map_err(|_| {
        Error::usage(format!("{} is no order of a trial", file.display())).remedy("ceasefire deter try")
    })?;
    let said = stage::perform(&order, &Ours { is_loose: order.is_loose })?;
    let text = serde_json::to_string(&said)
        .map_err(|error| Error::failed(format!("the report cannot be written: {error}")))?;
    fs::write(&order.report, text).map_err(|error| disk::error("write", &order.report, &error))?;
    Ok(0)
}
