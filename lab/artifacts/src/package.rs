// SPDX-License-Identifier: GPL-2.0-only
//! Debian packages of a kernel with ABIS over the configuration of a machine that exists (docs/use/hardware.md).

use crate::cache::{Entry, Facts, Key};
use crate::debian::apt::PackageKind;
use crate::kconfig::{self, Setting, Wishes};
use crate::kernel::{self, KernelSpec, Origin, Plan};
use crate::recipe::{self, step_options, Source};
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Kind, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The recipe whose changes the packages carry: the whole series.
pub const KERNEL: &str = "abis";
/// NAME.config of the base or of a mechanism, over the machine's own.
const FRAGMENTS: [&str; 2] = ["abis", "hardware"];
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
/// A configuration is some 300 KB; this is none.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Source, image and headers; and, estimated, each symbol's objects without and with debug information.
const SPACE_BASE_MIB: u64 = 3000;
const SPACE_SYMBOL_KIB: u64 = 900;
const SPACE_SYMBOL_DEBUG_KIB: u64 = 4000;
const SIGNING_KEY: &str = "\"certs/signing_key.pem\"";
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

/// The configuration to start from.
struct Configuration {
    name: String,
    text: String,
    values: BTreeMap<String, String>,
}

/// Builds the packages, or takes them from the cache. `config`: None for that of the running kernel.
pub fn build(context: &Context, kernel: &str, config: Option<&Path>) -> Result<Package> {
    let spec = kernel::find(context, kernel)?;
    if !spec.mechanisms.iter().any(|name| name == "abis") {
        return Err(Error::usage(format!("kernel {kernel} has no ABIS: it is the distribution's own"))
            .remedy(format!("choose another --kernel, {KERNEL} for one")));
    }
    check_machine()?;
    let config = Configuration::read(config)?;
    let pahole = pahole();
    let needs_mib = space_mib(&config.values, pahole.is_some());
    disk::require(context.cache.dir(), needs_mib)?;
    context.ensure(&packages(&spec, &config.values))?;

    let base = kernel::base_of(&context.root, &spec)?;
    let source = recipe::source(context, &base, PackageKind::Binary)?;
    let changes = kernel::changes(&context.root, &spec)?;
    let ours = KernelSpec { config: FRAGMENTS.map(String::from).to_vec(), ..spec };
    let (wishes, fragments) = kernel::read_fragments(&context.root, &ours)?;
    let key = kernel::build_key(context, &fragments, &changes.hash()?)?
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
        class: CLASS,
        name: kernel,
        origin: Origin::Deb { file: source.file.clone(), tarball: base.tarball.clone() },
        wishes,
        fragments,
        changes,
        is_strict: true,
        log,
    };
    let work = Work { plan, config, settings, local, source, needs_mib, groups: ours.mechanisms };
    let entry = work.obtain(&key)?;
    Ok(Package { release: entry.fact("release"), files: files_of(&entry), built: entry.built })
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

impl Configuration {
    fn read(path: Option<&Path>) -> Result<Configuration> {
        match path {
            Some(path) => Self::of_file(path),
            None => Self::of_running_kernel(),
        }
    }

    fn of_file(path: &Path) -> Result<Configuration> {
        let name = path.display().to_string();
        let remedy = "give a kernel's .config, for example CONFIG=/boot/config-$(uname -r)";
        let unusable = |why: &str| Error::usage(format!("cannot use {name}: {why}")).remedy(remedy);
        let meta = fs::metadata(path).map_err(|error| unusable(&disk::reason(&error)))?;
        if !meta.is_file() || meta.len() > CONFIG_BYTES_MAX {
            return Err(unusable("it is not a file of a configuration's size"));
        }
        let text = fs::read_to_string(path).map_err(|error| unusable(&disk::reason(&error)))?;
        Self::check(name, text).map_err(|error| error.remedy(remedy))
    }

