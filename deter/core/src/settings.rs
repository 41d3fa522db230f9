// SPDX-License-Identifier: GPL-2.0-only
//! What a program is started with under some remedies: variables joined with those it has, arguments, preloads.

use crate::program::{find_library, java_heap, Object, Program};
use crate::remedy::{Merge, Variable};
use crate::Remedy;
use ceasefire_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const HEAP: &str = "{heap}";
/// Modes of our own preload library, one after the other, between commas.
pub const MODES_VARIABLE: &str = "CEASEFIRE_DETER";
/// A file by which our preload library is stopped.
pub const STOP_VARIABLE: &str = "CEASEFIRE_DETER_STOP";

/// Our preload library as it is given to one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    pub preload: PathBuf,
    /// The value of MODES_VARIABLE.
    pub modes: String,
    pub stop: Option<PathBuf>,
}

/// All remedies together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub environment: BTreeMap<String, String>,
    /// Put at the end: of two that say the same, the last one counts.
    pub arguments: Vec<String>,
    /// Absolute names, first to last.
    pub preload: Vec<PathBuf>,
    pub answer: BTreeSet<String>,
    pub intercept: BTreeSet<String>,
    pub cpus: Option<u32>,
}

impl Settings {
    /// Errors: a library that is not installed, two remedies that set one thing differently.
    pub fn of(remedies: &[&Remedy], program: &Program) -> Result<Settings> {
        let mut all = Settings::default();
        let mut set_by: BTreeMap<&str, (&str, &Variable)> = BTreeMap::new();
        for remedy in remedies {
            if lacks_heap(remedy, program) {
                return Err(Error::usage(format!("{} needs to know the largest heap", remedy.name))
                    .remedy("add -Xmx to the command, such as -Xmx4g"));
            }
            for variable in &remedy.sets.environment {
                let value = fill(&variable.value, program);
                if let Some((other, before)) = set_by.get(variable.name.as_str()) {
                    if before.merge == Merge::Replace && before.value != variable.value {
                        return Err(differ(other, &remedy.name, &variable.name));
                    }
                }
                set_by.insert(&variable.name, (&remedy.name, variable));
                let before = all.environment.get(&variable.name).or(program.environment.get(&variable.name));
                let joined = join(before.map(String::as_str), &value, variable.merge);
                all.environment.insert(variable.name.clone(), joined);
            }
            all.arguments.extend(remedy.sets.arguments.iter().cloned());
            all.answer.extend(remedy.sets.answer.iter().cloned());
            all.intercept.extend(remedy.sets.intercept.iter().cloned());
            all.cpus = [all.cpus, remedy.sets.cpus].into_iter().flatten().min();
            for preload in &remedy.sets.preload {
                let path = installed(preload)?;
                if !all.preload.contains(&path) {
                    all.preload.push(path);
                }
            }
        }
        if all.preload.len() > 1 {
            return Err(Error::usage("only one allocator can stand in for the C library's")
                .remedy("choose one of the remedies that preload a library"));
        }
        Ok(all)
    }

    /// With LD_PRELOAD, and what our library is told.
    pub fn variables(&self, before: Option<&str>, own: Option<&Own>) -> BTreeMap<String, String> {
        let mut variables = self.environment.clone();
        let ours = own.map(|own| &own.preload);
        let mut list: Vec<String> =
            ours.into_iter().chain(&self.preload).map(|path| path.display().to_string()).collect();
        if !list.is_empty() {
            list.extend(before.filter(|text| !text.is_empty()).map(str::to_string));
            variables.insert("LD_PRELOAD".into(), list.join(":"));
        }
        if let Some(own) = own {
            variables.insert(MODES_VARIABLE.into(), own.modes.clone());
            let stop = own.stop.as_ref().map(|path| path.display().to_string());
            variables.extend(stop.map(|path| (STOP_VARIABLE.to_string(), path)));
        }
        variables
    }
}

