// SPDX-License-Identifier: GPL-2.0-only
//! Windows of time on this machine: start watching, wait for the end, show the difference.

use super::args::{Hist, Matrix, Stacks, Stat, Trace, Window};
use super::causes::{causes, is_same};
use super::filters::{filter, is_gone};
use super::isolated::Isolated;
use super::lines::Lines;
use super::COLUMNS;
use crate::terminal;
use ceasefire_base::exec::print_line;
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch::{EventOptions, Observer, Options};
use ceasefire_watch_model::{Cause, Open, Savings, Shootdown, Snapshot, Stacks as Names};
use ceasefire_watch_views as views;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Longest time between two looks at the command and at signals.
const STEP: Duration = Duration::from_millis(50);
/// How long a line waits for neighbours of a thread that is silent.
const LINGER: Duration = Duration::from_millis(200);
/// Between two looks at the mappings of processes whose user stacks are wanted: once they have ended there are none.
const NAMING: Duration = Duration::from_millis(200);
/// What a command that was asked to stop has left.
const GRACE: Duration = Duration::from_secs(5);

pub fn check(json: bool) -> Result<u8> {
    let checks = ceasefire_watch::examine();
    if json {
        let rows: Vec<_> = checks
            .iter()
            .map(|c| {
                serde_json::json!({"name": c.name, "ok": c.ok, "optional": c.is_optional, "detail": c.detail,
                    "remedy": c.remedy})
            })
            .collect();
        print_line(&serde_json::json!({"schema": "ceasefire.watch-check/1", "checks": rows}).to_string());
    } else {
        for check in &checks {
            let mark = if check.ok { "ok" } else { "--" };
            print_line(&format!("{mark}  {:<16} {}", check.name, check.detail));
            if let Some(remedy) = &check.remedy {
                print_line(&format!("    remedy: {remedy}"));
            }
        }
    }
    match checks.iter().find(|check| !check.ok && !check.is_optional) {
        None => Ok(0),
        Some(check) => Err(Error::skip(format!("watching does not work here: {}", check.detail))
            .remedy(check.remedy.clone().unwrap_or_else(|| "see above".into()))),
    }
}

pub fn stat(args: &Stat) -> Result<u8> {
    if args.no_stacks && !args.window.filters.cause.is_empty() {
        return Err(Error::usage("--cause and --no-stacks exclude each other: the stack tells the cause")
            .remedy("leave out --no-stacks"));
    }
    if args.sender_only && args.window.filters.min_us.is_some() {
        return Err(Error::usage(
            "--min-us and --sender-only exclude each other: the receivers tell the wait",
        )
        .remedy("leave out --sender-only"));
    }
    if args.isolated && !args.window.filters.words().is_empty() {
        return Err(Error::usage("--isolated is about everybody's shootdowns: a filter would hide some")
            .remedy("leave out the filters, or --isolated"));
    }
    let mut isolated = if args.isolated { Some(Isolated::find()?) } else { None };
    let options = Options {
        latencies: !args.sender_only,
        kernel_stacks: !args.no_stacks,
        // Which victims belong to a cause, or to an isolated CPU's visitor, is told by who interrupted them.
        pairs: !args.window.filters.cause.is_empty() || args.isolated,
        // To time the probes, the kernel changes its own code, which interrupts every CPU.
        timing: !args.isolated,
        whole_calls: args.whole_calls,
        ..Options::default()
    };
    let what = match args.window.command.first() {
        Some(_) => format!("while '{}' ran", words(&args.window)),
        None => "on this machine".to_string(),
    };
    let top = args.window.top;
    let code = windows("stat", options, &args.window, isolated.as_mut(), |window| {
        views::stat::render(window, &what, top)
    })?;
    isolated.map_or(Ok(()), |isolated| isolated.verdict())?;
    Ok(code)
}

pub fn matrix(args: &Matrix) -> Result<u8> {
    let window = &args.window;
    let kernel_stacks = !window.filters.cause.is_empty();
    let options = Options { histograms: false, kernel_stacks, calls: args.cross_calls, ..Options::default() };
    windows("matrix", options, window, None, |all| views::matrix::render(all, window.top))
}

pub fn hist(args: &Hist) -> Result<u8> {
    let options = Options { pairs: false, senders: false, calls: false, ..Options::default() };
    windows("hist", options, &args.window, None, |window| views::hist::render(window, args.by.into()))
}

pub fn stacks(args: &Stacks) -> Result<u8> {
    let options = Options {
        pairs: false,
        user_stacks: args.user_stacks,
        inlined: args.inlined,
        calls: args.cross_calls,
        ..Options::default()
    };
    windows("stacks", options, &args.window, None, |window| match args.folded {
        true => views::stacks::folded(window),
        false => views::stacks::render(window, args.window.top),
    })
}

