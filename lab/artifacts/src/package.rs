// SPDX-License-Identifier: GPL-2.0-only
//! Debian packages of a kernel with a mechanism over the configuration of a machine that exists (docs/use/hardware.md).

mod configuration;

use crate::cache::{Entry, Facts, Key};
use crate::debian::apt::PackageKind;
use crate::kconfig::{self, Setting, Wishes};
use crate::kernel::plan::{self, Origin, Plan};
use crate::kernel::{self, KernelSpec};
use crate::recipe;
use crate::source::{self, Source};
use crate::steps::step_options;
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Kind, Result};
use ceasefire_mechanism::Mechanism;
use configuration::{adjustments, space_mib, Configuration};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// HARDWARE.config of the base goes over what the recipe takes of its mechanisms, and NAME-HARDWARE.config of each
/// mechanism over that: what its kernel has in the lab alone.
const HARDWARE: &str = "hardware";
/// Of the cache: finished packages, and trees that a build was interrupted in.
const CLASS: &str = "package";
const UNFINISHED: &str = "unfinished";
/// depmod; what makes keys and certificates.
const PACKAGES: [&str; 4] = ["kmod", "libssl-dev", "openssl", "perl"];
/// Compressors and the like that a configuration asks for.
const PACKAGES_BY_SYMBOL: [(&str, &str); 8] = [
    ("KERNEL_ZSTD", "zstd"),
    ("MODULE_COMPRESS_ZSTD", "zstd"),
    ("KERNEL_LZ4", "lz4"),
    ("KERNEL_LZO", "lzop"),
    ("KERNEL_BZIP2", "bzip2"),
    ("IKHEADERS", "cpio"),
    ("DEBUG_INFO_BTF", "python3"),
    ("GDB_SCRIPTS", "python3"),
];
/// Of the key, in the kernel's name: two builds with other configurations stand side by side.
const NAME_HEX: usize = 7;
const MAINTAINER: &str = "Ceasefire developers <devel@ceasefire.invalid>";

/// What was built, in the cache.
#[derive(Debug, Clone)]
pub struct Package {
    pub release: String,
    /// The .deb files, the configuration and the log.
    pub files: Vec<PathBuf>,
    pub built: bool,
}

/// Builds the packages, or takes them from the cache. `config`: None for that of the running kernel.
pub fn build(context: &Context, kernel: &str, config: Option<&Path>) -> Result<Package> {
    let spec = kernel::find(context, kernel)?;
    if spec.described.is_empty() {
        return Err(Error::usage(format!("kernel {kernel} has no mechanism: it is the distribution's own"))
            .remedy("choose another --kernel: `ceasefire lab list` shows what each is"));
    }
    check_machine()?;
    let config = Configuration::read(config)?;
    let pahole = pahole();
    let needs_mib = space_mib(&config.values, pahole.is_some());
    disk::require(context.cache.dir(), needs_mib)?;
    context.ensure(&packages(&spec, &config.values))?;

    let base = recipe::base_of(&context.root, &spec)?;
    let architecture = base.architecture()?;
    let source = source::source(context, &base, PackageKind::Binary)?;
    let changes = recipe::changes(&context.root, &spec)?;
    let ours = fragments_of(&context.root, spec);
    let (wishes, fragments) = recipe::read_fragments(&context.root, &ours)?;
    let key = kernel::build_key(context, architecture, &fragments, &changes.hash()?)?
        .text("source", format!("{} {} {}", base.package, source.version, source.sha256))
        .text("config", hash::bytes(config.text.as_bytes()))
        .text("pahole", pahole.clone().unwrap_or_default());
    let log = context.cache.log_path(CLASS, kernel, &key);
    let local = format!("-ceasefire-{}", &key.hex()[..NAME_HEX]);
    let mut settings = adjustments(&config.values, pahole.is_some(), &local);
    settings.extend(reasoned(&fragments)?);
    say(context, &config, &settings);
    let plan = Plan {
        context,
        architecture,
        class: CLASS,
        name: kernel,
        origin: Origin::Deb { file: source.file.clone(), tarball: base.tarball.clone() },
        wishes,
        fragments,
        changes,
        is_strict: true,
        log,
    };
    let work = Work { plan, config, settings, local, source, needs_mib, mechanisms: ours.described };
    let entry = work.obtain(&key)?;
    Ok(Package { release: entry.fact("release"), files: files_of(&entry), built: entry.built })
}

