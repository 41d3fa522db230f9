// SPDX-License-Identifier: GPL-2.0-only
//! Does the PowerPC machine keep the rules of a 604's TLBs, and would we notice if it did not?
//!
//! The rules are in machine/powerpc/guest/rules, each with the deliberate break that it must notice. The page that lists
//! them is compared with what the guest says of itself; UPDATE_EXPECT=1 writes it anew.

mod common;

use ceasefire_artifacts::{hash, machine, Context};
use ceasefire_base::{Progress, Verbosity};
use common::Scratch;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A QEMU to try instead of ours.
const QEMU_VARIABLE: &str = "CEASEFIRE_QEMU_POWERPC";
const MACHINE: &str = "powerpc";
const COMPILER: &str = "powerpc-linux-gnu-gcc";
/// Debian's own emulator, to compare with.
const STOCK: &str = "qemu-system-ppc";
const PAGE: &str = "docs/reference/machine-powerpc-rules.md";
const POLL: Duration = Duration::from_millis(5);
const SECONDS_MAX: u64 = 120;
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
/// The options under which the rules must hold: for the CPU, and for the guest.
const SHAPES: [(&str, &str); 6] = [
    ("tlb-model=on", "model"),
    ("tlb-oracle=on", "model oracle"),
    ("tlb-oracle=on,tlb-count=on", "model oracle count"),
    ("tlb-oracle=on,tlb-count=on", "model oracle count icount"),
    ("tlb-oracle=on", "model oracle reset"),
    ("", ""),
];
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
    /// None: the cross compiler is not installed.
    fn new() -> Option<Kit> {
        let scratch = Scratch::new("powerpc");
        let guest = scratch.0.join("guest");
        if !compile(&guest) {
            common::skip("machine_powerpc", &format!("{COMPILER} is not installed"));
            return None;
        }
        let given = std::env::var_os(QEMU_VARIABLE).filter(|qemu| !qemu.is_empty()).map(PathBuf::from);
        let qemu = given.unwrap_or_else(|| {
            let context = Context::open(Progress::new(Verbosity::Quiet)).expect("the checkout and the cache");
            machine::build(&context, MACHINE).unwrap_or_else(|error| panic!("{error:?}")).qemu
        });
        Some(Kit { qemu, guest, _scratch: scratch })
    }
}

fn room() -> PathBuf {
    common::root().join("machine").join(MACHINE)
}

/// Return: whether there is a compiler.
fn compile(output: &Path) -> bool {
    let sources = room().join("guest");
    let files = hash::files(&sources).expect("the guest's sources");
    let is_source = |file: &&PathBuf| file.extension().is_some_and(|end| end == "c" || end == "S");
    let mut command = Command::new(COMPILER);
    command.current_dir(&sources).args(FLAGS).args(["-I", ".", "-T", "guest.ld", "-o"]).arg(output);
    let Ok(said) = command.args(files.iter().filter(is_source)).output() else { return false };
    assert!(said.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&said.stderr));
    true
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Boot {
    /// What follows `-cpu 604`.
    cpu: String,
    /// What follows `-machine g3beige`.
    machine: String,
    words: String,
}

impl Boot {
    fn new(cpu: &str, words: &str) -> Boot {
        let mut boot = Boot { cpu: cpu.into(), machine: String::new(), words: words.into() };
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
            &with("604", &self.cpu),
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
        let mut command = self.command(kit, &console);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let begun = Instant::now();
        let mut in_time = true;
        while child.try_wait().expect("QEMU is ours to wait for").is_none() {
            if in_time && begun.elapsed() > Duration::from_secs(SECONDS_MAX) {
                in_time = false;
                child.kill().expect("QEMU is ours to kill");
            }
            std::thread::sleep(POLL);
        }
        let output = child.wait_with_output().expect("QEMU has ended");
        let text = std::fs::read(&console).unwrap_or_default();
        Said {
            command: format!("{command:?}"),
            text: String::from_utf8_lossy(&text).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            in_time,
            refused: in_time && !output.status.success(),
        }
    }
}

struct Said {
    /// To be pasted.
    command: String,
    text: String,
    stderr: String,
    in_time: bool,
    /// QEMU itself ended with an error.
    refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Kept,
    Broken,
    Skipped,
    /// The guest did not live to tell.
    Lost,
}

impl Said {
    fn is_whole(&self) -> bool {
        self.in_time && !self.refused && self.text.lines().any(|line| line.starts_with("done "))
    }

    fn verdicts(&self) -> BTreeMap<u32, Verdict> {
        self.text.lines().filter_map(parse_verdict).collect()
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
    let verdict = match rest.split(' ').next().unwrap_or_default() {
        "ok" => Verdict::Kept,
        "FAIL" => Verdict::Broken,
        "skip" => Verdict::Skipped,
        _ => Verdict::Lost,
    };
    Some((number.parse().ok()?, verdict))
}

/// One row of the guest's own table of rules.
#[derive(Debug, Clone)]
struct Rule {
    number: u32,
    name: String,
    source: String,
    needs: Vec<String>,
    killer: String,
}

fn rules(kit: &Kit) -> Vec<Rule> {
    let said = Boot::new("", "list").run(kit);
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
        needs: needs.split(" | ").map(str::to_string).collect(),
        killer: killer.into(),
    })
}