pub fn trace(args: &Trace) -> Result<u8> {
    let window = &args.window;
    let causes = causes(&window.filters.cause)?;
    let options = Options {
        pairs: false,
        calls: false,
        user_stacks: args.user_stacks,
        inlined: args.inlined,
        events: Some(EventOptions::default()),
        filter: filter(&window.filters)?,
        ..Options::default()
    };
    let within_ns = args.within_us * 1000;
    let mut session = Session::start(options, window)?;
    if !session.observer.sees_receivers() {
        return Err(Error::skip("single shootdowns are not seen on this kernel: it has no csd tracepoints")
            .remedy("use `ceasefire watch stat` for what can be counted, or Linux 6.5 or newer"));
    }
    let mut lines = Lines::new(args.each, within_ns);
    let mut savings = Savings::new(within_ns);
    if !window.json {
        print_line(&views::trace::head());
    }
    let count = u32::try_from(window.count.unwrap_or(1)).unwrap_or(u32::MAX);
    let span = window.duration.or(window.interval.map(|interval| interval.saturating_mul(count)));
    let end = span.and_then(|span| Instant::now().checked_add(span));
    loop {
        let mut show = |shootdown: &Shootdown, names: &Names| {
            if !causes.is_empty() && !causes.iter().any(|cause| is_same(cause, &shootdown.cause)) {
                return;
            }
            if args.summary {
                savings.take(shootdown);
            }
            match window.json {
                true => print_line(&views::json::event(shootdown, names)),
                false => lines.take(shootdown),
            }
        };
        let left = end.map_or(LINGER, |end| end.saturating_duration_since(Instant::now()).min(LINGER));
        let is_over = session.wait(Some(left), &mut show)?;
        lines.quiet(session.observer.now_ns());
        let is_late = end.is_some_and(|end| Instant::now() >= end);
        if is_over || is_late || ceasefire_base::exec::output_is_over() {
            break;
        }
    }
    lines.end();
    savings.end();
    let all = session.window(&causes)?;
    if window.json {
        print_line(&views::json::window("trace", &all).to_string());
    }
    match (args.summary, window.json) {
        (true, false) => {
            let width = terminal::width(COLUMNS);
            print_line(views::savings::render(&all, Some(&savings), window.top, width).trim_end());
        }
        (true, true) => print_line(&views::savings::json(&all, Some(&savings), window.top)),
        (false, false) => print_line(views::honesty::block(&all.coverage).trim_end()),
        (false, true) => {}
    }
    session.finish()
}

/// One report, or one for each interval.
fn windows(
    verb: &str,
    options: Options,
    window: &Window,
    mut isolated: Option<&mut Isolated>,
    render: impl Fn(&Snapshot) -> String,
) -> Result<u8> {
    let causes = causes(&window.filters.cause)?;
    let mut session = Session::start(Options { filter: filter(&window.filters)?, ..options }, window)?;
    let mut left = window.count.unwrap_or(u64::MAX);
    if let Some(isolated) = &mut isolated {
        isolated.begin(&session.observer)?;
    }
    loop {
        let is_over = session.wait(window.interval, &mut |_, _| ())?;
        if isolated.is_some() && !is_over {
            session.observer.settle()?;
        }
        let report = session.window(&causes)?;
        if let Some(isolated) = &mut isolated {
            isolated.take(&report, &session.observer)?;
        }
        let cpus = isolated.as_ref().map(|isolated| &isolated.cpus);
        if window.json {
            let mut json = views::json::window(verb, &report);
            if let Some(cpus) = cpus {
                json["isolated"] = views::isolated::json(&report, cpus);
            }
            print_line(&json.to_string());
        } else {
            if let Some(cpus) = cpus {
                print_line(&views::isolated::render(&report, cpus, window.top));
            }
            print_line(render(&report).trim_end());
        }
        left = left.saturating_sub(1);
        if is_over || window.interval.is_none() || left == 0 || ceasefire_base::exec::output_is_over() {
            return session.finish();
        }
        session.next();
    }
}

pub(super) struct Session {
    pub(super) observer: Observer,
    began: Instant,
    open: Open,
    latest: Snapshot,
    command: Option<Child>,
    status: Option<u8>,
    end: Option<Instant>,
    /// The process or thread that the filters name.
    watched: Option<u32>,
    named: Instant,
    wants_names: bool,
    /// Longest time until a signal is noticed.
    step: Duration,
}

impl Session {
    pub(super) fn start(options: Options, window: &Window) -> Result<Session> {
        cancel::install()?;
        let wants_names = options.user_stacks;
        let mut observer = Observer::start(options)?;
        let since = observer.snapshot()?;
        observer.bursts()?;
        let command = spawn(window)?;
        let end = window.duration.map(|duration| Instant::now() + duration);
        Ok(Session {
            observer,
            began: Instant::now(),
            latest: Snapshot::default(),
            open: Open::new(since),
            command,
            status: None,
            end,
            watched: window.filters.tid.or(window.filters.pid),
            named: Instant::now(),
            wants_names,
            step: STEP,
        })
    }

