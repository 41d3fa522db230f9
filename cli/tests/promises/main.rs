// SPDX-License-Identifier: GPL-2.0-only
//! Is every byte that a returned msync() or fsync() promised on the disk, whenever the guest stops or dies?
//!
//! A workload (`durable`) raises counters in a mapped file, and tells what each call has promised once it has returned.
//! Meanwhile the guest is stopped at random moments, and its disk is looked at in place; at the end it is killed.
//!
//! CEASEFIRE_PROMISES_KERNEL=NAME[:MODE]: another kernel than `batch-debug`; it needs ext4 and virtio-blk.
//! CEASEFIRE_PROMISES_IMAGE=FILE: a bzImage of such a kernel.
//! CEASEFIRE_PROMISES_SEED=N: other moments, pages and calls.
//! CEASEFIRE_PROMISES_BREAKS=NAME,…: these breaks alone.
//! CEASEFIRE_PROMISES_MOMENTS=N, CEASEFIRE_PROMISES_KILLS=N: of the long form.

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod guest;
mod records;

use ceasefire_artifacts::Context;
use ceasefire_base::{cancel, Error, Kind, Progress, Result, Step, Verbosity};
use ceasefire_results::protocol::GuestLog;
use ceasefire_run::boot::{self, Start};
use ceasefire_run::plan::ThreadMode;
use common::{skip, Scratch};
use disk::{Looked, Pages, Promised, Violation};
use guest::{Files, Monitor, Shape};
use records::{Record, Records, DEEDS};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SEED: u64 = 1;
/// Before each moment one to so many promises are waited for, so that a busy host gives them, too. Then the guest runs on
/// for up to so long.
const PROMISES_BETWEEN: u64 = 10;
const APART_MS: u64 = 500;
/// A guest that gives no promise for so long has stopped working.
const MOMENT_LIMIT: Duration = Duration::from_secs(300);
/// How often the disk of a guest that runs is looked at.
const POLL: Duration = Duration::from_millis(20);
/// From the boot to the first record; kernels that check themselves are slow.
const SETUP_LIMIT: Duration = Duration::from_secs(240);
const BOOT_LIMIT: Duration = Duration::from_secs(3600);
/// A boot that gave and kept fewer has tried nothing.
const PROMISES_PER_MOMENT: usize = 3;
const PAGES_PER_MOMENT: usize = 50;
/// The workload reads another counter than it wrote (workloads/stress/durable.c); the kernel warns.
const COMPLAINTS: [&str; 2] = ["was written and", "kernel complained"];
const VIOLATIONS_SHOWN: usize = 10;

/// What the long form boots in turn: a mode of our kernel, CPUs, nodes, TLBs.
const SHAPES: [(&str, u32, u32, &str, ThreadMode); 4] = [
    ("off+on", 4, 2, "hardware", ThreadMode::Single),
    ("full+on", 8, 2, "hardware", ThreadMode::Single),
    ("off+on", 2, 1, "hardware", ThreadMode::Multi),
    ("idle+on", 4, 2, "adversary", ThreadMode::Single),
];

/// Each break of the debug kernel (`batch_mutant=`).
const BREAKS: [&str; 5] = ["unflushed", "pending-ignored", "clean-early", "write-left", "mapping-forgotten"];
/// The most moments until one is found.
const BREAK_MOMENTS: usize = 400;

