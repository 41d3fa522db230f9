// SPDX-License-Identifier: GPL-2.0-only
//! From options to attached probes, and from their maps to snapshots and events.

use crate::ended::Watcher;
use crate::kernel::{self, Functions};
use crate::overhead::Timer;
use crate::stacks::Namer;
use crate::wire::{self, Settings};
use crate::{errors, maps};
use ceasefire_base::{Error, Result};
use ceasefire_watch_model::{
    ByTargets, Cause, Class, ClassCoverage, Coverage, Ended, Histogram, Kind, Latencies, Lost, Maximum, Pair,
    Sender, Shootdown, Site, Snapshot, Tally, Task, Victim, WhyFull, SCHEMA,
};
use libbpf_rs::{
    Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, ProgramInput, RingBuffer, RingBufferBuilder,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

const PROBES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
const PROBES_WITHOUT_BTF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch-nobtf.bpf.o"));

/// Tracepoints in the order they are attached: receivers first, so that no shootdown lacks its answers.
const PROGRAMS: [(&str, &str); 4] = [
    ("entered", "csd_function_entry"),
    ("left", "csd_function_exit"),
    ("announced", "tlb_flush"),
    ("queued", "csd_queue_cpu"),
];

/// Until what has begun is over on any machine that runs: UNCLOSED_NS_MAX of the probes, and some.
const SETTLED: Duration = Duration::from_millis(60);
/// Until a target that was not seen to answer is taken for one whose probes did not run: Linux itself complains then
/// (CSD_LOCK_TIMEOUT).
const UNANSWERED_MAX: Duration = Duration::from_secs(5);

/// Which senders are described; all are counted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub comm: Option<String>,
    /// The initiator waited at least this long.
    pub wait_ns_min: u64,
    pub tgid: Option<u32>,
    pub tid: Option<u32>,
    pub cpu: Option<u32>,
    pub cgroup: Option<Cgroup>,
}

/// One of the unified hierarchy, and what is below it.
#[derive(Debug, Clone, Copy)]
pub struct Cgroup {
    pub id: u64,
    /// Steps from the root.
    pub level: u32,
}

/// Shootdowns are sent one by one.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventOptions {
    /// Only those in which one victim lost at least this much.
    pub handler_ns_min: u64,
}

/// What is looked at; each costs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The receiving side: delivery, handler, wait, victims.
    pub latencies: bool,
    pub senders: bool,
    pub kernel_stacks: bool,
    pub user_stacks: bool,
    pub histograms: bool,
    pub pairs: bool,
    pub events: Option<EventOptions>,
    pub filter: Filter,
    /// Let the kernel time the probes, part of the time.
    pub timing: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            latencies: true,
            senders: true,
            kernel_stacks: true,
            user_stacks: false,
            histograms: true,
            pairs: true,
            events: None,
            filter: Filter::default(),
            timing: true,
        }
    }
}

/// Rows of senders and of victims; twice as many pairs.
const ROWS: u32 = 16_384;

struct Tables {
    totals: MapHandle,
    losses: MapHandle,
    senders: MapHandle,
    sites: MapHandle,
    victims: MapHandle,
    pairs: MapHandle,
    by_targets: MapHandle,
}

/// Watches from its making until it is dropped.
pub struct Observer {
    // Dropped first: nothing runs while the rest goes away.
    _links: Vec<Link>,
    ring: Option<RingBuffer<'static>>,
    arrived: Rc<RefCell<Vec<wire::Event>>>,
    tables: Tables,
    namer: Namer,
    timer: Option<Timer>,
    object: Object,
    options: Options,
    has_csd: bool,
    has_announcements: bool,
    cpus: u32,
    release: String,
    blind: Vec<String>,
    /// Naming a place compares many frames; there are few places.
    places: HashMap<Vec<u8>, Place>,
    ended: Watcher,
}

