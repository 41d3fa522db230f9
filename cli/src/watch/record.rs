// SPDX-License-Identifier: GPL-2.0-only
//! `record`: windows, and shootdowns where asked, into a file that any machine can read.

use super::args::{Record, Window};
use super::environment;
use super::filters::filter;
use super::live::Session;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch::{EventOptions, Options};
use ceasefire_watch_model::{Shootdown, Snapshot};
use ceasefire_watch_record::{End, Environment, Recording};
use ceasefire_watch_views::numbers::{count, time, us};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::time::{Duration, Instant};

/// Longest time until --auto, a full record or its end are noticed.
const STEP: Duration = Duration::from_millis(50);
/// A shootdown may be told of this much later than the next one. (One whose targets never answer: later still.)
const LATE_NS: u64 = 100_000_000;
/// The first window is short: processes that soon end must be looked at in time.
const FIRST: Duration = Duration::from_millis(250);
/// Windows of a recording whose length is known.
const WINDOWS: u32 = 1000;
/// Processes looked at after each window.
const PROCESSES: usize = 8;
/// Shootdowns before the one that --auto waits for.
const BEFORE: usize = 20_000;

struct Tape<'a> {
    args: &'a Record,
    events: VecDeque<Shootdown>,
    kept: u64,
    dropped: u64,
    evidence: Option<String>,
}

impl Tape<'_> {
    fn take(&mut self, shootdown: &Shootdown) {
        if self.evidence.is_some() {
            return;
        }
        if self.args.events || self.args.auto.is_some() {
            self.keep(shootdown);
        }
        let lost_ns = shootdown.latencies.map_or(0, |times| times.handler_ns_max);
        if self.args.auto.is_some_and(|us| lost_ns > us.saturating_mul(1000)) {
            self.evidence = Some(evidence(shootdown, lost_ns));
        }
    }

    fn keep(&mut self, shootdown: &Shootdown) {
        // The last ones are the evidence; without --auto the first ones are kept.
        if self.args.auto.is_some() {
            self.events.push_back(shootdown.clone());
            if self.events.len() > BEFORE {
                self.events.pop_front();
                self.dropped += 1;
            }
        } else if self.kept < self.args.events_max {
            self.events.push_back(shootdown.clone());
            self.kept += 1;
        } else {
            self.dropped += 1;
        }
    }
}

impl Tape<'_> {
    /// Takes out those that began before that, oldest first. Each is told of when its last target has left its handler,
    /// which may be after the next one's.
    fn begun_before(&mut self, ns: u64) -> Vec<Shootdown> {
        let events = self.events.make_contiguous();
        events.sort_by_key(|event| event.start_ns);
        let end = events.partition_point(|event| event.start_ns < ns);
        self.events.drain(..end).collect()
    }
}

fn evidence(shootdown: &Shootdown, lost_ns: u64) -> String {
    let (cpu, victim) = match &shootdown.slowest {
        Some((cpu, task)) if task.tid == 0 => (cpu.to_string(), "the idle task".to_string()),
        Some((cpu, task)) => (cpu.to_string(), format!("{} {}", task.comm, task.tid)),
        None => ("?".into(), "somebody".into()),
    };
    format!(
        "{victim} on CPU {cpu} lost {} us at once to {} {} on CPU {} ({})",
        us(lost_ns as f64),
        shootdown.task.comm,
        shootdown.task.tid,
        shootdown.cpu,
        shootdown.cause
    )
}

pub fn record(args: &Record) -> Result<u8> {
    if !args.filters.cause.is_empty() {
        return Err(Error::usage("a record keeps every cause")
            .remedy("leave out --cause, and give it to `ceasefire watch report`"));
    }
    let window = Window {
        duration: args.duration,
        filters: args.filters.clone(),
        command: args.command.clone(),
        ..Window::default()
    };
    let handler_ns_min = match (args.auto, args.events) {
        (Some(us), false) => us.saturating_mul(1000),
        _ => 0,
    };
    let wants_events = args.events || args.auto.is_some();
    let options = Options {
        user_stacks: args.user_stacks,
        inlined: args.inlined,
        whole_calls: args.whole_calls,
        events: wants_events.then_some(EventOptions { handler_ns_min }),
        filter: filter(&args.filters)?,
        ..Options::default()
    };
    let interval = interval(args);
    let mut recording =
        Recording::create(&args.output, &about(args, interval), args.size_max.saturating_mul(1 << 20))?;
    let mut session = Session::start(options, &window)?;
    let mut tape = Tape { args, events: VecDeque::new(), kept: 0, dropped: 0, evidence: None };
    let written = run(args, &mut session, &mut recording, &mut tape, interval);
    let path = recording.path().to_path_buf();
    let spent = session.began().elapsed();
    let outcome = written.and_then(|reason| {
        recording.later_names(session.observer.stacks())?;
        let end = End {
            reason: reason.clone(),
            events: recording.events_written(),
            events_dropped: tape.dropped,
            evidence: tape.evidence.clone(),
        };
        let (bytes, events) = (recording.bytes(), recording.events_written());
        let unnamed = recording.stacks_unnamed();
        recording.finish(&end).map(|()| (reason, bytes, events, unnamed))
    });
    if tape.evidence.is_some() {
        session.let_end()?;
    }
    let code = session.finish()?;
    let (reason, bytes, events, unnamed) = outcome?;
    let dropped = match tape.dropped {
        0 => String::new(),
        dropped if args.auto.is_some() => format!(" ({} earlier ones are not kept)", count(dropped)),
        dropped => format!(" (the first; {} later ones are only counted)", count(dropped)),
    };
    let unnamed = match unnamed {
        0 => String::new(),
        unnamed => format!(", {} stacks left without names", count(unnamed)),
    };
    let _ = writeln!(
        std::io::stderr(),
        "{reason}: recorded {}, {} events{dropped}{unnamed}, {:.1} MiB\n  ceasefire watch report {}",
        time(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX)),
        count(events),
        bytes as f64 / f64::from(1 << 20),
        ceasefire_base::exec::quote(path.as_os_str()),
    );
    Ok(code)
}