#[derive(Default)]
struct Tally {
    moments: usize,
    kills: usize,
    promises: usize,
    /// Pages that were looked at: of a guest that stood still or was dead, of these those with a promise since the
    /// moment before, and of one that ran.
    pages: usize,
    fresh: usize,
    running: usize,
    recovered: usize,
    violations: Vec<Violation>,
    /// What the guest itself has found, and ended for.
    complaint: Option<String>,
    stood: Duration,
    deeds: Vec<u32>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.moments += other.moments;
        self.kills += other.kills;
        self.promises += other.promises;
        self.pages += other.pages;
        self.fresh += other.fresh;
        self.running += other.running;
        self.recovered += other.recovered;
        self.violations.extend(other.violations);
        self.stood += other.stood;
        self.add_deeds(&other.deeds);
    }

    fn add_deeds(&mut self, deeds: &[u32]) {
        self.deeds.resize(self.deeds.len().max(deeds.len()), 0);
        self.deeds.iter_mut().zip(deeds).for_each(|(mine, more)| *mine += more);
    }

    fn show(&self, begun: Instant) {
        println!(
            "{} moments, {} kills: {} promises; {} promised pages looked at ({} of them promised since the last look), \
             {} more while the guest ran, {} recovered; {} violations; {:.1} ms a moment, {:.0} s",
            self.moments,
            self.kills,
            self.promises,
            self.pages,
            self.fresh,
            self.running,
            self.recovered,
            self.violations.len(),
            self.stood.as_secs_f64() * 1000.0 / self.moments.max(1) as f64,
            begun.elapsed().as_secs_f64(),
        );
        let deeds = DEEDS.iter().zip(&self.deeds).map(|(name, count)| format!("{name} {count}"));
        println!("beside: {}", deeds.collect::<Vec<_>>().join(", "));
        for violation in self.violations.iter().take(VIOLATIONS_SHOWN) {
            println!("violation: {violation}");
        }
        if let Some(text) = &self.complaint {
            println!("the guest's own complaint: {text}");
        }
    }

    fn must_have_kept_all(&self, nodes: u32) {
        assert!(self.violations.is_empty(), "{} promises were not kept", self.violations.len());
        let (promises, pages) = (PROMISES_PER_MOMENT * self.moments, PAGES_PER_MOMENT * self.moments);
        assert!(self.promises >= promises, "{} promises, and {promises} were wanted", self.promises);
        assert!(self.fresh >= pages, "{} promised pages, and {pages} were wanted", self.fresh);
        let is_missing = |(name, count): &(&&str, &u32)| **count == 0 && (nodes > 1 || **name != "migration");
        let missing: Vec<_> = DEEDS.iter().zip(&self.deeds).filter(is_missing).collect();
        assert!(missing.is_empty() && self.deeds.len() == DEEDS.len(), "never done: {missing:?}");
    }
}

/// splitmix64
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

/// One boot whose disk is looked at.
struct Watched<'a> {
    files: &'a Files,
    records: Records,
    pages: Option<Pages>,
    promised: Promised,
    fresh: BTreeSet<usize>,
    tally: Tally,
}

impl Watched<'_> {
    /// Takes what has come. Return: the pages that it is about.
    fn receive(&mut self) -> Result<BTreeSet<usize>> {
        let mut about = BTreeSet::new();
        for record in self.records.read().map_err(Error::failed)? {
            match record {
                Record::Extents(extents) => self.pages = Some(Pages::on_disk(&self.files.disk, extents)?),
                Record::Deeds(deeds) => self.tally.deeds = deeds,
                Record::Promise(promise) => {
                    self.tally.promises += 1;
                    about.extend(self.promised.add(&promise));
                }
            }
        }
        self.fresh.extend(&about);
        Ok(about)
    }

    fn look(&mut self, pages: impl Iterator<Item = usize>) -> Result<usize> {
        let Some(disk) = &self.pages else { return Ok(0) };
        let Looked { pages, violations } = disk.look(&self.promised, pages)?;
        // Each once, however often it was looked at.
        let known = &mut self.tally.violations;
        let new: Vec<_> = violations.into_iter().filter(|one| !known.contains(one)).collect();
        known.extend(new);
        Ok(pages)
    }

    /// While the guest runs: what a call has promised was there when it returned, and counters only rise.
    fn glance(&mut self) -> Result<()> {
        let about = self.receive()?;
        self.tally.running += self.look(about.into_iter())?;
        Ok(())
    }

    /// While it stands still, or is dead: all that was ever promised.
    fn examine(&mut self) -> Result<()> {
        self.receive()?;
        self.tally.pages += self.look(0..self.promised.pages())?;
        self.tally.fresh += std::mem::take(&mut self.fresh).len();
        Ok(())
    }
}

/// What a boot is to do.
struct Plan<'a> {
    shape: &'a Shape,
    moments: usize,
    /// It ends with the first violation.
    until_found: bool,
}

