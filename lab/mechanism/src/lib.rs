// SPDX-License-Identifier: GPL-2.0-only
//! What a mechanism says of itself: kernel/NAME/mechanism.toml (docs/reference/mechanism.md).
//! Nothing else in the lab knows what a mechanism is called, what it can be set to or what it counts.

mod counter;
mod modes;

pub use counter::{Counter, Kind, Names, PerFault, Source, Total};
pub use modes::{boot_words, modes_of, parts, SEPARATOR};

use ceasefire_base::{disk, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// In the mechanism's folder.
pub const FILE: &str = "mechanism.toml";
/// Those of this checkout, for machines that have none.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/known.rs"));
/// The harness's buffers (workloads/harness/mechanism.c).
const NAME_BYTES_MAX: usize = 31;
const PATH_BYTES_MAX: usize = 127;
const COUNTER_BYTES_MAX: usize = 39;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanism {
    /// The folder's; not in the file.
    #[serde(default)]
    pub name: String,
    /// As sentences write it.
    pub title: String,
    pub about: String,
    /// What its switch can be set to; the first is what it boots with.
    #[serde(default)]
    pub modes: Vec<String>,
    /// `boot=MODE` on the kernel's command line.
    #[serde(default)]
    pub boot: Option<String>,
    /// The file in sysfs that says the mode and takes another.
    #[serde(default)]
    pub switch: Option<String>,
    /// Without a switch: what the second of its two modes needs of the processor, as CPUID announces it
    /// (`0x80000008.ebx.3`). With it, the kernel is in the first one only if its command line says so.
    #[serde(default)]
    pub cpuid: Option<String>,
    /// How long at most a process sends shootdowns, until they interrupt nobody, before it is measured. With `cpuid`.
    #[serde(default)]
    pub warm_up_ms: Option<u32>,
    /// On more CPUs than this the flushes of a process are broadcast by the processor, and interrupt nobody. With `cpuid`.
    #[serde(default)]
    pub broadcasts_over: Option<u32>,
    /// What stands in the kernel's log before the mode that it stays in, when it refuses one.
    #[serde(default)]
    pub refusal: Option<String>,
    /// `prctl(NUMBER, 0)`: not for this process.
    #[serde(default)]
    pub prctl: Option<u32>,
    /// `prctl(NUMBER, 2)`: this process's mprotect() is no barrier to others (docs/use/compatibility.md).
    #[serde(default)]
    pub opt_in: bool,
    /// Functions of its own by which a CPU is asked to flush, beside Linux's.
    #[serde(default)]
    pub flush_functions: Vec<String>,
    /// The file in debugfs with its counters, lines `name value`.
    #[serde(default)]
    pub counters: Option<String>,
    /// Debian packages of its kernel are offered (`make kernel-deb`).
    #[serde(default)]
    pub package: bool,
    /// It is what `make demo` shows.
    #[serde(default)]
    pub demo: Option<Demo>,
    #[serde(default)]
    pub needs: Vec<Need>,
    #[serde(default)]
    pub excludes: Vec<Exclusion>,
    /// Over the table of the counters of sites.
    #[serde(default)]
    pub sites: Option<Sites>,
    /// What stands for the capital words in names of counters.
    #[serde(default)]
    pub words: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub counter: Vec<Counter>,
}

/// A kernel with this mechanism, and the modes that are measured side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demo {
    pub kernel: String,
    pub modes: Vec<String>,
}

/// What the machine must be able to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    pub modes: Vec<String>,
    /// A setting of `--tlb`: `KEY=VALUE`, or `KEY=VALUE|VALUE`.
    pub tlb: String,
    /// Behind "mode X ".
    pub because: String,
}

/// What it cannot live with: it stays in its first mode then, and says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    pub modes: Vec<String>,
    pub what: String,
}

/// Words over a table with a line for each site of the kernel, and a column for each counter `SITE_…`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    pub title: String,
    pub note: String,
}