    /// Where nothing is waited for but signals, a longer one costs less.
    pub(super) fn look_every(&mut self, step: Duration) {
        self.step = step;
    }

    /// Until the interval, the command, the time, or the user's patience is over; true if it was not the interval.
    pub(super) fn wait(
        &mut self,
        interval: Option<Duration>,
        take: &mut dyn FnMut(&Shootdown, &Names),
    ) -> Result<bool> {
        let until = interval.map(|interval| Instant::now() + interval);
        let mut events = Vec::new();
        loop {
            let now = Instant::now();
            let ends = [until, self.end].into_iter().flatten().min();
            let left = ends.map_or(self.step, |end| end.saturating_duration_since(now));
            self.observer.poll(left.min(self.step), |shootdown| events.push(shootdown))?;
            for shootdown in events.drain(..) {
                take(&shootdown, self.observer.stacks());
            }
            self.name_stacks()?;
            if let Some(ended) = self.observer.ended()? {
                self.open.end(&ended);
            }
            if self.command_ended()?
                || self.watched_ended()
                || cancel::requested()
                || self.end.is_some_and(|end| Instant::now() >= end)
            {
                // The command's last shootdown may be on its way: counted, and not yet described.
                self.observer.settle()?;
                self.observer.poll(Duration::ZERO, |shootdown| events.push(shootdown))?;
                for shootdown in events.drain(..) {
                    take(&shootdown, self.observer.stacks());
                }
                return Ok(true);
            }
            if until.is_some_and(|until| Instant::now() >= until) || ceasefire_base::exec::output_is_over() {
                return Ok(false);
            }
        }
    }

    pub(super) fn window(&mut self, causes: &[Cause]) -> Result<Snapshot> {
        self.latest = Snapshot::default();
        self.latest = self.observer.snapshot()?;
        let mut window = self.open.until(&self.latest);
        window.bursts = self.observer.bursts()?;
        if !causes.is_empty() {
            window.retain_cause(|cause| causes.iter().any(|wanted| is_same(wanted, cause)));
        }
        Ok(window)
    }

    /// What comes now is another window. A snapshot of many threads is megabytes: no two of the same moment are kept.
    pub(super) fn next(&mut self) {
        self.open = Open::new(std::mem::take(&mut self.latest));
    }

    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// While their processes live.
    fn name_stacks(&mut self) -> Result<()> {
        if self.wants_names && self.named.elapsed() >= NAMING {
            self.observer.name_stacks()?;
            self.named = Instant::now();
        }
        Ok(())
    }

    fn watched_ended(&mut self) -> bool {
        let Some(id) = self.watched.filter(|id| is_gone(*id)) else { return false };
        eprintln!("note: {id} has ended");
        self.watched = None;
        true
    }

    /// The command has not ended.
    pub(super) fn is_running(&self) -> bool {
        self.command.is_some()
    }

    fn command_ended(&mut self) -> Result<bool> {
        let Some(command) = &mut self.command else { return Ok(false) };
        let status = command
            .try_wait()
            .map_err(|error| Error::failed(format!("cannot wait for the command: {error}")))?;
        let Some(status) = status else { return Ok(false) };
        self.command = None;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.status = Some(u8::try_from(code).unwrap_or(1));
        Ok(true)
    }

    /// Waits for a command that still runs, unless the user does not.
    pub(super) fn let_end(&mut self) -> Result<()> {
        while self.is_running() && !cancel::requested() && !self.command_ended()? {
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// A command that still runs is stopped, as the terminal would have; one that does not listen is killed.
    pub(super) fn finish(mut self) -> Result<u8> {
        let killed_at = Instant::now() + GRACE;
        let mut signal = libc::SIGTERM;
        while !self.command_ended()? {
            let Some(command) = &self.command else { break };
            if signal != 0 {
                // SAFETY: kill() takes numbers; the child has not been waited for, so its id is its own.
                unsafe { libc::kill(command.id() as i32, signal) };
            }
            signal = if Instant::now() >= killed_at { libc::SIGKILL } else { 0 };
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(self.status.unwrap_or(0))
    }
}

fn spawn(window: &Window) -> Result<Option<Child>> {
    let Some((program, args)) = window.command.split_first() else { return Ok(None) };
    let child = Command::new(program).args(args).spawn().map_err(|error| {
        Error::usage(format!("cannot run {}: {error}", program.to_string_lossy()))
            .remedy("check the command after --")
    })?;
    Ok(Some(child))
}

fn words(window: &Window) -> String {
    let words: Vec<_> = window.command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
