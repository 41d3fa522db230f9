// SPDX-License-Identifier: GPL-2.0-only
//! The session's order, resumption and losses, with a place that boots nothing.

use super::*;
use crate::executor::Orders;
use crate::guest::Guest;
use crate::host::HostSite;
use crate::image::Images;
use crate::kernels::{Choice, Variant};
use crate::machine::MachineSpec;
use crate::request::{GuestSpec, Place, Work};
use crate::words::Output;
use ceasefire_artifacts::kernel::KernelImage;
use ceasefire_artifacts::machine::{Guest as Shape, Machine, Origin};
use ceasefire_base::{Kind, Progress, Verbosity};
use ceasefire_results::parse_log;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

const CATALOG: &str = r#"
{"name":"zero","group":"control","unit":"call","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"munmap","group":"micro","unit":"call","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}
{"name":"apache","group":"app","unit":"request","about":"a","threads_min":1,"needs":[],"packages":["apache2-bin"],"programs":["/usr/sbin/apache2"],"shared":false}
"#;

/// A place that writes down what it is asked, and fails at one step.
struct Fake<'a> {
    asked: &'a RefCell<Vec<String>>,
    fails_at: &'static str,
    executor: Mock,
}

/// Answers each task with a log made up for it.
#[derive(Default)]
struct Mock {
    modes: Vec<&'static str>,
    /// Tasks of this mode end without a verdict.
    dies_in: &'static str,
    /// Jobs of this name fail inside the guest, if their line says this.
    fails: &'static str,
    fails_with: &'static str,
    /// What the observer leaves.
    record: &'static [u8],
    lanes: usize,
    runs: AtomicUsize,
    reruns: Mutex<Vec<String>>,
}

impl Fake<'_> {
    fn ask(&self, step: &str) -> Result<()> {
        self.asked.borrow_mut().push(step.into());
        if step == self.fails_at {
            return Err(Error::usage(format!("refused at {step}")));
        }
        Ok(())
    }
}

impl Site for Fake<'_> {
    type Executor = Mock;

    fn refuse(&mut self, _ctx: &Context, _matrices: &mut [Matrix]) -> Result<()> {
        self.ask("refuse")
    }

    fn packages(&self, _ctx: &Context) -> Result<()> {
        self.ask("packages")
    }

    fn catalog(&mut self, _ctx: &Context) -> Result<Catalog> {
        self.ask("catalog")?;
        Catalog::parse(CATALOG)
    }

    fn prepare(self, _ctx: &Context, plan: &Plan) -> Result<Mock> {
        self.ask(&format!("prepare {}", plan.applications().0.join(",")))?;
        Ok(self.executor)
    }
}

impl Executor for Mock {
    fn tasks(&self, plan: &Plan) -> Vec<Task> {
        let choice = |mode: &&str| Choice { kernel: "k".into(), mode: Some(mode.to_string()) };
        let of = |mode| plan.boots.iter().map(move |boot| Task::new("k", &choice(mode), boot));
        self.modes.iter().flat_map(of).collect()
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn identity(&self, task: &Task) -> String {
        task.boot.job_text()
    }

    fn show(&self, _task: &Task) {}

    fn run(&self, task: &Task, orders: &mut Orders) -> Result<GuestLog> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.reruns.lock().expect("nobody panicked").push(orders.rerun.to_string());
        if task.choice.mode.as_deref() == Some(self.dies_in) {
            return Err(Error::failed("the emulator was killed"));
        }
        let (mut text, mut runs, mut fails) = (String::from("{\"kind\":\"boot\",\"protocol\":1}\n"), 0, 0);
        for job in &task.boot.jobs {
            if job.workload == self.fails && job.line().contains(self.fails_with) {
                fails += 1;
                text += &format!(
                    "{{\"kind\":\"fail\",\"workload\":\"{}\",\"threads\":{},\"reason\":\"broke\"}}\n",
                    job.workload, job.threads
                );
                continue;
            }
            runs += 1;
            text += &format!(
                "{{\"kind\":\"run\",\"workload\":\"{}\",\"threads\":{},\"repeat\":0,\"seed\":1,\"unit\":\"call\",\
                 \"units\":10,\"checksum\":\"c\",\"counters\":{{\"sent\":0}}}}\n",
                job.workload, job.threads
            );
        }
        text += &format!(
            "{{\"kind\":\"verdict\",\"ok\":{},\"runs\":{runs},\"skips\":0,\"fails\":{fails}}}\n",
            fails == 0
        );
        std::fs::write(crate::boot::records_path(&task.log), &text).expect("a log");
        if task.boot.is_recorded() {
            std::fs::write(crate::boot::watched_path(&task.log), self.record).expect("a record");
        }
        (orders.on_progress)(&parse_log(text.as_bytes()));
        Ok(parse_log(text.as_bytes()))
    }

