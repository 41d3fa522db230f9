// SPDX-License-Identifier: GPL-2.0-only
//! From options to a window: starts the probes, takes snapshots and events from them, lets ended threads go.

use crate::describe::{self, Describer};
use crate::ended::Watcher;
use crate::kernel::{self, Functions};
use crate::moments::Moments;
use crate::options::Options;
use crate::overhead::{own_alone, Timer};
use crate::probes::{Probes, CALL_INTERRUPTS, ROWS};
use crate::stacks::Namer;
use crate::{errors, maps, wire};
use ceasefire_base::{Error, Result};
use ceasefire_watch_model::symbols::Symbols;
use ceasefire_watch_model::{
    Bursts, Cause, Class, ClassCoverage, Coverage, Ended, InterruptCoverage, Sender, Shootdown, Snapshot,
    Stacks, SCHEMA,
};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Until what has begun is over on any machine that runs: UNCLOSED_NS_MAX of the probes, and some.
const SETTLED: Duration = Duration::from_millis(60);
/// Until a target that was not seen to answer is taken for one whose probes did not run: Linux itself complains then
/// (CSD_LOCK_TIMEOUT).
const UNANSWERED_MAX: Duration = Duration::from_secs(5);

/// Watches from its making until it is dropped.
pub struct Observer {
    probes: Probes,
    describer: Describer,
    timer: Option<Timer>,
    options: Options,
    sight: Sight,
    cpus: u32,
    release: String,
    ended: Watcher,
    moments: Moments,
}

/// What this kernel lets us see.
struct Sight {
    has_csd: bool,
    has_announcements: bool,
    has_btf: bool,
    /// Call function interrupts can be counted, and are.
    has_interrupts: bool,
    blind: Vec<String>,
}

impl Observer {
    pub fn start(mut options: Options) -> Result<Observer> {
        if !errors::is_root() && !errors::may_load() {
            return Err(errors::rights("load the probes"));
        }
        give_back_early();
        let symbols = kernel::symbols()?;
        let functions = kernel::functions(&symbols)?;
        let sight = look(&symbols, &functions, &mut options)?;
        let has = |name: &str| kernel::has_tracepoint(&symbols, name);
        let probes = Probes::attach(&options, &functions, sight.has_btf, has)?;
        let (kernel_stacks, user_stacks) = (probes.table("kernel_stacks")?, probes.table("user_stacks")?);
        let namer = Namer::new(symbols, kernel_stacks, user_stacks, options.inlined);
        Ok(Observer {
            probes,
            describer: Describer::new(namer),
            timer: options.timing.then(Timer::new),
            options,
            sight,
            cpus: kernel::cpus(),
            release: kernel::release(),
            ended: Watcher::new(),
            moments: Moments::default(),
        })
    }