fn watch(ctx: &Context, plan: &Plan, step: &Step) -> Result<Tally> {
    let scratch = Scratch::new("promises");
    let files = Files::in_directory(&scratch.0);
    disk::make(&files.disk)?;
    let (command, _initrd) = guest::command(ctx, plan.shape, &files)?;
    let is_over = AtomicBool::new(false);
    let boot = || {
        let start = Start {
            command: &command,
            log: &files.log,
            limit: BOOT_LIMIT,
            rerun: "make test-promises",
            // Then it is killed, by SIGKILL.
            is_useless: &|| is_over.load(Ordering::Relaxed),
        };
        boot::boot(&start, &mut |_| ())
    };
    let (watched, ended) = std::thread::scope(|scope| {
        let booted = scope.spawn(boot);
        let watched = stop_and_look(plan, &files, step, &|| booted.is_finished());
        is_over.store(true, Ordering::Relaxed);
        (watched, booted.join().unwrap_or_else(|_| Err(Error::failed("the boot's thread panicked"))))
    });
    let was_killed = matches!(&ended, Err(error) if error.kind == Kind::Interrupted);
    if !was_killed || cancel::requested() {
        let error = why_it_ended(ended, &files);
        let shows = COMPLAINTS.iter().any(|words| error.message.contains(words));
        return match watched {
            Ok(mut watched) if plan.until_found && shows => {
                watched.examine()?;
                Ok(Tally { complaint: Some(error.message), ..watched.tally })
            }
            _ => Err(error),
        };
    }
    let mut watched = watched?;
    watched.tally.kills = 1;
    watched.examine()?;
    if !plan.until_found {
        match disk::recover(&files.disk, &watched.promised)? {
            Some(looked) => {
                watched.tally.recovered = looked.pages;
                watched.tally.violations.extend(looked.violations);
            }
            None => skip("e2fsck after a kill", "e2fsprogs is not installed"),
        }
    }
    Ok(watched.tally)
}

/// It should have run on.
fn why_it_ended(ended: Result<GuestLog>, files: &Files) -> Error {
    if cancel::requested() {
        return Error::interrupted();
    }
    let console = std::fs::read(boot::console_path(&files.log)).unwrap_or_default();
    println!("{}", String::from_utf8_lossy(&console));
    match ended {
        Err(error) => error,
        Ok(log) => {
            let said = log.fails.first().or(log.skips.first()).map(|row| row.reason.clone());
            Error::failed(format!("the workload ended: {}", said.unwrap_or_else(|| format!("{:?}", log.log))))
        }
    }
}

/// Until it is to be killed.
fn stop_and_look<'a>(
    plan: &Plan,
    files: &'a Files,
    step: &Step,
    is_over: &dyn Fn() -> bool,
) -> Result<Watched<'a>> {
    let mut random = plan.shape.seed;
    let mut monitor = Monitor::connect(files, is_over)?;
    let records = Records::open(&files.records).map_err(Error::failed)?;
    let (pages, promised) = (None, Promised::default());
    let mut watched =
        Watched { files, records, pages, promised, fresh: BTreeSet::new(), tally: Tally::default() };
    let wait_until = |watched: &mut Watched, is_time: &dyn Fn(&Tally) -> bool, limit| {
        let (mut last, mut promises) = (Instant::now(), watched.tally.promises);
        while !is_time(&watched.tally) && !is_over() {
            if watched.tally.promises > promises {
                (last, promises) = (Instant::now(), watched.tally.promises);
            }
            if last.elapsed() > limit {
                return Err(Error::failed(format!(
                    "the guest has promised nothing for {} s",
                    limit.as_secs()
                )));
            }
            cancel::wait(POLL)?;
            watched.glance()?;
        }
        Ok(())
    };
    wait_until(&mut watched, &|tally| tally.promises > 0, SETUP_LIMIT)?;
    // The last wait ends with the kill.
    for moment in 0..=plan.moments {
        let promises = watched.tally.promises + draw(&mut random, PROMISES_BETWEEN) as usize + 1;
        wait_until(&mut watched, &|tally| tally.promises >= promises, MOMENT_LIMIT)?;
        let next = Instant::now() + Duration::from_millis(draw(&mut random, APART_MS));
        wait_until(&mut watched, &|_| Instant::now() >= next, MOMENT_LIMIT)?;
        let is_found = plan.until_found && !watched.tally.violations.is_empty();
        if is_over() || is_found || moment == plan.moments {
            break;
        }
        let stopped = Instant::now();
        monitor.stop()?;
        watched.examine()?;
        monitor.go_on()?;
        watched.tally.stood += stopped.elapsed();
        watched.tally.moments += 1;
        let Tally { promises, violations, .. } = &watched.tally;
        step.waiting(format!("moment {}, {promises} promises, {} violations", moment + 1, violations.len()));
    }
    Ok(watched)
}