    fn check(&self, _task: &Task, _log: &GuestLog) -> Result<()> {
        Ok(())
    }

    fn row(&self, task: &Task) -> RowKey {
        RowKey {
            kernel: task.kernel.clone(),
            mode: task.choice.mode.clone(),
            vcpus: task.boot.vcpus,
            nodes: task.boot.nodes,
            set: task.boot.settings(),
            is_recorded: task.boot.is_recorded(),
            ..RowKey::default()
        }
    }

    fn environment(&self, _logs: &[(RowKey, GuestLog)]) -> Environment {
        Environment { place: "guest".into(), ..Environment::default() }
    }
}

fn context() -> Context {
    Context::without_checkout(Progress::new(Verbosity::Quiet)).expect("a context")
}

fn matrix(workloads: &[&str]) -> Matrix {
    let workloads = workloads.iter().map(|name| name.to_string()).collect();
    Matrix { workloads, vcpus: vec![1, 2], ..Matrix::default() }
}

fn request(matrix: Matrix, out: &Path) -> Request {
    Request {
        work: Work::One(matrix),
        place: Place::Guest(GuestSpec::default()),
        limit: None,
        output: Output { out: out.into(), json: false },
    }
}

fn mock(modes: &[&'static str]) -> Mock {
    Mock { modes: modes.to_vec(), lanes: 2, dies_in: "none", ..Mock::default() }
}

struct Opened<'a> {
    session: Session<'a, Mock>,
    request: Request,
}

fn open<'a>(ctx: &'a Context, executor: Mock, matrix: Matrix, out: &Path) -> Opened<'a> {
    let asked = RefCell::default();
    let request = request(matrix, out);
    let fake = Fake { asked: &asked, fails_at: "", executor };
    let session = Session::open(ctx, fake, request.matrices(), Some(out)).expect("opens");
    Opened { session, request }
}

impl Opened<'_> {
    fn measure(&self) -> Result<Results> {
        self.session.measure(&self.request).map(|results| results.expect("no dry run"))
    }

    fn runs(&self) -> usize {
        self.session.executor.runs.load(Ordering::Relaxed)
    }
}

#[test]
fn what_costs_nothing_is_refused_before_what_costs_minutes() {
    let ctx = context();
    let steps = ["refuse", "packages", "catalog", "prepare apache2-bin"];
    let wrong = Matrix { vcpus: vec![0], ..matrix(&["apache"]) };
    let unknown = matrix(&["apach"]);
    for (case, fails_at, count, message) in [
        (&wrong, "", 0, "0 CPUs"),
        (&matrix(&["apache"]), "refuse", 1, "refused at refuse"),
        (&matrix(&["apache"]), "packages", 2, "refused at packages"),
        (&unknown, "", 3, "named 'apach'"),
        (&matrix(&["apache"]), "prepare apache2-bin", 4, "refused at prepare"),
    ] {
        let scratch = files::scratch("order").expect("a directory");
        let out = scratch.path().join("out");
        let asked = RefCell::default();
        let fake = Fake { asked: &asked, fails_at, executor: mock(&["off"]) };
        let error = Session::open(&ctx, fake, vec![case.clone()], Some(&out)).err().expect("refused");
        assert!(error.message.contains(message), "{error:?}");
        assert_eq!(*asked.borrow(), steps[..count]);
        assert_eq!(out.exists(), count > 1, "nothing is made for what is refused at once");
    }
}

