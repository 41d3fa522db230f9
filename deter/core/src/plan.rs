// SPDX-License-Identifier: GPL-2.0-only
//! Which remedies could help a program, and why the others do not. Pure: nothing is looked up but whether a library is
//! installed.

use crate::machine::Machine;
use crate::program::{java_options, Program};
use crate::remedy::{cause, When};
use crate::{settings, version, Kind, Remedy};
use ceasefire_watch_model::Cause;
use std::collections::BTreeMap;

/// Causes and their targets, of a record.
pub type Seen = BTreeMap<Cause, u64>;

/// Of the shootdowns seen; a cause with less is not worth a remedy.
const SHARE_MIN: f64 = 0.01;

#[derive(Debug, Clone)]
pub struct Choice {
    pub remedy: &'static Remedy,
    /// Clauses.
    pub why: Vec<String>,
    /// What must be done first, as an imperative.
    pub first: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// What has removed the problem already, in sentences.
    pub removed: Vec<String>,
    /// Largest share first where causes were seen, else in the file's order.
    pub helps: Vec<Choice>,
    /// In the file's order, each with its reason.
    pub not: Vec<(&'static Remedy, String)>,
}

pub fn plan(program: &Program, machine: &Machine, seen: Option<&Seen>, remedies: &'static [Remedy]) -> Plan {
    let mut plan = Plan { removed: removed(program, machine), helps: Vec::new(), not: Vec::new() };
    for remedy in remedies {
        match choose(remedy, program, machine, seen) {
            Ok(choice) => plan.helps.push(choice),
            Err(why) => plan.not.push((remedy, why)),
        }
    }
    if let Some(seen) = seen {
        let share = |remedy: &Remedy| -> u64 {
            remedy.removes.iter().filter_map(|name| seen.get(&cause(name))).sum()
        };
        plan.helps.sort_by_key(|choice| std::cmp::Reverse(share(choice.remedy)));
    }
    plan
}

/// Why a remedy has no effect on this program, in one clause; None where it may have.
pub fn why_not(remedy: &'static Remedy, program: &Program, machine: &Machine) -> Option<String> {
    choose(remedy, program, machine, None).err()
}

fn removed(program: &Program, machine: &Machine) -> Vec<String> {
    let mut all = machine.says();
    if machine.cpus > 1 && program.cpus_allowed == Some(1) {
        all.push("it may use one CPU only: its flushes interrupt nobody".into());
    }
    if program.is(Kind::Postgresql) {
        all.push(
            "each process of PostgreSQL has one thread: its flushes interrupt a CPU only where it ran before"
                .into(),
        );
    } else if program.threads == Some(1) {
        all.push("it has one thread now: its flushes interrupt a CPU only where it ran before".into());
    }
    if program.is(Kind::JvmZ) {
        all.push("ZGC moves objects behind barriers, not by changing mappings: little may be left".into());
    }
    all
}

/// Why it could help; or why it does not, in one clause.
fn choose(
    remedy: &'static Remedy,
    program: &Program,
    machine: &Machine,
    seen: Option<&Seen>,
) -> Result<Choice, String> {
    let why = match remedy.when.as_slice() {
        [] => vec!["it is about the whole host".to_string()],
        all => {
            let mut refused = None;
            let mut found = None;
            for when in all {
                match holds(when, remedy, program) {
                    Ok(why) => found = found.or(Some(why)),
                    Err(why) => refused = refused.or(Some(why)),
                }
            }
            found.ok_or_else(|| refused.unwrap_or_default())?
        }
    };
    reaches(remedy, program)?;
    if settings::lacks_heap(remedy, program) {
        return Err("its largest heap is not given: -Xmx".into());
    }
    if settings::is_set(remedy, program) {
        return Err("it is set already".into());
    }
    if remedy.sets.cpus.is_some() && (machine.cpus == 1 || program.cpus_allowed == Some(1)) {
        return Err("one CPU is all there is".into());
    }
    let mut choice = Choice { remedy, why, first: None };
    if let Some(seen) = seen {
        let all: u64 = seen.values().sum();
        let has =
            |name: &&String| seen.get(&cause(name)).is_some_and(|n| *n as f64 >= all as f64 * SHARE_MIN);
        let present: Vec<&String> = remedy.removes.iter().filter(has).collect();
        if present.is_empty() {
            return Err(format!("{} were not seen", list(&remedy.removes)));
        }
        let shares = present.iter().map(|name| {
            let count = seen.get(&cause(name)).copied().unwrap_or(0);
            format!("{name} {:.0} % of what was received", count as f64 * 100.0 / all.max(1) as f64)
        });
        choice.why = shares.collect();
    }
    for preload in &remedy.sets.preload {
        if let Err(error) = settings::installed(preload) {
            choice.first = error.remedy;
        }
    }
    Ok(choice)
}

fn holds(when: &When, remedy: &Remedy, program: &Program) -> Result<Vec<String>, String> {
    let mut why = Vec::new();
    for kind in &when.kinds {
        if !program.is(*kind) {
            return Err(format!("it is not {}", words(*kind)));
        }
        why.push(format!("it is {}", words(*kind)));
    }
    if let Some(kind) = when.without.iter().find(|kind| program.is(**kind)) {
        return Err(format!("it is {}", words(*kind)));
    }
    for part in &when.absent {
        if let Some(object) = program.objects.iter().find(|object| object.name.contains(part)) {
            return Err(format!("it uses {} already", object.name));
        }
    }
    if let Some(wanted) = &when.object {
        why.push(object(wanted, &when.strings, program)?);
    }
    for (of, least) in &when.at_least {
        match program.versions.get(of) {
            Some(version) if version::is_at_least(version, least) => {}
            Some(version) => return Err(format!("{of} is {version}, older than {least}")),
            None => return Err(format!("which {of} it is, is not known")),
        }
    }
    let options = match program.is(Kind::Jvm) {
        true => java_options(program),
        false => program.arguments.clone(),
    };
    // What the remedy itself has set is no choice of somebody else.
    for prefix in when.unset_arguments.iter().filter(|_| !settings::is_set(remedy, program)) {
        if let Some(argument) = options.iter().find(|argument| argument.starts_with(prefix)) {
            return Err(format!("it is started with {argument}, which counts more"));
        }
    }
    if why.is_empty() {
        why.push("it applies to every program".into());
    }
    Ok(why)
}

/// The mapped file that a remedy needs, and what must be in it.
fn object(wanted: &str, strings: &[String], program: &Program) -> Result<String, String> {
    let mut named = false;
    for (at, object) in program.objects.iter().enumerate() {
        let fits = match wanted.strip_prefix('!') {
            Some(other) => !object.name.contains(other),
            None if wanted == "executable" => at == 0,
            None => object.name.contains(wanted),
        };
        if !fits {
            continue;
        }
        named = true;
        if strings.iter().all(|text| object.has(text)) {
            let found = strings.last().map(String::as_str).unwrap_or_default();
            return Ok(format!("{} has {found}", object.name));
        }
    }
    let last = strings.last().map(String::as_str).unwrap_or_default();
    Err(match named {
        true if wanted == "executable" || wanted.starts_with('!') => format!("no file of it has {last}"),
        true => format!("its {wanted} does not know {last}"),
        false => format!("it does not use {wanted}"),
    })
}

/// Whether the loader or the runtime would take what the remedy sets.
fn reaches(remedy: &Remedy, program: &Program) -> Result<(), String> {
    let by_loader = !remedy.sets.preload.is_empty() || !remedy.sets.intercept.is_empty();
    let by_libc = remedy.sets.environment.iter().any(|variable| variable.name == "GLIBC_TUNABLES");
    if let (true, Some(why)) = (by_loader || by_libc, &program.privileged) {
        return Err(format!("{why}: the loader ignores it"));
    }
    let by_python = remedy.sets.environment.iter().any(|variable| variable.name.starts_with("PYTHON"));
    if let (true, Some(option)) = (by_python, python_ignores(&program.arguments)) {
        return Err(format!("it is started with {option}: Python then ignores PYTHONMALLOC"));
    }
    if by_loader && program.is(Kind::Static) {
        return Err("it is linked statically: nothing can be preloaded".into());
    }
    if let (true, Some(sanitizer)) = (by_loader, &program.sanitizer) {
        return Err(format!("it has {sanitizer}, which watches memory itself"));
    }
    if let (false, Some(why)) = (remedy.sets.answer.is_empty(), &program.privileged) {
        return Err(format!("{why}: no_new_privs would take that away"));
    }
    Ok(())
}

/// The option, before the script, with which Python reads no variable of its own.
fn python_ignores(arguments: &[String]) -> Option<&str> {
    let mut words = arguments.iter();
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        match word.strip_prefix("--") {
            // All that follows is no option any more.
            Some("") => return None,
            Some("check-hash-based-pycs") => drop(words.next()),
            Some(_) => {}
            None => {
                for (at, letter) in word.char_indices().skip(1) {
                    match letter {
                        'E' | 'I' => return Some(word),
                        'c' | 'm' => return None,
                        // With a value: the rest of the word, or the next one.
                        'W' | 'X' => {
                            if at + 1 == word.len() {
                                words.next();
                            }
                            break;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    None
}

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Static => "linked statically",
        Kind::Glibc => "linked with glibc",
        Kind::Musl => "linked with musl",
        Kind::Shell => "a shell",
        Kind::SingleThreaded => "single-threaded",
        Kind::Go => "a Go program",
        Kind::Jvm => "Java",
        Kind::JvmSerial => "Java with Serial",
        Kind::JvmParallel => "Java with Parallel",
        Kind::JvmG1 => "Java with G1",
        Kind::JvmZ => "Java with ZGC",
        Kind::JvmShenandoah => "Java with Shenandoah",
        Kind::Cpython => "CPython",
        Kind::CpythonFreeThreaded => "a free-threaded build of CPython",
        Kind::Node => "Node.js",
        Kind::Beam => "Erlang",
        Kind::Dotnet => ".NET",
        Kind::Apache => "Apache",
        Kind::Redis => "Redis",
        Kind::Mariadb => "MariaDB or MySQL",
        Kind::Postgresql => "PostgreSQL",
    }
}

/// "a, b and c".
pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::all;
    use std::path::Path;

    fn machine() -> Machine {
        Machine { cpus: 8, kernel: "6.12".into(), has_invlpgb: false }
    }

    fn program(kinds: &[Kind], objects: &[(&str, &[u8])]) -> Program {
        let objects =
            objects.iter().map(|(name, text)| crate::program::Object::of(Path::new(name), Some(text)));
        let versions = [("glibc", "2.36"), ("python", "3.11")].map(|(a, b)| (a.to_string(), b.to_string()));
        Program {
            kinds: kinds.iter().copied().collect(),
            objects: objects.collect(),
            versions: versions.into(),
            threads: Some(4),
            ..Program::default()
        }
    }

    fn helps(program: &Program, seen: Option<&Seen>) -> Vec<&'static str> {
        plan(program, &machine(), seen, all())
            .helps
            .iter()
            .map(|choice| choice.remedy.name.as_str())
            .collect()
    }

    fn why_not(program: &Program, name: &str) -> String {
        let plan = plan(program, &machine(), None, all());
        plan.not.into_iter().find(|(remedy, _)| remedy.name == name).map(|(_, why)| why).expect("left out")
    }

    #[test]
    fn each_kind_has_what_is_its_own() {
        let plain = program(&[Kind::Glibc], &[("prog", b""), ("libc.so.6", b"malloc_trim")]);
        let found = helps(&plain, None);
        assert!(
            found.contains(&"glibc-keep")
                && found.contains(&"jemalloc")
                && !found.contains(&"malloc-trim-off")
        );
        assert!(found.contains(&"madvise-lazy-off") && found.contains(&"host-ksm"));
        let trims = program(&[Kind::Glibc], &[("prog", b"malloc_trim"), ("libc.so.6", b"")]);
        assert!(helps(&trims, None).contains(&"malloc-trim-off"));
        let python = program(&[Kind::Glibc, Kind::Cpython], &[("python3.11", b"PYTHONMALLOC")]);
        let found = helps(&python, None);
        assert!(
            found.contains(&"python-malloc-keep") && !found.contains(&"glibc-keep"),
            "neither half alone"
        );
        let go = program(&[Kind::Static, Kind::Go], &[("gochurn", b"")]);
        assert_eq!(
            helps(&go, None).iter().filter(|name| !name.starts_with("host-")).collect::<Vec<_>>(),
            [&"go-keep", &"madvise-lazy-off", &"one-cpu", &"memory-low"]
        );
        let mut java = program(&[Kind::Glibc, Kind::Jvm, Kind::JvmShenandoah], &[("java", b"")]);
        assert_eq!(why_not(&java, "jvm-fixed-heap"), "its largest heap is not given: -Xmx");
        java.arguments = vec!["-Xmx1g".into()];
        let found = helps(&java, None);
        assert!(found.contains(&"jvm-fixed-heap") && found.contains(&"jvm-shenandoah-no-uncommit"));
        assert!(!found.contains(&"jvm-z-no-uncommit") && !found.contains(&"jemalloc"));
    }

    #[test]
    fn a_librarys_name_is_not_enough() {
        let old = program(&[Kind::Glibc], &[("prog", b""), ("libmimalloc.so.2.0", b"mimalloc_ reset_delay")]);
        assert_eq!(why_not(&old, "mimalloc-keep"), "its mimalloc does not know purge_delay");
        assert_eq!(why_not(&old, "jemalloc"), "it uses libmimalloc.so.2.0 already");
        let new = program(&[Kind::Glibc], &[("prog", b""), ("libmimalloc.so.2.1", b"mimalloc_ purge_delay")]);
        assert!(helps(&new, None).contains(&"mimalloc-keep"));
    }

    #[test]
    fn what_the_loader_ignores_is_left_out() {
        let mut plain = program(&[Kind::Glibc], &[("prog", b"")]);
        plain.privileged = Some("setuid".into());
        assert_eq!(why_not(&plain, "glibc-keep"), "setuid: the loader ignores it");
        assert!(why_not(&plain, "madvise-lazy-off").contains("no_new_privs"));
        plain.privileged = None;
        plain.sanitizer = Some("asan".into());
        assert!(why_not(&plain, "jemalloc").contains("asan"));
        plain.versions.insert("glibc".into(), "2.24".into());
        assert_eq!(why_not(&plain, "glibc-keep"), "glibc is 2.24, older than 2.26");
        plain.arguments = vec!["-Xms1g".into()];
        plain.kinds.insert(Kind::Jvm);
        assert!(why_not(&plain, "jvm-fixed-heap").contains("-Xms1g"));
        plain.arguments = vec!["-jar".into(), "app.jar".into(), "-Xmx9g".into()];
        assert!(why_not(&plain, "jvm-fixed-heap").contains("not given"), "it is the application's");
        plain.environment.insert("JDK_JAVA_OPTIONS".into(), "-Xms1g -Xmx2g".into());
        assert!(why_not(&plain, "jvm-fixed-heap").contains("-Xms1g"));
        plain.environment =
            [("JAVA_TOOL_OPTIONS".to_string(), "-Xms1g -Xmx1g -XX:+AlwaysPreTouch".to_string())].into();
        assert_eq!(why_not(&plain, "jvm-fixed-heap"), "it is set already");
    }

    /// A JVM that does not know a flag, and a free-threaded CPython, do not start.
    #[test]
    fn what_would_not_start_is_left_out() {
        let mut java = program(&[Kind::Glibc, Kind::Jvm, Kind::JvmZ], &[("java", b"")]);
        assert!(why_not(&java, "jvm-z-no-uncommit").contains("not known"));
        java.versions.insert("jdk".into(), "11.0.2".into());
        assert_eq!(why_not(&java, "jvm-z-no-uncommit"), "jdk is 11.0.2, older than 13");
        java.versions.insert("jdk".into(), "17.0.15".into());
        assert!(helps(&java, None).contains(&"jvm-z-no-uncommit"));
        let kinds = [Kind::Glibc, Kind::Cpython, Kind::CpythonFreeThreaded];
        let python = program(&kinds, &[("python3.13t", b"PYTHONMALLOC")]);
        assert!(why_not(&python, "python-malloc-keep").contains("free-threaded"));
        assert!(why_not(&python, "python-malloc-tcmalloc").contains("free-threaded"));
    }

    #[test]
    fn an_option_that_makes_python_deaf_is_seen() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            python_ignores(&words).map(str::to_string)
        };
        for (line, option) in [
            ("-I x.py", Some("-I")),
            ("-sE x.py", Some("-sE")),
            ("-W error -E -c E", Some("-E")),
            ("x.py -E", None),
            ("-c E", None),
            ("-mE", None),
            ("-W E x", None),
            ("-XE x", None),
            ("-- -E", None),
        ] {
            assert_eq!(of(line).as_deref(), option, "{line}");
        }
        let mut python = program(&[Kind::Glibc, Kind::Cpython], &[("python3.11", b"PYTHONMALLOC")]);
        python.arguments = vec!["-I".into(), "x.py".into()];
        assert!(why_not(&python, "python-malloc-keep").contains("started with -I"));
        assert!(why_not(&python, "python-malloc-tcmalloc").contains("started with -I"));
    }

