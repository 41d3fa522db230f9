// SPDX-License-Identifier: GPL-2.0-only
//! Does the PowerPC machine keep the rules of a 604's TLBs, and would we notice if it did not?
//!
//! The rules are in machine/powerpc/guest/rules, each with the deliberate break that it must notice. The page that lists
//! them is compared with what the guest says of itself; UPDATE_EXPECT=1 writes it anew.

mod common;
#[path = "machine/said.rs"]
mod said;

use ceasefire_artifacts::base::Base;
use ceasefire_artifacts::{hash, machine, Context};
use ceasefire_base::{Kind, Progress, Verbosity};
use common::Scratch;
use said::{Rule, Said, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A QEMU to try instead of ours.
const QEMU_VARIABLE: &str = "CEASEFIRE_QEMU_POWERPC";
const MACHINE: &str = "powerpc";
/// Names the cross compiler, and Debian's packages of it.
const BASE: &str = "kernel/bases/linux-6.12-powerpc";
/// Debian's own emulator, to compare with: its program and its package.
const STOCK: &str = "qemu-system-ppc";
const CPU: &str = "604";
const PAGE: &str = "docs/reference/machine-powerpc-rules.md";
const LIMIT: Duration = Duration::from_secs(120);
/// No library, no floating point, no small data (its registers are not set up), no tables for unwinding.
const FLAGS: [&str; 20] = [
    "-m32",
    "-mcpu=604",
    "-mbig-endian",
    "-msoft-float",
    "-mno-sdata",
    "-std=gnu11",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-fno-pie",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-Wl,--build-id=none",
    "-Wl,-z,max-page-size=4096",
    "-Wl,--no-warn-rwx-segments",
];
/// A tick of the timebase is an instruction.
const ICOUNT: &str = "tb-frequency=1000000000";
/// The shapes in which the rules must hold: the CPU, its options, and the guest's words. With a reset the guest runs
/// twice, so that it runs one rule.
const SHAPES: [(&str, &str, &str); 6] = [
    (CPU, "tlb-model=on", "model"),
    (CPU, "tlb-oracle=on", "model oracle"),
    ("604e", "tlb-oracle=on", "model oracle"),
    (CPU, "tlb-oracle=on", "model oracle icount"),
    (CPU, "tlb-oracle=on", "model oracle reset rules=1001"),
    (CPU, "", ""),
];
/// The rule about the timebase, which without icount follows the host's clock: no two boots say the same.
const CLOCK: u32 = 912;
const ROUNDS: u32 = 100_000;
/// Breaks that the guest's own model must see, beside those that a rule names; within so many rounds.
const ROUNDS_BROKEN: u32 = 20_000;
const FUZZ_KILLERS: [&str; 16] = [
    "vsid-ignored",
    "page-short",
    "segment-drops",
    "tlbie-keeps-code",
    "tlbie-keeps-older",
    "tlbie-needs-vsid",
    "replaces-oldest",
    "fast-keeps-older",
    "denied-is-no-use",
    "rights-kept",
    "changed-forgotten",
    "changed-keeps-frame",
    "secondary-ignored",
    "references-by-group",
    "stats-still",
    "oracle-blind-data",
];

/// What a boot needs.
struct Kit {
    qemu: PathBuf,
    guest: PathBuf,
    _scratch: Scratch,
}

impl Kit {
    /// None: the cross compiler is not here, and this machine does not let us install it.
    fn new() -> Option<Kit> {
        let context = context();
        let base = Base::read(&context.root.join(BASE)).unwrap_or_else(|error| panic!("{error:?}"));
        let architecture = base.architecture().unwrap_or_else(|error| panic!("{error:?}"));
        if !is_installed(&context, "machine_powerpc", &architecture.packages) {
            return None;
        }
        let scratch = Scratch::new("powerpc");
        let guest = scratch.0.join("guest");
        compile(&format!("{}gcc", architecture.compiler), &guest);
        let given = std::env::var_os(QEMU_VARIABLE).filter(|qemu| !qemu.is_empty()).map(PathBuf::from);
        let build = || machine::build(&context, MACHINE).unwrap_or_else(|error| panic!("{error:?}")).qemu;
        Some(Kit { qemu: given.unwrap_or_else(build), guest, _scratch: scratch })
    }
}

fn context() -> Context {
    Context::open(Progress::new(Verbosity::Quiet)).expect("the checkout and the cache")
}

/// Installs Debian's packages that are missing. False, and a skip is noted, where they cannot be installed.
fn is_installed(context: &Context, test: &str, packages: &[String]) -> bool {
    match context.ensure(&packages.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => true,
        Err(error) if error.kind == Kind::Skip => {
            common::skip(test, &error.message);
            false
        }
        Err(error) => panic!("{error:?}"),
    }
}

fn room() -> PathBuf {
    common::root().join("machine").join(MACHINE)
}

fn compile(compiler: &str, output: &Path) {
    let sources = room().join("guest");
    let files = hash::files(&sources).expect("the guest's sources");
    let is_source = |file: &&PathBuf| file.extension().is_some_and(|end| end == "c" || end == "S");
    let mut command = Command::new(compiler);
    command.current_dir(&sources).args(FLAGS).args(["-I", ".", "-T", "guest.ld", "-o"]).arg(output);
    let said = command.args(files.iter().filter(is_source)).output().expect("the compiler starts");
    assert!(said.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&said.stderr));
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Boot {
    /// `-cpu PROCESSOR,CPU`
    processor: &'static str,
    cpu: String,
    /// What follows `-machine g3beige`.
    machine: String,
    words: String,
}

impl Boot {
    fn new(cpu: &str, words: &str) -> Boot {
        let mut boot = Boot { processor: CPU, cpu: cpu.into(), machine: String::new(), words: words.into() };
        if boot.has("icount") {
            boot.machine = ICOUNT.into();
        }
        boot
    }

    fn has(&self, word: &str) -> bool {
        self.words.split(' ').any(|other| other == word)
    }

    fn command(&self, kit: &Kit, console: &Path) -> Command {
        let with = |first: &str, more: &str| match more {
            "" => first.to_string(),
            more => format!("{first},{more}"),
        };
        let mut command = Command::new(&kit.qemu);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"]);
        if !self.has("reset") {
            command.arg("-no-reboot");
        }
        command.args([
            "-machine",
            &with("g3beige", &self.machine),
            "-cpu",
            &with(self.processor, &self.cpu),
            "-m",
            "64",
        ]);
        if self.has("icount") {
            command.args(["-icount", "shift=0,sleep=off", "-rtc", "clock=vm,base=2024-01-01"]);
        }
        command.arg("-bios").arg(&kit.guest).arg("-serial").arg(format!("file:{}", console.display()));
        // A comma is doubled, and an empty string would be no file.
        command.arg("-fw_cfg").arg(format!("name=opt/words,string= {}", self.words.replace(',', ",,")));
        command
    }

    /// Until it powers off, or time is up.
    fn run(&self, kit: &Kit) -> Said {
        let scratch = Scratch::new("powerpc-boot");
        let console = scratch.0.join("console");
        Said::of(self.command(kit, &console), &console, LIMIT)
    }
}

fn rules(kit: &Kit) -> Vec<Rule> {
    Boot::new("", "list").run(kit).rules()
}

#[test]
fn every_rule_is_kept_in_every_shape() {
    let Some(kit) = Kit::new() else { return };
    let rules = rules(&kit);
    let mut kept = BTreeSet::new();
    for (processor, cpu, words) in SHAPES {
        let said = Boot { processor, ..Boot::new(cpu, words) }.run(&kit);
        assert!(said.is_whole(), "{said}");
        for (number, verdict) in said.verdicts() {
            match verdict {
                Verdict::Kept => drop(kept.insert(number)),
                Verdict::Skipped(_) => {}
                broken => panic!("rule {number}: {broken:?}\n{said}"),
            }
        }
    }
    let never: Vec<u32> = rules.iter().map(|rule| rule.number).filter(|n| !kept.contains(n)).collect();
    assert!(never.is_empty(), "no shape tries the rules {never:?}");
    println!("{} rules kept in {} boots", rules.len(), SHAPES.len());
}

/// The boot in which a rule must fail.
fn break_of(rule: &Rule) -> Boot {
    let mut cpu = vec!["tlb-model=on"];
    let mut words = vec!["model"];
    if rule.needs("ORACLE") {
        cpu.push("tlb-oracle=on");
        words.push("oracle");
    }
    words.extend(
        [("ICOUNT", "icount"), ("RESET", "reset")]
            .iter()
            .filter(|(need, _)| rule.needs(need))
            .map(|(_, word)| *word),
    );
    let mut boot = Boot::new(&cpu.join(","), &words.join(" "));
    match rule.killer.starts_with("tb-frequency=") {
        true => boot.machine = rule.killer.clone(),
        false => write!(boot.cpu, ",tlb-break={}", rule.killer).expect("a string takes everything"),
    }
    boot
}

/// A guest that hangs, or that an exception ends which is no part of a journey, has not noticed: nobody would wait for
/// the one, and the other may have any cause.
fn survivors(boot: &Boot, rules: &[u32], kit: &Kit) -> Vec<String> {
    said::survivors(rules, false, |more| {
        Boot { words: format!("{} {more}", boot.words), ..boot.clone() }.run(kit)
    })
}

#[test]
fn every_rule_fails_where_it_is_broken() {
    let Some(kit) = Kit::new() else { return };
    let rules = rules(&kit);
    let mut breaks: BTreeMap<Boot, Vec<u32>> = BTreeMap::new();
    for rule in &rules {
        assert!(!rule.killer.is_empty(), "rule {} has no break that it must notice", rule.number);
        breaks.entry(break_of(rule)).or_default().push(rule.number);
    }
    let survivors: Vec<String> =
        breaks.iter().flat_map(|(boot, rules)| survivors(boot, rules, &kit)).collect();
    assert!(survivors.is_empty(), "{} survive:\n{}", survivors.len(), survivors.join("\n"));
    println!("{} rules fail under {} breaks", rules.len(), breaks.len());
}

#[test]
fn every_break_that_the_machine_knows_is_used() {
    let Some(kit) = Kit::new() else { return };
    let mut used: BTreeSet<String> = rules(&kit).into_iter().map(|rule| rule.killer).collect();
    used.extend(FUZZ_KILLERS.map(str::to_string));
    let patches = room().join("patches");
    let mut known = BTreeSet::new();
    for file in hash::files(&patches).expect("the patches") {
        let text = std::fs::read(patches.join(file)).expect("a patch");
        known.extend(said::breaks_in(&String::from_utf8_lossy(&text)).map(str::to_string));
    }
    assert!(!known.is_empty(), "no list of breaks in machine/powerpc");
    let unused: Vec<&String> = known.iter().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "no rule names {unused:?}");
}

