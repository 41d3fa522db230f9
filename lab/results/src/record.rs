// SPDX-License-Identifier: GPL-2.0-only
//! One record of the guest protocol: the types of its lines, and how one line is read.
//! A key that appears twice, a negative count or a number too large for its field refuses the record.

use crate::old;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Boot {
    pub protocol: u64,
    #[serde(default)]
    pub release: String,
    #[serde(default)]
    pub cmdline: String,
    #[serde(default)]
    pub cpus: u32,
    #[serde(default)]
    pub nodes: u32,
    /// `ceasefire`: the lab kernel's probes. `generic`: what an unmodified kernel tells.
    #[serde(default)]
    pub counters: String,
    #[serde(default)]
    pub pcid: Option<bool>,
    #[serde(default)]
    pub invpcid: Option<bool>,
    /// The first processor's line `flags` of /proc/cpuinfo.
    #[serde(default)]
    pub cpu_flags: Option<String>,
    #[serde(default)]
    pub pti: Option<bool>,
    #[serde(default)]
    pub thp: Option<String>,
    #[serde(default)]
    pub memory_kib: Option<u64>,
    /// What the kernel's own switch says; null without one.
    #[serde(default)]
    pub mode: Option<String>,
}

/// Totals over the measured part of one repeat, by counter name; null where not measurable.
pub type Counters = BTreeMap<String, Option<u64>>;

/// What a control promises, as totals of one repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Expect {
    #[serde(default)]
    pub sent: Option<u64>,
    #[serde(default)]
    pub received: Option<u64>,
    /// By the machine's count.
    #[serde(default)]
    pub tlbsync: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Run {
    pub workload: String,
    pub threads: u32,
    pub repeat: u32,
    #[serde(default)]
    pub seed: u64,
    pub unit: String,
    pub units: u64,
    pub checksum: String,
    #[serde(deserialize_with = "unique_keys")]
    pub counters: Counters,
    #[serde(default)]
    pub expect: Option<Expect>,
    /// What the kernel's mechanisms counted, by the names of both; empty on a kernel without any.
    #[serde(default, deserialize_with = "unique_keys_of_each")]
    pub mechanisms: BTreeMap<String, BTreeMap<String, u64>>,
    #[serde(default, deserialize_with = "unique_keys")]
    pub extra: BTreeMap<String, f64>,
    #[serde(default)]
    pub duration_ns: Option<u64>,
}

impl Run {
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied().flatten()
    }
}

/// A row that was not measured (skip) or went wrong (fail), with the guest's sentence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Unmeasured {
    pub workload: String,
    #[serde(default)]
    pub threads: Option<u32>,
    pub reason: String,
    /// The last lines of the program that failed.
    #[serde(default)]
    pub output: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct GuestVerdict {
    pub ok: bool,
    pub runs: u64,
    pub skips: u64,
    pub fails: u64,
}

/// Begin or end of one of the kernel's own tests; what it says comes as log lines in between.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SelftestMark {
    pub name: String,
    #[serde(flatten)]
    pub state: SelftestState,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum SelftestState {
    Begin,
    End(SelftestEnd),
}

/// How a test's process ended: an exit code or a signal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SelftestEnd {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    Boot(Boot),
    Run(Box<Run>),
    Skip(Unmeasured),
    Fail(Unmeasured),
    Log(String),
    Selftest(SelftestMark),
    Verdict(GuestVerdict),
    /// Written by the host at the end of a saved log when the hard time limit ended the guest.
    Timeout(Option<u64>),
    /// A kind this version does not know: skipped, so that the protocol may grow.
    Unknown(String),
}

#[derive(Deserialize)]
struct Tag {
    kind: String,
}

#[derive(Deserialize)]
struct LogText {
    text: String,
}

#[derive(Deserialize)]
struct Timeout {
    #[serde(default)]
    seconds: Option<u64>,
}

/// Reads the first JSON value of `text`; anything behind it is somebody else's output on the same line.
pub(crate) fn first<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<T>();
    match stream.next() {
        Some(value) => value,
        None => serde_json::from_str(text),
    }
}

pub(crate) fn read(text: &str) -> Result<Record, serde_json::Error> {
    let tag: Tag = first(text)?;
    Ok(match tag.kind.as_str() {
        "boot" => Record::Boot(first(text)?),
        "run" => {
            let mut run: Box<Run> = Box::new(first(text)?);
            if run.mechanisms.is_empty() {
                run.mechanisms = old::counted(text)?;
            }
            Record::Run(run)
        }
        "skip" => Record::Skip(first(text)?),
        "fail" => Record::Fail(first(text)?),
        "log" => Record::Log(first::<LogText>(text)?.text),
        "selftest" => Record::Selftest(first(text)?),
        "verdict" => Record::Verdict(first(text)?),
        "timeout" => Record::Timeout(first::<Timeout>(text)?.seconds),
        other => Record::Unknown(other.chars().take(40).collect()),
    })
}

