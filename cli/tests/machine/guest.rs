// SPDX-License-Identifier: GPL-2.0-only
//! Boots the guest that tries the machine's rules (machine/guest) and reads its lines.

use crate::common::Scratch;
pub use crate::said::{Rule, Said, Verdict};
use ceasefire_artifacts::{guest, machine, Context};
use ceasefire_base::{Progress, Verbosity};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A QEMU to try instead of ours, with the directory `firmware` beside it.
const QEMU_VARIABLE: &str = "CEASEFIRE_QEMU";
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
        let command = self.command(kit, &console);
        Said::of(command, &console, Duration::from_secs(self.seconds_max))
    }
}

pub fn rules(kit: &Kit) -> Vec<Rule> {
    Boot::new("", Threads::Single, 1, "list").run(kit).rules()
}
