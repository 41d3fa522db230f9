// SPDX-License-Identifier: GPL-2.0-only
//! The emulator's command line, and nothing else: a pure function of the boot and the artefacts.

use crate::plan::{Boot, ThreadMode};
use crate::tlb::Tlb;
use ceasefire_artifacts::machine::Guest;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The guest opens the port by this name (lab/guest/init.c).
pub const VERDICT_PORT: &str = "ceasefire.verdict";
/// What the observer has recorded in the guest comes by this one.
pub const RECORD_PORT: &str = "ceasefire.record";

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    Tcg { thread_mode: ThreadMode, slice_us: Option<u32> },
    Kvm,
}

/// What `-cpu` is made of beside the accelerator's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu {
    /// Five-level page tables.
    pub la57: bool,
    /// `None`: this QEMU has no TLB model to set.
    pub tlb: Option<Tlb>,
}

/// Where the guest's console goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Console {
    File(PathBuf),
    /// The terminal; the verdict then goes to a file.
    Terminal {
        verdict: PathBuf,
    },
}

#[derive(Debug, Clone)]
pub struct Hardware<'a> {
    pub qemu: &'a Path,
    pub firmware: &'a [PathBuf],
    /// The machine's own words.
    pub shape: &'a Guest,
    pub kernel: &'a Path,
    pub initrd: &'a Path,
    pub accel: Accel,
    pub cpu: Cpu,
    pub memory_mib: u32,
    pub console: Console,
    /// Where the observer's record goes, if there is one.
    pub record: Option<&'a Path>,
    /// Of the counter that the guest tells the time by; `None` where it finds out by itself.
    pub tsc_khz: Option<u64>,
    /// What chooses the kernel's mode; empty for one without.
    pub mode_words: &'a str,
    /// Appended last, so that it wins over ours.
    pub kernel_arguments: &'a str,
}

/// `panic_on_warn` makes a kernel warning a failed run; the rest takes noise out of the counts: a watchdog or a stall
/// detector would interrupt CPUs because emulation is slow, not because of the kernel.
const KERNEL_ARGUMENTS: &str =
    "panic_on_warn=1 panic=-1 oops=panic quiet loglevel=4 nokaslr nowatchdog rcupdate.rcu_cpu_stall_suppress=1";

/// One instruction is one nanosecond; nothing in the guest depends on the host's clock or randomness.
const COST_ARGUMENTS: [&str; 6] =
    ["-icount", "shift=0,sleep=off", "-rtc", "clock=vm,base=2024-01-01", "-seed", "1"];
/// A fixed address layout.
const COST_KERNEL_ARGUMENTS: &str = "norandmaps";

impl Accel {
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg { .. } => "tcg",
        }
    }

    pub fn thread_mode(self) -> Option<ThreadMode> {
        match self {
            Accel::Kvm => None,
            Accel::Tcg { thread_mode, .. } => Some(thread_mode),
        }
    }

    /// Host threads need no turns.
    pub fn slice_us(self) -> Option<u32> {
        match self {
            Accel::Kvm => None,
            Accel::Tcg { slice_us, .. } => slice_us,
        }
    }

    /// The value of `-accel`.
    pub fn argument(self) -> String {
        match self {
            Accel::Kvm => "kvm".into(),
            Accel::Tcg { thread_mode, slice_us } => {
                let mut text = format!("tcg,thread={}", thread_mode.as_str());
                if let (ThreadMode::Single, Some(slice)) = (thread_mode, slice_us) {
                    text.push_str(&format!(",slice-us={slice}"));
                }
                text
            }
        }
    }
}

/// The value of `-machine`.
fn machine(shape: &Guest, boot: &Boot) -> String {
    match shape.machine_cost.as_str() {
        more if boot.is_timed_by_instructions() && !more.is_empty() => format!("{},{more}", shape.machine),
        _ => shape.machine.clone(),
    }
}

/// The value of `-cpu`.
pub fn cpu_model(shape: &Guest, accel: Accel, cpu: &Cpu, boot: &Boot) -> String {
    if accel == Accel::Kvm {
        return "host".into();
    }
    let tlb = cpu.tlb.as_ref().map(|tlb| tlb.cpu_flags());
    let words = [
        Some(shape.cpu.as_str()),
        Some(shape.cpu_model.as_str()),
        boot.cost.then_some(shape.cpu_cost.as_str()),
        (!cpu.la57).then_some(shape.cpu_without_la57.as_str()),
        tlb.as_deref(),
        boot.is_counted_apart().then_some(shape.cpu_count.as_str()),
    ];
    words.into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(",")
}

