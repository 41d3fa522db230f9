// SPDX-License-Identifier: GPL-2.0-only
//! Counters for Prometheus: on this machine, as root. With promtool and prometheus installed, against these, too.

mod common;
use common::{ceasefire, may_watch, refused, run, skip, succeed, Scratch, BINARY};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const PACKAGE: &str = "watch/export/package";

struct Export {
    child: Child,
    says: BufReader<ChildStderr>,
    address: String,
}

impl Export {
    fn start(args: &[&str]) -> Export {
        Export::start_every("1", args)
    }

    fn start_every(seconds: &str, args: &[&str]) -> Export {
        let all = [&["watch", "export", "--listen", "127.0.0.1:0", "--interval", seconds], args].concat();
        let mut child = ceasefire(&all).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut says = BufReader::new(child.stderr.take().expect("its words"));
        let mut line = String::new();
        says.read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_string();
        Export { child, says, address }
    }

    fn scrape(&self) -> String {
        self.scrape_as("application/openmetrics-text")
    }

    fn scrape_as(&self, form: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let ask = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {form}\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        text.split_once("\r\n\r\n").expect("a body").1.to_string()
    }

    fn stop(&mut self) -> (Option<i32>, String) {
        // SAFETY: kill() takes numbers; the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let code = self.child.wait().expect("it ends").code();
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).expect("its words");
        (code, rest)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As long as it takes on a machine that does other things, too.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Series and their values.
fn series(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_string(), value.parse().expect("a number")))
        .collect()
}

fn sum(series: &BTreeMap<String, f64>, name: &str, labels: &[&str]) -> f64 {
    let is_it =
        |key: &str| key.starts_with(&format!("{name}{{")) && labels.iter().all(|label| key.contains(label));
    series.iter().filter(|(key, _)| is_it(key)).map(|(_, value)| value).sum()
}

#[test]
fn counters_are_those_of_a_storm() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("export");
    let textfile = scratch.0.join("ceasefire.prom");
    let mut export = Export::start(&["--textfile", &textfile.to_string_lossy()]);
    let before = series(&export.scrape());
    let storm = succeed(&mut ceasefire(&["watch", "storm", "madvise-dontneed", "--rounds", "20000"])).stdout;
    let truth: Value = serde_json::from_str(&storm).expect("JSON");
    // The storm is over: what it sent is counted once a whole interval has brought nothing of it.
    let dontneed =
        || sum(&series(&export.scrape()), "ceasefire_watch_shootdowns_total", &["madvise-dontneed"]);
    let mut last = -1.0;
    until("the counters stand still", || {
        std::thread::sleep(Duration::from_secs(2));
        let now = dontneed();
        now > 0.0 && std::mem::replace(&mut last, now) == now
    });
    let text = export.scrape();
    let after = series(&text);
    let grown = |name: &str, labels: &[&str]| sum(&after, name, labels) - sum(&before, name, labels);
    let sent = grown("ceasefire_watch_shootdowns_total", &["class=\"user\"", "cause=\"madvise-dontneed\""]);
    let rounds = truth["rounds"].as_f64().expect("rounds");
    let seen = grown("ceasefire_watch_seen_targets_total", &["class=\"user\""])
        + grown("ceasefire_watch_seen_targets_total", &["class=\"own\""]);
    let kernel = grown("ceasefire_watch_kernel_targets_total", &["class=\"user\""]);
    println!("{rounds} rounds, {sent} shootdowns of them seen; {seen} of {kernel} targets");
    // A host may have stopped the victim's CPU, or given it to others.
    let least = if truth["is_undisturbed"] == true { 0.9 } else { 0.1 };
    assert!(sent >= rounds * least, "{text}");
    assert!((0.999..=1.001).contains(&(seen / kernel)), "{seen} of {kernel}");
    // However they are told apart, they are the same.
    let received = grown("ceasefire_watch_targets_total", &["class=\"user\""]);
    let by_unit = grown("ceasefire_watch_unit_targets_total", &["class=\"user\""]);
    assert_eq!(received, by_unit, "{text}");
    let stolen = grown("ceasefire_watch_cpu_stolen_seconds_total", &["class=\"user\""]);
    assert!(
        stolen > 0.0 && grown("ceasefire_watch_wait_seconds_total", &["class=\"user\""]) > stolen,
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
    let old = fs::read_to_string(&textfile).expect("the file is there");
    assert!(old.contains("# TYPE ceasefire_watch_shootdowns_total counter\n"), "{old}");
    assert_eq!(fs::read_dir(&scratch.0).expect("a directory").count(), 1, "nothing but the file is left");
    let taken = ["watch", "export", "--listen", &export.address];
    refused(&mut ceasefire(&taken), 1, "cannot listen on");
    assert_eq!(export.stop(), (Some(0), String::new()));
}

