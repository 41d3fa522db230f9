// SPDX-License-Identifier: GPL-2.0-only
//! The emulated computer: QEMU from Debian's source with machine/'s changes, or the machine's own QEMU.

use crate::base::Base;
use crate::cache::{Entry, Facts, Key};
use crate::changes::{Changes, Layer};
use crate::debian::apt::PackageKind;
use crate::source::{source, Source};
use crate::steps::{self, read_toml, step_options};
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Result};
use serde::Deserialize;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Holds a folder for each machine, and base.toml: QEMU's source is the same for all.
const ROOM: &str = "machine";
/// The folder of machine/ where no kernel decides.
pub const USUAL: &str = "x86_64";
const PACKAGES: [&str; 6] = ["gcc", "binutils", "make", "patch", "xz-utils", "dpkg-dev"];
/// Source and objects of one target.
const BUILD_MIB: u64 = 1500;
const FIRMWARE: &str = "firmware";
/// QEMU answers a question about itself at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Variables of the caller that would build another QEMU than the cache's key says.
const ENV_DROPPED: [&str; 8] = ["CC", "CXX", "OBJCC", "AR", "LD", "CFLAGS", "CXXFLAGS", "LDFLAGS"];

/// machine/NAME/machine.toml
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineSpec {
    /// What it is called where it is installed, and in the cache.
    program: String,
    /// What `-device` knows its CPU by.
    cpu_device: String,
    /// What it needs first of all.
    bios: String,
    guest: Guest,
    configure: Vec<String>,
    targets: Vec<String>,
    /// The result, below the source.
    binary: String,
    /// Files copied beside the binary.
    #[serde(default)]
    firmware: Vec<PathBuf>,
    #[serde(default)]
    packages_build: Vec<String>,
    #[serde(default)]
    packages_firmware: Vec<String>,
    #[serde(default)]
    series: Vec<String>,
    /// Round-robin slice our patch lets the command line choose; None without the patch.
    #[serde(default)]
    slice_us: Option<u32>,
    /// Our patches give its CPUs a TLB model.
    #[serde(default)]
    tlb_model: bool,
}

/// The words of its command line, and of a kernel's on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// `-machine`, and what is added where instructions are counted and the emulator is not the one that is installed.
    pub machine: String,
    #[serde(default)]
    pub machine_cost: String,
    /// `-cpu`, and what is added where instructions are counted, and where page tables have four levels.
    pub cpu: String,
    #[serde(default)]
    pub cpu_cost: String,
    /// What our patches add to it always, where `--tlb` has nothing to choose.
    #[serde(default)]
    pub cpu_model: String,
    #[serde(default)]
    pub cpu_without_la57: String,
    /// What makes the machine count the kernel's instructions on several CPUs.
    #[serde(default)]
    pub cpu_count: String,
    /// The board has no more; one that has one has one NUMA node, too.
    #[serde(default)]
    pub cpus_max: Option<u32>,
    /// Its memory unless `--memory` says more.
    #[serde(default)]
    pub memory_mib: Option<u32>,
    #[serde(default)]
    pub memory_mib_max: Option<u32>,
    /// `-device`: the bus of the port that the verdict comes through.
    pub port_bus: String,
    /// On the kernel's command line: the console, and what is known of this machine's clocks.
    pub words: String,
    /// The same where instructions are counted.
    #[serde(default)]
    pub words_cost: String,
    /// Before the frequency in kHz of the counter that the guest tells the time by, where that is this machine's own.
    #[serde(default)]
    pub words_clock: String,
}

/// Where the emulator comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Built,
    Installed,
    Given,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Built => "built",
            Origin::Installed => "installed",
            Origin::Given => "given",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Machine {
    pub origin: Origin,
    pub qemu: PathBuf,
    /// Of the executable; None in a dry run that has none.
    pub sha256: Option<String>,
    /// "7.2.18"
    pub version: String,
    /// Debian's version of the source; None for the stock QEMU, like the next two.
    pub source_version: Option<String>,
    /// The patches were tried with exactly this source before.
    pub source_checked: Option<bool>,
    pub series_hash: Option<String>,
    /// Directories for -L; empty: QEMU knows its own.
    pub firmware: Vec<PathBuf>,
    /// Set: this QEMU has the lab's option for the round-robin slice.
    pub slice_us_default: Option<u32>,
    /// It models TLBs and can be asked what they hold.
    pub has_tlb_model: bool,
    pub guest: Guest,
}