fn fuzz(kit: &Kit, more: &str, rounds: u32, seed: u32) -> Said {
    Boot::new(&format!("tlb-oracle=on{more}"), &format!("model oracle fuzz={rounds} seed={seed}")).run(kit)
}

#[test]
fn the_machine_agrees_with_the_guests_own_model() {
    let Some(kit) = Kit::new() else { return };
    for seed in 1..=3 {
        let said = fuzz(&kit, "", ROUNDS, seed);
        assert!(said.is_whole(), "{said}");
        let line =
            said.text.lines().find(|line| line.starts_with("fuzz ok ")).unwrap_or_else(|| panic!("{said}"));
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| field(name).and_then(|n| n.parse::<u32>().ok()).unwrap_or_default();
        assert_eq!(number("rounds"), ROUNDS, "{said}");
        // Not in vain: entries are missed, replaced, and loaded again for a store; and more are hit than missed.
        let (misses, evictions, changed) = (number("misses"), number("evictions"), number("changed"));
        assert!(misses > ROUNDS / 20 && misses < ROUNDS / 2, "{said}");
        assert!(evictions > ROUNDS / 50 && changed > ROUNDS / 200, "{said}");
    }
}

#[test]
fn the_guests_own_model_sees_breaks() {
    let Some(kit) = Kit::new() else { return };
    for name in FUZZ_KILLERS {
        let said = fuzz(&kit, &format!(",tlb-break={name}"), ROUNDS_BROKEN, 1);
        assert!(!said.refused && said.text.contains("fuzz FAIL"), "{name} is not seen\n{said}");
    }
}