#[test]
fn a_burst_leaves_a_record_and_16_of_them_stay() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("bursts");
    for number in 1..=17 {
        scratch.file(&format!("burst-{number}.record"), b"old");
    }
    scratch.file("burst-mine", b"somebody else's");
    let directory = scratch.0.to_string_lossy().into_owned();
    let mut export = Export::start(&["--auto", "1", "--evidence", &directory]);
    succeed(&mut ceasefire(&["watch", "storm", "madvise-dontneed", "--rounds", "20000"]));
    until("the storm is in the counters", || export.scrape().contains("cause=\"madvise-dontneed\""));
    let (code, says) = export.stop();
    assert_eq!(code, Some(0));
    let paths: Vec<&str> = says.lines().filter_map(|line| Some(line.rsplit_once(": ")?.1)).collect();
    let mut reports = paths.iter().map(|path| succeed(&mut ceasefire(&["watch", "report", path])).stdout);
    assert!(reports.any(|report| report.contains("madvise-dontneed")), "{says}");
    let names = fs::read_dir(&scratch.0).expect("a directory").flatten();
    let mut kept: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    kept.sort();
    assert_eq!(kept.len(), 17, "{kept:?}");
    assert!(
        kept.contains(&"burst-mine".to_string()) && !kept.contains(&"burst-1.record".to_string()),
        "{kept:?}"
    );
}

#[test]
fn a_file_that_cannot_be_written_any_more_stops_nothing() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("gone");
    let directory = scratch.0.join("d");
    fs::create_dir(&directory).expect("a directory");
    let mut export = Export::start(&["--textfile", &directory.join("x.prom").to_string_lossy()]);
    fs::remove_dir_all(&directory).expect("removed");
    let seen = |export: &Export| series(&export.scrape())["ceasefire_watch_own_cpu_seconds_total"];
    let mut rises = 0;
    let mut last = seen(&export);
    // Two intervals in which it could not be written.
    until("it goes on counting", || {
        rises += u32::from(std::mem::replace(&mut last, seen(&export)) < last);
        rises >= 2
    });
    let (code, says) = export.stop();
    assert_eq!(code, Some(0));
    assert_eq!(says.matches("counting goes on").count(), 1, "told once: {says}");
}

#[test]
fn what_cannot_be_exported_is_refused() {
    for (args, fragment) in [
        (&["--listen", "nowhere"][..], "nowhere"),
        (&["--auto", "500"], "--evidence"),
        (&["--units-max", "0"], "--units-max"),
        (&["--interval", "never"], "--interval"),
    ] {
        refused(&mut ceasefire(&[&["watch", "export"], args].concat()), 2, fragment);
    }
    if may_watch() {
        let to = ["watch", "export", "--textfile", "/nowhere/x.prom", "--for", "1"];
        refused(&mut ceasefire(&to), 1, "/nowhere/x.prom");
    }
}

