// SPDX-License-Identifier: GPL-2.0-only
//! A remedy as data: when it can apply, what it sets, what it costs, who says so.
//!
//! The file is strict: a word that is not known is refused when the tests read it, not ignored on a server.

use ceasefire_base::{Error, Result};
use ceasefire_watch_model::{Cause, Class};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

const SCHEMA: &str = "ceasefire.deter-remedies/1";
const FILE: &str = include_str!("../../remedies.toml");

/// What a program is, as far as remedies care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No dynamic loader: nothing can be preloaded.
    Static,
    /// Linked dynamically with the GNU C library.
    Glibc,
    Musl,
    /// Starts others, which are not known before they run.
    Shell,
    SingleThreaded,
    Go,
    Jvm,
    JvmSerial,
    JvmParallel,
    JvmG1,
    JvmZ,
    JvmShenandoah,
    Cpython,
    Node,
    Beam,
    Dotnet,
    Apache,
    Redis,
    Mariadb,
    Postgresql,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    remedy: Vec<Remedy>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    pub name: String,
    /// What is different with it, in one clause.
    pub about: String,
    /// One of them must hold. None: it is about the host, not about a program.
    #[serde(default)]
    pub when: Vec<When>,
    pub sets: Sets,
    /// Names of causes.
    pub removes: Vec<String>,
    pub costs: String,
    pub undo: String,
    /// Whether and how a process that runs can have it.
    #[serde(default)]
    pub running: Option<String>,
    pub source: Vec<String>,
    /// From memory: neither measured nor read in a manual.
    #[serde(default)]
    pub is_unverified: bool,
    pub test: String,
    /// A program can notice it: only with --loose.
    #[serde(default)]
    pub is_loose: bool,
    /// As many flushes are asked for; fewer interrupt somebody.
    #[serde(default)]
    pub is_received_only: bool,
}

/// All that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// All of these.
    pub kinds: Vec<Kind>,
    /// None of these.
    pub without: Vec<Kind>,
    /// Parts of file names of which none is mapped.
    pub absent: Vec<String>,
    /// Part of a mapped file's name; `executable` for the program's own; `!PART` for any but these.
    pub object: Option<String>,
    /// All found in that one file: its name alone does not tell what it knows.
    pub strings: Vec<String>,
    /// Lowest version by what it is of.
    pub at_least: BTreeMap<String, String>,
    /// No argument begins with one of these: the user has chosen.
    pub unset_arguments: Vec<String>,
}

/// Everything is set together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sets {
    pub environment: Vec<Variable>,
    /// Put at the end of the command.
    pub arguments: Vec<String>,
    pub preload: Vec<Preload>,
    /// Causes whose calls the filter answers.
    pub answer: Vec<String>,
    /// Modes of our own preload library.
    pub intercept: Vec<String>,
    /// So many CPUs for the whole program.
    pub cpus: Option<u32>,
    /// What only the user can change.
    pub change: Vec<Change>,
    pub host: Vec<HostSetting>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    /// `{heap}` stands for the largest Java heap.
    pub value: String,
    #[serde(default)]
    pub merge: Merge,
}

/// What becomes of a value that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Merge {
    #[default]
    Replace,
    /// `name=value:name=value`
    ColonPairs,
    /// `name=value,name=value`
    CommaPairs,
    /// `name:value,name:value`
    CommaColonPairs,
    /// Words; the last one wins.
    Words,
}

/// A library of a Debian package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    pub file: String,
    pub package: String,
    /// All found in it: a library of this name may be too old for the settings beside it.
    #[serde(default)]
    pub strings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub r#where: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSetting {
    pub path: String,
    pub value: String,
}

impl Remedy {
    pub fn is_host(&self) -> bool {
        !self.sets.host.is_empty()
    }

    /// Nothing that we can set: the user has to.
    pub fn is_change_only(&self) -> bool {
        Sets { change: Vec::new(), ..self.sets.clone() } == Sets::default()
    }
}

/// All there are, in the file's order.
pub fn all() -> &'static [Remedy] {
    static ALL: OnceLock<Vec<Remedy>> = OnceLock::new();
    // The file is part of the program: a test reads it.
    ALL.get_or_init(|| parse(FILE).unwrap_or_default())
}

/// Errors: a name that there is not, with the nearest.
pub fn named(name: &str) -> Result<&'static Remedy> {
    all().iter().find(|remedy| remedy.name == name).ok_or_else(|| {
        let near = all().iter().map(|remedy| remedy.name.as_str());
        let near: Vec<&str> = near.filter(|other| is_near(name, other)).collect();
        let remedy = match near.is_empty() {
            false => format!("did you mean {}?", near.join(" or ")),
            true => "`ceasefire deter show` lists them".to_string(),
        };
        Error::usage(format!("there is no remedy named '{name}'")).remedy(remedy)
    })
}

/// One of the two holds the other's longer part.
fn is_near(name: &str, other: &str) -> bool {
    let name = name.to_lowercase();
    name.len() >= 3
        && (other.contains(&name)
            || name.contains(other)
            || other.split('-').any(|part| part.len() >= 4 && name.contains(part)))
}

fn parse(text: &str) -> std::result::Result<Vec<Remedy>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
    if document.schema != SCHEMA {
        return Err(format!("its form is {}, not {SCHEMA}", document.schema));
    }
    let mut names = BTreeSet::new();
    for remedy in &document.remedy {
        check(remedy).map_err(|why| format!("{}: {why}", remedy.name))?;
        if !names.insert(&remedy.name) {
            return Err(format!("{} is there twice", remedy.name));
        }
    }
    Ok(document.remedy)
}