#[test]
fn without_its_options_it_is_as_stock_qemu() {
    let Some(kit) = Kit::new() else { return };
    if !is_installed(&context(), "without_its_options_it_is_as_stock_qemu", &[STOCK.to_string()]) {
        return;
    }
    let qemu = ceasefire_base::exec::find_program(STOCK).expect("the package has it");
    let stock = Kit { qemu, guest: kit.guest.clone(), _scratch: Scratch::new("powerpc-stock") };
    // What each rule comes to without a model: which fail, and with what. Those that need the oracle would end where they
    // ask it, and compare nothing.
    let compared = |rule: &&Rule| !rule.needs("ORACLE") && rule.number != CLOCK;
    let list: Vec<String> = rules(&kit).iter().filter(compared).map(|rule| rule.number.to_string()).collect();
    let boot = Boot::new("", &format!("force rules={}", list.join(",")));
    let (ours, theirs) = (boot.run(&kit), boot.run(&stock));
    assert!(ours.is_whole() && theirs.is_whole(), "{ours}\n{theirs}");
    let verdicts = ours.verdicts();
    assert_eq!(verdicts.len(), list.len(), "{ours}");
    assert!(verdicts.values().any(|verdict| matches!(verdict, Verdict::Broken(_))), "{ours}");
    assert!(!ours.text.contains("the oracle:"), "{ours}");
    assert_eq!(ours.text, theirs.text);
    println!("{} rules say the same of both", list.len());
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(kit) = Kit::new() else { return };
    let mut slow = Boot::new("", "list");
    slow.machine = "tb-frequency=0".into();
    let mut fast = slow.clone();
    fast.machine = "tb-frequency=1000000001".into();
    let cpu = |options: &str| Boot::new(options, "list");
    for (boot, why) in [
        (slow, "tb-frequency is 1 to 1000000000 Hz"),
        (fast, "tb-frequency is 1 to 1000000000 Hz"),
        (cpu("tlb-model=off,tlb-oracle=on"), "tlb-model=off allows neither"),
        (cpu("tlb-break=nothing-such"), "there is no nothing-such"),
        // Another processor has other TLBs.
        (Boot { processor: "750", ..cpu("tlb-model=on") }, "tlb-model needs TCG and one CPU, a 604 or 604e"),
    ] {
        let said = boot.run(&kit);
        assert!(said.refused && said.stderr.contains(why), "{why}?\n{said}");
    }
}