impl Observer {
    pub fn start(mut options: Options) -> Result<Observer> {
        if !kernel::is_root() && !may_load() {
            return Err(errors::rights("load the probes"));
        }
        give_back_early();
        let symbols = kernel::symbols()?;
        let functions = kernel::functions(&symbols)?;
        let has = |name: &str| kernel::has_tracepoint(&symbols, name);
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
            blind.push(
                "none of the functions that flush kernel ranges was found: none of those is seen".into(),
            );
        }
        if !has_csd {
            blind.push("why everything is flushed is not known without csd tracepoints".into());
        }
        let has_btf = kernel::has_btf();
        if !has_btf {
            blind.push(
                "no BTF (CONFIG_DEBUG_INFO_BTF): no addresses, pages, advices; why full is not known".into(),
            );
        }
        options.events = options.events.filter(|_| options.latencies);
        let settings = settings(&options, &functions, has_csd);
        let object = load(if has_btf { PROBES } else { PROBES_WITHOUT_BTF }, &settings, |name| {
            has(name) && (options.latencies || name != "csd_function_exit")
        })?;
        let tables = Tables {
            totals: table(&object, "totals")?,
            losses: table(&object, "losses")?,
            senders: table(&object, "senders")?,
            sites: table(&object, "sites")?,
            victims: table(&object, "victims")?,
            pairs: table(&object, "pairs")?,
            by_targets: table(&object, "by_targets")?,
        };
        let namer = Namer::new(symbols, table(&object, "kernel_stacks")?, table(&object, "user_stacks")?);
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let ring = match options.events {
            Some(_) => Some(ring(&table(&object, "events")?, &arrived)?),
            None => None,
        };
        let links = attach(&object)?;
        Ok(Observer {
            _links: links,
            ring,
            arrived,
            tables,
            namer,
            timer: options.timing.then(Timer::new),
            object,
            options,
            has_csd,
            has_announcements,
            cpus: settings.cpus,
            release: kernel::release(),
            blind,
            places: HashMap::new(),
            ended: Watcher::new(),
        })
    }

    /// Everything since the start. The difference of two is a window.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.sweep()?;
        let coverage = self.coverage()?;
        let sites = self.sites()?;
        let senders = self.senders()?;
        let stacks = self.namer.known.used_by(&sites, &senders);
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
            victims: self.victims()?,
            pairs: self.pairs()?,
            by_targets: self.by_targets()?,
            stacks,
            coverage,
        })
    }

    /// Waits up to `timeout` for events and hands them on, oldest first.
    pub fn poll(&mut self, timeout: Duration, mut take: impl FnMut(Shootdown)) -> Result<()> {
        if let Some(timer) = &mut self.timer {
            timer.tick();
        }
        let Some(ring) = &self.ring else {
            std::thread::sleep(timeout);
            return Ok(());
        };
        self.sweep()?;
        let code = ring.poll_raw(timeout);
        if code < 0 && code != -libc::EINTR {
            return Err(Error::failed(format!("the events cannot be read: error {}", -code))
                .remedy("`ceasefire watch check` says what works here"));
        }
        let mut events = self.arrived.take();
        events.sort_by_key(|event| event.start_ns);
        for event in &events {
            take(self.shootdown(event)?);
        }
        Ok(())
    }

    /// Victims, times and single shootdowns: what the receiving side tells.
    pub fn sees_receivers(&self) -> bool {
        self.options.latencies
    }

    /// The clock of `start_ns` and `taken_ns`.
    pub fn now_ns(&self) -> u64 {
        kernel::monotonic_ns()
    }

    /// The stacks that events and snapshots refer to.
    pub fn stacks(&self) -> &ceasefire_watch_model::Stacks {
        &self.namer.known
    }

    /// Waits until what has begun is over, and adds it up: the next snapshot describes all that it counts.
    pub fn settle(&self) -> Result<()> {
        std::thread::sleep(SETTLED);
        self.sweep_unanswered(SETTLED)
    }

    /// Adds up finished shootdowns that no later one of their CPU has.
    fn sweep(&self) -> Result<()> {
        self.sweep_unanswered(UNANSWERED_MAX)
    }

    fn sweep_unanswered(&self, unanswered_max: Duration) -> Result<()> {
        let program = self.object.progs_mut().find(|program| program.name() == OsStr::new("sweep"));
        let Some(program) = program else { return Ok(()) };
        let context = wire::SweepContext { unanswered_ns_max: unanswered_max.as_nanos() as u64 };
        let mut context = wire::bytes_of(&context);
        program
            .test_run(ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() })
            .map_err(|error| errors::refused("sweep the probes' tables", &error))?;
        Ok(())
    }

    fn coverage(&self) -> Result<Coverage> {
        // The row first: what is counted between the two readings must not look lost.
        let tlb = kernel::tlb_row();
        let mut classes = Vec::new();
        for (index, class) in Class::ALL.into_iter().enumerate() {
            let totals: Vec<wire::Total> = maps::per_cpu(&self.tables.totals, index as u32)?;
            let sum = |field: fn(&wire::Total) -> u64| totals.iter().map(field).sum::<u64>();
            let (kernel, source) = match class {
                Class::User if !self.has_csd => (None, "targets cannot be counted without csd:csd_queue_cpu"),
                Class::User => (tlb, "TLB row of /proc/interrupts"),
                Class::KernelRange => (None, "the kernel keeps no counter of these"),
                Class::Own => (None, "part of the TLB row, left out of every table"),
            };
            classes.push(ClassCoverage {
                class,
                requests: (class == Class::User && self.has_announcements)
                    .then(|| sum(|total| total.requests)),
                shootdowns: sum(|total| total.shootdowns),
                queued: sum(|total| total.queued),
                handled: self.options.latencies.then(|| sum(|total| total.handled)),
                filtered: sum(|total| total.filtered),
                kernel,
                source: source.to_string(),
            });
        }
        let mut lost = [0u64; wire::LOST_KINDS];
        for (kind, count) in lost.iter_mut().enumerate() {
            *count = maps::per_cpu::<u64>(&self.tables.losses, kind as u32)?.iter().sum();
        }
        let [slots, events, stacks, rows, answers] = lost;
        let programs: Vec<_> = self.object.progs().collect();
        let named =
            programs.iter().map(|program| (program.name().to_string_lossy().into_owned(), program.as_fd()));
        Ok(Coverage {
            classes,
            lost: Lost { slots, events, stacks, rows, answers },
            overhead: self.timer.as_ref().map(|timer| timer.read(named)).unwrap_or_default(),
            blind: self.blind.clone(),
        })
    }

    fn place(&mut self, key: &wire::SiteKey) -> Result<Place> {
        let bytes = wire::bytes_of(key);
        if let Some(place) = self.places.get(&bytes) {
            return Ok(place.clone());
        }
        let class = class(key.class);
        let kind = kind(key.kind);
        let syscall = (key.syscall != wire::NO_SYSCALL).then_some(key.syscall);
        let kernel_stack = u32::try_from(key.kernel_stack).ok();
        let frames = match kernel_stack {
            Some(id) => self.namer.kernel(id)?,
            None => &[],
        };
        let cause = Cause::classify(class, frames, syscall, key.argument);
        let why_full = WhyFull::of(class, kind, &cause);
        let place = Place { class, kind, syscall, kernel_stack, cause, why_full };
        self.places.insert(bytes, place.clone());
        Ok(place)
    }

    fn sites(&mut self) -> Result<Vec<Site>> {
        let rows = maps::rows::<wire::SiteKey, wire::Site>(&self.tables.sites)?;
        let site = |(key, site): &(wire::SiteKey, wire::Site)| {
            let place = self.place(key)?;
            Ok(Site {
                class: place.class,
                cause: place.cause,
                kind: place.kind,
                why_full: place.why_full,
                freed_tables: key.freed_tables != 0,
                kernel_stack: place.kernel_stack,
                syscall: place.syscall,
                argument: key.argument,
                tally: tally(&site.tally),
                delivery_ns: site.delivery_ns,
                handler_ns: site.handler_ns,
                pages: Histogram::new(&site.pages),
                targets: Histogram::new(&site.targets),
                wait: Histogram::new(&site.wait),
                delivery: Histogram::new(&site.delivery),
                handler: Histogram::new(&site.handler),
            })
        };
        rows.iter().map(site).collect()
    }

    fn senders(&mut self) -> Result<Vec<Sender>> {
        let rows = maps::rows::<wire::SenderKey, wire::Sender>(&self.tables.senders)?;
        rows.iter().map(|(key, sender)| self.sender(key, sender)).collect()
    }

    fn sender(&mut self, key: &wire::SenderKey, sender: &wire::Sender) -> Result<Sender> {
        let place = self.place(&key.site)?;
        let user_stack = u32::try_from(key.user_stack).ok();
        if let Some(id) = user_stack {
            self.namer.user(id, key.tgid)?;
        }
        Ok(Sender {
            task: Task {
                tgid: key.tgid,
                tid: key.tid,
                comm: wire::comm(&sender.comm),
                cgroup: sender.cgroup,
            },
            cpu: key.cpu,
            class: place.class,
            cause: place.cause,
            kind: place.kind,
            freed_tables: key.site.freed_tables != 0,
            kernel_stack: place.kernel_stack,
            user_stack,
            syscall: place.syscall,
            argument: key.site.argument,
            tally: tally(&sender.tally),
        })
    }

    fn victims(&self) -> Result<Vec<Victim>> {
        let rows = maps::rows::<wire::VictimKey, wire::Victim>(&self.tables.victims)?;
        Ok(rows.iter().map(|(key, row)| victim(key, row)).collect())
    }

    fn pairs(&self) -> Result<Vec<Pair>> {
        let rows = maps::rows::<wire::PairKey, wire::Pair>(&self.tables.pairs)?;
        Ok(rows.iter().map(|(key, row)| pair(key, row)).collect())
    }

    /// Rows of threads that have ended leave the tables, once there are many: no later snapshot has them. Call it often.
    pub fn ended(&mut self) -> Result<Option<Ended>> {
        if !self.ended.is_due() {
            return Ok(None);
        }
        self.sweep()?;
        let senders = maps::rows::<wire::SenderKey, wire::Sender>(&self.tables.senders)?;
        let victims = maps::rows::<wire::VictimKey, wire::Victim>(&self.tables.victims)?;
        let pairs = maps::rows::<wire::PairKey, wire::Pair>(&self.tables.pairs)?;
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
            maps::remove(&self.tables.senders, key);
            rows.senders.push(self.sender(key, row)?);
        }
        for (key, row) in victims.iter().filter(|(key, _)| threads.contains(&key.tid)) {
            maps::remove(&self.tables.victims, key);
            rows.victims.push(victim(key, row));
        }
        let has_ended =
            |key: &wire::PairKey| threads.contains(&key.sender_tid) || threads.contains(&key.victim_tid);
        for (key, row) in pairs.iter().filter(|(key, _)| has_ended(key)) {
            maps::remove(&self.tables.pairs, key);
            rows.pairs.push(pair(key, row));
        }
        rows.stacks = self.namer.known.used_by(&[], &rows.senders);
        Ok((!threads.is_empty()).then_some(Ended { threads, rows }))
    }

    /// Of user stacks, while their processes live.
    pub fn name_stacks(&mut self) -> Result<()> {
        self.sweep()?;
        self.senders().map(drop)
    }

    fn by_targets(&self) -> Result<Vec<ByTargets>> {
        let rows = maps::rows::<wire::TargetsKey, wire::Buckets>(&self.tables.by_targets)?;
        let mut rows: Vec<ByTargets> = rows
            .iter()
            .map(|(key, histogram)| {
                let (targets_min, targets_max) = Histogram::bounds(key.targets_log2 as usize);
                let wait = Histogram::new(&histogram.buckets);
                ByTargets { class: class(key.class as u8), targets_min, targets_max, wait }
            })
            .collect();
        rows.sort_by_key(|row| (row.class, row.targets_min));
        Ok(rows)
    }

    fn shootdown(&mut self, event: &wire::Event) -> Result<Shootdown> {
        let key = wire::SiteKey {
            kernel_stack: event.kernel_stack,
            syscall: event.syscall,
            argument: event.argument,
            class: event.class,
            kind: event.kind,
            freed_tables: event.freed_tables,
            pad: 0,
        };
        let place = self.place(&key)?;
        let user_stack = u32::try_from(event.user_stack).ok();
        if let Some(id) = user_stack {
            self.namer.user(id, event.tgid)?;
        }
        let is_ranged = place.kind == Kind::Ranged;
        let slowest = Task {
            tgid: 0,
            tid: event.slowest_tid,
            comm: wire::comm(&event.slowest_comm),
            ..Task::default()
        };
        Ok(Shootdown {
            start_ns: event.start_ns,
            class: place.class,
            cause: place.cause,
            cpu: event.cpu,
            task: Task {
                tgid: event.tgid,
                tid: event.tid,
                comm: wire::comm(&event.comm),
                cgroup: event.cgroup,
            },
            kernel_stack: place.kernel_stack,
            user_stack,
            // Where only the number of pages is known.
            address: (is_ranged && event.address != 0).then_some(event.address),
            pages: is_ranged.then_some(event.pages),
            entries: is_ranged.then(|| event.pages.saturating_mul(4096) >> event.stride_shift.min(63)),
            kind: place.kind,
            why_full: place.why_full,
            freed_tables: event.freed_tables != 0,
            targets: event.targets,
            target_cpus: (0..wire::MASK_WORDS as u32 * 64)
                .filter(|cpu| event.mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
                .collect(),
            latencies: (event.answered > 0).then_some(Latencies {
                delivery_ns_max: event.delivery_ns_max,
                handler_ns_max: event.handler_ns_max,
                wait_ns: event.wait_ns,
            }),
            slowest: (event.answered > 0).then_some((event.slowest_cpu, slowest)),
        })
    }
}