#[test]
fn rows_come_in_the_tasks_order_and_name_their_kernel() {
    let (ctx, scratch) = (context(), files::scratch("rows").expect("a directory"));
    let opened = open(&ctx, mock(&["off", "full"]), matrix(&["munmap"]), scratch.path());
    let results = opened.measure().expect("measured");
    let rows: Vec<(Option<&str>, u32)> =
        results.rows.iter().map(|row| (row.mode.as_deref(), row.vcpus)).collect();
    assert_eq!(rows, [(Some("off"), 1), (Some("off"), 2), (Some("full"), 1), (Some("full"), 2)]);
    assert_eq!(results.environment.command, Some(opened.request.command()));
    assert_eq!(results.environment.seed, Some(1));
    assert_eq!(results.workloads.len(), 3);
    let mut reruns = opened.session.executor.reruns.lock().expect("nobody panicked").clone();
    reruns.sort();
    assert_eq!(
        reruns[0], "ceasefire lab run munmap --cpus 1 --repeats 1 --seed 1 --kernel k:full",
        "what is printed runs one task alone"
    );
}

#[test]
fn a_dry_run_runs_nothing_and_writes_nothing() {
    let (mut ctx, scratch) = (context(), files::scratch("dry").expect("a directory"));
    ctx.dry_run = true;
    let out = scratch.path().join("out");
    let opened = open(&ctx, mock(&["off"]), matrix(&["munmap"]), &out);
    assert!(opened.session.measure(&opened.request).expect("shown").is_none());
    assert!(opened.runs() == 0 && !out.exists());
}

#[test]
fn a_task_without_a_verdict_ends_the_whole_run() {
    let (ctx, scratch) = (context(), files::scratch("death").expect("a directory"));
    let executor = Mock { dies_in: "off", lanes: 1, ..mock(&["off", "full"]) };
    let opened = open(&ctx, executor, matrix(&["munmap"]), scratch.path());
    let error = opened.measure().expect_err("no verdict");
    assert_eq!((error.kind, error.message.as_str()), (Kind::Failed, "the emulator was killed"));
    assert_eq!(opened.runs(), 1, "the others are not started");
}

#[test]
fn a_session_that_resumes_loses_one_boot_and_repeats_no_other() {
    let (ctx, scratch) = (context(), files::scratch("resume").expect("a directory"));
    let mut opened =
        open(&ctx, Mock { dies_in: "full", ..mock(&["off", "full"]) }, matrix(&["munmap"]), scratch.path());
    opened.session.resumes = true;
    let results = opened.measure().expect("the rest");
    assert_eq!((opened.runs(), results.rows.len(), results.failed.len()), (4, 2, 2));
    for lost in &results.failed {
        assert_eq!((lost.mode.as_deref(), lost.reason.as_str()), (Some("full"), "the emulator was killed"));
        let rerun = lost.rerun.as_deref().expect("a command");
        assert!(rerun.ends_with("--kernel k:full"), "{rerun}");
    }
    drop(opened);
    // The same again, and now nothing dies.
    let mut opened = open(&ctx, mock(&["off", "full"]), matrix(&["munmap"]), scratch.path());
    opened.session.resumes = true;
    let results = opened.measure().expect("all");
    assert_eq!((opened.runs(), results.rows.len(), results.failed.len()), (2, 4, 0));
    drop(opened);
    // Another work is another log.
    let units = Matrix { units: Some(7), ..matrix(&["munmap"]) };
    let mut opened = open(&ctx, mock(&["off", "full"]), units, scratch.path());
    opened.session.resumes = true;
    opened.measure().expect("all");
    assert_eq!(opened.runs(), 4);
}

#[test]
fn a_row_that_failed_inside_a_guest_says_how_to_run_it_alone() {
    let (ctx, scratch) = (context(), files::scratch("rerun").expect("a directory"));
    let executor = Mock { fails: "munmap", ..mock(&["off"]) };
    let set = Matrix {
        settings: vec![("pages".into(), "32".into())],
        units: Some(40),
        seed: 7,
        ..matrix(&["zero", "munmap"])
    };
    let opened = open(&ctx, executor, set, scratch.path());
    let results = opened.measure().expect("rows");
    assert_eq!((results.rows.len(), results.failed.len()), (2, 2));
    let reruns: Vec<&str> = results.failed.iter().filter_map(|row| row.rerun.as_deref()).collect();
    assert_eq!(
        reruns,
        [1, 2].map(|cpus| format!(
            "ceasefire lab run munmap --cpus {cpus} --repeats 1 --seed 7 --units 40 --set pages=32 --kernel k:off"
        ))
    );
    let failed: Vec<&Unmeasured> = results.failed.iter().collect();
    let error = judge(results.rows.len(), &failed).expect_err("rows failed");
    assert_eq!(error.message, "2 rows failed; the first: munmap: broke");
    assert_eq!(error.remedy, Some(format!("rerun: {}", reruns[0])));
    assert_eq!(judge(0, &[]).expect_err("no row").kind, Kind::Skip);
    judge(1, &[]).expect("a row");
}