/// Until something ends it; the reason.
fn run(
    args: &Record,
    session: &mut Session,
    recording: &mut Recording,
    tape: &mut Tape<'_>,
    interval: Duration,
) -> Result<String> {
    let mut due = Instant::now() + interval.min(FIRST);
    loop {
        let is_over = session.wait(Some(STEP), &mut |shootdown, _| tape.take(shootdown))?;
        let is_caught = tape.evidence.is_some();
        if args.auto.is_none() || is_caught {
            let before_ns = match is_over || is_caught {
                true => u64::MAX,
                false => session.observer.now_ns().saturating_sub(LATE_NS),
            };
            let events = tape.begun_before(before_ns);
            recording.events(&events, session.observer.stacks())?;
        }
        let is_full = recording.is_full();
        if is_over || is_caught || is_full || Instant::now() >= due {
            let window = session.window(&[])?;
            recording.window(&window)?;
            session.next();
            processes(&window, recording)?;
            due = Instant::now() + interval;
        }
        if is_over && args.auto.is_some() && !is_caught {
            recording.events(&tape.begun_before(u64::MAX), session.observer.stacks())?;
        }
        if let Some(evidence) = &tape.evidence {
            return Ok(format!("stopped: {evidence}"));
        }
        if is_over {
            let reason = match () {
                () if cancel::requested() => "interrupted",
                () if args.command.is_empty() || session.is_running() => "the time was over",
                () => "the command ended",
            };
            return Ok(reason.into());
        }
        if is_full {
            recording.events(&tape.begun_before(u64::MAX), session.observer.stacks())?;
            return Ok(format!("the record reached its {} MiB (--size-max)", args.size_max));
        }
    }
}

/// Those that sent most, while they live.
fn processes(window: &Snapshot, recording: &mut Recording) -> Result<()> {
    let mut sums: BTreeMap<u32, (u64, &str)> = BTreeMap::new();
    for sender in window.senders.iter().filter(|sender| sender.task.process().is_some()) {
        sums.entry(sender.task.tgid).or_insert((0, &sender.task.comm)).0 += sender.tally.targets;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (targets, _))| std::cmp::Reverse(*targets));
    for (tgid, (_, comm)) in sums.into_iter().take(PROCESSES) {
        if !recording.knows(tgid) && recording.processes() < 256 {
            if let Some(process) = environment::process(tgid, comm) {
                recording.process(&process)?;
            }
        }
    }
    Ok(())
}

fn interval(args: &Record) -> Duration {
    const SHORT: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_secs(60);
    let usual = match (args.duration, args.auto) {
        (Some(duration), _) => (duration / WINDOWS).clamp(SHORT, LONG),
        (None, Some(_)) => LONG,
        (None, None) => SHORT,
    };
    args.interval.unwrap_or(usual)
}

fn about(args: &Record, interval: Duration) -> Environment {
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Environment {
        command,
        filters: args.filters.words(),
        interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
        has_events: args.events,
        has_user_stacks: args.user_stacks,
        auto_us: args.auto,
        ..environment::here()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_watch_model::{Cause, Class, Kind, Task};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        record: Record,
    }

    fn shootdown(start_ns: u64) -> Shootdown {
        Shootdown {
            start_ns,
            class: Class::User,
            cause: Cause::Munmap,
            cpu: 0,
            task: Task::default(),
            kernel_stack: None,
            user_stack: None,
            address: None,
            pages: None,
            entries: None,
            kind: Kind::Ranged,
            why_full: None,
            freed_tables: false,
            targets: 1,
            target_cpus: Vec::new(),
            latencies: None,
            slowest: None,
        }
    }

    #[test]
    fn shootdowns_are_written_in_the_order_in_which_they_began_and_none_twice() {
        let args = Line::parse_from(["record", "--events"]).record;
        let mut tape = Tape { args: &args, events: VecDeque::new(), kept: 0, dropped: 0, evidence: None };
        let mut taken = Vec::new();
        // The second is told of late, the fifth after the first look.
        for (told, look_ns) in [(vec![1, 3, 2, 4], 4), (vec![6, 5], 6), (vec![7], u64::MAX)] {
            told.iter().for_each(|start_ns| tape.take(&shootdown(*start_ns)));
            taken.extend(tape.begun_before(look_ns).iter().map(|event| event.start_ns));
        }
        assert_eq!(taken, [1, 2, 3, 4, 5, 6, 7]);
        assert!(tape.events.is_empty());
    }
}