impl Guest {
    /// The words for an emulator with or without our patches.
    fn with_patches(mut self, has_patches: bool) -> Guest {
        if !has_patches {
            self.machine_cost.clear();
            self.cpu_model.clear();
        }
        self
    }
}

impl MachineSpec {
    fn read(context: &Context, name: &str) -> Result<MachineSpec> {
        read_toml(&directory(context, name).join("machine.toml"))
    }
}

/// What is known of it before it is built, or found.
pub fn guest(context: &Context, name: &str) -> Result<Guest> {
    Ok(MachineSpec::read(context, name)?.guest)
}

fn directory(context: &Context, name: &str) -> PathBuf {
    context.root.join(ROOM).join(name)
}

/// The Debian packages that building it needs.
pub fn packages(context: &Context, name: &str) -> Result<Vec<String>> {
    Ok(packages_of(&MachineSpec::read(context, name)?))
}

fn packages_of(spec: &MachineSpec) -> Vec<String> {
    let ours = PACKAGES.iter().map(|package| package.to_string());
    ours.chain(spec.packages_build.iter().chain(&spec.packages_firmware).cloned()).collect()
}

/// Our QEMU, out of the cache if it is there.
pub fn build(context: &Context, name: &str) -> Result<Machine> {
    let dir = directory(context, name);
    let spec = MachineSpec::read(context, name)?;
    let base = Base::read(&context.root.join(ROOM))?;
    let changes = Changes::of_groups(&dir, &spec.series, vec![Layer::all(dir.join("overlay"))?])?;
    let source = source(context, &base, PackageKind::Source)?;
    let packages = packages_of(&spec);
    context.ensure(&packages.iter().map(String::as_str).collect::<Vec<_>>())?;
    let series_hash = changes.hash()?;
    let compiler = match steps::compiler("") {
        Err(_) if context.dry_run => String::new(),
        other => other?,
    };
    let key = Key::new("machine")
        .text("builder", steps::BUILDER)
        .text("compiler", compiler)
        .text("source", format!("{} {} {}", base.package, source.version, source.sha256))
        .text("series", &series_hash)
        .text("configure", format!("{:?} {:?} {:?}", spec.configure, spec.targets, spec.firmware));
    let plan = Plan {
        context,
        spec: &spec,
        source: &source,
        changes: &changes,
        log: context.cache.log_path("machine", "qemu", &key),
    };
    let entry = plan.obtain(&key)?;
    Ok(Machine {
        origin: Origin::Built,
        qemu: entry.dir.join(&spec.program),
        sha256: Some(entry.fact("binary_sha256")).filter(|hash| !hash.is_empty()),
        version: entry.fact("version"),
        source_version: Some(source.version.clone()),
        source_checked: Some(source.is_checked),
        series_hash: Some(series_hash),
        firmware: vec![entry.dir.join(FIRMWARE)],
        slice_us_default: spec.slice_us,
        has_tlb_model: spec.tlb_model,
        guest: spec.guest.clone().with_patches(spec.tlb_model),
    })
}

/// The QEMU that the machine has on its PATH.
pub fn stock(context: &Context, name: &str) -> Result<Machine> {
    let spec = MachineSpec::read(context, name)?;
    let found = exec::find_program(&spec.program);
    let Some(qemu) = found else { return Err(exec::missing_program(&spec.program)) };
    let (version, sha256) = match context.dry_run {
        true => (String::new(), None),
        false => (version_of(&qemu)?, Some(hash::file(&qemu)?)),
    };
    Ok(Machine {
        origin: Origin::Installed,
        qemu,
        sha256,
        version,
        source_version: None,
        source_checked: None,
        series_hash: None,
        firmware: Vec::new(),
        slice_us_default: None,
        has_tlb_model: false,
        guest: spec.guest.with_patches(false),
    })
}

