// SPDX-License-Identifier: GPL-2.0-only
//! Boots the guest that tries the machine's rules (machine/guest) and reads its lines.

use crate::common::Scratch;
use ceasefire_artifacts::{guest, machine, Context};
use ceasefire_base::{Progress, Verbosity};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A QEMU to try instead of ours, with the directory `firmware` beside it.
const QEMU_VARIABLE: &str = "CEASEFIRE_QEMU";
const POLL: Duration = Duration::from_millis(5);
const GIB: u64 = 1 << 30;
/// The memory of each node, for the word `nodes`: as machine/x86_64/guest/nodes.h has it. CPU N is on node N % 3.
const NODES: [u64; 3] = [GIB, 3 * GIB, 2 * GIB];

/// What a boot needs: built by the lab, out of its cache if it is there.
pub struct Kit {
    qemu: PathBuf,
    firmware: Vec<PathBuf>,
    guest: PathBuf,
}

impl Kit {
    pub fn new() -> Kit {
        let context = Context::open(Progress::new(Verbosity::Quiet)).expect("the checkout and the cache");
        let guest = guest::machine_test(&context).unwrap_or_else(|error| panic!("{error:?}"));
        if let Some(qemu) = std::env::var_os(QEMU_VARIABLE).filter(|qemu| !qemu.is_empty()) {
            let qemu = PathBuf::from(qemu);
            let firmware = vec![qemu.parent().unwrap_or(Path::new("")).join("firmware")];
            return Kit { qemu, firmware, guest };
        }
        let machine = machine::build(&context, machine::USUAL).unwrap_or_else(|error| panic!("{error:?}"));
        Kit { qemu: machine.qemu, firmware: machine.firmware, guest }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    /// vCPUs take turns.
    Single,
    /// One host thread each.
    Multi,
}

#[derive(Debug, Clone)]
pub struct Boot {
    /// What follows `-cpu max`.
    pub cpu: String,
    pub threads: Threads,
    pub vcpus: u32,
    /// The guest's command line.
    pub words: String,
    pub seconds_max: u64,
}

impl Boot {
    pub fn new(cpu: &str, threads: Threads, vcpus: u32, words: &str) -> Boot {
        Boot { cpu: cpu.into(), threads, vcpus, words: words.into(), seconds_max: 60 }
    }

    fn command(&self, kit: &Kit, console: &Path) -> Command {
        let mut command = Command::new(&kit.qemu);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"]);
        for directory in &kit.firmware {
            command.arg("-L").arg(directory);
        }
        let threads = match self.threads {
            Threads::Single => "tcg,thread=single",
            Threads::Multi => "tcg,thread=multi",
        };
        let cpu = if self.cpu.is_empty() { "max".to_string() } else { format!("max,{}", self.cpu) };
        command.args(["-accel", threads, "-cpu", &cpu, "-smp", &self.vcpus.to_string()]);
        match self.words.split(' ').any(|word| word == "nodes") {
            true => command.args(self.nodes()),
            false => command.args(["-m", "2048"]),
        };
        if self.words.split(' ').any(|word| word == "icount") {
            command.args(["-icount", "shift=0,sleep=off", "-rtc", "clock=vm,base=2024-01-01", "-seed", "1"]);
        }
        command.arg("-serial").arg(format!("file:{}", console.display()));
        command.arg("-kernel").arg(&kit.guest);
        command.args(["-append", &format!("cpus={} {}", self.vcpus, self.words)]);
        command
    }

    fn nodes(&self) -> Vec<String> {
        let mut args = vec!["-m".to_string(), format!("{}M", NODES.iter().sum::<u64>() >> 20)];
        for (node, bytes) in NODES.iter().enumerate() {
            args.extend(["-object".into(), format!("memory-backend-ram,id=m{node},size={bytes}")]);
            let cpus = (node..self.vcpus as usize).step_by(NODES.len()).map(|cpu| format!(",cpus={cpu}"));
            let cpus: String = cpus.collect();
            args.extend(["-numa".into(), format!("node,nodeid={node},memdev=m{node}{cpus}")]);
        }
        args
    }