    /// Everything since the start. The difference of two is a window.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.sweep()?;
        let coverage = self.coverage()?;
        let sites = self.describer.sites(&self.probes.sites)?;
        let senders = self.senders()?;
        let stacks = self.describer.namer.known.used_by(&sites, &senders);
        let victims = maps::rows::<wire::VictimKey, wire::Victim>(&self.probes.victims)?;
        let pairs = maps::rows::<wire::PairKey, wire::Pair>(&self.probes.pairs)?;
        Ok(Snapshot {
            schema: SCHEMA.to_string(),
            taken_ns: kernel::monotonic_ns(),
            window_ns: 0,
            wall_s: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            kernel: self.release.clone(),
            cpus: self.cpus,
            has_latencies: self.options.latencies,
            sites,
            senders,
            victims: victims.iter().map(|(key, row)| describe::victim(key, row)).collect(),
            pairs: pairs.iter().map(|(key, row)| describe::pair(key, row)).collect(),
            by_targets: describe::by_targets(&self.probes.by_targets)?,
            bursts: Bursts::default(),
            stacks,
            coverage,
        })
    }

    /// Waits up to `timeout` for events and hands them on, oldest first.
    pub fn poll(&mut self, timeout: Duration, mut take: impl FnMut(Shootdown)) -> Result<()> {
        if let Some(timer) = &mut self.timer {
            timer.tick();
        }
        if self.moments.is_due(kernel::monotonic_ns()) {
            self.look_at_moments()?;
        }
        if !self.probes.has_events() {
            std::thread::sleep(timeout);
            return Ok(());
        }
        self.sweep()?;
        for event in &self.probes.events(timeout)? {
            take(self.describer.shootdown(event)?);
        }
        Ok(())
    }

    /// Flush requests since the start by cause, if the options ask for them: those that a process with threads has made of
    /// its own pages. The filters choose whose. One that finds nobody else to ask counts, too, so that the figure does not
    /// hang on where threads happened to run. Kernel ranges are not among them.
    pub fn requests(&mut self) -> Result<BTreeMap<Cause, u64>> {
        let mut by_cause = BTreeMap::new();
        if self.options.requests {
            for (key, count) in maps::rows::<wire::SiteKey, u64>(&self.probes.requests)? {
                *by_cause.entry(self.describer.cause(&key)?).or_insert(0) += count;
            }
        }
        Ok(by_cause)
    }

    /// Call function interrupts of these CPUs in which something ran whose sender was seen; none where they are not looked at.
    pub fn interrupts_of(&self, cpus: &[u32]) -> Result<Option<u64>> {
        if !self.sight.has_interrupts {
            return Ok(None);
        }
        let told = self.probes.interrupts()?;
        Ok(Some(cpus.iter().filter_map(|cpu| told.get(*cpu as usize)).sum()))
    }

    /// Victims, times and single shootdowns: what the receiving side tells.
    pub fn sees_receivers(&self) -> bool {
        self.options.latencies
    }

    /// The worst moments since this was asked last.
    pub fn bursts(&mut self) -> Result<Bursts> {
        self.look_at_moments()?;
        Ok(self.moments.drain())
    }

    fn look_at_moments(&mut self) -> Result<()> {
        if self.options.latencies {
            // The clock first: what comes meanwhile is not complete.
            let now_ns = kernel::monotonic_ns();
            self.moments.look(&self.probes.moments()?, now_ns);
        }
        Ok(())
    }

    /// The clock of `start_ns` and `taken_ns`.
    pub fn now_ns(&self) -> u64 {
        kernel::monotonic_ns()
    }

    /// The stacks that events and snapshots refer to.
    pub fn stacks(&self) -> &Stacks {
        &self.describer.namer.known
    }

    /// Waits until what has begun is over, and adds it up: the next snapshot describes all that it counts.
    pub fn settle(&self) -> Result<()> {
        std::thread::sleep(SETTLED);
        self.probes.sweep(SETTLED)
    }

    fn sweep(&self) -> Result<()> {
        self.probes.sweep(UNANSWERED_MAX)
    }

    fn coverage(&self) -> Result<Coverage> {
        // The rows first: what is counted between the two readings must not look lost.
        let (tlb, cal) = kernel::rows();
        let mut classes = Vec::new();
        for (index, class) in Class::ALL.into_iter().enumerate() {
            let totals = self.probes.totals(index as u32)?;
            let sum = |field: fn(&wire::Total) -> u64| totals.iter().map(field).sum::<u64>();
            if class == Class::CrossCall && !self.options.calls {
                continue;
            }
            let (kernel, source) = match class {
                Class::User if !self.sight.has_csd => {
                    (None, "targets cannot be counted without csd:csd_queue_cpu")
                }
                Class::User => (tlb, "TLB row of /proc/interrupts"),
                Class::KernelRange => (None, "the kernel keeps no counter of these"),
                Class::Own => (None, "part of the TLB row, left out of every table"),
                Class::CrossCall => (None, "several may share an interrupt"),
            };
            classes.push(ClassCoverage {
                class,
                requests: (class == Class::User && self.sight.has_announcements)
                    .then(|| sum(|total| total.requests)),
                shootdowns: sum(|total| total.shootdowns),
                queued: sum(|total| total.queued),
                handled: self.options.latencies.then(|| sum(|total| total.handled)),
                filtered: sum(|total| total.filtered),
                kernel,
                source: source.to_string(),
            });
        }
        let overhead = self.timer.as_ref().map(|timer| self.probes.programs(|programs| timer.read(programs)));
        let interrupts = match self.sight.has_interrupts {
            true => Some(InterruptCoverage { seen: self.probes.interrupts()?.iter().sum(), kernel: cal }),
            false => None,
        };
        Ok(Coverage {
            classes,
            interrupts,
            lost: self.probes.lost()?,
            overhead: overhead.unwrap_or_else(own_alone),
            blind: self.sight.blind.clone(),
        })
    }

    fn senders(&mut self) -> Result<Vec<Sender>> {
        let rows = maps::rows::<wire::SenderKey, wire::Sender>(&self.probes.senders)?;
        let senders: Result<Vec<Sender>> =
            rows.iter().map(|(key, sender)| self.describer.sender(key, sender)).collect();
        senders.map(describe::merged)
    }

    /// Rows of threads that have ended leave the tables, once there are many: no later snapshot has them. Call it often.
    pub fn ended(&mut self) -> Result<Option<Ended>> {
        if !self.ended.is_due() {
            return Ok(None);
        }
        self.sweep()?;
        let senders = maps::rows::<wire::SenderKey, wire::Sender>(&self.probes.senders)?;
        let victims = maps::rows::<wire::VictimKey, wire::Victim>(&self.probes.victims)?;
        let pairs = maps::rows::<wire::PairKey, wire::Pair>(&self.probes.pairs)?;
        let longest = senders.len().max(victims.len()).max(pairs.len() / 2);
        if self.ended.has_room(longest) {
            return Ok(None);
        }
        let sent = senders.iter().map(|(key, row)| (key.tid, row.tally.shootdowns));
        let lost = victims.iter().map(|(key, row)| (key.tid, row.interruptions));
        let both = pairs
            .iter()
            .flat_map(|(key, row)| [key.sender_tid, key.victim_tid].map(|tid| (tid, row.interruptions)));
        let counts: Vec<(u32, u64)> = sent.chain(lost).chain(both).collect();
        let threads = self.ended.look(&counts, longest, ROWS as usize);
        let mut rows = Snapshot::default();
        for (key, row) in senders.iter().filter(|(key, _)| threads.contains(&key.tid)) {
            maps::remove(&self.probes.senders, key);
            rows.senders.push(self.describer.sender(key, row)?);
        }
        rows.senders = describe::merged(rows.senders);
        for (key, row) in victims.iter().filter(|(key, _)| threads.contains(&key.tid)) {
            maps::remove(&self.probes.victims, key);
            rows.victims.push(describe::victim(key, row));
        }
        let has_ended =
            |key: &wire::PairKey| threads.contains(&key.sender_tid) || threads.contains(&key.victim_tid);
        for (key, row) in pairs.iter().filter(|(key, _)| has_ended(key)) {
            maps::remove(&self.probes.pairs, key);
            rows.pairs.push(describe::pair(key, row));
        }
        rows.stacks = self.describer.namer.known.used_by(&[], &rows.senders);
        Ok((!threads.is_empty()).then_some(Ended { threads, rows }))
    }

    /// Of user stacks, while their processes live.
    pub fn name_stacks(&mut self) -> Result<()> {
        self.sweep()?;
        self.senders().map(drop)
    }
}

