// SPDX-License-Identifier: GPL-2.0-only
//! The probes in the kernel: loaded, attached, their tables at hand. They are gone when this is dropped.

use crate::kernel::{self, Functions};
use crate::options::Options;
use crate::wire::{self, Settings};
use crate::{errors, maps};
use ceasefire_base::{Error, Result};
use ceasefire_watch_model::Lost;
use libbpf_rs::{
    Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, ProgramInput, RingBuffer, RingBufferBuilder,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

const WITH_BTF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
const WITHOUT_BTF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch-nobtf.bpf.o"));

/// Tracepoints in the order they are attached: receivers first, so that no shootdown lacks its answers.
const PROGRAMS: [(&str, &str); 8] = [
    ("call_begun", WHOLE_CALLS[0]),
    ("call_ended", WHOLE_CALLS[1]),
    ("interrupted", CALL_INTERRUPTS[0]),
    ("interrupted_alone", CALL_INTERRUPTS[1]),
    ("entered", "csd_function_entry"),
    ("left", "csd_function_exit"),
    ("announced", "tlb_flush"),
    ("queued", "csd_queue_cpu"),
];

/// What the kernel's row CAL counts.
pub const CALL_INTERRUPTS: [&str; 2] = ["call_function_entry", "call_function_single_entry"];

/// Where system calls begin and end.
pub const WHOLE_CALLS: [&str; 2] = ["sys_enter", "sys_exit"];
/// Calls that may be under way at once, those of requests and stacks included.
const CALLS: u32 = 8192;
/// Rows of senders and of victims; twice as many pairs.
pub const ROWS: u32 = 16_384;

pub struct Probes {
    // Dropped first: nothing runs while the rest goes away.
    _links: Vec<Link>,
    ring: Option<RingBuffer<'static>>,
    arrived: Rc<RefCell<Vec<wire::Event>>>,
    object: Object,
    totals: MapHandle,
    losses: MapHandle,
    interrupts: MapHandle,
    irq_works: MapHandle,
    moments: MapHandle,
    pub senders: MapHandle,
    pub sites: MapHandle,
    pub requests: MapHandle,
    pub victims: MapHandle,
    pub pairs: MapHandle,
    pub by_targets: MapHandle,
}

impl Probes {
    /// `has` tells which tracepoints this kernel has.
    pub fn attach(
        options: &Options,
        functions: &Functions,
        has_btf: bool,
        has: impl Fn(&str) -> bool,
    ) -> Result<Probes> {
        let settings = settings(options, functions, has("csd_queue_cpu"));
        let object = load(if has_btf { WITH_BTF } else { WITHOUT_BTF }, &settings, |name| {
            let is_for_receivers = name == "csd_function_exit";
            let is_for_calls = CALL_INTERRUPTS.contains(&name);
            let is_for_whole_calls = WHOLE_CALLS.contains(&name);
            has(name)
                && (options.latencies || !is_for_receivers)
                && (options.calls || !is_for_calls)
                && (options.whole_calls || !is_for_whole_calls)
        })?;
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let ring = match options.events {
            Some(_) => Some(ring(&table(&object, "events")?, &arrived)?),
            None => None,
        };
        Ok(Probes {
            ring,
            arrived,
            totals: table(&object, "totals")?,
            losses: table(&object, "losses")?,
            interrupts: table(&object, "interrupts")?,
            irq_works: table(&object, "irq_works")?,
            moments: table(&object, "moments")?,
            senders: table(&object, "senders")?,
            sites: table(&object, "sites")?,
            requests: table(&object, "requests")?,
            victims: table(&object, "victims")?,
            pairs: table(&object, "pairs")?,
            by_targets: table(&object, "by_targets")?,
            _links: links(&object)?,
            object,
        })
    }

    pub fn table(&self, name: &str) -> Result<MapHandle> {
        table(&self.object, name)
    }

    pub fn has_events(&self) -> bool {
        self.ring.is_some()
    }

    /// Waits up to `timeout` for events; oldest first.
    pub fn events(&self, timeout: Duration) -> Result<Vec<wire::Event>> {
        let code = self.ring.as_ref().map_or(0, |ring| ring.poll_raw(timeout));
        if code < 0 && code != -libc::EINTR {
            return Err(Error::failed(format!("the events cannot be read: error {}", -code))
                .remedy("`ceasefire watch check` says what works here"));
        }
        let mut events = self.arrived.take();
        events.sort_by_key(|event| event.start_ns);
        Ok(events)
    }

    /// Adds up finished shootdowns that no later one of their CPU has. A target that was not seen to answer for so long is
    /// not waited for.
    pub fn sweep(&self, unanswered_max: Duration) -> Result<()> {
        let program = self.object.progs_mut().find(|program| program.name() == OsStr::new("sweep"));
        let Some(program) = program else { return Ok(()) };
        let context = wire::SweepContext { unanswered_ns_max: unanswered_max.as_nanos() as u64 };
        let mut context = wire::bytes_of(&context);
        program
            .test_run(ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() })
            .map_err(|error| errors::refused("sweep the probes' tables", &error))?;
        Ok(())
    }

    /// Of a class, by its number; each CPU's.
    pub fn totals(&self, class: u32) -> Result<Vec<wire::Total>> {
        maps::per_cpu(&self.totals, class)
    }

    /// Call function interrupts in which something ran that was told of, by CPU.
    pub fn interrupts(&self) -> Result<Vec<u64>> {
        let mut told = Vec::new();
        for (cpu, row) in maps::per_cpu::<wire::Interrupts>(&self.interrupts, 0)?.iter().enumerate() {
            // What the last one ran is looked at when the next one comes.
            let works = maps::one::<u64>(&self.irq_works, cpu as u32)?.unwrap_or(0);
            told.push(row.told + u64::from(row.is_open != 0 && works > 0));
        }
        Ok(told)
    }

    /// What happened in each 10 ms of the last seconds, by CPU.
    pub fn moments(&self) -> Result<Vec<wire::MomentsOfCpu>> {
        maps::per_cpu(&self.moments, 0)
    }

    pub fn lost(&self) -> Result<Lost> {
        let mut lost = [0u64; wire::LOST_KINDS];
        for (kind, count) in lost.iter_mut().enumerate() {
            *count = maps::per_cpu::<u64>(&self.losses, kind as u32)?.iter().sum();
        }
        let [slots, events, stacks, rows, answers] = lost;
        Ok(Lost { slots, events, stacks, rows, answers })
    }

    /// Hands on each program's name and descriptor.
    pub fn programs<T>(
        &self,
        take: impl FnOnce(&mut dyn Iterator<Item = (String, BorrowedFd<'_>)>) -> T,
    ) -> T {
        let programs: Vec<_> = self.object.progs().collect();
        let mut named =
            programs.iter().map(|program| (program.name().to_string_lossy().into_owned(), program.as_fd()));
        take(&mut named)
    }
}

fn settings(options: &Options, functions: &Functions, has_csd: bool) -> Settings {
    let events = options.events.unwrap_or_default();
    Settings {
        user_functions: functions.user,
        kernel_functions: functions.kernel,
        wakeup_function: functions.wakeup,
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
        want_requests: options.requests.into(),
        want_calls: options.calls.into(),
        want_whole_calls: options.whole_calls.into(),
        pad: 0,
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
        ("turns", cpus * wire::LANES),
        ("slots", cpus * wire::LANES * wire::SLOTS),
        ("answers", rows(settings.want_latency, cpus * wire::LANES * wire::SLOTS * cpus)),
        ("callers", rows(settings.want_latency & settings.want_calls as u8, CALLS.max(cpus * cpus))),
        ("irq_works", cpus),
        ("begun", rows(settings.want_whole_calls as u8, ROWS)),
        ("initiators", rows(settings.want_latency, (cpus * cpus).max(16))),
        ("senders", rows(settings.want_senders, ROWS)),
        ("victims", rows(settings.want_latency, ROWS)),
        ("pairs", rows(settings.want_pairs, 2 * ROWS)),
        ("requests", rows(settings.want_requests as u8, 2048)),
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

fn links(object: &Object) -> Result<Vec<Link>> {
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