/// The keys of "key=value,-key"
fn keys(words: &str) -> impl Iterator<Item = &str> {
    let keys = words.split(',').filter_map(|word| word.split('=').next());
    keys.map(|key| key.trim_start_matches('-')).filter(|key| !key.is_empty())
}

/// In what it answers to `help`: "  key=<type> …"
fn offers(help: &str, key: &str) -> bool {
    help.lines().any(|line| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.starts_with('=')))
}

/// A QEMU of the user's own. It is asked what it can do, in a dry run, too: the command line depends on it.
/// `tlb`: what `-cpu` is told of a TLB that can be set; `None` where the CPU is not emulated.
pub fn given(context: &Context, name: &str, path: &Path, tlb: Option<&str>) -> Result<Machine> {
    let spec = MachineSpec::read(context, name)?;
    let unusable = |why: &str| {
        Error::usage(format!("{} cannot be used as the emulator: {why}", path.display()))
            .remedy(format!("give the path of a {}", spec.program))
    };
    let qemu = fs::canonicalize(path).map_err(|error| unusable(&disk::reason(&error)))?;
    let is_program =
        fs::metadata(&qemu).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if !is_program {
        return Err(unusable("it is no program"));
    }
    let ask = |words: &[&str]| exec::capture(&Command::new(&qemu).args(words), Some(ANSWER_LIMIT));
    let version = ask(&["--version"]).ok().and_then(|said| parse_version(&said.stdout));
    let Some(version) = version else { return Err(unusable("it does not tell a QEMU's version")) };
    let cpu =
        ask(&["-device", &format!("{},help", spec.cpu_device)]).map_err(|error| unusable(&error.message))?;
    if !cpu.status.success() {
        return Err(unusable(&format!("it has no {}", spec.cpu_device)));
    }
    let has_tlb_model = offers(&cpu.stdout, "tlb-model");
    if let Some(tlb) = tlb.filter(|_| has_tlb_model) {
        // With the model all that goes with it is told, and a key that QEMU does not know ends it.
        let Guest { machine, machine_cost, cpu_model, cpu_count, .. } = &spec.guest;
        let board = match machine_cost.is_empty() {
            true => String::new(),
            false => ask(&["-machine", &format!("{machine},help")])?.stdout,
        };
        let tlb = if cpu_model.is_empty() { tlb } else { "" };
        let of_cpu = [cpu_model, tlb, cpu_count].into_iter().flat_map(keys);
        let lacking = of_cpu
            .map(|key| (key, &cpu.stdout))
            .chain(keys(machine_cost).map(|key| (key, &board)))
            .find_map(|(key, help)| (!offers(help, key)).then_some(key));
        if let Some(key) = lacking {
            let what = format!("{} has some of the lab's patches, but no {key}", path.display());
            return Err(Error::usage(what)
                .remedy(format!("build it with all patches of {ROOM}/{name}/patches, or leave out --qemu")));
        }
    }
    // Where it looks by itself, a directory a line; one that was not installed looks in vain.
    let own = ask(&["-L", "help"]).map(|said| said.stdout).unwrap_or_default();
    let has_firmware = own.lines().any(|dir| Path::new(dir.trim()).join(&spec.bios).is_file());
    Ok(Machine {
        origin: Origin::Given,
        sha256: Some(hash::file(&qemu)?),
        qemu,
        version,
        source_version: None,
        source_checked: None,
        series_hash: None,
        firmware: if has_firmware { Vec::new() } else { firmware_directories(&spec) },
        // The patch of the slice comes first in our series.
        slice_us_default: spec.slice_us.filter(|_| has_tlb_model),
        has_tlb_model,
        guest: spec.guest.with_patches(has_tlb_model),
    })
}

/// Debian's directories of the files that ours is given.
fn firmware_directories(spec: &MachineSpec) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in spec.firmware.iter().filter_map(|file| file.parent()) {
        if !directories.iter().any(|known| known == directory) {
            directories.push(directory.to_path_buf());
        }
    }
    directories
}