fn differ(one: &str, other: &str, name: &str) -> Error {
    Error::usage(format!("{one} and {other} set {name} differently")).remedy("choose one of them")
}

/// The library of a package, new enough for what is set beside it.
pub fn installed(preload: &crate::remedy::Preload) -> Result<PathBuf> {
    let install = format!("apt-get install {}", preload.package);
    let Some(path) = find_library(&preload.file) else {
        return Err(Error::skip(format!("{} is not installed", preload.file)).remedy(install));
    };
    let bytes = std::fs::read(&path).ok();
    let object = Object::of(&path, bytes.as_deref());
    match preload.strings.iter().find(|text| !object.has(text)) {
        None => Ok(path),
        Some(text) => Err(Error::skip(format!("{} does not know {text}", path.display()))
            .remedy(format!("a newer {}", preload.package))),
    }
}

/// `{heap}`: what the largest Java heap is; it stays where that is not given.
pub fn fill(value: &str, program: &Program) -> String {
    match java_heap(program) {
        Some(heap) => value.replace(HEAP, &heap),
        None => value.to_string(),
    }
}

/// A value that only the command can tell.
pub fn lacks_heap(remedy: &Remedy, program: &Program) -> bool {
    remedy.sets.environment.iter().any(|variable| fill(&variable.value, program).contains(HEAP))
}

/// A value joined with the one that is there: of equal names ours counts, all others stay.
pub fn join(before: Option<&str>, value: &str, merge: Merge) -> String {
    let Some(before) = before.filter(|text| !text.trim().is_empty()) else { return value.to_string() };
    let (between, equals) = match merge {
        Merge::Replace => return value.to_string(),
        Merge::Words => {
            let ours: Vec<&str> = value.split_whitespace().collect();
            let kept = before.split_whitespace().filter(|word| !ours.contains(word));
            return kept.chain(ours.iter().copied()).collect::<Vec<_>>().join(" ");
        }
        Merge::ColonPairs => (":", '='),
        Merge::CommaPairs => (",", '='),
        Merge::CommaColonPairs => (",", ':'),
    };
    let name = |pair: &str| pair.split(equals).next().unwrap_or_default().to_string();
    let ours: BTreeSet<String> = value.split(between).map(name).collect();
    let kept = before.split(between).filter(|pair| !pair.is_empty() && !ours.contains(&name(pair)));
    kept.chain(value.split(between)).collect::<Vec<_>>().join(between)
}