#[derive(Clone)]
struct Place {
    class: Class,
    kind: Kind,
    syscall: Option<u16>,
    kernel_stack: Option<u32>,
    cause: Cause,
    why_full: Option<WhyFull>,
}

fn class(number: u8) -> Class {
    Class::ALL.get(number as usize).copied().unwrap_or(Class::Own)
}

fn kind(number: u8) -> Kind {
    Kind::ALL.get(number as usize).copied().unwrap_or(Kind::Unknown)
}

fn victim(key: &wire::VictimKey, victim: &wire::Victim) -> Victim {
    Victim {
        cpu: key.cpu,
        task: Task { tgid: victim.tgid, tid: key.tid, comm: wire::comm(&victim.comm), cgroup: victim.cgroup },
        class: class(key.class as u8),
        interruptions: victim.interruptions,
        delivery_ns: victim.delivery_ns,
        stolen_ns: victim.stolen_ns,
        stolen_ns_max: victim.stolen_ns_max,
        stolen_ns_max_is: Maximum::Exact,
        stolen: Histogram::new(&victim.stolen),
    }
}

fn pair(key: &wire::PairKey, pair: &wire::Pair) -> Pair {
    Pair {
        class: class(key.class as u8),
        sender_tid: key.sender_tid,
        sender_cpu: key.sender_cpu,
        victim_tid: key.victim_tid,
        victim_cpu: key.victim_cpu,
        interruptions: pair.interruptions,
        stolen_ns: pair.stolen_ns,
        stolen_ns_max: pair.stolen_ns_max,
        stolen_ns_max_is: Maximum::Exact,
    }
}