    /// Where distributions leave it, or what the kernel itself tells.
    fn of_running_kernel() -> Result<Configuration> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let path = PathBuf::from(format!("/boot/config-{}", release.trim()));
        if path.is_file() {
            return Self::of_file(&path);
        }
        let own = Path::new("/proc/config.gz");
        if own.is_file() {
            let text = exec::read(&Command::new("gzip").arg("-dc").arg(own))?;
            return Self::check(own.display().to_string(), text);
        }
        Err(Error::skip(format!(
            "the running kernel's configuration is not there: neither {} nor {}",
            path.display(),
            own.display()
        ))
        .remedy("name one: make kernel-deb CONFIG=FILE"))
    }

    fn check(name: String, text: String) -> Result<Configuration> {
        let values: BTreeMap<String, String> = kconfig::settings(&text).collect();
        let is_on = |symbol: &str| values.get(symbol).is_some_and(|value| value == "y");
        if values.is_empty() {
            return Err(Error::usage(format!(
                "{name} is no kernel configuration: no line sets a CONFIG_ symbol"
            ))
            .remedy("give a kernel's .config"));
        }
        if !is_on("X86_64") {
            return Err(Error::usage(format!(
                "{name} is the configuration of another machine: it has no CONFIG_X86_64=y"
            ))
            .remedy("give one of an x86-64 kernel"));
        }
        if !is_on("SMP") {
            return Err(Error::usage(format!("{name} is for one CPU: it has no CONFIG_SMP=y"))
                .remedy("give one with CONFIG_SMP=y: one CPU has nobody to interrupt"));
        }
        Ok(Configuration { name, text, values })
    }
}

/// What a distribution's configuration names and this source has not, and what the packages do without.
pub fn adjustments(config: &BTreeMap<String, String>, has_pahole: bool, local: &str) -> Vec<Setting> {
    let mut list = Vec::new();
    let mut set = |symbol: &str, value: &str, why: &str| {
        list.push(Setting { symbol: symbol.into(), value: value.into(), why: why.into() })
    };
    let get = |symbol: &str| config.get(symbol).map(String::as_str).unwrap_or("n");
    set(
        "LOCALVERSION",
        &format!("\"{local}\""),
        "the kernel's name says what it is, and stands beside the distribution's",
    );
    set("LOCALVERSION_AUTO", "n", "and nothing else");
    for symbol in ["SYSTEM_TRUSTED_KEYS", "SYSTEM_REVOCATION_KEYS", "SYSTEM_BLACKLIST_HASH_LIST"] {
        if !["n", "\"\""].contains(&get(symbol)) {
            set(symbol, "\"\"", "the distribution's certificates are not in this source");
        }
    }
    if get("MODULE_SIG") == "y" {
        if get("MODULE_SIG_KEY") != SIGNING_KEY {
            set(
                "MODULE_SIG_KEY",
                SIGNING_KEY,
                "the distribution's key is its own: one is made for this build, and goes with it",
            );
        }
        if get("MODULE_SIG_ALL") != "y" {
            set(
                "MODULE_SIG_ALL",
                "y",
                "modules are signed as they are installed, since nobody signs them later",
            );
        }
    }
    if has_debug_info(config, has_pahole) {
        return list;
    }
    if get("DEBUG_INFO_BTF") == "y" {
        set(
            "DEBUG_INFO_BTF",
            "n",
            "pahole is not installed (package dwarves): no type information, so no `ceasefire watch` there",
        );
    }
    const CHOICES: [&str; 3] =
        ["DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", "DEBUG_INFO_DWARF4", "DEBUG_INFO_DWARF5"];
    for symbol in CHOICES.into_iter().filter(|symbol| get(symbol) == "y") {
        set(symbol, "n", "no debug packages are made, and without it the build takes a quarter of the space");
    }
    if get("DEBUG_INFO_NONE") != "y" {
        set("DEBUG_INFO_NONE", "y", "likewise");
    }
    list
}

/// Kept where type information (BTF) is made of it.
fn has_debug_info(config: &BTreeMap<String, String>, has_pahole: bool) -> bool {
    has_pahole && config.get("DEBUG_INFO_BTF").is_some_and(|value| value == "y")
}

