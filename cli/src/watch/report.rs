// SPDX-License-Identifier: GPL-2.0-only
//! `report`: every view of a record, on any machine.

use super::args::{Report, View};
use super::causes::{causes, is_same};
use super::lines::Lines;
use super::COLUMNS;
use crate::terminal;
use ceasefire_base::exec::{check_output, print_line};
use ceasefire_base::{cancel, Error, Result};
use ceasefire_watch_advice as advice;
use ceasefire_watch_model::{Cause, Class, Savings, Shootdown, Snapshot, Sum};
use ceasefire_watch_record::{Environment, Item, Reader};
use ceasefire_watch_views::table::paragraph;
use ceasefire_watch_views::{self as views, numbers};
use clap::ValueEnum;
use std::fs::File;
use std::io::BufReader;

type Source = Reader<BufReader<File>>;

pub fn report(args: &Report) -> Result<u8> {
    cancel::install()?;
    let wanted = causes(&args.cause)?;
    let about = |error: ceasefire_watch_record::Error| error.about(&args.file);
    let file = File::open(&args.file).map_err(|error| about(ceasefire_watch_record::Error::Io(error)))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(about)?;
    if args.view == View::Trace && !reader.environment.has_events && reader.environment.auto_us.is_none() {
        return Err(Error::usage(format!("{} holds counts, not every shootdown", args.file.display()))
            .remedy("record with --events, or choose another --view"));
    }
    let mut shown = Shown::new(args, &wanted);
    let cut = loop {
        cancel::check()?;
        match reader.next_item() {
            Ok(Some(item)) => shown.take(item, &reader),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        check_output()?;
    };
    shown.end(&reader, cut.as_ref().map(ToString::to_string));
    match cut {
        None => Ok(0),
        Some(error) => Err(about(error)),
    }
}

struct Shown<'a> {
    args: &'a Report,
    causes: &'a [Cause],
    lines: Lines,
    savings: Option<Savings>,
    /// With --each: the window that is being read.
    window: Sum,
    is_begun: bool,
}

impl Shown<'_> {
    fn new<'a>(args: &'a Report, causes: &'a [Cause]) -> Shown<'a> {
        let within_ns = args.within_us * 1000;
        if args.view == View::Trace && !args.json {
            print_line(&views::trace::head());
        }
        Shown {
            args,
            causes,
            lines: Lines::new(args.each, within_ns),
            savings: matches!(args.view, View::Savings | View::Advice).then(|| Savings::new(within_ns)),
            window: Sum::default(),
            is_begun: false,
        }
    }

    fn is_wanted(&self, cause: &Cause) -> bool {
        self.causes.is_empty() || self.causes.iter().any(|wanted| is_same(wanted, cause))
    }

    fn take(&mut self, item: Item, reader: &Source) {
        match item {
            Item::Events(events) => {
                for event in &events {
                    if self.is_wanted(&event.cause) {
                        self.event(event, reader);
                    }
                }
            }
            Item::Window(part) if self.args.each && self.args.view != View::Trace => {
                // Only the first part of a window has a coverage.
                if !part.coverage.classes.is_empty() {
                    self.show_window(reader);
                }
                self.window.add(*part);
                self.is_begun = true;
            }
            Item::Window(_) => {}
        }
    }

    fn event(&mut self, event: &Shootdown, reader: &Source) {
        if let Some(savings) = &mut self.savings {
            savings.take(event);
        }
        match (self.args.view, self.args.json) {
            (View::Trace, true) => print_line(&views::json::event(event, &reader.stacks)),
            (View::Trace, false) => self.lines.take(event),
            _ => {}
        }
    }

    fn show_window(&mut self, reader: &Source) {
        let window = std::mem::take(&mut self.window);
        if std::mem::take(&mut self.is_begun) {
            self.show(window.snapshot(reader.stacks.clone()), reader, false);
        }
    }

    /// `cut`: why not everything could be read.
    fn end(&mut self, reader: &Source, cut: Option<String>) {
        self.lines.end();
        self.savings.iter_mut().for_each(Savings::end);
        if self.args.each && self.args.view != View::Trace {
            return self.show_window(reader);
        }
        let mut whole = reader.whole();
        if let Some(why) = cut {
            whole.coverage.blind.push(format!("the record {why}: what follows is missing"));
        }
        if let Some(end) = reader.end.as_ref().filter(|end| end.events_dropped > 0) {
            let dropped = numbers::count(end.events_dropped);
            let why = format!("{dropped} shootdowns were counted but not recorded one by one");
            whole.coverage.blind.push(why);
        }
        self.show(whole, reader, true);
    }

    fn show(&self, mut window: Snapshot, reader: &Source, is_whole: bool) {
        let args = self.args;
        if !self.causes.is_empty() {
            window.retain_cause(|cause| self.is_wanted(cause));
        }
        if !args.cross_calls && matches!(args.view, View::Matrix | View::Stacks) {
            window.retain_class(|class| class != Class::CrossCall);
        }
        let has_events = is_whole && reader.environment.has_events;
        let savings = self.savings.as_ref().filter(|_| has_events);
        let batching = savings.map(|savings| &savings.batching[..]);
        let advise = || advice::advise(&window, &reader.environment, &reader.processes, batching);
        let text = match (args.view, args.json) {
            (View::Savings, true) => views::savings::json(&window, savings, args.top),
            (View::Advice, true) => advice::json(&advise(), &window),
            (view, true) => views::json::window(&name(view), &window).to_string(),
            (View::Stat, false) => views::stat::render(&window, &what(&reader.environment), args.top),
            (View::Hist, false) => views::hist::render(&window, args.by.into()),
            (View::Stacks, false) if args.folded => views::stacks::folded(&window),
            (View::Stacks, false) => views::stacks::render(&window, args.top),
            (View::Matrix, false) => views::matrix::render(&window, args.top),
            (View::Trace, false) => views::honesty::block(&window.coverage),
            (View::Advice, false) => advice::render(&advise(), &window),
            (View::Savings, false) => {
                views::savings::render(&window, savings, args.top, terminal::width(COLUMNS))
            }
        };
        print_line(text.trim_end());
        if !args.json && !args.folded && is_whole {
            let from = recorded(reader);
            match args.view {
                View::Savings => print_line(paragraph(terminal::width(COLUMNS), "", &from).trim_end()),
                _ => print_line(&from),
            }
        }
    }
}

fn name(view: View) -> String {
    view.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

fn what(environment: &Environment) -> String {
    match environment.command.is_empty() {
        true => "on the recorded machine".into(),
        false => format!("while '{}' ran", environment.command.join(" ")),
    }
}

/// Where the figures come from.
fn recorded(reader: &Source) -> String {
    let from = &reader.environment;
    let mut text = format!("recorded: Linux {}, {} CPUs, {}", from.kernel, from.cpus, from.cpu_model);
    if !from.filters.is_empty() {
        text.push_str(&format!("; only {}", from.filters.join(" ")));
    }
    if let Some(end) = &reader.end {
        text.push_str(&format!("; {}", end.reason));
    }
    // QEMU's own name for a processor that it emulates.
    if from.cpu_model.contains("TCG") {
        text.push_str("; emulated: its times mean nothing");
    }
    text
}