/// The kernel that the packages are of, unless another is named: the first whose mechanism offers them.
pub fn usual(context: &Context) -> Result<String> {
    let offered = ceasefire_mechanism::all(&context.root)?.into_iter().find(|mechanism| mechanism.package);
    offered
        .map(|mechanism| mechanism.name)
        .ok_or_else(|| Error::usage("no mechanism offers packages").remedy("name a kernel: --kernel NAME"))
}

fn fragments_of(root: &Path, spec: KernelSpec) -> KernelSpec {
    let mut config = recipe::own_fragments(root, &spec);
    config.push(HARDWARE.to_string());
    let last = spec.mechanisms.iter().map(|mechanism| format!("{mechanism}-{HARDWARE}"));
    config.extend(last.filter(|name| recipe::has_fragment(root, &spec, name)));
    KernelSpec { config, ..spec }
}

fn files_of(entry: &Entry) -> Vec<PathBuf> {
    let mut names: Vec<&str> =
        entry.facts.get("files").map(|text| text.split(' ').collect()).unwrap_or_default();
    names.retain(|name| !name.is_empty());
    names.iter().map(|name| entry.dir.join(name)).collect()
}

fn check_machine() -> Result<()> {
    if cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    Err(Error::skip("the kernel packages are for x86-64, and this machine is none")
        .remedy("build them on an x86-64 machine"))
}

/// Its version, which decides what type information the kernel gets.
fn pahole() -> Option<String> {
    exec::find_program("pahole")?;
    exec::read(&Command::new("pahole").arg("--version")).ok().map(|text| text.trim().to_string())
}

fn packages<'a>(spec: &'a KernelSpec, config: &BTreeMap<String, String>) -> Vec<&'a str> {
    let is_on = |symbol: &str| config.get(symbol).is_some_and(|value| value != "n");
    let asked =
        PACKAGES_BY_SYMBOL.into_iter().filter(|(symbol, _)| is_on(symbol)).map(|(_, package)| package);
    let mut names: Vec<&str> = kernel::PACKAGES.into_iter().chain(PACKAGES).chain(asked).collect();
    names.extend(spec.packages.iter().map(String::as_str));
    names.sort_unstable();
    names.dedup();
    names
}

/// One setting for each symbol: the last, as in `Wishes`.
fn reasoned(fragments: &[PathBuf]) -> Result<Vec<Setting>> {
    let mut list: Vec<Setting> = Vec::new();
    for path in fragments {
        let text = fs::read_to_string(path).map_err(|error| disk::error("read", path, &error))?;
        for setting in kconfig::reasoned(&text) {
            list.retain(|known| known.symbol != setting.symbol);
            list.push(setting);
        }
    }
    Ok(list)
}

/// What the packages have otherwise than the machine's own kernel, and why.
fn say(context: &Context, config: &Configuration, settings: &[Setting]) {
    let changed: Vec<&Setting> = settings
        .iter()
        .filter(|setting| config.values.get(&setting.symbol) != Some(&setting.value))
        .collect();
    context.progress.note(format!("{} symbols of {}; over them:", config.values.len(), config.name));
    for setting in changed {
        context.progress.note(format!("  {}: {}", setting.line(), setting.why));
    }
}

struct Work<'a> {
    plan: Plan<'a>,
    config: Configuration,
    settings: Vec<Setting>,
    local: String,
    source: Source,
    needs_mib: u64,
    mechanisms: Vec<Mechanism>,
}