/// Estimated by the number of symbols that are on.
fn space_mib(config: &BTreeMap<String, String>, has_pahole: bool) -> u64 {
    let symbols = config.values().filter(|value| ["y", "m"].contains(&value.as_str())).count() as u64;
    let each = if has_debug_info(config, has_pahole) { SPACE_SYMBOL_DEBUG_KIB } else { SPACE_SYMBOL_KIB };
    SPACE_BASE_MIB + symbols * each / 1024
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

fn reasoned(fragments: &[PathBuf]) -> Result<Vec<Setting>> {
    let mut list = Vec::new();
    for path in fragments {
        let text = fs::read_to_string(path).map_err(|error| disk::error("read", path, &error))?;
        list.extend(kconfig::reasoned(&text));
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
    /// Of patches.
    groups: Vec<String>,
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
            plan.unpack(tree, &kernel::NOT_UNPACKED)?;
            plan.changes.apply(plan.context, tree, &plan.log)
        })?;
        self.once(tree, "configured", || self.configure(tree))?;
        let objects = plan.compile(tree, &["bzImage", "modules"], self.needs_mib)?;
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
        let about_image = format!(
            "Linux with ABIS, an experiment, never tried on hardware by its makers\n Linux {release}: Debian's source with the Ceasefire series, kernel {} (mechanisms {}).\n ABIS is off until it is switched on. Not for production.\n",
            plan.name,
            self.groups.join(", ")
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

    fn values(text: &str) -> BTreeMap<String, String> {
        kconfig::settings(text).collect()
    }

    fn lines(config: &str, has_pahole: bool) -> Vec<String> {
        let list = adjustments(&values(config), has_pahole, "-ceasefire-0123abc");
        assert!(list.iter().all(|setting| !setting.why.is_empty()));
        list.iter().map(Setting::line).collect()
    }

    const NAME: [&str; 2] =
        ["CONFIG_LOCALVERSION=\"-ceasefire-0123abc\"", "# CONFIG_LOCALVERSION_AUTO is not set"];

    #[test]
    fn a_small_configuration_is_left_alone_but_for_its_name() {
        assert_eq!(
            lines("CONFIG_X86_64=y\nCONFIG_DEBUG_INFO_NONE=y\nCONFIG_SYSTEM_TRUSTED_KEYS=\"\"\n", true),
            NAME
        );
        assert_eq!(lines("CONFIG_DEBUG_INFO_NONE=y\nCONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_ALL=y\nCONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"\n", false), NAME);
    }

    /// Debian 12 and Ubuntu 24.04, as their configurations have these lines.
    #[test]
    fn keys_of_a_distribution_are_not_asked_for() {
        let debian = "CONFIG_MODULE_SIG=y\n# CONFIG_MODULE_SIG_ALL is not set\nCONFIG_MODULE_SIG_KEY=\"\"\n\
                      CONFIG_SYSTEM_TRUSTED_KEYS=\"\"\nCONFIG_DEBUG_INFO_NONE=y\n";
        let said = lines(debian, true);
        assert_eq!(said[2..], ["CONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"", "CONFIG_MODULE_SIG_ALL=y"]);
        let ubuntu =
            "CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_ALL=y\nCONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"\n\
                      CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/canonical-certs.pem\"\nCONFIG_DEBUG_INFO_NONE=y\n\
                      CONFIG_SYSTEM_REVOCATION_KEYS=\"debian/canonical-revoked-certs.pem\"\n";
        let said = lines(ubuntu, true);
        assert_eq!(said[2..], ["CONFIG_SYSTEM_TRUSTED_KEYS=\"\"", "CONFIG_SYSTEM_REVOCATION_KEYS=\"\""]);
    }

    #[test]
    fn debug_information_stays_where_type_information_is_made_of_it() {
        let with_types = "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y\nCONFIG_DEBUG_INFO_BTF=y\n";
        assert_eq!(lines(with_types, true), NAME);
        assert_eq!(
            lines(with_types, false)[2..],
            [
                "# CONFIG_DEBUG_INFO_BTF is not set",
                "# CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT is not set",
                "CONFIG_DEBUG_INFO_NONE=y"
            ]
        );
        let without = "CONFIG_DEBUG_INFO_DWARF5=y\n# CONFIG_DEBUG_INFO_BTF is not set\n";
        assert_eq!(
            lines(without, true)[2..],
            ["# CONFIG_DEBUG_INFO_DWARF5 is not set", "CONFIG_DEBUG_INFO_NONE=y"]
        );
    }

    #[test]
    fn what_is_no_configuration_of_such_a_machine_is_refused() {
        let refused = |text: &str| Configuration::check("file".into(), text.into()).err().expect("refused");
        for (text, fragment) in [
            ("hello\n", "no kernel configuration"),
            ("CONFIG_ARM64=y\nCONFIG_SMP=y\n", "another machine"),
            ("# CONFIG_X86_64 is not set\nCONFIG_X86_32=y\n", "another machine"),
            ("CONFIG_X86_64=y\n# CONFIG_SMP is not set\n", "for one CPU"),
        ] {
            let error = refused(text);
            assert!(error.message.contains(fragment) && error.remedy.is_some(), "{error:?}");
            assert_eq!(error.kind, Kind::Usage);
        }
        assert!(Configuration::check("file".into(), "CONFIG_X86_64=y\nCONFIG_SMP=y\n".into()).is_ok());
        for path in ["/no/such/config", "/", "/dev/zero"] {
            let error = Configuration::read(Some(Path::new(path))).err().expect("refused");
            assert!(error.kind == Kind::Usage && error.remedy.is_some(), "{error:?}");
        }
    }

    #[test]
    fn the_version_never_takes_the_place_of_the_distributions() {
        let ours = package_version("6.12.117-1~deb12u1", "-ceasefire-0123abc");
        assert_eq!(ours, "6.12.117-1~deb12u1~ceasefire.0123abc");
        assert_eq!(version::compare(&ours, "6.12.117-1~deb12u1"), Ordering::Less);
        assert_eq!(version::compare(&ours, "6.12.107-1~deb12u1"), Ordering::Greater);
    }

    #[test]
    fn space_and_packages_follow_the_configuration() {
        let small = values("CONFIG_A=y\nCONFIG_KERNEL_ZSTD=y\n# CONFIG_IKHEADERS is not set\n");
        let many: String = (0..8000).map(|n| format!("CONFIG_S{n}=m\n")).collect();
        let typed = values(&format!("{many}CONFIG_DEBUG_INFO_BTF=y\n"));
        assert_eq!(space_mib(&small, true), SPACE_BASE_MIB + 1);
        assert!(space_mib(&typed, false) > 9000 && space_mib(&typed, true) > 30_000);
        let spec = KernelSpec { packages: vec!["dwarves".into()], ..spec() };
        let names = packages(&spec, &small);
        for (name, is_there) in
            [("kmod", true), ("zstd", true), ("dwarves", true), ("gcc", true), ("cpio", false)]
        {
            assert_eq!(names.contains(&name), is_there, "{name}: {names:?}");
        }
    }

    fn spec() -> KernelSpec {
        toml::from_str("about = \"\"\nbase = \"\"\nconfig = []\n").expect("a recipe")
    }

    /// Every symbol that the packages ask for has its reason, and the recipe carries all groups.
    #[test]
    fn the_fragments_say_why() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut ours: KernelSpec =
            recipe::read_toml(&root.join(format!("kernel/recipes/{KERNEL}.toml"))).expect("the recipe");
        ours.config = FRAGMENTS.map(String::from).to_vec();
        let (_, paths) = kernel::read_fragments(&root, &ours).expect("its fragments");
        let list = reasoned(&paths).expect("read");
        assert!(list.iter().any(|setting| setting.line() == "CONFIG_ABIS=y"), "{list:?}");
        assert!(list.iter().all(|setting| !setting.why.is_empty()), "{list:?}");
    }
}