fn tally(tally: &wire::Tally) -> Tally {
    Tally {
        shootdowns: tally.shootdowns,
        targets: tally.targets,
        pages: tally.pages,
        entries: tally.entries,
        wait_ns: tally.wait_ns,
        wait_ns_max: tally.wait_ns_max,
        wait_ns_max_is: Maximum::Exact,
    }
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

/// CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, for a user who is not root.
fn may_load() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const NEEDED: u64 = 1 << 38 | 1 << 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    held & SYS_ADMIN != 0 || held & NEEDED == NEEDED
}

fn settings(options: &Options, functions: &Functions, has_csd: bool) -> Settings {
    let events = options.events.unwrap_or_default();
    Settings {
        user_functions: functions.user,
        kernel_functions: functions.kernel,
        wait_ns_min: options.filter.wait_ns_min,
        event_handler_ns_min: events.handler_ns_min,
        only_comm: words(options.filter.comm.as_deref().unwrap_or_default()),
        only_cgroup: options.filter.cgroup.map_or(0, |cgroup| cgroup.id),
        only_tgid: options.filter.tgid.unwrap_or(0),
        only_tid: options.filter.tid.unwrap_or(0),
        only_cpu: options.filter.cpu.map_or(-1, |cpu| cpu as i32),
        own_tgid: std::process::id(),
        cpus: kernel::cpus(),
        has_csd: has_csd.into(),
        want_kernel_stacks: options.kernel_stacks.into(),
        want_user_stacks: options.user_stacks.into(),
        want_latency: options.latencies.into(),
        want_senders: options.senders.into(),
        want_histograms: options.histograms.into(),
        want_pairs: options.pairs.into(),
        want_events: options.events.is_some().into(),
        only_cgroup_level: options.filter.cgroup.map_or(0, |cgroup| cgroup.level),
    }
}