#[test]
fn one_value_of_several_that_failed_is_run_alone() {
    let (ctx, scratch) = (context(), files::scratch("values").expect("a directory"));
    let executor = Mock { fails: "munmap", fails_with: "pages=32", ..mock(&["off"]) };
    let settings = vec![("pages".into(), "8,32,64".into())];
    let set = Matrix { settings, vcpus: vec![1], ..matrix(&["zero", "munmap"]) };
    let results = open(&ctx, executor, set, scratch.path()).measure().expect("rows");
    let sets: Vec<Option<&str>> = results.rows.iter().map(|row| row.set.as_deref()).collect();
    assert_eq!(sets, [None, Some("pages=8"), Some("pages=64")]);
    let [failed] = &results.failed[..] else { panic!("one row failed: {:?}", results.failed) };
    assert_eq!(failed.set.as_deref(), Some("pages=32"));
    assert!(failed.rerun.as_deref().is_some_and(|rerun| rerun.contains("--set pages=32 ")), "{failed:?}");
}

#[test]
fn a_row_without_its_record_is_told_of_and_kept() {
    for (record, kept) in [(&b""[..], 0), (b"something", 1)] {
        let (ctx, scratch) = (context(), files::scratch("record").expect("a directory"));
        let wanted = Matrix { record: true, vcpus: vec![1], ..matrix(&["zero", "munmap"]) };
        let executor = Mock { record, ..mock(&["off"]) };
        let results = open(&ctx, executor, wanted, scratch.path()).measure().expect("rows");
        let seen: Vec<(&str, bool)> =
            results.rows.iter().map(|row| (row.workload.as_str(), row.recorded)).collect();
        assert_eq!(seen, [("zero", false), ("munmap", true)]);
        assert_eq!(
            (results.recorded.len(), results.problems.len()),
            (kept, 1 - kept),
            "{:?}",
            results.problems
        );
        assert!(results.recorded.iter().all(|recorded| recorded.workload == "munmap"));
    }
}

const BOOT: &str = r#"{"kind":"boot","protocol":1,"release":"6.12.0","counters":"ceasefire","thp":"madvise","pti":false,"pcid":true}"#;
const RUN: &str = r#"{"kind":"run","workload":"munmap","threads":2,"repeat":0,"seed":1,"unit":"call","units":10,"checksum":"c","duration_ns":50,"counters":{"sent":0}}"#;
const VERDICT: &str = r#"{"kind":"verdict","ok":true,"runs":1,"skips":0,"fails":0}"#;

/// A script that is still open for writing in a child of another test cannot be started.
static ONE_FORKS: Mutex<()> = Mutex::new(());

fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

/// A guest whose emulator is a script that says what a guest would.
fn fake_guest(dir: &Path, kernel_args: &str) -> Guest {
    let base = dir.join("base.cpio");
    std::fs::write(&base, "base").expect("an archive");
    let image = KernelImage {
        name: "k".into(),
        file: dir.join("bzImage"),
        image_hash: "image".into(),
        ..KernelImage::default()
    };
    let machine = Machine {
        origin: Origin::Given,
        qemu: script(dir, "qemu", &format!("printf '%s\\n' '{BOOT}' '{RUN}' '{VERDICT}'")),
        sha256: None,
        version: "9.9".into(),
        source_version: None,
        source_checked: None,
        series_hash: None,
        firmware: Vec::new(),
        slice_us_default: Some(1000),
        has_tlb_model: true,
        guest: Shape { cpu_without_la57: "-la57".into(), ..Shape::default() },
    };
    Guest {
        kernels: vec![Variant { choice: Choice { kernel: "k".into(), mode: None }, image }],
        accel: MachineSpec::default().accel(&machine),
        cpu: MachineSpec::default().cpu(&machine).expect("a CPU"),
        machine,
        memory_mib: 512,
        tsc_khz: None,
        kernel_args: kernel_args.into(),
        program: None,
        images: Images::of(base),
        sources: "sources".into(),
    }
}