impl Work<'_> {
    fn obtain(&self, key: &Key) -> Result<Entry> {
        let context = self.plan.context;
        let cache = &context.cache;
        let tree = cache.dir().join(UNFINISHED).join(format!("{}-{}", self.plan.name, key.hex()));
        if context.dry_run {
            let dir = context.dry_dir("package");
            let facts = self.make(&tree, &dir)?;
            return Ok(Entry { dir, facts, built: false });
        }
        cache.obtain(&context.progress, CLASS, self.plan.name, key, |dir| {
            let _ours = cache.lock_part(&context.progress, UNFINISHED)?;
            self.make(&tree, dir).map_err(|error| match error.kind {
                Kind::Interrupted => Error {
                    message: "interrupted; what was compiled is kept".into(),
                    remedy: Some(
                        "the same command goes on from there; `ceasefire lab clean` removes it".into(),
                    ),
                    ..error
                },
                _ => error,
            })
        })
    }

    /// All steps from the source to the packages. Each leaves a mark in the tree, so that an interrupted build
    /// goes on; in a dry run they are only printed.
    fn make(&self, tree: &Path, dir: &Path) -> Result<Facts> {
        let plan = &self.plan;
        plan.run(&Command::new("mkdir").arg("-p").arg(dir))?;
        self.once(tree, "unpacked", || {
            plan.run(&Command::new("rm").arg("-rf").arg(tree))?;
            plan.run(&Command::new("mkdir").arg("-p").arg(tree))?;
            plan.unpack(tree, &plan::NOT_UNPACKED)?;
            plan.changes.apply(plan.context, tree, &plan.log)
        })?;
        self.once(tree, "configured", || self.configure(tree))?;
        let objects = plan.compile(tree, &[&plan.architecture.target, "modules"], self.needs_mib)?;
        let release = self.release(tree)?;
        let names = self.pack(tree, dir, &release)?;
        plan.run(&Command::new("rm").arg("-rf").arg(tree))?;
        if plan.context.dry_run {
            return Ok(Facts::new());
        }
        let log = format!("kernel-{release}.log");
        let kept = fs::copy(&plan.log, dir.join(&log)).map(|_| log).ok();
        let names: Vec<String> = names.into_iter().chain(kept).collect();
        Ok(Facts::from([
            ("release".into(), release),
            ("objects".into(), objects.to_string()),
            ("files".into(), names.join(" ")),
        ]))
    }

    fn once(&self, tree: &Path, mark: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        let mark = tree.join(format!(".ceasefire-{mark}"));
        if !self.plan.context.dry_run && mark.exists() {
            return Ok(());
        }
        step()?;
        self.plan.run(&Command::new("touch").arg(mark))
    }

    fn configure(&self, tree: &Path) -> Result<()> {
        let plan = &self.plan;
        let step = plan.step("configure");
        let path = tree.join(".config");
        let mut text = self.config.text.clone();
        text += "\n# Over it, by Ceasefire.\n";
        for setting in &self.settings {
            text += &format!("{}\n", setting.line());
        }
        let command = plan.kbuild(tree).arg("olddefconfig");
        if plan.context.dry_run {
            plan.context.dry_comment(&format!(
                "{} with the settings above goes to {}",
                self.config.name,
                path.display()
            ));
            return plan.run(&command);
        }
        fs::write(&path, text).map_err(|error| disk::error("write", &path, &error))?;
        plan.run(&command)?;
        let config = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        plan.judge(&kconfig::refusals(&plan.wishes, &config))?;
        // What the source does not know is no loss; what stays as it was is told.
        let mut adjusted = Wishes::new();
        for setting in self.settings.iter().filter(|setting| !plan.wishes.contains_key(&setting.symbol)) {
            adjusted.insert(setting.symbol.clone(), (setting.value.clone(), "hardware".into()));
        }
        for refused in kconfig::refusals(&adjusted, &config).iter().filter(|refused| refused.got != "n") {
            plan.context.progress.warn(format!("CONFIG_{} stays {}", refused.symbol, refused.got));
        }
        step.done(format!("{} symbols", kconfig::settings(&config).count()));
        Ok(())
    }

    fn release(&self, tree: &Path) -> Result<String> {
        if self.plan.context.dry_run {
            return Ok(format!("RELEASE{}", self.local));
        }
        let path = tree.join("include/config/kernel.release");
        let text = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        let release = text.trim().to_string();
        // A "localversion" file, or a name that does not fit into uname's 64 bytes.
        if !release.ends_with(&self.local) || release.len() >= 64 {
            return Err(Error::failed(format!(
                "the kernel calls itself {release}, which should end in {}",
                self.local
            ))
            .remedy("see the log; LOCALVERSION in the environment is not used"));
        }
        Ok(release)
    }

    /// The kernel's own script lays out each package, as for `make bindeb-pkg`; without the packages of C headers and
    /// debug symbols, which would replace or swamp what the machine has.
    fn pack(&self, tree: &Path, dir: &Path, release: &str) -> Result<Vec<String>> {
        let plan = &self.plan;
        let step = plan.step("pack");
        let has_modules = self.config.values.get("MODULES").is_some_and(|value| value == "y");
        plan.run(&Command::new("rm").arg("-rf").arg(tree.join("debian")))?;
        let mut names = Vec::new();
        let titles: Vec<&str> = self.mechanisms.iter().map(|mechanism| mechanism.title.as_str()).collect();
        let about_image = format!(
            "Linux with {title}, an experiment, never tried on hardware by its makers\n Linux {release}: Debian's source with the Ceasefire series, kernel {}.\n {title} is off until it is switched on. Not for production.\n",
            plan.name,
            title = titles.join(" and "),
        );
        let about_headers =
            format!("headers of Linux {release}, for building modules\n For linux-image-{release}.\n");
        let image = (
            "linux-image",
            "Depends: kmod, linux-base, initramfs-tools | linux-initramfs-tool\n",
            about_image,
        );
        let headers = ("linux-headers", "", about_headers);
        for (kind, depends, about) in [Some(image), has_modules.then_some(headers)].into_iter().flatten() {
            let package = format!("{kind}-{release}");
            step.waiting(&package);
            names.push(self.pack_one(tree, dir, &package, depends, &about)?);
        }
        let config = format!("config-{release}");
        plan.run(&Command::new("cp").arg(tree.join(".config")).arg(dir.join(&config)))?;
        names.push(config);
        step.done("");
        Ok(names)
    }

    fn pack_one(&self, tree: &Path, dir: &Path, package: &str, depends: &str, about: &str) -> Result<String> {
        let plan = &self.plan;
        let version = package_version(&self.source.version, &self.local);
        let script = format!("KBUILD_RUN_COMMAND=+$(srctree)/scripts/package/builddeb {package}");
        plan.run(&plan.kbuild(tree).arg("run-command").arg(script))?;
        let staged = tree.join("debian").join(package);
        let control = format!(
            "Package: {package}\nVersion: {version}\nArchitecture: amd64\nMaintainer: {MAINTAINER}\nSection: kernel\nPriority: optional\n{depends}Description: {about}"
        );
        let name = format!("{package}_{version}_amd64.deb");
        let to = dir.join(&name);
        if !plan.context.dry_run {
            let path = staged.join("DEBIAN/control");
            let parent = staged.join("DEBIAN");
            fs::create_dir_all(&parent).map_err(|error| disk::error("create", &parent, &error))?;
            fs::write(&path, control).map_err(|error| disk::error("write", &path, &error))?;
        }
        let sums = "chmod -R u=rwX,go=rX . && find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | sort -z | xargs -r0 md5sum > DEBIAN/md5sums";
        plan.run(&Command::new("bash").args(["-o", "pipefail", "-c", sums]).cwd(&staged))?;
        let build = Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&staged).arg(&to);
        exec::run(&build, step_options(plan.context, &plan.log, dir, self.needs_mib))?;
        plan.run(&Command::new("rm").arg("-rf").arg(&staged))?;
        Ok(name)
    }
}