fn promtool(args: &[&str], input: &str) -> Option<String> {
    let mut child = Command::new("promtool")
        .args(args)
        .current_dir(common::root().join(PACKAGE))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(input.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {args:?}: {said}");
    Some(said)
}

/// The alerts' own tests, a scrape by a real server, and each expression of dashboard and alerts asked of it.
#[test]
fn prometheus_reads_it_and_its_alerts_come_where_they_should() {
    if promtool(&["test", "rules", "alerts-test.yml"], "").is_none() {
        return skip("watch export", "prometheus is not installed");
    }
    if !may_watch() {
        return;
    }
    let mut export = Export::start(&["--cross-calls"]);
    succeed(&mut ceasefire(&["watch", "storm", "madvise-dontneed", "--rounds", "20000"]));
    until("the storm is in the counters", || export.scrape().contains("cause=\"madvise-dontneed\""));
    // promtool lints the older form.
    promtool(&["check", "metrics"], &export.scrape_as("text/plain"));
    let scratch = Scratch::new("prometheus");
    let config = format!(
        "global: {{scrape_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n- job_name: x\n  static_configs:\n  - targets: ['{}']\n",
        common::root().join(PACKAGE).join("alerts.yml").display(),
        export.address
    );
    let config = scratch.file("prometheus.yml", config.as_bytes());
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
    let at = format!("127.0.0.1:{port}");
    let mut server = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", scratch.0.join("data").display()))
        .arg(format!("--web.listen-address={at}"))
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus starts");
    let asked = std::panic::catch_unwind(|| ask_all(&at));
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(export.stop().0, Some(0));
    if let Err(panic) = asked {
        std::panic::resume_unwind(panic);
    }
}

fn query(at: &str, expression: &str) -> Result<Value, String> {
    let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
    let ask = format!("GET /api/v1/query?query={escaped} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(ask.as_bytes()).map_err(|error| error.to_string())?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|error| error.to_string())?;
    let body = text.split_once("\r\n\r\n").ok_or("no body")?.1;
    let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
    match answer["status"].as_str() {
        Some("success") => Ok(answer["data"]["result"].clone()),
        _ => Err(answer.to_string()),
    }
}

fn ask_all(at: &str) {
    let counted = "ceasefire_watch_targets_total{class=\"user\",cause=\"madvise-dontneed\"}";
    until("the storm is scraped whole", || {
        let answer = query(at, counted).unwrap_or(Value::Null);
        let value = answer[0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
        value.is_some_and(|value| value > 1000.0)
    });
    let text =
        fs::read_to_string(common::root().join(PACKAGE).join("dashboard.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let expression = expression.replace("$__rate_interval", "30s").replace("$instance", ".*");
            // Where nothing happens right now there is no row above 0; the series must be there.
            let expression = expression.replace(") > 0", ") >= 0");
            asked += 1;
            // Rates need two scrapes.
            until(&expression, || {
                query(at, &expression).expect("an answer").as_array().is_some_and(|rows| !rows.is_empty())
            });
        }
    }
    assert!(asked >= 9, "{asked}");
}

/// Its own process, scraped every second. What the probes cost whoever sends is in `watch_cost`.
#[test]
#[ignore = "long: make test-watch-cost"]
fn exporting_takes_little_of_a_cpu_and_of_memory() {
    if !may_watch() {
        return;
    }
    for (rate, seconds, allowed) in [(100u64, 60u64, 0.005), (50_000, 30, 0.02)] {
        let export = Export::start_every("5", &[]);
        let spent = || series(&export.scrape())["ceasefire_watch_own_cpu_seconds_total"];
        std::thread::sleep(Duration::from_secs(6));
        let (before, began, mut sent) = (spent(), Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(seconds) {
            let step = Instant::now();
            succeed(&mut ceasefire(&["watch", "storm", "madvise-dontneed", "--rounds", &rate.to_string()]));
            sent += rate;
            export.scrape();
            std::thread::sleep(Duration::from_secs(1).saturating_sub(step.elapsed()));
        }
        std::thread::sleep(Duration::from_secs(6));
        let took = began.elapsed().as_secs_f64();
        let share = (spent() - before) / took;
        let status = fs::read_to_string(format!("/proc/{}/status", export.child.id())).expect("it runs");
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        let kib: u64 = kib.expect("its memory");
        println!("{:.0} shootdowns/s: {:.2} % of one CPU, {kib} KiB", sent as f64 / took, share * 100.0);
        assert!(share <= allowed, "{share} of a CPU at {rate}/s");
        assert!(kib <= 60 << 10, "{kib} KiB");
    }
}

/// What is in it, and that it is the same each time; as far as can be without installing it.
#[test]
fn the_package_holds_what_it_should() {
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        return skip("watch export", "dpkg-deb is not installed");
    }
    let scratch = Scratch::new("deb");
    let make = |out: &str| -> Vec<u8> {
        let make = common::root().join(PACKAGE).join("make-deb");
        let said = succeed(Command::new(make).arg(BINARY).arg(scratch.0.join(out)));
        fs::read(said.stdout.trim()).expect("the package")
    };
    let (one, other) = (make("one"), make("other"));
    assert!(one == other, "two packages of one binary differ");
    let file = scratch.file("x.deb", &one);
    let list = succeed(Command::new("dpkg-deb").arg("-c").arg(&file)).stdout;
    for path in [
        "./usr/bin/ceasefire",
        "./lib/systemd/system/ceasefire-watch-export.service",
        "./etc/default/ceasefire-watch-export",
        "./usr/share/doc/ceasefire/alerts.yml",
        "./usr/share/doc/ceasefire/dashboard.json",
    ] {
        assert!(list.lines().any(|line| line.ends_with(path)), "{path} is not in\n{list}");
    }
    assert!(!list.contains("drwx------"), "a directory that only root may read: {list}");
    let tree = scratch.0.join("tree");
    succeed(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&tree));
    let said = succeed(Command::new(tree.join("usr/bin/ceasefire")).arg("--version")).stdout;
    assert!(said.starts_with("ceasefire "), "{said}");
    let unit = tree.join("lib/systemd/system/ceasefire-watch-export.service");
    if Path::new("/usr/bin/systemd-analyze").exists() {
        // The unit names the installed program.
        let text = fs::read_to_string(&unit).expect("the unit").replace("/usr/bin/ceasefire", BINARY);
        let there = scratch.file("ceasefire-watch-export.service", text.as_bytes());
        let said = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(there));
        assert!(said.code == 0 && said.stderr.is_empty(), "{}", said.stderr);
    }
}
