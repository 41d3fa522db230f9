// SPDX-License-Identifier: GPL-2.0-only
//! Invented guest logs for the tests. The figures are made up by the formulas below and measure nothing.
#![allow(dead_code)]

use ceasefire_results::schema::{About, Environment, Host, Kernel, Qemu, Results, Unmeasured};
use ceasefire_results::{aggregate, parse_log, RowKey};

/// splitmix64: the same inputs on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

struct Shape {
    name: &'static str,
    group: &'static str,
    unit: &'static str,
    about: &'static str,
    units: u64,
    /// Shootdowns per unit, and the share of the other CPUs each one interrupts.
    sent: f64,
    share: f64,
    /// Relative noise of the repeats.
    noise: f64,
    threads: &'static [u32],
    control: bool,
    shared: bool,
}

const ALL: &[u32] = &[1, 2, 4, 8];

const SHAPES: &[Shape] = &[
    Shape {
        name: "zero",
        group: "control",
        unit: "loop",
        about: "Threads that never change a mapping.",
        units: 1000,
        sent: 0.0,
        share: 0.0,
        noise: 0.0,
        threads: ALL,
        control: true,
        shared: false,
    },
    Shape {
        name: "exactly-n",
        group: "control",
        unit: "mprotect call",
        about: "Each call must interrupt every spinning thread once.",
        units: 1000,
        sent: 1.0,
        share: 1.0,
        noise: 0.0,
        threads: ALL,
        control: true,
        shared: false,
    },
    Shape {
        name: "munmap",
        group: "micro",
        unit: "munmap call",
        about: "Maps, touches and unmaps one page.",
        units: 2000,
        sent: 1.0,
        share: 1.0,
        noise: 0.0,
        threads: ALL,
        control: false,
        shared: false,
    },
    Shape {
        name: "mprotect",
        group: "micro",
        unit: "mprotect call",
        about: "Write-protects a page and writes to it again.",
        units: 2000,
        sent: 2.0,
        share: 0.98,
        noise: 0.01,
        threads: ALL,
        control: false,
        shared: true,
    },
    Shape {
        name: "madvise-scaling",
        group: "article",
        unit: "madvise call",
        about: "MADV_DONTNEED on a touched page beside spinning threads.",
        units: 5000,
        sent: 1.0,
        share: 1.0,
        noise: 0.002,
        threads: ALL,
        control: false,
        shared: false,
    },
    Shape {
        name: "cow-mt-random",
        group: "vm-scalability",
        unit: "page",
        about: "Copy-on-write in thread-private slices, random order.",
        units: 8192,
        sent: 0.91,
        share: 0.83,
        noise: 0.04,
        threads: ALL,
        control: false,
        shared: false,
    },
    Shape {
        name: "mmap-read",
        group: "vm-scalability",
        unit: "page",
        about: "Reads a mapped file larger than memory.",
        units: 16384,
        sent: 0.021,
        share: 0.71,
        noise: 0.3,
        threads: ALL,
        control: false,
        shared: false,
    },
    Shape {
        name: "anon-r-seq",
        group: "vm-scalability",
        unit: "page",
        about: "Sequential anonymous reads: the overhead case.",
        units: 65536,
        sent: 0.0,
        share: 0.0,
        noise: 0.0,
        threads: ALL,
        control: false,
        shared: false,
    },
    Shape {
        name: "apache",
        group: "app",
        unit: "request",
        about: "Apache (mpm_event) serving static files to wrk.",
        units: 4000,
        sent: 1.05,
        share: 0.87,
        noise: 0.03,
        threads: &[8],
        control: false,
        shared: false,
    },
    Shape {
        name: "pbzip2",
        group: "app",
        unit: "run",
        about: "PBZIP2 of 22 MB in a 40 MB memory cgroup with zram swap.",
        units: 1,
        sent: 10_800.0,
        share: 0.82,
        noise: 0.08,
        threads: &[8],
        control: false,
        shared: false,
    },
];

