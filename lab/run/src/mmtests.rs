// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own tests of memory management, run in a guest one after another and held against the list.

use crate::board::Board;
use crate::boot::{self, Start};
use crate::catalog::nearest;
use crate::guest::{check_mode, Guest, GuestSite, BOOT_LIMIT_S};
use crate::plan::{Boot, Matrix};
use crate::qemu::Console;
use crate::request::{check_limit, GuestSpec};
use crate::session::Session;
use crate::tlb::Preset;
use crate::words::{self, Line, Output};
use ceasefire_artifacts::selftests::{self as build, List, Test};
use ceasefire_artifacts::Context;
use ceasefire_base::exec;
use ceasefire_base::{Error, Kind, Result};
use ceasefire_results::parse_log;
use ceasefire_results::protocol::GuestLog;
use ceasefire_results::selftest::{judge, Counts, Report, Row, Wanted, SCHEMA};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Some tests move pages between nodes.
const NODES: u32 = 2;
/// mremap_test alone maps 4 GiB at once.
const MEMORY_MIB: u32 = 4096;
pub const CPUS: u32 = 4;
/// A kernel with what the tests need.
pub const KERNEL: &str = "selftests-vanilla";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// By name; those of the subset where none is named.
    pub tests: Vec<String>,
    pub short: bool,
    pub spec: GuestSpec,
    pub cpus: u32,
    /// Of one boot; `None`: what its tests may take.
    pub limit: Option<Duration>,
    /// The factor by which every limit is stretched.
    pub patience: u32,
    pub output: Output,
}

impl Request {
    /// The words after the program's name.
    pub fn words(&self) -> Vec<OsString> {
        let mut line = Line::default();
        ["lab", "selftests"].iter().for_each(|word| line.word(word));
        self.tests.iter().for_each(|test| line.word(test));
        if self.short {
            line.flag("subset", "short");
        }
        self.spec.kernels.put_words(&mut line, KERNEL);
        if self.cpus != CPUS {
            line.flag("cpus", self.cpus.to_string());
        }
        if self.patience != 1 {
            line.flag("patience", self.patience.to_string());
        }
        self.spec.machine.put_words(&mut line);
        line.limit(self.limit);
        line.output(&self.output, words::OUT);
        line.0
    }

    pub fn command(&self) -> String {
        words::shell(&self.words())
    }

    /// The command that runs one test alone.
    pub fn rerun(&self, test: &str) -> String {
        let output = Output::default();
        Request { tests: vec![test.into()], short: false, output, ..self.clone() }.command()
    }

    /// Where the logs of a run lie.
    pub fn logs(&self) -> PathBuf {
        self.output.out.join("selftests")
    }