    /// Until it powers off, or time is up.
    pub fn run(&self, kit: &Kit) -> Said {
        let scratch = Scratch::new("machine");
        let console = scratch.0.join("console");
        let mut command = self.command(kit, &console);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let begun = Instant::now();
        let mut ended = true;
        while child.try_wait().expect("QEMU is ours to wait for").is_none() {
            if begun.elapsed() > Duration::from_secs(self.seconds_max) {
                ended = false;
                child.kill().expect("QEMU is ours to kill");
            }
            std::thread::sleep(POLL);
        }
        let output = child.wait_with_output().expect("QEMU has ended");
        let text = String::from_utf8_lossy(&std::fs::read(&console).unwrap_or_default()).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Said {
            command: format!("{command:?}"),
            text,
            stderr,
            in_time: ended,
            refused: !output.status.success() && ended,
        }
    }
}

pub struct Said {
    /// To be pasted.
    pub command: String,
    pub text: String,
    pub stderr: String,
    pub in_time: bool,
    /// QEMU itself ended with an error: it does not know an option, or it has crashed.
    pub refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Kept,
    Broken(String),
    Skipped(String),
    /// The guest did not live to tell.
    Lost,
}

impl Said {
    /// Whether the guest came to its end.
    pub fn is_whole(&self) -> bool {
        self.in_time && !self.refused && self.text.lines().any(|line| line.starts_with("done "))
    }

    pub fn line(&self, prefix: &str) -> Option<&str> {
        self.text.lines().find(|line| line.starts_with(prefix))
    }

    /// The verdict of each rule that was begun.
    pub fn verdicts(&self) -> BTreeMap<u32, Verdict> {
        self.text.lines().filter_map(parse_verdict).collect()
    }

    /// What a rule says it saw.
    pub fn seen(&self, number: u32) -> String {
        self.line(&format!("rule {number} ok ")).map(|line| line.to_string()).unwrap_or_default()
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let end = if self.in_time { "" } else { " (time was up)" };
        write!(f, "{}{end}\n--- stderr\n{}\n--- console\n{}", self.command, self.stderr, self.text)
    }
}

/// "rule 17 ok …", "rule 17 FAIL why", "rule 17 skip what is missing", or "rule 17 " and nothing more.
fn parse_verdict(line: &str) -> Option<(u32, Verdict)> {
    let (number, rest) = line.strip_prefix("rule ")?.split_once(' ')?;
    let (word, detail) = rest.split_once(' ').unwrap_or((rest, ""));
    let verdict = match word {
        "ok" => Verdict::Kept,
        "FAIL" => Verdict::Broken(detail.into()),
        "skip" => Verdict::Skipped(detail.into()),
        _ => Verdict::Lost,
    };
    Some((number.parse().ok()?, verdict))
}

/// One row of the guest's own table of rules.
#[derive(Debug, Clone)]
pub struct Rule {
    pub number: u32,
    pub name: String,
    pub source: String,
    pub needs: Vec<String>,
    pub killer: String,
}

impl Rule {
    pub fn needs(&self, need: &str) -> bool {
        self.needs.iter().any(|n| n == need)
    }
}

pub fn rules(kit: &Kit) -> Vec<Rule> {
    let said = Boot::new("", Threads::Single, 1, "list").run(kit);
    let rules: Vec<Rule> = said.text.lines().filter_map(parse_rule).collect();
    assert!(!rules.is_empty(), "{said}");
    rules
}

fn parse_rule(line: &str) -> Option<Rule> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [number, name, source, needs, killer] = fields[..] else { return None };
    Some(Rule {
        number: number.parse().ok()?,
        name: name.into(),
        source: source.into(),
        needs: needs.split(" | ").filter(|need| *need != "0").map(str::to_string).collect(),
        killer: killer.into(),
    })
}