/// As the kernel keeps a name: cut to 15 bytes.
fn words(comm: &str) -> [u64; wire::COMM_BYTES / 8] {
    let mut bytes = [0u8; wire::COMM_BYTES];
    bytes.iter_mut().take(wire::COMM_BYTES - 1).zip(comm.bytes()).for_each(|(to, from)| *to = from);
    let mut words = [0; wire::COMM_BYTES / 8];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = chunk.try_into().map_or(0, u64::from_ne_bytes);
    }
    words
}

fn load(code: &[u8], settings: &Settings, is_wanted: impl Fn(&str) -> bool) -> Result<Object> {
    // What libbpf prints is for its developers; CEASEFIRE_DEBUG shows it.
    if std::env::var_os("CEASEFIRE_DEBUG").is_none() {
        libbpf_rs::set_print(None);
    }
    let refused = |error: &libbpf_rs::Error| errors::refused("load the probes", error);
    let mut open = ObjectBuilder::default().open_memory(code).map_err(|error| refused(&error))?;
    prepare(&mut open, settings).map_err(|error| refused(&error))?;
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let tracepoint = PROGRAMS.iter().find(|(program, _)| *program == name);
        program.set_autoload(tracepoint.map_or(true, |(_, tracepoint)| is_wanted(tracepoint)));
    }
    open.load().map_err(|error| refused(&error))
}