fn number(name: &str, usual: u64) -> u64 {
    let Ok(text) = std::env::var(format!("CEASEFIRE_PROMISES_{name}")) else { return usual };
    text.parse().unwrap_or_else(|_| panic!("CEASEFIRE_PROMISES_{name}={text} is no number"))
}

/// Ctrl-C ends it like a failure: the emulator is killed, and the disk removed.
fn context() -> Context {
    cancel::install().expect("signals");
    Context::open(Progress::new(Verbosity::Normal)).expect("the checkout and the cache")
}

fn watch_or_panic(ctx: &Context, plan: &Plan, name: &str) -> Tally {
    let step = ctx.progress.step(format!("promises: {name}"));
    match watch(ctx, plan, &step) {
        Ok(tally) => {
            step.done(format!("{} moments, {} promises", tally.moments, tally.promises));
            tally
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn what_was_promised_is_on_the_disk() {
    let (ctx, begun) = (context(), Instant::now());
    let shape = Shape { seed: number("SEED", SEED), ..Shape::default() };
    let plan = Plan { shape: &shape, moments: 20, until_found: false };
    let tally = watch_or_panic(&ctx, &plan, "20 moments and a kill");
    tally.show(begun);
    tally.must_have_kept_all(shape.nodes);
}

/// Else nothing above says anything.
#[test]
fn a_call_that_was_not_made_is_found() {
    let (ctx, begun) = (context(), Instant::now());
    let settings = vec![("lie".into(), "10".into())];
    let shape = Shape { seed: number("SEED", SEED), settings, ..Shape::default() };
    let plan = Plan { shape: &shape, moments: 100, until_found: true };
    let tally = watch_or_panic(&ctx, &plan, "one call of 10 is not made");
    tally.show(begun);
    assert!(!tally.violations.is_empty(), "one call of 10 was not made, and nothing was found");
}

#[test]
#[ignore = "half an hour: make test-promises-all"]
fn a_thousand_moments_and_twenty_kills() {
    let (ctx, begun) = (context(), Instant::now());
    let (moments, kills) = (number("MOMENTS", 1000) as usize, number("KILLS", 20) as usize);
    let mut all = Tally::default();
    for boot in 0..kills {
        let (mode, cpus, nodes, tlb, thread_mode) = SHAPES[boot % SHAPES.len()];
        let seed = number("SEED", SEED) + boot as u64;
        let shape = Shape { mode, cpus, nodes, tlb, thread_mode, seed, ..Shape::default() };
        let moments = moments * (boot + 1) / kills - moments * boot / kills;
        let plan = Plan { shape: &shape, moments, until_found: false };
        let name =
            format!("boot {} of {kills}, {mode}, {cpus} CPUs, {tlb}, {}", boot + 1, thread_mode.as_str());
        let tally = watch_or_panic(&ctx, &plan, &name);
        tally.show(begun);
        tally.must_have_kept_all(nodes);
        all.add(tally);
    }
    println!("in all:");
    all.show(begun);
    assert_eq!((all.moments, all.kills), (moments, kills));
}

#[test]
#[ignore = "minutes: make test-promises-all"]
fn each_break_is_found() {
    let ctx = context();
    let mut missed = Vec::new();
    let only = std::env::var("CEASEFIRE_PROMISES_BREAKS").ok();
    let chosen: Vec<&str> = only.as_deref().map_or(BREAKS.to_vec(), |names| names.split(',').collect());
    for name in chosen {
        let begun = Instant::now();
        // The kernel may warn, and the disk is still to tell.
        let words = format!("batch_mutant={name} panic_on_warn=0");
        let shape = Shape { words, seed: number("SEED", SEED), ..Shape::default() };
        let plan = Plan { shape: &shape, moments: BREAK_MOMENTS, until_found: true };
        let tally = watch_or_panic(&ctx, &plan, name);
        println!("{name}:");
        tally.show(begun);
        if tally.violations.is_empty() && tally.complaint.is_none() {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