fn need_in_words(need: &str) -> &str {
    match need {
        "MODEL" => "tlb-model",
        "ORACLE" => "oracle",
        "NO_ORACLE" => "no oracle",
        "ICOUNT" => "icount",
        "RESET" => "a reset",
        other => panic!("the need {other} has no words"),
    }
}

fn page_of(rules: &[Rule]) -> String {
    let mut page = String::from(
        "<!-- SPDX-License-Identifier: GPL-2.0-only -->\n\
         # The PowerPC machine's rules\n\n\
         What the [emulated 604](machine-powerpc.md)'s TLBs must do and must not do. Each rule is one function of the guest\n\
         in `machine/powerpc/guest/rules/`, with a number that stays. The goal `powerpc-machine` tries all of them, and then\n\
         shows that each fails where it is broken on purpose. They rely on behaviour: a PTE is changed without a `tlbie`, and\n\
         what a read returns tells whether an entry was kept.\n\n\
         The second line of a rule names its source (604, 750, OEA:\n\
         [machine-powerpc.md](machine-powerpc.md#the-tlbs-as-modelled); *ours*: no source decides it), what it *needs*, and\n\
         what it *fails under*: a value of `tlb-break=`, or an option of the machine.\n\n\
         `fuzz.c` stands beside the rules: random loads, stores, fetches, `tlbie`, `mtsr` and changes of PTEs, compared with\n\
         a model of the TLBs that was written apart from the machine's: what is read and raised, R and C, and what the TLBs\n\
         hold, at each step; the counters every 16 steps.\n\n\
         With `UPDATE_EXPECT=1` the goal writes this page; a test compares it with the source.\n\n",
    );
    page.extend(rules.iter().map(|rule| rule.entry(need_in_words)));
    page
}

#[test]
fn the_page_lists_the_rules() {
    let Some(kit) = Kit::new() else { return };
    let rules = rules(&kit);
    said::check_page(&common::root().join(PAGE), &page_of(&rules), &rules);
}