/// Older than the distribution's package of the same source to apt, so that it never takes one's place.
fn package_version(source: &str, local: &str) -> String {
    format!("{source}~{}", local.trim_start_matches('-').replace('-', "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::version;
    use std::cmp::Ordering;

    #[test]
    fn the_version_never_takes_the_place_of_the_distributions() {
        let ours = package_version("6.12.117-1~deb12u1", "-ceasefire-0123abc");
        assert_eq!(ours, "6.12.117-1~deb12u1~ceasefire.0123abc");
        assert_eq!(version::compare(&ours, "6.12.117-1~deb12u1"), Ordering::Less);
        assert_eq!(version::compare(&ours, "6.12.107-1~deb12u1"), Ordering::Greater);
    }

    #[test]
    fn packages_follow_the_configuration() {
        let config = kconfig::settings("CONFIG_KERNEL_ZSTD=y\n# CONFIG_IKHEADERS is not set\n").collect();
        let spec = KernelSpec { packages: vec!["dwarves".into()], ..KernelSpec::default() };
        let names = packages(&spec, &config);
        for (name, is_there) in
            [("kmod", true), ("zstd", true), ("dwarves", true), ("gcc", true), ("cpio", false)]
        {
            assert_eq!(names.contains(&name), is_there, "{name}: {names:?}");
        }
    }

    fn asked_for(kernel: &str) -> (Wishes, Vec<Setting>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let spec = recipe::list_of(&root).expect("kernels").into_iter().find(|spec| spec.name == kernel);
        let ours = fragments_of(&root, spec.expect("a kernel of its name"));
        let (wishes, paths) = recipe::read_fragments(&root, &ours).expect("its fragments");
        (wishes, reasoned(&paths).expect("read"))
    }

    /// Every symbol that the packages ask for has its reason, and is asked for once.
    #[test]
    fn the_fragments_say_why() {
        for kernel in ["abis", "abis-idle", "abis-debug"] {
            let (wishes, list) = asked_for(kernel);
            assert!(list.len() > 1 && list.iter().all(|setting| !setting.why.is_empty()), "{list:?}");
            assert_eq!(list.len(), wishes.len(), "{list:?}");
            for setting in list {
                assert_eq!(wishes[&setting.symbol].0, setting.value, "{kernel}: {}", setting.symbol);
            }
        }
    }

    /// Packages have what their recipe takes of its mechanisms, and nothing that only the lab's machine can do.
    #[test]
    fn packages_are_what_their_recipe_says() {
        for (kernel, symbol, value) in [
            ("abis", "ABIS_FULL", "y"),
            ("abis", "ABIS_HIDE", "y"),
            ("abis", "ABIS_DEBUG", "n"),
            ("abis", "CEASEFIRE_COUNTERS", "y"),
            ("abis", "SERIAL_8250", "n"),
            ("abis-idle", "ABIS", "y"),
            ("abis-idle", "ABIS_FULL", "n"),
            ("abis-idle", "ABIS_HIDE", "n"),
            ("abis-debug", "ABIS_FULL", "y"),
            ("abis-debug", "ABIS_DEBUG", "y"),
            ("abis", "ABIS_INSERT_MACHINE", "n"),
            ("abis-idle", "ABIS_INSERT_MACHINE", "n"),
            ("abis-debug", "ABIS_INSERT_MACHINE", "n"),
        ] {
            let (wishes, _) = asked_for(kernel);
            let wished = wishes.get(symbol).map_or("n", |(value, _)| value.as_str());
            assert_eq!(wished, value, "{kernel}: {symbol}");
        }
    }
}