fn look(symbols: &Symbols, functions: &Functions, options: &mut Options) -> Result<Sight> {
    let has = |name: &str| kernel::has_tracepoint(symbols, name);
    let has_csd = has("csd_queue_cpu");
    let has_receivers = has_csd && has("csd_function_entry") && has("csd_function_exit");
    let has_announcements = has("tlb_flush");
    if !has_csd && !has_announcements {
        return Err(Error::skip(
            "this kernel has none of the tracepoints tlb:tlb_flush and csd:csd_queue_cpu",
        )
        .remedy(
            "a kernel built with CONFIG_TRACEPOINTS (any distribution's) has the first, 6.5 the second",
        ));
    }
    let mut blind = kernel::blind_spots();
    if !has_receivers {
        blind.push("no csd tracepoints (Linux 6.5 has them): no targets, victims or times".into());
        options.latencies = false;
    }
    if !options.latencies && options.filter.wait_ns_min > 0 {
        blind.push("nobody's wait is seen, so the least wait that was asked for filters nothing".into());
    }
    if functions.kernel.iter().all(|address| *address == 0) {
        blind.push("none of the functions that flush kernel ranges was found: none of those is seen".into());
    }
    if !has_csd {
        blind.push("why everything is flushed is not known without csd tracepoints".into());
    }
    let has_btf = kernel::has_btf();
    if !has_btf {
        blind.push(
            "no BTF (CONFIG_DEBUG_INFO_BTF): no addresses, pages, advices; why full, and who waits for other calls, is not known".into(),
        );
    }
    options.events = options.events.filter(|_| options.latencies);
    options.calls &= has_csd && has("csd_function_entry");
    let has_interrupts = options.calls && CALL_INTERRUPTS.iter().all(|name| has(name));
    Ok(Sight { has_csd, has_announcements, has_btf, has_interrupts, blind })
}

/// Tables are read and dropped many times a minute. By default glibc serves the larger ones, too, from the heap once it has
/// seen them freed, where what stays between them keeps the rest from going back.
fn give_back_early() {
    #[cfg(target_env = "gnu")]
    // SAFETY: two settings of the allocator, each a number.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}
