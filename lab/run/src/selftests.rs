// SPDX-License-Identifier: GPL-2.0-only
//! Runs Linux's own tests of memory management in a guest, one after another, and compares with the list.

use crate::boot::{self, Start};
use crate::execute::check_mode;
use crate::image::Images;
use crate::plan::Boot;
use crate::qemu::{self, Accel, Console, Cpu, Hardware};
use ceasefire_artifacts::kernel::KernelImage;
use ceasefire_artifacts::machine::Machine;
use ceasefire_artifacts::selftests::{List, Test};
use ceasefire_artifacts::Context;
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{Error, Kind, Result};
use ceasefire_results::parse_log;
use ceasefire_results::protocol::GuestLog;
use ceasefire_results::selftest::{judge, Counts, Report, Row, Wanted, SCHEMA};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A boot's own time, beside what its tests may take.
const BOOT_LIMIT_S: u64 = 90;

pub struct Options<'a> {
    pub machine: &'a Machine,
    pub kernel: &'a KernelImage,
    pub accel: Accel,
    pub cpu: Cpu,
    pub memory_mib: u32,
    pub kernel_arguments: &'a str,
    pub mode: Option<&'a str>,
    pub cpus: u32,
    pub nodes: u32,
    /// Logs go here.
    pub logs: &'a Path,
    /// Overrides the limit of every boot.
    pub limit: Option<Duration>,
    /// The factor by which every limit is stretched.
    pub patience: u32,
    pub command: String,
    /// Repeats one test, where its name is appended.
    pub rerun: &'a str,
}

/// One test of the list, and whether it is judged.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'a> {
    pub test: &'a Test,
    pub is_judged: bool,
}

/// The tests by these names, or all that pass on an unchanged kernel, or the short ones of those.
pub fn choose<'a>(list: &'a List, names: &[String], short: bool) -> Result<Vec<Chosen<'a>>> {
    let good = list.tests.iter().map(|test| Chosen { test, is_judged: true });
    if names.is_empty() {
        return Ok(good.filter(|chosen| chosen.test.short || !short).collect());
    }
    let other = list.others.iter().map(|test| Chosen { test, is_judged: false });
    let all: Vec<Chosen> = good.chain(other).collect();
    let mut chosen: Vec<Chosen> = Vec::new();
    for name in names {
        let Some(found) = all.iter().find(|one| one.test.name == *name) else {
            let mut known: Vec<&str> = all.iter().map(|one| one.test.name.as_str()).collect();
            known.sort_by_key(|known| crate::catalog::edit_distance(name, known));
            known.truncate(5);
            return Err(Error::usage(format!("there is no selftest named '{name}'")).remedy(format!(
                "the nearest are: {}; all of them are in docs/reference/selftests.md",
                known.join(", ")
            )));
        };
        if !chosen.iter().any(|one| one.test.name == *name) {
            chosen.push(*found);
        }
    }
    Ok(chosen)
}

/// The guest's job: settings where they change, then the test.
fn job(list: &List, chosen: &[Chosen], patience: u32) -> String {
    // The guest boots with the defaults; a kernel may lack a file that no chosen test sets.
    let mut now: BTreeMap<&str, &str> =
        list.defaults.iter().map(|(file, value)| (file.as_str(), value.as_str())).collect();
    let mut text = String::new();
    for Chosen { test, .. } in chosen {
        for (file, default) in &list.defaults {
            let wanted = test.set.get(file).unwrap_or(default);
            if now.insert(file, wanted) != Some(wanted.as_str()) {
                text += &format!("command write {file} {wanted}\n");
            }
        }
        let user = if test.nobody { "nobody" } else { "root" };
        text += &format!("selftest {} {} {user} {}\n", test.name, test.limit_s * patience, test.run);
    }
    text
}