/// What the form alone does not say.
fn check(remedy: &Remedy) -> std::result::Result<(), String> {
    let sets = &remedy.sets;
    if *sets == Sets::default() {
        return Err("it sets nothing".into());
    }
    if remedy.removes.is_empty() || remedy.source.is_empty() {
        return Err("it names no cause, or no source".into());
    }
    for cause in remedy.removes.iter().chain(&sets.answer) {
        if matches!(Cause::from(cause.clone()), Cause::Unknown(_)) {
            return Err(format!("there is no cause named '{cause}'"));
        }
    }
    // DONTNEED zeroes: answering it would leave old data.
    if sets
        .answer
        .iter()
        .any(|cause| !["madvise-free", "madvise-cold", "madvise-pageout"].contains(&&**cause))
    {
        return Err("only hints may be answered".into());
    }
    if remedy.is_host() != remedy.when.is_empty() {
        return Err("a remedy of the host has no `when`, every other has".into());
    }
    if sets.intercept.iter().any(|mode| mode == "zero") && !remedy.is_loose {
        return Err("a program can notice zeroing: is_loose".into());
    }
    for when in &remedy.when {
        if when.object.is_some() == when.strings.is_empty() {
            return Err("`object` and `strings` go together".into());
        }
    }
    for setting in &sets.host {
        if !setting.path.starts_with("/proc/sys/") && !setting.path.starts_with("/sys/") {
            return Err(format!("{} is no setting of the kernel", setting.path));
        }
    }
    Ok(())
}

/// A cause that user programs have, by its name.
pub fn cause(name: &str) -> Cause {
    Cause::from(name.to_string())
}

/// Classes of shootdowns that remedies are about.
pub const CLASS: Class = Class::User;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_says_what_the_form_asks_for() {
        let all = parse(FILE).expect("the file is good");
        assert!(all.len() >= 25, "{}", all.len());
        for remedy in &all {
            assert!(!remedy.about.ends_with('.') && !remedy.costs.is_empty(), "{}", remedy.name);
            assert!(remedy.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", remedy.name);
        }
        assert_eq!(super::all().len(), all.len());
    }

    fn refused(change: impl Fn(&str) -> String) -> String {
        let good = "schema = \"ceasefire.deter-remedies/1\"\n[[remedy]]\nname = \"x\"\nabout = \"a\"\n\
            removes = [\"munmap\"]\ncosts = \"c\"\nundo = \"u\"\nsource = [\"s\"]\ntest = \"t\"\n\
            [[remedy.when]]\nkinds = [\"go\"]\n[remedy.sets]\narguments = [\"-x\"]\n";
        assert!(parse(good).is_ok());
        parse(&change(good)).expect_err("refused")
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(refused(|t| t.replace("costs", "cost")).contains("unknown field"));
        assert!(refused(|t| t.replace("\"go\"", "\"rust\"")).contains("unknown variant"));
        assert!(refused(|t| t.replace("munmap", "munmop")).contains("no cause named 'munmop'"));
        assert!(refused(|t| t.replace("remedies/1", "remedies/2")).contains("form"));
        assert!(refused(|t| t.replace("arguments = [\"-x\"]", "")).contains("sets nothing"));
        assert!(refused(|t| t.replace("arguments = [\"-x\"]", "answer = [\"madvise-dontneed\"]"))
            .contains("only hints"));
        assert!(refused(|t| t.replace("arguments = [\"-x\"]", "intercept = [\"zero\"]")).contains("is_loose"));
        assert!(refused(|t| t.replace("kinds = [\"go\"]", "object = \"a\"")).contains("go together"));
        let (head, entry) = ("schema = \"ceasefire.deter-remedies/1\"\n", "[[remedy]]");
        assert!(refused(|t| format!("{t}{}", t.replace(head, "").replace(entry, "\n[[remedy]]")))
            .contains("twice"));
    }

    /// What was learned by measuring, or from a source that was wrong.
    #[test]
    fn the_traps_are_kept() {
        let value = |name: &str, variable: &str| {
            let remedy = named(name).expect(name);
            let found = remedy.sets.environment.iter().find(|v| v.name == variable).expect(variable);
            found.value.clone()
        };
        assert!(value("jemalloc", "MALLOC_CONF").contains("dirty_decay_ms:-1"), "0 is at once, -1 never");
        assert!(value("jemalloc-thp", "MALLOC_CONF").contains("thp:always"));
        assert!(value("glibc-keep", "GLIBC_TUNABLES").contains("top_pad"));
        assert!(value("python-malloc-keep", "GLIBC_TUNABLES").contains("trim_threshold"));
        for part in value("glibc-keep", "GLIBC_TUNABLES").split(':') {
            let (_, number) = part.split_once('=').expect("name=value");
            assert!(number.parse::<u64>().expect("a number") <= i32::MAX as u64, "{part}");
        }
        let go = named("go-keep").expect("there");
        assert_eq!(go.sets.answer, ["madvise-free"]);
        let purge = |r: &&Remedy| r.sets.environment.iter().any(|v| v.name == "MIMALLOC_PURGE_DELAY");
        for remedy in all().iter().filter(purge) {
            assert!(remedy.when.iter().all(|when| when.strings.iter().any(|s| s == "purge_delay")));
        }
        let python = |r: &&Remedy| r.sets.environment.iter().any(|v| v.name == "PYTHONMALLOC");
        for remedy in all().iter().filter(python) {
            assert!(remedy.sets.environment.len() > 1, "{}: neither half alone", remedy.name);
        }
    }

    #[test]
    fn a_name_that_is_not_there_brings_the_nearest() {
        let error = named("jemaloc-keep").expect_err("misspelt");
        assert!(error.remedy.expect("a remedy").contains("keep"));
        assert!(named("qqq").expect_err("unknown").remedy.expect("a remedy").contains("deter show"));
    }
}
