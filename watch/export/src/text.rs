// SPDX-License-Identifier: GPL-2.0-only
//! The counters as text: OpenMetrics 1.0, or what Prometheus read before it (node_exporter's textfile still does).

use crate::totals::{OfCpu, OfUnit, Sent};
use crate::Totals;
use ceasefire_watch_model::Class;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    OpenMetrics,
    Prometheus,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Name without `_total`, help, and what a row says.
type Family<R> = (&'static str, &'static str, fn(&R) -> String);

struct Text {
    form: Form,
    text: String,
}

impl Text {
    /// What follows is of this family. OpenMetrics names a counter's family without `_total`.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let total = match (self.form, kind) {
            (Form::Prometheus, "counter") => "_total",
            _ => "",
        };
        let _ = writeln!(self.text, "# TYPE {name}{total} {kind}\n# HELP {name}{total} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{braces} {value}");
    }

    /// Counters of rows by class and by one thing more: a family for each figure, a series for each row.
    fn counters<K: Display, R>(
        &mut self,
        label: &str,
        rows: &BTreeMap<(Class, K), R>,
        families: &[Family<R>],
    ) {
        for (name, help, value) in families {
            self.family(name, "counter", help);
            for ((class, key), row) in rows {
                let labels = [("class", class.name()), (label, &key.to_string())];
                self.sample(&format!("{name}_total"), &labels, value(row));
            }
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Every family each time; what never happened has no series.
pub fn render(totals: &Totals, version: &str, form: Form) -> String {
    let mut text = Text { form, text: String::new() };
    let gauge = if form == Form::OpenMetrics { "info" } else { "gauge" };
    let info = if form == Form::OpenMetrics { "ceasefire_watch" } else { "ceasefire_watch_info" };
    text.family(info, gauge, "What watches which kernel.");
    text.sample("ceasefire_watch_info", &[("version", version), ("kernel", &totals.kernel)], 1);
    text.counters("cause", &totals.causes, &OF_CAUSES);
    text.counters("unit", &totals.units, &OF_UNITS);
    text.counters("cpu", &totals.cpus, &OF_CPUS);
    worst(&mut text, totals);
    honesty(&mut text, totals);
    if form == Form::OpenMetrics {
        text.text.push_str("# EOF\n");
    }
    text.text
}

const OF_CAUSES: [Family<Sent>; 4] = [
    ("ceasefire_watch_shootdowns", "Sent, by cause.", |row| row.shootdowns.to_string()),
    ("ceasefire_watch_targets", "CPUs that were interrupted, by cause.", |row| row.targets.to_string()),
    ("ceasefire_watch_handler_seconds", "Time in victims' handlers, by cause.", |row| {
        seconds(row.handler_ns)
    }),
    ("ceasefire_watch_wait_seconds", "Time that senders waited, by cause.", |row| seconds(row.wait_ns)),
];

const OF_UNITS: [Family<OfUnit>; 4] = [
    ("ceasefire_watch_unit_shootdowns", "Sent by a unit.", |row| row.shootdowns.to_string()),
    ("ceasefire_watch_unit_targets", "CPUs that a unit interrupted.", |row| row.targets.to_string()),
    ("ceasefire_watch_unit_interruptions", "Received by a unit's threads.", |row| {
        row.interruptions.to_string()
    }),
    ("ceasefire_watch_unit_stolen_seconds", "Time that a unit's threads lost in handlers.", |row| {
        seconds(row.stolen_ns)
    }),
];

const OF_CPUS: [Family<OfCpu>; 2] = [
    ("ceasefire_watch_cpu_interruptions", "Received by a CPU.", |row| row.interruptions.to_string()),
    ("ceasefire_watch_cpu_stolen_seconds", "Time that a CPU spent in handlers.", |row| {
        seconds(row.stolen_ns)
    }),
];

fn worst(text: &mut Text, totals: &Totals) {
    let moment = totals.worst_hundredth();
    let (flushes, calls) = totals.worst_shares();
    let name = "ceasefire_watch_worst_10ms_stolen_seconds";
    text.family(name, "gauge", "Time in handlers, all CPUs, in the worst 10 ms of the last minute.");
    text.sample(name, &[], seconds(moment.stolen_ns));
    let name = "ceasefire_watch_worst_10ms_targets";
    text.family(name, "gauge", "CPUs that were interrupted in these 10 ms.");
    text.sample(name, &[], moment.received);
    let name = "ceasefire_watch_worst_thread_ratio";
    text.family(
        name,
        "gauge",
        "Largest share of its time that a thread, or a CPU with many, lost or waited, in the worst interval of the last minute.",
    );
    for (kind, share) in [("flush", flushes), ("cross-call", calls)] {
        text.sample(name, &[("kind", kind)], format!("{share:.6}"));
    }
}

fn honesty(text: &mut Text, totals: &Totals) {
    let coverage = &totals.coverage;
    let name = "ceasefire_watch_seen_targets";
    text.family(name, "counter", "Targets that were seen, by class; own: those of this observer.");
    for class in &coverage.classes {
        text.sample("ceasefire_watch_seen_targets_total", &[("class", class.class.name())], class.queued);
    }
    let name = "ceasefire_watch_kernel_targets";
    text.family(
        name,
        "counter",
        "What the kernel counted itself, class own included: row TLB of /proc/interrupts.",
    );
    for class in &coverage.classes {
        if let Some(kernel) = class.kernel {
            let labels = [("class", class.class.name())];
            text.sample("ceasefire_watch_kernel_targets_total", &labels, kernel);
        }
    }
    let name = "ceasefire_watch_lost";
    text.family(name, "counter", "Described less than it should be, or not at all.");
    let lost = &coverage.lost;
    let lost = [
        ("slots", lost.slots),
        ("events", lost.events),
        ("stacks", lost.stacks),
        ("rows", lost.rows),
        ("answers", lost.answers),
    ];
    for (what, count) in lost {
        text.sample("ceasefire_watch_lost_total", &[("what", what)], count);
    }
    let name = "ceasefire_watch_own_cpu_seconds";
    text.family(name, "counter", "CPU time of this process since it began to count.");
    text.sample("ceasefire_watch_own_cpu_seconds_total", &[], seconds(coverage.overhead.own_cpu_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> Totals {
        let mut totals = Totals::new(4);
        totals.kernel = "6.12.1 \"odd\\name\"".into();
        let sent = Sent { shootdowns: 3, targets: 9, handler_ns: 1_500, wait_ns: 2_000_000_001 };
        totals.causes.insert((Class::User, "munmap".into()), sent);
        totals
            .units
            .insert((Class::User, "a b.service".into()), OfUnit { shootdowns: 3, ..OfUnit::default() });
        totals.cpus.insert((Class::User, 1), OfCpu { interruptions: 9, stolen_ns: 1_500 });
        totals
    }

    /// What the specification demands of every line: families once, samples of the family that was last named.
    fn check(text: &str, form: Form) -> usize {
        let mut families: Vec<&str> = Vec::new();
        let mut samples = 0;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().expect("a name");
                assert!(!families.contains(&name), "{name} twice");
                families.push(name);
            } else if !line.starts_with('#') {
                let family = families.last().expect("a family before its samples");
                assert!(line.starts_with(family), "{line} is none of {family}");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                samples += 1;
            }
        }
        assert_eq!(text.ends_with("# EOF\n"), form == Form::OpenMetrics);
        samples
    }

    #[test]
    fn both_forms_are_well_formed() {
        let open = render(&totals(), "0.1.0", Form::OpenMetrics);
        let old = render(&totals(), "0.1.0", Form::Prometheus);
        assert_eq!(check(&open, Form::OpenMetrics), check(&old, Form::Prometheus));
        assert!(open.contains("# TYPE ceasefire_watch_shootdowns counter\n"));
        assert!(old.contains("# TYPE ceasefire_watch_shootdowns_total counter\n"));
        for text in [open, old] {
            assert!(text.contains("ceasefire_watch_targets_total{class=\"user\",cause=\"munmap\"} 9\n"));
            assert!(text.contains(
                "ceasefire_watch_wait_seconds_total{class=\"user\",cause=\"munmap\"} 2.000000001\n"
            ));
            assert!(text.contains("kernel=\"6.12.1 \\\"odd\\\\name\\\"\"} 1\n"), "{text}");
        }
    }
}