/// A place that is ready.
struct Ready<E>(E);

impl<E: Executor> Site for Ready<E> {
    type Executor = E;

    fn refuse(&mut self, _ctx: &Context, _matrices: &mut [Matrix]) -> Result<()> {
        Ok(())
    }

    fn packages(&self, _ctx: &Context) -> Result<()> {
        Ok(())
    }

    fn catalog(&mut self, _ctx: &Context) -> Result<Catalog> {
        Catalog::parse(CATALOG)
    }

    fn prepare(self, _ctx: &Context, _plan: &Plan) -> Result<E> {
        Ok(self.0)
    }
}

fn two_cpus() -> Matrix {
    Matrix { vcpus: vec![2], ..matrix(&["munmap"]) }
}

#[test]
fn a_guests_row_says_all_that_decides_what_it_counts() {
    let _alone = ONE_FORKS.lock();
    let (ctx, scratch) = (context(), files::scratch("guest").expect("a directory"));
    let row = |args: &str| {
        let site = Ready(fake_guest(scratch.path(), args));
        let request = request(two_cpus(), scratch.path());
        let session = Session::open(&ctx, site, request.matrices(), Some(scratch.path())).expect("opens");
        let results = session.measure(&request).expect("measured").expect("no dry run");
        assert_eq!(results.environment.place, "guest");
        assert_eq!(results.environment.qemu.as_ref().map(|qemu| qemu.version.as_str()), Some("9.9"));
        assert_eq!(results.rows.len(), 1);
        results.rows[0].clone()
    };
    let plain = row("");
    assert_eq!((plain.accel.as_deref(), plain.thread_mode.as_deref()), (Some("tcg"), Some("single")));
    assert_eq!((plain.slice_us, plain.thp.as_deref()), (Some(1000), Some("madvise")));
    assert_eq!((plain.pti, plain.pcid, plain.la57), (Some(false), Some(true), Some(false)));
    assert_eq!((plain.tlb.as_deref(), plain.kernel_args.as_deref()), (Some("plain"), None));
    assert!(plain.ns_per_unit.is_none(), "a clock under emulation tells nothing");
    let other = row("abis_adaptive=0");
    assert_eq!(other.kernel_args.as_deref(), Some("abis_adaptive=0"), "another row than without");
}

#[test]
fn a_host_runs_a_process_for_each_job_and_keeps_its_nodes() {
    let _alone = ONE_FORKS.lock();
    let (ctx, scratch) = (context(), files::scratch("host").expect("a directory"));
    let text = format!(
        "case $1 in list) cat <<'E'\n{CATALOG}\nE\n;; boot) echo '{BOOT}' ;; run) echo '{RUN}' ;; esac"
    );
    let program = script(scratch.path(), "workloads", &text);
    let site = || HostSite::new(&[], Some(program.clone()));
    let cores = files::cores() as u32;
    for (wrong, message) in [
        (Matrix { vcpus: vec![cores + 1], ..two_cpus() }, "this machine has"),
        (Matrix { vcpus: vec![1], cost: true, ..two_cpus() }, "by the emulator"),
    ] {
        let refused = Session::open(&ctx, site(), vec![wrong], Some(scratch.path())).err();
        assert!(refused.is_some_and(|error| error.kind == Kind::Usage && error.message.contains(message)));
    }
    if cores < 2 {
        return;
    }
    let place = Place::Host { modes: Vec::new(), program: Some(program.clone()) };
    let request = Request { place, ..request(two_cpus(), scratch.path()) };
    let session = Session::open(&ctx, site(), request.matrices(), Some(scratch.path())).expect("opens");
    let results = session.measure(&request).expect("measured").expect("no dry run");
    let environment = &results.environment;
    assert_eq!((environment.place.as_str(), environment.workloads.as_deref()), ("host", None));
    let row = &results.rows[0];
    assert_eq!((row.kernel.as_str(), row.vcpus, row.pcid), ("host", 2, Some(true)));
    assert!(row.accel.is_none() && row.ns_per_unit.is_some_and(|spread| spread.median == 5.0), "{row:?}");
    let command = environment.command.as_deref().unwrap_or_default();
    assert!(command.contains("--on host --workloads-program"), "{command}");
}