    #[test]
    fn a_cause_that_was_not_seen_needs_no_remedy() {
        let plain = program(&[Kind::Glibc], &[("prog", b"")]);
        let seen: Seen = [(Cause::Munmap, 1000), (Cause::Cow, 5)].into();
        let found = helps(&plain, Some(&seen));
        assert!(found.contains(&"glibc-keep") && !found.contains(&"madvise-lazy-off"), "{found:?}");
        assert!(!found.iter().any(|name| name.starts_with("host-")));
        let plan = plan(&plain, &machine(), Some(&seen), all());
        assert!(
            plan.helps[0].why[0].starts_with("munmap 100 %")
                || plan.helps[0].why[0].starts_with("munmap 99 %")
        );
        assert!(helps(&plain, Some(&Seen::new())).is_empty());
    }

    #[test]
    fn it_is_said_first_where_there_is_nothing_to_do() {
        let mut one = program(&[Kind::Glibc], &[("prog", b"")]);
        one.threads = Some(1);
        one.cpus_allowed = Some(1);
        let plan = plan(&one, &machine(), None, all());
        assert!(plan.removed.iter().any(|text| text.contains("one CPU only")));
        assert!(plan.removed.iter().any(|text| text.contains("one thread")));
        assert!(plan.not.iter().any(|(remedy, _)| remedy.name == "one-cpu"));
    }
}