/// Numbers by name, each name once.
#[derive(Deserialize)]
#[serde(bound = "V: Deserialize<'de>")]
pub(crate) struct Unique<V>(#[serde(deserialize_with = "unique_keys")] pub BTreeMap<String, V>);

fn unique_keys_of_each<'de, D>(deserializer: D) -> Result<BTreeMap<String, BTreeMap<String, u64>>, D::Error>
where
    D: Deserializer<'de>,
{
    let each = Unique::<Unique<u64>>::deserialize(deserializer)?.0;
    Ok(each.into_iter().map(|(name, counters)| (name, counters.0)).collect())
}

/// serde's maps keep the last of two equal keys; a counter that appears twice must be refused instead.
fn unique_keys<'de, D, V>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Unique<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("an object of numbers by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry::<String, V>()? {
                if map.contains_key(&key) {
                    return Err(serde::de::Error::custom(format_args!("duplicate field `{key}`")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Unique(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{"kind":"run","workload":"w","threads":2,"repeat":0,"seed":1,"unit":"call","units":10,"checksum":"00","counters":{"sent":10,"walks":null},"expect":null,"abis":{"rounds":7},"extra":{},"duration_ns":5}"#;

    #[test]
    fn a_run_is_read_with_its_nulls() {
        let Ok(Record::Run(run)) = read(RUN) else { panic!("not a run") };
        assert_eq!((run.counter("sent"), run.counter("walks"), run.counter("other")), (Some(10), None, None));
        assert_eq!(run.mechanisms["abis"], BTreeMap::from([("rounds".to_string(), 7)]));
        for without in [RUN.replace(r#"{"rounds":7}"#, "null"), RUN.replace(r#""abis":{"rounds":7},"#, "")] {
            assert!(matches!(read(&without), Ok(Record::Run(run)) if run.mechanisms.is_empty()), "{without}");
        }
    }

    /// The form of now, and that of before mechanisms had names.
    #[test]
    fn mechanisms_are_read_by_name() {
        let new = RUN.replace(r#""abis":{"rounds":7}"#, r#""mechanisms":{"abis":{"rounds":7},"other":{}}"#);
        let Ok(Record::Run(run)) = read(&new) else { panic!("not a run") };
        assert_eq!(run.mechanisms["abis"], BTreeMap::from([("rounds".to_string(), 7)]));
        assert!(run.mechanisms["other"].is_empty());
        for (from, to) in [
            (r#"{"rounds":7}"#, r#"{"rounds":7,"rounds":8}"#),
            (r#""other":{}"#, r#""abis":{}"#),
            (r#""other":{}"#, r#""other":null"#),
        ] {
            let broken = new.replace(from, to);
            assert!(read(&broken).is_err(), "{broken}");
        }
        assert!(read(&RUN.replace(r#"{"rounds":7}"#, r#"{"rounds":7,"rounds":8}"#)).is_err());
    }

    #[test]
    fn what_follows_on_the_line_is_ignored() {
        assert!(matches!(read(&format!("{RUN}[    1.0] eth0: up")), Ok(Record::Run(_))));
    }

    #[test]
    fn duplicates_negatives_and_overflow_are_refused() {
        for (from, to) in [
            (r#""threads":2"#, r#""threads":2,"threads":2"#),
            (r#""sent":10"#, r#""sent":10,"sent":11"#),
            (r#""sent":10"#, r#""sent":-1"#),
            (r#""sent":10"#, r#""sent":18446744073709551616"#),
            (r#""sent":10"#, r#""sent":1.5"#),
            (r#""threads":2"#, r#""threads":4294967296"#),
            (r#""extra":{}"#, r#""extra":{"a":1e999}"#),
            (r#""rounds":7"#, r#""rounds":7,"rounds":8"#),
            (r#""rounds":7"#, r#""rounds":null"#),
        ] {
            let text = RUN.replace(from, to);
            assert_ne!(text, RUN, "{from} is in the sample");
            assert!(read(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_selftest_begins_and_ends() {
        let read = |text: &str| match read(text) {
            Ok(Record::Selftest(mark)) => Some(mark.state),
            _ => None,
        };
        let begin = read(r#"{"kind":"selftest","name":"cow","state":"begin"}"#);
        assert_eq!(begin, Some(SelftestState::Begin));
        let end = read(
            r#"{"kind":"selftest","name":"cow","state":"end","exit":null,"signal":9,"timed_out":true,"ms":5}"#,
        );
        let expected = SelftestEnd { exit: None, signal: Some(9), timed_out: true, ms: 5 };
        assert_eq!(end, Some(SelftestState::End(expected)));
        for broken in [
            r#"{"kind":"selftest","name":"cow"}"#,
            r#"{"kind":"selftest","name":"cow","state":"middle"}"#,
            r#"{"kind":"selftest","name":"cow","state":"end","exit":0}"#,
        ] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_unknown_kind_is_kept_apart_and_its_name_cut() {
        let name = "x".repeat(1000);
        let Ok(Record::Unknown(kept)) = read(&format!(r#"{{"kind":"{name}"}}"#)) else {
            panic!("not unknown")
        };
        assert_eq!(kept.len(), 40);
    }
}