/// The mechanisms of a checkout, by name; where there is no checkout, those that this program was built with.
pub fn all(root: &Path) -> Result<Vec<Mechanism>> {
    let kernel = root.join("kernel");
    let Ok(entries) = fs::read_dir(&kernel) else { return built_in() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join(FILE).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if names.is_empty() {
        return built_in();
    }
    names.sort();
    let read = |name: &String| {
        let path = kernel.join(name).join(FILE);
        let text = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        Mechanism::parse(name, &text)
    };
    names.iter().map(read).collect()
}

pub fn built_in() -> Result<Vec<Mechanism>> {
    BUILT_IN.iter().map(|(name, text)| Mechanism::parse(name, text)).collect()
}

impl Mechanism {
    pub fn parse(name: &str, text: &str) -> Result<Mechanism> {
        let wrong = |what: String| {
            Error::failed(format!("kernel/{name}/{FILE}: {what}"))
                .remedy("see docs/reference/mechanism.md, which has every field")
        };
        let read: Mechanism = toml::from_str(text).map_err(|error| wrong(error.message().to_string()))?;
        let mechanism = Mechanism { name: name.to_string(), ..read };
        mechanism.check().map_err(wrong)?;
        Ok(mechanism)
    }

    /// What types cannot say.
    fn check(&self) -> std::result::Result<(), String> {
        if !is_word(&self.name) || self.name.len() > NAME_BYTES_MAX {
            return Err(format!("'{}' is no name: write a-z, 0-9, - and _", self.name));
        }
        let unique: BTreeSet<&String> = self.modes.iter().collect();
        if unique.len() != self.modes.len() || !self.modes.iter().all(|mode| is_word(mode)) {
            return Err("modes must differ, and be made of a-z, 0-9, - and _".into());
        }
        if !self.modes.is_empty() && (self.boot.is_none() || self.switch.is_some() == self.cpuid.is_some()) {
            return Err("modes need `boot`, which chooses one, and `switch` or `cpuid`, which says it".into());
        }
        if self.cpuid.as_ref().is_some_and(|feature| self.modes.len() != 2 || !is_feature(feature)) {
            return Err(
                "`cpuid` is LEAF.REGISTER.BIT, as in 0x80000008.ebx.3, and goes with two modes".into()
            );
        }
        for (key, value) in [("warm_up_ms", self.warm_up_ms), ("broadcasts_over", self.broadcasts_over)] {
            if value.is_some_and(|value| value == 0 || self.cpuid.is_none()) {
                return Err(format!("`{key}` is more than 0, and goes with `cpuid`"));
            }
        }
        for (key, path) in [("switch", &self.switch), ("counters", &self.counters)] {
            if path.as_ref().is_some_and(|path| !is_path(path)) {
                return Err(format!("`{key}` is no full path without blanks and commas"));
            }
        }
        if self.opt_in && self.prctl.is_none() {
            return Err("`opt_in` is said by `prctl`, which has no number here".into());
        }
        let functions = self.flush_functions.iter().chain(&self.boot);
        if let Some(word) = functions.into_iter().find(|word| !is_identifier(word)) {
            return Err(format!("'{word}' is no word of a kernel: write a-z, A-Z, 0-9, _ and ."));
        }
        let named = self.needs.iter().map(|need| &need.modes);
        for mode in named
            .chain(self.excludes.iter().map(|exclusion| &exclusion.modes))
            .chain(self.demo.iter().map(|demo| &demo.modes))
            .flatten()
        {
            if !self.modes.contains(mode) {
                return Err(format!("there is no mode '{mode}'"));
            }
        }
        if !self.counter.is_empty() && self.counters.is_none() {
            return Err("there are counters and no file `counters` to read them from".into());
        }
        self.check_counters()
    }

    fn check_counters(&self) -> std::result::Result<(), String> {
        let mut seen = BTreeSet::new();
        if self.sites.is_none() && self.counter.iter().any(Counter::is_of_sites) {
            return Err("there are counters of SITE and no [sites] with the words over their table".into());
        }
        for counter in &self.counter {
            if (counter.table || counter.summary.is_some() || counter.per_fault.is_some())
                && !counter.is_single()
            {
                return Err(format!("counter {}: one of many names has no column of its own", counter.name));
            }
            for (name, _) in counter.expand(&self.words)? {
                if !is_word(&name) || name.len() > COUNTER_BYTES_MAX {
                    return Err(format!("counter {}: '{name}' is no name of a counter", counter.name));
                }
                if !seen.insert(name.clone()) {
                    return Err(format!("two descriptions fit the counter {name}"));
                }
            }
            for mode in counter.per_fault.iter().flat_map(|per_fault| &per_fault.modes) {
                if !self.modes.contains(mode) {
                    return Err(format!("counter {}: there is no mode '{mode}'", counter.name));
                }
            }
        }
        Ok(())
    }

    /// The counters by the names that the kernel prints.
    pub fn names(&self) -> Names<'_> {
        Names::of(self)
    }

    /// For the workloads, which read no TOML (workloads/harness/mechanism.c).
    pub fn argument(&self) -> String {
        let mut words = vec![self.name.clone()];
        words.extend(self.switch.iter().map(|path| format!("switch={path}")));
        if let (Some(feature), Some(boot), [first, second]) = (&self.cpuid, &self.boot, &self.modes[..]) {
            words.push(format!("cpuid={feature},first={boot}={first},second={second}"));
        }
        words.extend(self.counters.iter().map(|path| format!("counters={path}")));
        words.extend(self.prctl.map(|number| format!("prctl={number:#x}")));
        words.extend(self.opt_in.then(|| "opt-in".to_string()));
        words.extend(self.warm_up_ms.map(|time| format!("warm-up={time}")));
        words.extend(self.broadcasts_over.map(|cpus| format!("broadcasts-over={cpus}")));
        words.extend(self.flush_functions.iter().map(|function| format!("flush={function}")));
        let names = self.names();
        words.extend(names.levels().map(|name| format!("level={name}")));
        words.join(",")
    }
}

/// LEAF.REGISTER.BIT
fn is_feature(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let [leaf, register, bit] = parts[..] else { return false };
    let is_leaf = leaf.strip_prefix("0x").is_some_and(|digits| u32::from_str_radix(digits, 16).is_ok());
    is_leaf
        && ["eax", "ebx", "ecx", "edx"].contains(&register)
        && bit.parse::<u32>().is_ok_and(|bit| bit < 32)
}

/// A name of a folder, a mode or a counter: it stands in file names, on command lines and in JSON.
fn is_word(text: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) && text.chars().all(is_fit)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= PATH_BYTES_MAX
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

fn is_path(text: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_graphic() && !",\"\\".contains(c);
    text.starts_with('/') && text.len() <= PATH_BYTES_MAX && text.chars().all(is_fit)
}

#[cfg(test)]
mod tests;