fn version_of(qemu: &Path) -> Result<String> {
    let text = exec::read(&Command::new(qemu).arg("--version"))?;
    parse_version(&text).ok_or_else(|| {
        Error::failed(format!("{} does not tell its version", qemu.display())).remedy("is it QEMU?")
    })
}

/// "QEMU emulator version 7.2.18 (Debian …)"
fn parse_version(text: &str) -> Option<String> {
    let rest = text.lines().next()?.strip_prefix("QEMU emulator version ")?;
    rest.split_whitespace().next().map(str::to_string)
}

/// "[123/1456] Compiling C object …"
fn parse_ninja(line: &str) -> Option<(u64, u64)> {
    let (done, total) = line.strip_prefix('[')?.split_once(']')?.0.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

struct Plan<'a> {
    context: &'a Context,
    spec: &'a MachineSpec,
    source: &'a Source,
    changes: &'a Changes,
    log: PathBuf,
}

impl Plan<'_> {
    fn obtain(&self, key: &Key) -> Result<Entry> {
        let cache = &self.context.cache;
        if self.context.dry_run {
            if let Some(entry) = cache.find("machine", "qemu", key) {
                self.context.dry_comment(&format!("machine: cached in {}", entry.dir.display()));
                return Ok(entry);
            }
            let dir = self.context.dry_dir("machine");
            self.run(&Command::new("rm").arg("-rf").arg(&dir))?;
            let facts = self.make(&dir)?;
            return Ok(Entry { dir, facts, built: false });
        }
        cache.obtain(&self.context.progress, "machine", "qemu", key, |dir| {
            disk::require(dir, BUILD_MIB)?;
            let _ = fs::remove_file(&self.log);
            self.make(dir)
        })
    }

    fn make(&self, dir: &Path) -> Result<Facts> {
        let tree = dir.join("tree");
        let firmware = dir.join(FIRMWARE);
        self.run(&Command::new("mkdir").arg("-p").arg(&firmware))?;
        // The signature of the source was checked by apt through the package lists.
        let unpack = Command::new("dpkg-source")
            .args(["-x", "--no-check", "--no-copy"])
            .arg(&self.source.file)
            .arg(&tree);
        self.stage("unpack", &unpack)?;
        self.changes.apply(self.context, &tree, &self.log)?;
        let mut configure = Command::new("./configure").args(&self.spec.configure).cwd(&tree);
        for name in ENV_DROPPED {
            configure = configure.env_remove(name);
        }
        self.stage("configure", &configure)?;
        self.compile(&tree)?;
        let binary = dir.join(&self.spec.program);
        self.run(&Command::new("strip").arg("-o").arg(&binary).arg(tree.join(&self.spec.binary)))?;
        for file in &self.spec.firmware {
            self.run(&Command::new("cp").arg("-L").arg(file).arg(&firmware))?;
        }
        self.run(&Command::new("rm").arg("-rf").arg(&tree))?;
        if self.context.dry_run {
            return Ok(Facts::new());
        }
        // The log is a help, not a result.
        let _ = fs::copy(&self.log, dir.join("build.log"));
        Ok(Facts::from([
            ("version".into(), version_of(&binary)?),
            ("binary_sha256".into(), hash::file(&binary)?),
        ]))
    }

    fn compile(&self, tree: &Path) -> Result<()> {
        let step = self.step("compile");
        let on_line = |line: &str| {
            if let Some((done, total)) = parse_ninja(line) {
                step.waiting(format!("{done}/{total} objects"));
            }
        };
        let command = Command::new("ninja")
            .arg("-C")
            .arg(tree.join("build"))
            .arg(format!("-j{}", self.context.jobs + 1))
            .args(&self.spec.targets);
        let options = Options {
            on_line: Some(Box::new(on_line)),
            ..step_options(self.context, &self.log, tree, BUILD_MIB)
        };
        exec::run(&command, options)?;
        step.done("");
        Ok(())
    }

    fn stage(&self, what: &str, command: &Command) -> Result<()> {
        let step = self.step(what);
        self.run(command)?;
        step.done("");
        Ok(())
    }

    fn run(&self, command: &Command) -> Result<()> {
        exec::run(command, step_options(self.context, &self.log, self.context.cache.dir(), BUILD_MIB))
            .map(drop)
    }

    fn step(&self, what: &str) -> ceasefire_base::Step {
        self.context.step(format!("machine: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_patched_emulator_gets_the_words_of_our_patches() {
        let words = "machine = \"g3beige\"\nmachine_cost = \"tb-frequency=1\"\ncpu = \"604\"\n\
                     cpu_model = \"tlb-model=on\"\nport_bus = \"virtio-serial-pci\"\nwords = \"\"\ncpus_max = 1\n";
        let guest: Guest = toml::from_str(words).expect("parses");
        assert_eq!(guest.clone().with_patches(true), guest);
        let stock = guest.with_patches(false);
        assert_eq!((stock.machine.as_str(), stock.machine_cost.as_str()), ("g3beige", ""));
        assert_eq!((stock.cpu.as_str(), stock.cpu_model.as_str()), ("604", ""));
        assert_eq!(stock.cpus_max, Some(1));
    }

    #[test]
    fn an_emulator_with_some_of_our_patches_is_refused_by_the_key_it_lacks() {
        let scratch = tempfile::tempdir().expect("a directory");
        let progress = ceasefire_base::Progress::new(ceasefire_base::Verbosity::Quiet);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let context = Context { root, ..Context::without_checkout(progress).expect("a context") };
        let count = std::cell::Cell::new(0);
        let ask = |name: &str, tlb: Option<&str>, cpu: &str, board: &str| {
            count.set(count.get() + 1);
            let qemu = scratch.path().join(format!("qemu-{}", count.get()));
            let text = format!(
                "#!/bin/sh\ncase $1 in --version) echo 'QEMU emulator version 9.9.9' ;;\n\
                 -device) printf '  %s=<bool>\\n' {cpu} ;;\n-machine) printf '  %s=<int>\\n' {board} ;;\nesac\n"
            );
            fs::write(&qemu, text).expect("a file");
            fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("executable");
            given(&context, name, &qemu, tlb).map(|machine| machine.has_tlb_model)
        };
        let lacks = |name: &str, cpu: &str, board: &str, key: &str| {
            let tlb = "-pcid,tlb-model=on,tlb-psc=1";
            let error = ask(name, Some(tlb), cpu, board).expect_err(key);
            assert_eq!(error.kind, ceasefire_base::Kind::Usage);
            assert!(error.message.ends_with(&format!("but no {key}")) && error.remedy.is_some(), "{error:?}");
            assert_eq!(ask(name, None, cpu, board), Ok(true), "its CPU is not asked for");
        };
        lacks("powerpc", "tlb-model", "tb-frequency", "tlb-oracle");
        lacks("powerpc", "tlb-model tlb-oracle", "tb", "tb-frequency");
        lacks("x86_64", "pcid tlb-model tlb-count tlb-psc-more", "x", "tlb-psc");
        lacks("x86_64", "pcid tlb-model tlb-psc", "x", "tlb-count");
        let tlb = Some("tlb-psc=1");
        assert_eq!(ask("powerpc", tlb, "tlb-model tlb-oracle", "tb-frequency"), Ok(true));
        assert_eq!(ask("x86_64", tlb, "tlb-model tlb-count tlb-psc", "x"), Ok(true));
        for name in ["powerpc", "x86_64"] {
            assert_eq!(ask(name, tlb, "pcid", "usb"), Ok(false), "{name}: none of our patches");
        }
    }

    #[test]
    fn what_qemu_and_ninja_say_is_read() {
        let said = "QEMU emulator version 7.2.18 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright";
        assert_eq!(parse_version(said).as_deref(), Some("7.2.18"));
        assert_eq!(parse_version("qemu-img version 7.2"), None);
        assert_eq!(parse_version(""), None);
        assert_eq!(parse_ninja("[12/1456] Compiling C object x.c.o"), Some((12, 1456)));
        for line in ["", "[", "[1]", "[a/b] x", "ninja: Entering directory"] {
            assert_eq!(parse_ninja(line), None, "{line}");
        }
    }
}