/// Settings, and tables that are sized by this machine or not needed.
fn prepare(open: &mut OpenObject, settings: &Settings) -> libbpf_rs::Result<()> {
    let cpus = settings.cpus;
    let rows = |is_wanted: u8, count: u32| if is_wanted == 1 { count } else { 1 };
    let sizes = HashMap::from([
        ("turns", cpus),
        ("slots", cpus * wire::SLOTS),
        ("answers", rows(settings.want_latency, cpus * wire::SLOTS * cpus)),
        ("initiators", rows(settings.want_latency, (cpus * cpus).max(16))),
        ("senders", rows(settings.want_senders, ROWS)),
        ("victims", rows(settings.want_latency, ROWS)),
        ("pairs", rows(settings.want_pairs, 2 * ROWS)),
        ("user_stacks", rows(settings.want_user_stacks, 16_384)),
        ("events", if settings.want_events == 1 { 4 << 20 } else { 4096 }),
    ]);
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == ".rodata.settings" {
            map.set_initial_value(&wire::bytes_of(settings))?;
        }
        if let Some(rows) = sizes.get(name.as_str()) {
            map.set_max_entries(*rows)?;
        }
    }
    Ok(())
}

fn table(object: &Object, name: &str) -> Result<MapHandle> {
    let missing = || Error::failed(format!("the probes have no table {name}")).remedy("make watch");
    let map = object.maps().find(|map| map.name() == OsStr::new(name)).ok_or_else(missing)?;
    MapHandle::try_from(&map).map_err(|error| errors::refused("open the probes' tables", &error))
}

fn ring(map: &MapHandle, arrived: &Rc<RefCell<Vec<wire::Event>>>) -> Result<RingBuffer<'static>> {
    let arrived = Rc::clone(arrived);
    let mut builder = RingBufferBuilder::new();
    let refused = |error: libbpf_rs::Error| errors::refused("open the ring of events", &error);
    let keep = move |bytes: &[u8]| {
        arrived.borrow_mut().extend(wire::read::<wire::Event>(bytes));
        0
    };
    builder.add(map, keep).map_err(refused)?;
    builder.build().map_err(refused)
}

fn attach(object: &Object) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for (name, tracepoint) in PROGRAMS {
        let program = object.progs_mut().find(|program| program.name() == OsStr::new(name));
        let Some(program) = program.filter(|program| program.autoload()) else { continue };
        let link = program
            .attach_raw_tracepoint(tracepoint)
            .map_err(|error| errors::refused(&format!("attach to the tracepoint {tracepoint}"), &error))?;
        links.push(link);
    }
    Ok(links)
}