#[test]
fn every_rule_is_kept_in_every_shape() {
    let Some(kit) = Kit::new() else { return };
    let rules = rules(&kit);
    let mut kept = BTreeSet::new();
    for (cpu, words) in SHAPES {
        let said = Boot::new(cpu, words).run(&kit);
        assert!(said.is_whole(), "{said}");
        for (number, verdict) in said.verdicts() {
            match verdict {
                Verdict::Kept => drop(kept.insert(number)),
                Verdict::Skipped => {}
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
    let needs = |need: &str| rule.needs.iter().any(|n| n == need);
    let mut cpu = vec!["tlb-model=on"];
    let mut words = vec!["model"];
    for (need, option, word) in
        [("ORACLE", "tlb-oracle=on", "oracle"), ("COUNT", "tlb-oracle=on,tlb-count=on", "oracle count")]
    {
        if needs(need) {
            cpu.push(option);
            words.push(word);
        }
    }
    words.extend(
        [("ICOUNT", "icount"), ("RESET", "reset")].iter().filter(|(n, _)| needs(n)).map(|(_, word)| *word),
    );
    let mut boot = Boot::new(&cpu.join(","), &words.join(" "));
    match rule.killer.starts_with("tb-frequency=") {
        true => boot.machine = rule.killer.clone(),
        false => write!(boot.cpu, ",tlb-break={}", rule.killer).expect("a string takes everything"),
    }
    boot
}

/// The rules that a break does not make fail.
fn survivors(boot: &Boot, rules: &[u32], kit: &Kit) -> Vec<String> {
    let mut open = rules.to_vec();
    let mut survivors = Vec::new();
    while !open.is_empty() {
        let list: Vec<String> = open.iter().map(u32::to_string).collect();
        let words = format!("{} force rules={}", boot.words, list.join(","));
        let said = Boot { words, ..boot.clone() }.run(kit);
        let verdicts = said.verdicts();
        if verdicts.is_empty() || said.refused {
            survivors.push(format!("rules {list:?}: the guest says nothing\n{said}"));
            break;
        }
        for (number, verdict) in &verdicts {
            if matches!(verdict, Verdict::Kept | Verdict::Skipped) {
                survivors.push(format!("rule {number} survives -cpu 604,{}", boot.cpu));
            }
        }
        if said.is_whole() {
            break;
        }
        // It died in the last one; the others have another boot.
        open.retain(|number| !verdicts.contains_key(number));
    }
    survivors
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

/// `X(ID, "name")`, as the list of breaks stands in the patches.
fn breaks_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (id, rest) = line.strip_prefix("+    X(")?.split_once(", \"")?;
        let is_id = id.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let name = rest.split_once("\")")?.0;
        (is_id && !id.is_empty() && name != "none").then_some(name)
    })
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
        known.extend(breaks_in(&String::from_utf8_lossy(&text)).map(str::to_string));
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
    let Some(qemu) = ceasefire_base::exec::find_program(STOCK) else {
        common::skip("without_its_options_it_is_as_stock_qemu", &format!("{STOCK} is not installed"));
        return;
    };
    let stock = Kit { qemu, guest: kit.guest.clone(), _scratch: Scratch::new("powerpc-stock") };
    // What each rule comes to without a model: which fail, and with what.
    let boot = Boot::new("", "force reset");
    let (ours, theirs) = (boot.run(&kit), boot.run(&stock));
    assert!(ours.is_whole() && theirs.is_whole(), "{ours}\n{theirs}");
    assert!(ours.verdicts().values().any(|verdict| *verdict == Verdict::Broken), "{ours}");
    let clock = |line: &&str| !line.starts_with("rule 912 ");
    let lines = |said: &Said| said.text.lines().filter(clock).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(lines(&ours), lines(&theirs));
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
        (cpu("tlb-model=off,tlb-count=on"), "tlb-model=off allows neither"),
        (cpu("tlb-break=nothing-such"), "there is no nothing-such"),
    ] {
        let said = boot.run(&kit);
        assert!(said.refused && said.stderr.contains(why), "{why}?\n{said}");
    }
    // Another processor has other TLBs.
    let said = Command::new(&kit.qemu)
        .args(["-nodefaults", "-display", "none", "-machine", "g3beige", "-cpu", "750,tlb-model=on"])
        .output()
        .expect("QEMU starts");
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(
        !said.status.success() && stderr.contains("tlb-model needs TCG and one CPU, a 604 or 604e"),
        "{stderr}"
    );
}

fn need_in_words(need: &str) -> &'static str {
    match need {
        "MODEL" => "tlb-model",
        "ORACLE" => "oracle",
        "NO_ORACLE" => "no oracle",
        "COUNT" => "tlb-count",
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
         `fuzz.c` stands beside the rules: random loads, stores, fetches, `tlbie`, `mtsr` and changes of PTEs, compared at\n\
         each step with a model of the TLBs that was written apart from the machine's.\n\n\
         With `UPDATE_EXPECT=1` the goal writes this page; a test compares it with the source.\n\n",
    );
    for rule in rules {
        let needs: Vec<&str> = rule.needs.iter().map(|need| need_in_words(need)).collect();
        let (number, name, source, killer) = (rule.number, &rule.name, &rule.source, &rule.killer);
        writeln!(page, "- {number}: {name}\n  {source}; needs {}; fails under {killer}", needs.join(", "))
            .expect("a string takes everything");
    }
    page
}

#[test]
fn the_page_lists_the_rules() {
    let Some(kit) = Kit::new() else { return };
    let rules = rules(&kit);
    let numbers: Vec<u32> = rules.iter().map(|rule| rule.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "the rules are not in order: {numbers:?}");
    let path = common::root().join(PAGE);
    let page = page_of(&rules);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{PAGE} is not what the guest says: UPDATE_EXPECT=1 writes it");
}