    /// TLBs that take every liberty, under which mode `full` does all that it can do, and the memory that the tests want,
    /// unless others were asked for.
    fn spec(&self) -> GuestSpec {
        let mut spec = self.spec.clone();
        if spec.machine.is_ours() {
            spec.machine.tlb.get_or_insert(Preset::Adversary.into());
        }
        spec.machine.memory_mib.get_or_insert(MEMORY_MIB);
        spec
    }
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
            let known = nearest(name, all.iter().map(|one| one.test.name.as_str()), 5);
            return Err(Error::usage(format!("there is no selftest named '{name}'"))
                .remedy(format!("nearest: {known}; docs/reference/selftests.md lists all")));
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

/// Runs what was asked for and writes selftests.json. `None` in a dry run.
pub fn run(ctx: &Context, request: &Request) -> Result<Option<Report>> {
    let shape = Matrix { vcpus: vec![request.cpus], nodes: Some(NODES), ..Matrix::default() };
    shape.validate()?;
    check_limit(request.limit)?;
    let board = Board::of(ctx, &request.spec())?;
    if board.architecture.is_foreign() {
        return Err(Error::usage(format!("Linux's own tests do not run on the machine {}", board.machine()))
            .remedy("choose a kernel for x86-64: ceasefire lab list"));
    }
    let list = build::list(ctx)?;
    let chosen = choose(&list, &request.tests, request.short)?;
    let site =
        GuestSite::new(request.spec()).with_packages(build::packages()).with_shape(request.cpus, NODES);
    let session = Session::open(ctx, site, Vec::new(), Some(&request.output.out))?;
    let images = session.executor.images.clone().with(build::archive(ctx)?);
    let guest = Guest { images, ..session.executor.clone() };
    let report = measure(ctx, &list, &chosen, &guest, request)?;
    if let Some(report) = &report {
        let path = request.output.out.join("selftests.json");
        crate::files::write_whole(&path, report.to_json()?.as_bytes())?;
    }
    Ok(report)
}

/// Runs the chosen tests. A test that the guest does not survive has failed, and the rest get another boot.
fn measure(
    ctx: &Context,
    list: &List,
    chosen: &[Chosen],
    guest: &Guest,
    request: &Request,
) -> Result<Option<Report>> {
    let shape = Boot::new(request.cpus, NODES);
    let (logs, kernel) = (request.logs(), guest.kernel()?);
    let qemu = |initrd: &Path, log: &Path| {
        guest.command(kernel, &shape, initrd, Console::File(boot::console_path(log)))
    };
    if ctx.dry_run {
        let log = logs.join("01-selftests");
        let initrd = boot::beside(&log, "initrd");
        let job = job(list, chosen, request.patience);
        exec::print_line(&guest.images.initrd_shell_with_job(&shape, &kernel.job(&job), &initrd));
        exec::print_line(&qemu(&initrd, &log).to_shell());
        return Ok(None);
    }
    crate::files::log_directory(&logs)?;
    let step = ctx.progress.step(format!("selftests: {} on {}", chosen.len(), kernel.image.name));
    let mut rows: Vec<Row> = Vec::new();
    let (mut release, mut boots) = (None, 0);
    while rows.len() < chosen.len() {
        let left = &chosen[rows.len()..];
        boots += 1;
        let log = logs.join(format!("{boots:02}-selftests"));
        let job = kernel.job(&job(list, left, request.patience));
        let initrd = guest.images.initrd_with_job(&shape, &job, &log)?;
        let command = qemu(&initrd.path, &log);
        let seconds: u64 = left.iter().map(|one| u64::from(one.test.limit_s)).sum();
        let limit = request.limit.unwrap_or(Duration::from_secs(BOOT_LIMIT_S + seconds) * request.patience);
        let rerun = request.rerun(&left[0].test.name);
        let start = Start { command: &command, log: &log, limit, rerun: &rerun, is_useless: &|| false };
        let done = rows.len();
        let mut tell = |said: &GuestLog| {
            if let Some(test) = said.selftests.last() {
                let number = done + said.selftests.len();
                step.waiting(format!("{number}/{}: {}", chosen.len(), test.name));
            }
        };
        let (said, died) = match boot::boot(&start, &mut tell) {
            Ok(said) => (said, None),
            Err(error) if error.kind == Kind::Failed => (records(&log), Some(error)),
            Err(error) => return Err(error),
        };
        if let Some(fail) = said.fails.first() {
            return Err(Error::failed(format!("the guest could not prepare a test: {}", fail.reason))
                .remedy(format!("log: {}", boot::records_path(&log).display())));
        }
        // A guest that died before it said anything has its own error.
        if said.boot.is_some() {
            check_mode(kernel, &said).map_err(|error| error.remedy(format!("rerun: {rerun}")))?;
        }
        release = said.boot.as_ref().map(|boot| boot.release.clone()).or(release);
        let before = rows.len();
        rows.extend(judge_all(left, &said, died.as_ref().map(|error| error.message.as_str()))?);
        if let Some(error) = died.filter(|_| rows.len() == before) {
            return Err(error);
        }
    }
    let failed = rows.iter().filter(|row| row.problem.is_some()).count();
    step.done(if failed == 0 { "as wanted".to_string() } else { format!("{failed} not as wanted") });
    Ok(Some(Report {
        schema: SCHEMA,
        command: request.command(),
        kernel: kernel.image.name.clone(),
        mode: kernel.choice.mode.clone(),
        release,
        image_sha256: kernel.image.image_hash.clone(),
        cpus: request.cpus,
        nodes: NODES,
        memory_mib: guest.memory_mib,
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