/// Does the program have all of it already?
pub fn is_set(remedy: &Remedy, program: &Program) -> bool {
    let environment = &remedy.sets.environment;
    let has = |variable: &Variable| {
        let now = program.environment.get(&variable.name).map(String::as_str);
        let value = fill(&variable.value, program);
        now.is_some_and(|now| {
            let same = |text: &str| {
                let mut parts: Vec<String> = text.split([':', ',', ' ']).map(str::to_string).collect();
                parts.sort();
                parts
            };
            same(now) == same(&join(Some(now), &value, variable.merge))
        })
    };
    let arguments = &remedy.sets.arguments;
    let has_arguments =
        program.arguments.windows(arguments.len().max(1)).any(|window| window == &arguments[..]);
    let others = remedy.sets.preload.is_empty()
        && remedy.sets.answer.is_empty()
        && remedy.sets.intercept.is_empty()
        && remedy.sets.cpus.is_none()
        && remedy.sets.host.is_empty();
    others
        && (!environment.is_empty() || !arguments.is_empty())
        && environment.iter().all(has)
        && (arguments.is_empty() || has_arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::named;

    #[test]
    fn pairs_are_joined_by_name_and_ours_count() {
        let keep = "a.b=1:c.d=2";
        assert_eq!(join(None, keep, Merge::ColonPairs), keep);
        assert_eq!(join(Some("x.y=3:a.b=9"), keep, Merge::ColonPairs), "x.y=3:a.b=1:c.d=2");
        assert_eq!(
            join(Some("gctrace=1,madvdontneed=1"), "madvdontneed=0", Merge::CommaPairs),
            "gctrace=1,madvdontneed=0"
        );
        assert_eq!(
            join(Some("dirty_decay_ms:0,narenas:2"), "dirty_decay_ms:-1", Merge::CommaColonPairs),
            "narenas:2,dirty_decay_ms:-1"
        );
        assert_eq!(join(Some("-Xmx1g -Xms1g"), "-Xms1g -Y", Merge::Words), "-Xmx1g -Xms1g -Y");
        assert_eq!(join(Some("pymalloc"), "malloc", Merge::Replace), "malloc");
        assert_eq!(join(Some(" "), "a", Merge::Words), "a");
    }

    #[test]
    fn joining_twice_changes_nothing() {
        for merge in
            [Merge::Replace, Merge::ColonPairs, Merge::CommaPairs, Merge::CommaColonPairs, Merge::Words]
        {
            for before in ["", "q", "a=1", "a:1,b:2", "x y"] {
                for value in ["a=2", "a:2", "x z", "a=2:b=3"] {
                    let once = join(Some(before), value, merge);
                    assert_eq!(join(Some(&once), value, merge), once, "{merge:?} {before} {value}");
                }
            }
        }
    }

    #[test]
    fn remedies_that_contradict_each_other_are_refused() {
        let program = Program::default();
        let both = |a: &str, b: &str| Settings::of(&[named(a).expect(a), named(b).expect(b)], &program);
        let both_join = both("glibc-keep", "glibc-stack-cache").expect("they join");
        let tunables = &both_join.environment["GLIBC_TUNABLES"];
        assert!(tunables.contains("top_pad") && tunables.contains("stack_cache_size"), "{tunables}");
        let filter = both("madvise-lazy-off", "go-keep").expect("they join");
        assert_eq!(filter.answer.len(), 3);
        assert_eq!(filter.environment["GODEBUG"], "madvdontneed=0");
    }

    /// A quarter of memory, touched, could end other programs.
    #[test]
    fn a_heap_that_was_not_given_is_not_guessed() {
        let remedy = named("jvm-fixed-heap").expect("there");
        let mut program = Program::default();
        assert!(Settings::of(&[remedy], &program).expect_err("refused").message.contains("largest heap"));
        program.arguments = vec!["-Xmx64m".into()];
        let settings = Settings::of(&[remedy], &program).expect("fits");
        assert_eq!(settings.environment["JAVA_TOOL_OPTIONS"], "-Xms64m -Xmx64m -XX:+AlwaysPreTouch");
    }

    #[test]
    fn what_is_set_already_is_known() {
        let remedy = named("python-malloc-keep").expect("there");
        let mut program = Program::default();
        assert!(!is_set(remedy, &program));
        let settings = Settings::of(&[remedy], &program).expect("fits");
        program.environment = settings.environment;
        program
            .environment
            .insert("GLIBC_TUNABLES".into(), format!("a=1:{}", program.environment["GLIBC_TUNABLES"]));
        assert!(is_set(remedy, &program));
        let redis = named("redis-one-thread").expect("there");
        program.arguments = ["--port", "1", "--io-threads", "1"].map(String::from).to_vec();
        assert!(is_set(redis, &program));
    }

    #[test]
    fn a_preload_comes_before_what_is_preloaded() {
        let settings = Settings {
            preload: vec!["/x/a.so".into()],
            intercept: ["zero".into()].into(),
            ..Settings::default()
        };
        let own =
            Own { preload: "/run/own.so".into(), modes: "zero,loose".into(), stop: Some("/run/stop".into()) };
        let variables = settings.variables(Some("/b.so"), Some(&own));
        assert_eq!(variables["LD_PRELOAD"], "/run/own.so:/x/a.so:/b.so");
        assert_eq!((&*variables[MODES_VARIABLE], &*variables[STOP_VARIABLE]), ("zero,loose", "/run/stop"));
        assert!(Settings::default().variables(Some("/b.so"), None).is_empty());
    }
}