/// Runs the chosen tests. A test that the guest does not survive has failed, and the rest get another boot.
pub fn measure(
    ctx: &Context,
    list: &List,
    chosen: &[Chosen],
    images: &Images,
    options: &Options,
) -> Result<Option<Report>> {
    let shape = Boot::new(options.cpus, options.nodes);
    if ctx.dry_run {
        let log = options.logs.join("01-selftests");
        let initrd = boot::beside(&log, "initrd");
        exec::print_line(&images.initrd_shell_with_job(
            &shape,
            &job(list, chosen, options.patience),
            &initrd,
        ));
        exec::print_line(&options.qemu(&shape, &initrd, &log).to_shell());
        return Ok(None);
    }
    crate::files::log_directory(options.logs)?;
    let step = ctx.progress.step(format!("selftests: {} on {}", chosen.len(), options.kernel.name));
    let mut rows: Vec<Row> = Vec::new();
    let (mut release, mut boots) = (None, 0);
    while rows.len() < chosen.len() {
        let left = &chosen[rows.len()..];
        boots += 1;
        let log = options.logs.join(format!("{boots:02}-selftests"));
        let initrd = images.initrd_with_job(&shape, &job(list, left, options.patience), &log)?;
        let command = options.qemu(&shape, &initrd.path, &log);
        let seconds: u64 = left.iter().map(|one| u64::from(one.test.limit_s)).sum();
        let limit = options.limit.unwrap_or(Duration::from_secs(BOOT_LIMIT_S + seconds) * options.patience);
        let rerun = format!("{} {}", options.rerun, left[0].test.name);
        let start = Start { command: &command, log: &log, limit, rerun: &rerun, is_useless: &|| false };
        let done = rows.len();
        let mut tell = |guest: &GuestLog| {
            if let Some(test) = guest.selftests.last() {
                let number = done + guest.selftests.len();
                step.waiting(format!("{number}/{}: {}", chosen.len(), test.name));
            }
        };
        let (guest, died) = match boot::boot(&start, &mut tell) {
            Ok(guest) => (guest, None),
            Err(error) if error.kind == Kind::Failed => (records(&log), Some(error)),
            Err(error) => return Err(error),
        };
        if let Some(fail) = guest.fails.first() {
            return Err(Error::failed(format!("the guest could not prepare a test: {}", fail.reason))
                .remedy(format!("log: {}", boot::records_path(&log).display())));
        }
        // A guest that died before it said anything has its own error.
        if guest.boot.is_some() {
            check_mode(&options.kernel.name, options.mode, &guest)
                .map_err(|error| error.remedy(format!("rerun: {rerun}")))?;
        }
        release = guest.boot.as_ref().map(|boot| boot.release.clone()).or(release);
        let before = rows.len();
        rows.extend(judge_all(left, &guest, died.as_ref().map(|error| error.message.as_str()))?);
        if let Some(error) = died.filter(|_| rows.len() == before) {
            return Err(error);
        }
    }
    let failed = rows.iter().filter(|row| row.problem.is_some()).count();
    step.done(if failed == 0 { "as wanted".to_string() } else { format!("{failed} not as wanted") });
    Ok(Some(Report {
        schema: SCHEMA,
        command: options.command.clone(),
        kernel: options.kernel.name.clone(),
        mode: options.mode.map(str::to_string),
        release,
        image_sha256: options.kernel.image_hash.clone(),
        cpus: options.cpus,
        nodes: options.nodes,
        memory_mib: options.memory_mib,
        boots,
        tests: rows,
    }))
}

/// What a guest said that gave no verdict.
fn records(log: &Path) -> GuestLog {
    parse_log(&std::fs::read(boot::records_path(log)).unwrap_or_default())
}

/// The guest ran them in order, perhaps not all.
fn judge_all(chosen: &[Chosen], guest: &GuestLog, died: Option<&str>) -> Result<Vec<Row>> {
    if died.is_none() && guest.selftests.len() != chosen.len() {
        return Err(Error::failed(format!(
            "the guest gave its verdict after {} of {} tests",
            guest.selftests.len(),
            chosen.len()
        ))
        .remedy("the guest's PID 1 does not know its job: rebuild with `make tool`"));
    }
    let mut rows = Vec::new();
    for (one, said) in chosen.iter().zip(&guest.selftests) {
        if said.name != one.test.name {
            return Err(Error::failed(format!(
                "the guest ran {} in the place of {}",
                said.name, one.test.name
            ))
            .remedy("the guest's PID 1 does not know its job: rebuild with `make tool`"));
        }
        let wanted = one.is_judged.then(|| wanted(one.test));
        rows.push(judge(said, &one.test.run, wanted.as_ref(), died));
    }
    // The guest died between two tests: the one that had just ended is the nearest to blame.
    if let (Some(why), true) = (died, guest.selftests.iter().all(|test| test.end.is_some())) {
        if let Some(row) = rows.last_mut() {
            row.problem.get_or_insert_with(|| format!("just after it: {why}"));
        }
    }
    Ok(rows)
}