/// A guest's log; `kept` is the share of shootdowns this invented kernel still sends where it may.
pub fn log(kept: f64, extra_workload: Option<&str>) -> String {
    let mut random = Random(7);
    let mut lines = vec![
        r#"{"kind":"boot","protocol":1,"release":"6.12.117","cmdline":"console=ttyS0 panic_on_warn=1","cpus":8,"nodes":1,"counters":"ceasefire","pcid":false,"pti":false,"thp":"madvise","memory_kib":1015808}"#.to_string(),
    ];
    let mut runs = 0;
    for shape in SHAPES {
        for &threads in shape.threads {
            for repeat in 0..3u64 {
                let wobble = 1.0 + shape.noise * ((random.next() % 1000) as f64 / 1000.0 - 0.5);
                let kept = if shape.control || shape.shared { 1.0 } else { kept };
                let others = f64::from(threads - 1);
                let sent = if threads == 1 {
                    0.0
                } else {
                    (shape.sent * shape.units as f64 * wobble * kept).round()
                };
                let received = (sent * (others * shape.share).max(1.0)).round();
                let name =
                    if shape.name == "munmap" { extra_workload.unwrap_or(shape.name) } else { shape.name };
                let expect = if shape.control {
                    format!("{{\"sent\":{sent},\"received\":{received}}}")
                } else {
                    "null".into()
                };
                let text = serde_json::to_string(name).expect("a string");
                lines.push(format!(
                    "{{\"kind\":\"run\",\"workload\":{text},\"threads\":{threads},\"repeat\":{repeat},\"seed\":1,\"unit\":\"{}\",\"units\":{},\"checksum\":\"{:016x}\",\"counters\":{{\"requested\":{},\"sent\":{sent},\"received\":{received},\"received_irq\":{received},\"kernel_sent\":{},\"kernel_received\":{},\"local_full\":{},\"local_single\":{},\"other_ipis\":{},\"faults\":{},\"walks\":null,\"instructions\":null}},\"expect\":{expect},\"extra\":{{}},\"duration_ns\":{}}}",
                    shape.unit,
                    shape.units,
                    0x9e37_u64.wrapping_mul(u64::from(threads)).wrapping_add(shape.units),
                    shape.units + sent as u64,
                    repeat,
                    repeat * u64::from(threads - 1),
                    (shape.units as f64 * 0.01 + received * 0.1).round(),
                    shape.units + received as u64,
                    threads * 3,
                    shape.units * 2,
                    1_000_000 + random.next() % 100_000,
                ));
                runs += 1;
            }
        }
    }
    lines.push(r#"{"kind":"skip","workload":"numa-balance","threads":8,"reason":"the machine has one node; this workload needs two"}"#.into());
    lines.push(format!(r#"{{"kind":"verdict","ok":true,"runs":{runs},"skips":1,"fails":0}}"#));
    lines.join("\n") + "\n"
}

/// The same log from a machine that counts: a walk for every seventh thing asked for, and so on.
pub fn with_machine(log: &str) -> String {
    let counted = "\"walks\":7000,\"speculative_walks\":10,\"structure_hits\":6000,\"fills\":6990,\"evictions\":0,\
                   \"assists_accessed\":900,\"assists_dirty\":450,\"cr3_flush\":3,\"cr3_noflush\":40,\"invlpg\":1000,\
                   \"invpcid\":5,\"flush_all\":0,\"ipis\":1001,\"ipi_targets\":7001,\"inserts\":0,\"insert_ops\":0";
    log.replace("\"walks\":null", counted)
        .replace("\"counters\":{\"instructions\"", &format!("\"counters\":{{{counted},\"instructions\""))
}

/// The same log, of `with_machine()`, from one with several nodes: of a hundred PTEs, so many were read on another.
pub fn with_nodes(log: &str, remote_percent: u64) -> String {
    let (local, remote) = (70 * (100 - remote_percent), 70 * remote_percent);
    let counted = format!(
        "\"insert_ops\":0,\"reads_local\":{},\"reads_remote\":{},\"reads_local_leaf\":{local},\"reads_remote_leaf\":{remote}",
        local + 900,
        remote + 100
    );
    log.replace("\"insert_ops\":0", &counted)
}

/// The same log from an ABIS kernel: of every unit's pages some are let off, for the reasons there are.
pub fn with_abis(log: &str, is_debug: bool) -> String {
    let debug = "\"zap_checked_idle\":1200,\"zap_sampled\":1500,\"zap_sampled_held\":900,\"checked\":1200,\"violations\":0,";
    let counted = format!(
        "\"abis\":{{{}\"zap_idle\":1500,\"zap_uncached\":300,\"zap_recent\":40,\"zap_accessed\":7,\"zap_never\":2,\
         \"clear_flush_idle\":12,\"zap_none\":700,\"zap_one\":0,\"zap_set\":0,\"zap_all\":49,\"migrate_none\":0,\
         \"rounds\":90,\"rounds_forced\":12,\"spte_bytes\":45056,\"spte_tables\":11,\"spte_failed\":0}},\"expect\"",
        if is_debug { debug } else { "" }
    );
    log.replace("\"expect\"", &counted)
}

pub fn cost_log(instructions: u64) -> String {
    let mut text = String::new();
    for (name, base) in [("anon-r-seq", 2986), ("munmap", 4120)] {
        for repeat in 0..3 {
            text.push_str(&format!(
                "{{\"kind\":\"run\",\"workload\":\"{name}\",\"threads\":1,\"repeat\":{repeat},\"seed\":1,\"unit\":\"page\",\"units\":1000,\"checksum\":\"00\",\"counters\":{{\"instructions\":{}}},\"expect\":null,\"extra\":{{}},\"duration_ns\":1}}\n",
                base * 1000 + instructions * 1000 + repeat * 40
            ));
        }
    }
    text + "{\"kind\":\"verdict\",\"ok\":true,\"runs\":6,\"skips\":0,\"fails\":0}\n"
}

pub fn key(kernel: &str, mode: Option<&str>) -> RowKey {
    RowKey { kernel: kernel.into(), mode: mode.map(String::from), vcpus: 8, nodes: 1, ..RowKey::default() }
}

pub fn environment(kernels: &[&str]) -> Environment {
    Environment {
        mechanisms: Vec::new(),
        ceasefire: "0.1.0".into(),
        commit: None,
        date: "2026-03-01T12:00:00Z".into(),
        command: Some(
            "ceasefire lab run --workloads all --cpus 8 --threads 1,2,4,8 --repeats 3 --seed 1".into(),
        ),
        place: "guest".into(),
        seed: Some(1),
        workloads: Some("5d41402abc4b2a76".into()),
        kernels: kernels
            .iter()
            .map(|name| Kernel {
                name: (*name).into(),
                base: Some("6.12.117-1~deb12u1".into()),
                release: Some("6.12.117".into()),
                source_checked: Some(true),
                series: Some("0a1b2c3d4e5f6071".into()),
                config: Some("8192a3b4c5d6e7f8".into()),
                counters: Some("ceasefire".into()),
            })
            .collect(),
        qemu: Some(Qemu {
            version: "7.2.22".into(),
            series: Some("1122334455667788".into()),
            accel: "tcg".into(),
            thread_mode: Some("single".into()),
            slice_us: Some(200),
            cpu: Some("max,-erms,-fsrm".into()),
            memory_mib: Some(1024),
            ..Qemu::default()
        }),
        host: Host {
            cores: Some(2),
            cpu: Some("an invented CPU".into()),
            release: Some("6.1.0-40-amd64".into()),
        },
        thp: Some("madvise".into()),
        pti: Some(false),
        pcid: Some(false),
        invpcid: Some(false),
        cpu_flags: Some("fpu lm".into()),
        cycle_costs: Default::default(),
    }
}

fn with_abouts(mut results: Results) -> Results {
    results.workloads = SHAPES
        .iter()
        .map(|shape| About {
            name: shape.name.into(),
            group: shape.group.into(),
            unit: shape.unit.into(),
            about: shape.about.into(),
            shared: shape.shared,
        })
        .collect();
    for skip in &mut results.skipped {
        skip.rerun = Some(format!("ceasefire lab run {} --cpus 8 --nodes 2", skip.workload));
    }
    results
}

pub fn one_kernel() -> Results {
    let logs = [(key("vanilla", None), parse_log(log(1.0, None).as_bytes()))];
    with_abouts(aggregate(environment(&["vanilla"]), &logs).expect("the sample aggregates"))
}

pub fn two_kernels() -> Results {
    let cost = |kernel, mode| RowKey { cost: true, vcpus: 1, ..key(kernel, mode) };
    let logs = [
        (key("vanilla", None), parse_log(with_machine(&log(1.0, None)).as_bytes())),
        (key("abis", Some("idle")), parse_log(with_abis(&with_machine(&log(0.31, None)), false).as_bytes())),
        (key("abis", Some("full")), parse_log(with_machine(&log(0.06, None)).as_bytes())),
        (cost("vanilla", None), parse_log(with_machine(&cost_log(0)).as_bytes())),
        (cost("abis", Some("full")), parse_log(with_machine(&cost_log(55)).as_bytes())),
    ];
    let mut results =
        with_abouts(aggregate(environment(&["vanilla", "abis"]), &logs).expect("the sample aggregates"));
    results.failed.push(Unmeasured {
        workload: "memcached".into(),
        reason: "killed after 240 s, its time limit".into(),
        threads: Some(8),
        kernel: Some("abis".into()),
        vcpus: Some(8),
        rerun: Some("ceasefire lab run memcached --kernel abis --cpus 8 --threads 8".into()),
        ..Unmeasured::default()
    });
    results
}

/// On two nodes, where the second kernel reads nearer.
pub fn two_nodes() -> Results {
    let on_nodes = |kernel, remote_percent| {
        let log = with_nodes(&with_machine(&log(1.0, None)), remote_percent);
        (RowKey { nodes: 2, ..key(kernel, None) }, parse_log(log.as_bytes()))
    };
    let logs = [on_nodes("vanilla", 50), on_nodes("toy", 3)];
    with_abouts(aggregate(environment(&["vanilla", "toy"]), &logs).expect("the sample aggregates"))
}

/// Every text a log or a user can supply, made hostile.
pub fn hostile() -> Results {
    let evil = "<script>alert(1)</script>\"'&";
    let logs = [(key(evil, Some(evil)), parse_log(log(1.0, Some(evil)).as_bytes()))];
    let mut results = aggregate(environment(&[evil]), &logs).expect("the sample aggregates");
    results.environment.command = Some(format!("echo {evil}"));
    results.environment.date = evil.into();
    results.environment.thp = Some(evil.into());
    results.problems.push(evil.into());
    results.workloads.push(About {
        name: evil.into(),
        group: evil.into(),
        about: evil.into(),
        ..About::default()
    });
    results.skipped.push(Unmeasured {
        workload: evil.into(),
        reason: evil.into(),
        rerun: Some(evil.into()),
        ..Unmeasured::default()
    });
    results.rows[8].extra.insert(evil.into(), 1.0);
    results
}