/// The arguments after the program's name.
pub fn arguments(hardware: &Hardware, boot: &Boot) -> Vec<OsString> {
    let mut args = Words(Vec::new());
    args.put(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    args.put(&["-machine", &machine(hardware.shape, boot), "-accel", &hardware.accel.argument()]);
    args.put(&["-cpu", &cpu_model(hardware.shape, hardware.accel, &hardware.cpu, boot)]);
    args.put(&["-smp", &topology(boot.vcpus, boot.nodes)]);
    // QEMU wants the nodes' memory to add up.
    let node_mib = hardware.memory_mib / boot.nodes;
    args.put(&["-m", &format!("{}M", node_mib * boot.nodes)]);
    if boot.is_timed_by_instructions() {
        args.put(&COST_ARGUMENTS);
    }
    if boot.nodes > 1 {
        for (node, cpus) in node_cpus(boot.vcpus, boot.nodes).into_iter().enumerate() {
            args.put(&["-object", &format!("memory-backend-ram,id=mem{node},size={node_mib}M")]);
            let cpus = cpus.map_or(String::new(), |(first, last)| format!(",cpus={first}-{last}"));
            args.put(&["-numa", &format!("node,nodeid={node},memdev=mem{node}{cpus}")]);
        }
    }
    for directory in hardware.firmware {
        args.path("-L", directory);
    }
    args.put(&["-device", &hardware.shape.port_bus]);
    match &hardware.console {
        Console::File(path) => {
            // Not the stdio back end: it closes the port when standard input ends, and the guest's write waits.
            args.put(&["-chardev", "file,id=verdict,path=/dev/stdout"]);
            // Everything behind the colon is the name, commas included.
            let mut serial = OsString::from("file:");
            serial.push(path);
            args.0.extend(["-serial".into(), serial]);
        }
        Console::Terminal { verdict } => {
            args.put(&["-chardev", &format!("file,id=verdict,path={}", escape_commas(verdict))]);
            // Ctrl-C is for the guest, and Ctrl-A x for the emulator.
            args.put(&["-chardev", "stdio,id=console,mux=on,signal=off", "-serial", "chardev:console"]);
        }
    }
    args.put(&["-device", &format!("virtserialport,chardev=verdict,name={VERDICT_PORT}")]);
    if let Some(record) = hardware.record {
        args.put(&["-chardev", &format!("file,id=record,path={}", escape_commas(record))]);
        args.put(&["-device", &format!("virtserialport,chardev=record,name={RECORD_PORT}")]);
    }
    args.path("-kernel", hardware.kernel);
    args.path("-initrd", hardware.initrd);
    let shape = hardware.shape;
    let layout = if boot.cost { COST_KERNEL_ARGUMENTS } else { "" };
    let timer = if boot.is_timed_by_instructions() { shape.words_cost.as_str() } else { "" };
    let clock = clock_words(hardware, boot);
    let modes = [hardware.mode_words, hardware.kernel_arguments];
    let words = [[&shape.words, KERNEL_ARGUMENTS], [clock.as_str(), ""], [layout, timer], modes].concat();
    let words: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
    args.put(&["-append", &words.join(" ")]);
    args.0
}

/// Where instructions are counted they are the time, too.
fn clock_words(hardware: &Hardware, boot: &Boot) -> String {
    let words = &hardware.shape.words_clock;
    match hardware.tsc_khz {
        Some(khz) if !boot.is_timed_by_instructions() && !words.is_empty() => format!("{words}{khz}"),
        _ => String::new(),
    }
}

struct Words(Vec<OsString>);

impl Words {
    fn put(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    /// File names need not be text.
    fn path(&mut self, flag: &str, path: &Path) {
        self.0.push(flag.into());
        self.0.push(path.into());
    }
}

/// A socket must not lie in two nodes: Linux warns, and a warning is a failed run.
fn topology(vcpus: u32, nodes: u32) -> String {
    if vcpus % nodes == 0 {
        format!("{vcpus},sockets={nodes},cores={},threads=1", vcpus / nodes)
    } else {
        format!("{vcpus},sockets={vcpus},cores=1,threads=1")
    }
}

/// First and last CPU of every node; the first nodes take what does not divide evenly. `None`: the node has memory alone.
fn node_cpus(vcpus: u32, nodes: u32) -> Vec<Option<(u32, u32)>> {
    let mut first = 0;
    (0..nodes)
        .map(|node| {
            let count = vcpus / nodes + u32::from(node < vcpus % nodes);
            first += count;
            (count > 0).then(|| (first - count, first - 1))
        })
        .collect()
}

/// QEMU splits option values at commas; a doubled comma stands for one.
fn escape_commas(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::Preset;

    /// As machine/x86_64/machine.toml has it.
    fn shape() -> Guest {
        Guest {
            machine: "pc".into(),
            cpu: "max".into(),
            cpu_cost: "-erms,-fsrm".into(),
            cpu_count: "tlb-count=on".into(),
            cpu_without_la57: "-la57".into(),
            machine_cost: String::new(),
            cpu_model: String::new(),
            cpus_max: None,
            memory_mib: None,
            memory_mib_max: None,
            port_bus: "virtio-serial-pci".into(),
            words: "console=ttyS0".into(),
            words_cost: "nolapic_timer".into(),
            words_clock: "tsc_early_khz=".into(),
        }
    }

    /// Nothing of a PC is left where a machine says otherwise.
    #[test]
    fn another_machine_has_its_own_words() {
        let other = Guest {
            machine: "g3beige".into(),
            machine_cost: "tb-frequency=1000000000".into(),
            cpu: "604".into(),
            cpu_model: "tlb-model=on".into(),
            port_bus: "virtio-serial".into(),
            words: "console=ttyPZ0".into(),
            ..Guest::default()
        };
        let hardware = Hardware {
            qemu: Path::new("qemu"),
            firmware: &[],
            shape: &other,
            kernel: Path::new("vmlinux"),
            initrd: Path::new("initrd"),
            accel: Accel::Tcg { thread_mode: ThreadMode::Single, slice_us: None },
            cpu: Cpu::default(),
            memory_mib: 512,
            console: Console::File("/console".into()),
            record: None,
            tsc_khz: Some(2_100_000),
            mode_words: "",
            kernel_arguments: "",
        };
        let words = arguments(&hardware, &boot(1, 1, true));
        let text = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        assert!(text.contains("-machine g3beige,tb-frequency=1000000000 -accel"), "{text}");
        assert!(text.contains("-cpu 604,tlb-model=on -smp"), "{text}");
        assert_eq!(machine(&other, &boot(1, 1, false)), "g3beige", "the usual time");
        assert!(text.contains("-append console=ttyPZ0 panic_on_warn=1"), "{text}");
        for word in ["ttyS0", "tsc=", "timer", "pci", "-la57", "-erms"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }

    fn text(boot: &Boot, accel: Accel) -> String {
        text_of(boot, accel, Cpu::default())
    }

    fn text_of(boot: &Boot, accel: Accel, cpu: Cpu) -> String {
        let hardware = Hardware {
            qemu: Path::new("qemu"),
            firmware: &[PathBuf::from("/fw")],
            shape: &shape(),
            kernel: Path::new("bzImage"),
            initrd: Path::new("initrd"),
            accel,
            cpu,
            memory_mib: 2048,
            console: Console::File("/a,b/console".into()),
            record: None,
            tsc_khz: Some(2_100_000),
            mode_words: "",
            kernel_arguments: "mitigations=off",
        };
        arguments(&hardware, boot)
            .iter()
            .map(|a| a.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_node_may_have_memory_alone() {
        assert_eq!(node_cpus(1, 3), [Some((0, 0)), None, None]);
        let text = text(&boot(1, 2, true), Accel::Tcg { thread_mode: ThreadMode::Single, slice_us: None });
        assert!(text.contains("-numa node,nodeid=0,memdev=mem0,cpus=0-0 -object"), "{text}");
        assert!(text.contains("-numa node,nodeid=1,memdev=mem1 -"), "{text}");
    }

    fn boot(vcpus: u32, nodes: u32, cost: bool) -> Boot {
        Boot { cost, ..Boot::new(vcpus, nodes) }
    }

    #[test]
    fn nodes_share_every_cpu_once() {
        for vcpus in 1..=64 {
            for nodes in 1..=vcpus.min(8) {
                let ranges: Vec<_> = node_cpus(vcpus, nodes).into_iter().flatten().collect();
                assert_eq!(ranges.len(), nodes as usize);
                let mut next = 0;
                for (first, last) in ranges {
                    assert_eq!(first, next);
                    assert!(last >= first);
                    next = last + 1;
                }
                assert_eq!(next, vcpus);
            }
        }
    }

    #[test]
    fn a_mode_is_a_word_before_the_users_own() {
        let hardware = Hardware {
            qemu: Path::new("qemu"),
            firmware: &[],
            shape: &shape(),
            kernel: Path::new("bzImage"),
            initrd: Path::new("initrd"),
            accel: Accel::Kvm,
            cpu: Cpu::default(),
            memory_mib: 2048,
            console: Console::File("/console".into()),
            record: None,
            tsc_khz: None,
            mode_words: "toy=idle",
            kernel_arguments: "nopcid",
        };
        let arguments = arguments(&hardware, &boot(1, 1, false));
        let last = arguments.last().and_then(|last| last.to_str()).unwrap_or_default();
        assert!(last.ends_with(" toy=idle nopcid"), "{last}");
    }

    #[test]
    fn shapes_reach_the_command_line() {
        let tcg = Accel::Tcg { thread_mode: ThreadMode::Single, slice_us: Some(1000) };
        let plain = text(&boot(4, 1, false), tcg);
        assert!(plain.contains("-accel tcg,thread=single,slice-us=1000"), "{plain}");
        assert!(!plain.contains("-numa") && !plain.contains("-icount"), "{plain}");
        assert!(plain.contains("file:/a,b/console"), "{plain}");
        assert!(plain.ends_with(" tsc_early_khz=2100000 mitigations=off"), "{plain}");
        let nodes = text(&boot(16, 4, false), tcg);
        assert_eq!(nodes.matches("-numa").count(), 4);
        assert!(nodes.contains("cpus=12-15") && nodes.contains("sockets=4,cores=4"), "{nodes}");
        let cost = text(&boot(1, 1, true), tcg);
        assert!(cost.contains("-icount shift=0") && cost.contains("-erms"), "{cost}");
        assert!(!cost.contains("khz"), "instructions are the time: {cost}");
        // With several vCPUs the machine counts, and the clock is this machine's.
        let counted = text(&boot(8, 1, true), tcg);
        assert!(!counted.contains("-icount") && !counted.contains("nolapic_timer"), "{counted}");
        assert!(counted.contains("max,-erms,-fsrm,-la57,tlb-count=on -smp 8"), "{counted}");
        assert!(counted.contains("tsc_early_khz=2100000 norandmaps mitigations=off"), "{counted}");
        assert!(!plain.contains("tlb-count"), "{plain}");
        let multi = Accel::Tcg { thread_mode: ThreadMode::Multi, slice_us: Some(1000) };
        assert!(!text(&boot(2, 1, false), multi).contains("slice-us"));
    }

    #[test]
    fn the_cpu_is_said_in_full() {
        let tcg = Accel::Tcg { thread_mode: ThreadMode::Single, slice_us: None };
        let plain = Cpu { la57: false, tlb: Some(Tlb::default()) };
        for (accel, cpu, cost, model) in [
            (tcg, Cpu::default(), false, "max,-la57"),
            (tcg, Cpu { la57: true, tlb: None }, false, "max"),
            (tcg, plain, false, "max,-la57,tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal"),
            (tcg, plain, true, "max,-erms,-fsrm,-la57,tlb-model=on,tlb-oracle=on,tlb-access-bit=ideal"),
            (
                tcg,
                Cpu { la57: true, tlb: Some(Preset::Stock.into()) },
                false,
                "max,-pcid,-invpcid,tlb-model=off",
            ),
            (Accel::Kvm, Cpu::default(), false, "host"),
        ] {
            assert_eq!(cpu_model(&shape(), accel, &cpu, &boot(1, 1, cost)), model);
            assert!(text_of(&boot(1, 1, cost), accel, cpu).contains(&format!("-cpu {model} -smp")));
        }
    }
}