fn wanted(test: &Test) -> Wanted {
    let Test { pass, fail, skip, xfail, .. } = *test;
    Wanted { counts: Counts { pass, fail, skip, xfail, ..Counts::default() }, exit: test.exit }
}

/// Where the logs of a run into this directory lie.
pub fn logs(out: &Path) -> PathBuf {
    out.join("selftests")
}

impl Options<'_> {
    fn qemu(&self, shape: &Boot, initrd: &Path, log: &Path) -> Command {
        let hardware = Hardware {
            qemu: &self.machine.qemu,
            firmware: &self.machine.firmware,
            kernel: &self.kernel.bzimage,
            initrd,
            accel: self.accel,
            cpu: self.cpu,
            memory_mib: self.memory_mib,
            console: Console::File(boot::console_path(log)),
            mode: self.mode,
            kernel_arguments: self.kernel_arguments,
        };
        Command::new(&self.machine.qemu).args(qemu::arguments(&hardware, shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_results::protocol::{Selftest, SelftestEnd};

    fn test(name: &str) -> Test {
        Test {
            name: name.into(),
            run: format!("{name} -a 1"),
            limit_s: 30,
            nobody: false,
            set: BTreeMap::new(),
            short: false,
            pass: 1,
            fail: 0,
            skip: 0,
            xfail: 0,
            exit: 0,
            reason: None,
        }
    }

    fn list() -> List {
        let defaults = BTreeMap::from([("/proc/h".to_string(), "0".to_string())]);
        let huge = BTreeMap::from([("/proc/h".to_string(), "8".to_string())]);
        let tests = vec![
            Test { short: true, ..test("a") },
            Test { set: huge.clone(), ..test("b") },
            Test { set: huge, nobody: true, ..test("c") },
            test("d"),
        ];
        List { defaults, tests, others: vec![test("odd")] }
    }

    fn names(chosen: &[Chosen]) -> Vec<String> {
        chosen.iter().map(|one| one.test.name.clone()).collect()
    }

    #[test]
    fn names_and_subsets_choose() {
        let list = list();
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&choose(&list, &[], false).expect("all")), ["a", "b", "c", "d"]);
        assert_eq!(names(&choose(&list, &[], true).expect("short")), ["a"]);
        let chosen = choose(&list, &words(&["odd", "b", "odd"]), true).expect("named");
        assert_eq!(names(&chosen), ["odd", "b"]);
        assert_eq!(chosen.iter().map(|one| one.is_judged).collect::<Vec<_>>(), [false, true]);
        let error = choose(&list, &words(&["e"]), false).expect_err("unknown");
        assert_eq!(error.kind, Kind::Usage);
    }

    #[test]
    fn settings_are_written_where_they_change() {
        let list = list();
        let chosen = choose(&list, &[], false).expect("all");
        assert_eq!(
            job(&list, &chosen, 1),
            "selftest a 30 root a -a 1\n\
             command write /proc/h 8\nselftest b 30 root b -a 1\nselftest c 30 nobody c -a 1\n\
             command write /proc/h 0\nselftest d 30 root d -a 1\n"
        );
        assert_eq!(job(&list, &chosen[..1], 4), "selftest a 120 root a -a 1\n");
    }

    fn said(name: &str, exit: Option<i32>) -> Selftest {
        let end = exit.map(|exit| SelftestEnd { exit: Some(exit), signal: None, timed_out: false, ms: 1 });
        Selftest { name: name.into(), lines: Vec::new(), end }
    }

    #[test]
    fn a_death_is_blamed_on_the_test_that_ran() {
        let list = list();
        let chosen = choose(&list, &[], false).expect("all");
        let guest = |tests: Vec<Selftest>| GuestLog { selftests: tests, ..parse_log(b"") };
        let problems = |tests: Vec<Selftest>, died| {
            let rows = judge_all(&chosen, &guest(tests), died).expect("rows");
            rows.into_iter().map(|row| row.problem).collect::<Vec<_>>()
        };
        let during = problems(vec![said("a", Some(0)), said("b", None)], Some("WARNING"));
        assert_eq!(during, [None, Some("WARNING".to_string())]);
        let after = problems(vec![said("a", Some(0))], Some("WARNING"));
        assert_eq!(after, [Some("just after it: WARNING".to_string())]);
        judge_all(&chosen, &guest(vec![said("a", Some(0))]), None).expect_err("a verdict, and tests missing");
        judge_all(&chosen, &guest(vec![said("b", Some(0))]), Some("x")).expect_err("another order");
    }
}
