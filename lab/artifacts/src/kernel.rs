// SPDX-License-Identifier: GPL-2.0-only
//! Kernels: named ones built from kernel/, a tree of the user's own, a finished image.

use crate::cache::{Entry, Facts, Key};
use crate::debian::apt::PackageKind;
use crate::kconfig::{self, Wishes};
use crate::recipe::{self, step_options, Base, Changes, Layer};
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What compiling needs beside the source.
pub(crate) const PACKAGES: [&str; 9] =
    ["gcc", "make", "flex", "bison", "bc", "libelf-dev", "xz-utils", "patch", "binutils"];
/// Source and objects of a trimmed configuration.
const BUILD_MIB: u64 = 2500;
/// Objects of the lab's configuration; later builds know their own number.
const OBJECTS_ESTIMATE: u64 = 1172;
/// Not needed to configure or to compile for x86, and half of the unpacked size.
pub(crate) const NOT_UNPACKED: [&str; 4] =
    ["Documentation/*/*", "arch/*/boot/dts", "tools/perf", "tools/testing"];
/// Only the driver reads them; none of the lab's kernels has it.
const ONLY_AMDGPU: &str = "drivers/gpu/drm/amd/include";
/// Left by builds in a user's tree; a copy without them is as good as a fresh checkout.
const NOT_COPIED: [&str; 10] = [
    ".git",
    "./vmlinux",
    "*.o",
    "*.a",
    "*.ko",
    "*.cmd",
    "./.config",
    "./include/config",
    "./include/generated",
    "./arch/x86/include/generated",
];
/// One copy for the kernel, the tests and the model.
const ENGINE_FILES: [&str; 2] = ["engine.c", "engine.h"];
/// Of the cache.
const CLASS: &str = "kernel";
/// A distribution's image with everything built in stays far below; /dev/zero does not.
const IMAGE_BYTES_MAX: u64 = 512 << 20;
/// Symbols named when a configuration did not stick.
const REFUSALS_SHOWN: usize = 6;
/// Equal inputs give equal images.
const REPRODUCIBLE: [&str; 4] = [
    "KBUILD_BUILD_TIMESTAMP=@0",
    "KBUILD_BUILD_USER=ceasefire",
    "KBUILD_BUILD_HOST=ceasefire",
    "KBUILD_BUILD_VERSION=1",
];

/// kernel/recipes/NAME.toml
#[derive(Debug, Clone, Deserialize)]
pub struct KernelSpec {
    #[serde(skip)]
    pub name: String,
    pub about: String,
    /// A folder of kernel/bases/.
    pub base: String,
    /// NAME.config of the base or of a mechanism, in order.
    pub config: Vec<String>,
    /// Folders of kernel/, in order: files laid over the source's top, then patches to files that exist.
    #[serde(default)]
    pub mechanisms: Vec<String>,
    /// What its switch can be set to, what it boots with first; empty for a kernel without one.
    #[serde(default)]
    pub modes: Vec<String>,
    /// Debian packages that building it needs, beside those that all kernels need.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Left out where all kernels are built.
    #[serde(default)]
    pub only_by_name: bool,
}

#[derive(Debug, Clone)]
pub struct KernelImage {
    pub name: String,
    pub bzimage: PathBuf,
    /// None for a finished image.
    pub config: Option<PathBuf>,
    /// None only in a dry run.
    pub release: Option<String>,
    /// Debian's version, or "tree" and a hash for a user's tree.
    pub source_version: Option<String>,
    /// The patches were tried with exactly this source before; None where there is no telling.
    pub source_checked: Option<bool>,
    pub series_hash: Option<String>,
    pub config_hash: Option<String>,
    pub image_hash: String,
    pub modes: Vec<String>,
    /// The cache entry.
    pub dir: Option<PathBuf>,
}

/// Where a kernel's source comes from.
pub(crate) enum Origin {
    Deb { file: PathBuf, tarball: String },
    Tree(PathBuf),
}

/// Everything a build needs to know.
pub(crate) struct Plan<'a> {
    pub context: &'a Context,
    /// Of the cache, where an earlier build says how many objects there are.
    pub class: &'static str,
    pub name: &'a str,
    pub origin: Origin,
    pub wishes: Wishes,
    pub fragments: Vec<PathBuf>,
    pub changes: Changes,
    /// A user's tree of another version may lack a symbol; ours may not.
    pub is_strict: bool,
    pub log: PathBuf,
}

/// The kernels that kernel/recipes/ names, sorted.
pub fn list(context: &Context) -> Result<Vec<KernelSpec>> {
    let dir = context.root.join("kernel/recipes");
    let entries = fs::read_dir(&dir).map_err(|error| disk::error("list", &dir, &error))?;
    let mut specs = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "toml") {
            let mut spec: KernelSpec = recipe::read_toml(&path)?;
            spec.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            specs.push(spec);
        }
    }
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(specs)
}

pub fn find(context: &Context, name: &str) -> Result<KernelSpec> {
    let specs = list(context)?;
    let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    specs.into_iter().find(|spec| spec.name == name).ok_or_else(|| {
        Error::usage(format!("there is no kernel named '{name}'")).remedy(format!(
            "choose one of: {}; a new one is a file kernel/recipes/{name}.toml",
            names.join(", ")
        ))
    })
}

/// The named kernel from Debian's source, out of the cache if it is there.
pub fn build(context: &Context, name: &str) -> Result<KernelImage> {
    let spec = find(context, name)?;
    let base = base_of(&context.root, &spec)?;
    let changes = changes(&context.root, &spec)?;
    let (wishes, fragments) = read_fragments(&context.root, &spec)?;
    let source = recipe::source(context, &base, PackageKind::Binary)?;
    context.ensure(&packages_of(&spec))?;
    let series_hash = changes.hash()?;
    let key = build_key(context, &fragments, &series_hash)?
        .text("source", format!("{} {} {}", base.package, source.version, source.sha256));
    let plan = Plan {
        context,
        class: CLASS,
        name,
        origin: Origin::Deb { file: source.file.clone(), tarball: base.tarball.clone() },
        wishes,
        fragments,
        changes,
        is_strict: true,
        log: context.cache.log_path("kernel", name, &key),
    };
    let entry = plan.obtain(&key)?;
    image_of(&spec, name, &entry, &source.version, Some(source.is_checked), series_hash)
}

/// The user's own tree with a named kernel's configuration. The tree is copied and never written to.
/// The lab's counters are added where they apply; where not, the generic ones serve.
pub fn build_from_tree(context: &Context, dir: &Path, spec_name: &str) -> Result<KernelImage> {
    let spec = find(context, spec_name)?;
    let tree = check_tree(dir)?;
    context.ensure(&packages_of(&spec))?;
    let (wishes, fragments) = read_fragments(&context.root, &spec)?;
    let mut changes = changes(&context.root, &spec)?;
    // A tree that has them already, or that they do not fit, is built as it is.
    let has_overlay = changes.layers.iter().any(|layer| layer.targets().any(|file| tree.join(file).exists()));
    if has_overlay || !would_apply(&changes, &tree)? {
        if !has_overlay && !spec.modes.is_empty() {
            return Err(Error::failed(format!(
                "the patches of kernel {spec_name} do not fit {}",
                tree.display()
            ))
            .remedy("use a tree of the version in its base.toml, or --kernel vanilla"));
        }
        if !has_overlay {
            context
                .progress
                .note("the lab's patches do not fit this tree; it is built as it is, with generic counters");
        }
        changes = Changes::default();
    }
    let series_hash = changes.hash()?;
    let step = context.progress.step("kernel source: look through the tree");
    let state = tree_state(&tree)?;
    step.done("");
    let leaf = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("source-{leaf}");
    let key = build_key(context, &fragments, &series_hash)?.text("tree", state.clone());
    let plan = Plan {
        context,
        class: CLASS,
        name: &name,
        origin: Origin::Tree(tree),
        wishes,
        fragments,
        changes,
        is_strict: false,
        log: context.cache.log_path("kernel", &name, &key),
    };
    let entry = plan.obtain(&key)?;
    image_of(&spec, &name, &entry, &format!("tree {}", &state[..16]), None, series_hash)
}

fn packages_of(spec: &KernelSpec) -> Vec<&str> {
    PACKAGES.into_iter().chain(spec.packages.iter().map(String::as_str)).collect()
}

/// What a recipe lays over the source and patches in it.
pub(crate) fn changes(root: &Path, spec: &KernelSpec) -> Result<Changes> {
    let dir = root.join("kernel");
    let mut layers = Vec::new();
    let mut hooks = Vec::new();
    for name in &spec.mechanisms {
        let room = dir.join(name);
        if !room.is_dir() {
            return Err(Error::failed(format!(
                "kernel {} wants the mechanism '{name}', and there is no {}",
                spec.name,
                room.display()
            ))
            .remedy(format!("restore it, or correct kernel/recipes/{}.toml", spec.name)));
        }
        layers.push(Layer::all(room.join("files"))?);
        hooks.push(room.join("hooks"));
        let engine = root.join("engine").join(name);
        if engine.is_dir() {
            layers.push(Layer {
                from: engine,
                files: ENGINE_FILES.iter().map(PathBuf::from).collect(),
                to: Path::new("mm").join(name).join("engine"),
            });
        }
    }
    Changes::of_hooks(&hooks, layers)
}

/// The base's own description.
pub(crate) fn base_of(root: &Path, spec: &KernelSpec) -> Result<Base> {
    recipe::read_toml(&root.join("kernel/bases").join(&spec.base).join("base.toml"))
}

fn would_apply(changes: &Changes, tree: &Path) -> Result<bool> {
    let scratch = std::env::temp_dir().join(format!("ceasefire-apply-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(|error| disk::error("create", &scratch, &error))?;
    let result = changes.would_apply(tree, &scratch);
    let _ = fs::remove_dir_all(&scratch);
    result
}

/// Is it a Linux source tree? Returns its full path.
pub fn check_tree(dir: &Path) -> Result<PathBuf> {
    let remedy = "give the top directory of a Linux tree (the one with Kbuild and arch/)";
    let tree = fs::canonicalize(dir).map_err(|error| {
        let why = disk::reason(&error);
        Error::usage(format!("cannot use {} as a kernel source: {why}", dir.display())).remedy(remedy)
    })?;
    if !tree.join("Kbuild").is_file() || !tree.join("arch/x86/boot").is_dir() {
        return Err(Error::usage(format!("{} is not a Linux source tree", tree.display())).remedy(remedy));
    }
    Ok(tree)
}

/// The Debian packages that building a kernel needs.
pub fn packages(_context: &Context) -> Result<Vec<String>> {
    Ok(PACKAGES.iter().map(|package| package.to_string()).collect())
}

/// A finished bzImage, taken as it is.
pub fn from_image(path: &Path) -> Result<KernelImage> {
    let unusable = |why: &str| {
        Error::usage(format!("cannot read the kernel image {}: {why}", path.display()))
            .remedy("give the path of a bzImage (arch/x86/boot/bzImage, or /boot/vmlinuz-…)")
    };
    let meta = fs::metadata(path).map_err(|error| unusable(&disk::reason(&error)))?;
    if !meta.is_file() || meta.len() > IMAGE_BYTES_MAX {
        return Err(unusable("it is not a file of a kernel's size"));
    }
    let data = fs::read(path).map_err(|error| unusable(&disk::reason(&error)))?;
    let release = bzimage_release(&data).ok_or_else(|| {
        Error::usage(format!("{} is not an x86 bzImage", path.display()))
            .remedy("give arch/x86/boot/bzImage or /boot/vmlinuz-…, not vmlinux")
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(KernelImage {
        name,
        bzimage: fs::canonicalize(path).map_err(|error| disk::error("read", path, &error))?,
        config: None,
        release: Some(release),
        source_version: None,
        source_checked: None,
        series_hash: None,
        config_hash: None,
        image_hash: hash::bytes(&data),
        modes: Vec::new(),
        dir: None,
    })
}

/// The release that the boot protocol's header points to (Documentation/arch/x86/boot.rst).
fn bzimage_release(data: &[u8]) -> Option<String> {
    const BOOT_FLAG: usize = 0x1fe;
    const MAGIC: usize = 0x202;
    const KERNEL_VERSION: usize = 0x20e;
    const HEADER: usize = 0x200;
    const RELEASE_BYTES_MAX: usize = 128;
    let field = |at: usize, length: usize| data.get(at..at + length);
    if field(BOOT_FLAG, 2)? != [0x55, 0xaa] || field(MAGIC, 4)? != b"HdrS" {
        return None;
    }
    let offset = u16::from_le_bytes(field(KERNEL_VERSION, 2)?.try_into().ok()?);
    if offset == 0 {
        return None;
    }
    let text = data.get(HEADER + usize::from(offset)..)?;
    let text = &text[..text.len().min(RELEASE_BYTES_MAX)];
    let end = text.iter().position(|byte| byte.is_ascii_whitespace() || *byte == 0)?;
    let release = std::str::from_utf8(&text[..end]).ok()?;
    (!release.is_empty() && release.chars().all(|c| c.is_ascii_graphic())).then(|| release.to_string())
}

/// A fragment lies with the base or with one of the mechanisms.
pub(crate) fn read_fragments(root: &Path, spec: &KernelSpec) -> Result<(Wishes, Vec<PathBuf>)> {
    let kernel = root.join("kernel");
    let mut rooms = vec![kernel.join("bases").join(&spec.base)];
    rooms.extend(spec.mechanisms.iter().map(|name| kernel.join(name)));
    let mut wishes = Wishes::new();
    let mut paths = Vec::new();
    for fragment in &spec.config {
        let in_room = |room: &PathBuf| room.join("config").join(format!("{fragment}.config"));
        let found = rooms.iter().map(in_room).find(|path| path.is_file());
        let path = found.unwrap_or_else(|| in_room(&rooms[0]));
        let text = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        kconfig::add_fragment(&mut wishes, fragment, &text);
        paths.push(path);
    }
    Ok((wishes, paths))
}

pub(crate) fn build_key(context: &Context, fragments: &[PathBuf], series_hash: &str) -> Result<Key> {
    let mut texts = String::new();
    for path in fragments {
        texts += &fs::read_to_string(path).map_err(|error| disk::error("read", path, &error))?;
    }
    // In a dry run the compiler may not be installed yet.
    let compiler = match recipe::compiler() {
        Err(_) if context.dry_run => String::new(),
        other => other?,
    };
    Ok(Key::new("kernel")
        .text("builder", recipe::BUILDER)
        .text("compiler", compiler)
        .text("fragments", hash::bytes(texts.as_bytes()))
        .text("series", series_hash))
}

/// Names, sizes and times of a tree's files: what make itself goes by.
fn tree_state(tree: &Path) -> Result<String> {
    let mut text = String::new();
    for path in hash::files(tree)? {
        let name = path.to_string_lossy();
        let is_skipped = name.starts_with(".git/")
            || name.starts_with("include/config/")
            || name.starts_with("include/generated/")
            || name.starts_with("arch/x86/include/generated/")
            || name == ".config"
            || [".o", ".a", ".ko", ".cmd"].iter().any(|end| name.ends_with(end));
        if is_skipped {
            continue;
        }
        let full = tree.join(&path);
        let meta = fs::metadata(&full).map_err(|error| disk::error("read", &full, &error))?;
        let time =
            meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        text += &format!("{name} {} {}\n", meta.len(), time.as_nanos());
    }
    Ok(hash::bytes(text.as_bytes()))
}

fn image_of(
    spec: &KernelSpec,
    name: &str,
    entry: &Entry,
    source_version: &str,
    source_checked: Option<bool>,
    series_hash: String,
) -> Result<KernelImage> {
    Ok(KernelImage {
        name: name.to_string(),
        bzimage: entry.dir.join("bzImage"),
        config: Some(entry.dir.join("config")),
        release: entry.facts.get("release").cloned(),
        source_version: Some(source_version.to_string()),
        source_checked,
        series_hash: Some(series_hash),
        config_hash: entry.facts.get("config_sha256").cloned(),
        image_hash: entry.fact("image_sha256"),
        modes: spec.modes.clone(),
        dir: Some(entry.dir.clone()),
    })
}

impl Plan<'_> {
    fn obtain(&self, key: &Key) -> Result<Entry> {
        let cache = &self.context.cache;
        if self.context.dry_run {
            if let Some(entry) = cache.find("kernel", self.name, key) {
                self.context.dry_comment(&format!("kernel {}: cached in {}", self.name, entry.dir.display()));
                return Ok(entry);
            }
            let dir = self.context.dry_dir(&format!("kernel-{}", self.name));
            self.run(&Command::new("rm").arg("-rf").arg(&dir))?;
            let facts = self.make(&dir)?;
            return Ok(Entry { dir, facts, built: false });
        }
        cache.obtain(&self.context.progress, "kernel", self.name, key, |dir| {
            disk::require(dir, BUILD_MIB)?;
            let _ = fs::remove_file(&self.log);
            self.make(dir)
        })
    }

    /// All steps from the source to the files of the entry. In a dry run they are only printed.
    fn make(&self, dir: &Path) -> Result<Facts> {
        let tree = dir.join("tree");
        self.run(&Command::new("mkdir").arg("-p").arg(&tree))?;
        let unneeded: Vec<&str> = NOT_UNPACKED.into_iter().chain([ONLY_AMDGPU]).collect();
        self.unpack(&tree, &unneeded)?;
        self.changes.apply(self.context, &tree, &self.log)?;
        self.configure(&tree)?;
        let objects = self.compile(&tree, &["bzImage"], BUILD_MIB)?;
        for (from, to) in [
            ("arch/x86/boot/bzImage", "bzImage"),
            (".config", "config"),
            ("System.map", "System.map"),
            ("include/config/kernel.release", "release"),
        ] {
            self.run(&Command::new("cp").arg(tree.join(from)).arg(dir.join(to)))?;
        }
        self.run(&Command::new("rm").arg("-rf").arg(&tree))?;
        if self.context.dry_run {
            return Ok(Facts::new());
        }
        // The log is a help, not a result.
        let _ = fs::copy(&self.log, dir.join("build.log"));
        let path = dir.join("release");
        let release = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        Ok(Facts::from([
            ("release".into(), release.trim().to_string()),
            ("objects".into(), objects.to_string()),
            ("config_sha256".into(), hash::file(&dir.join("config"))?),
            ("image_sha256".into(), hash::file(&dir.join("bzImage"))?),
        ]))
    }

    /// `unneeded`: patterns below the source's top.
    pub fn unpack(&self, tree: &Path, unneeded: &[&str]) -> Result<()> {
        let below_top = unneeded.iter().map(|pattern| format!("*/{pattern}"));
        let exclude = |pattern: String| format!("--exclude={}", exec::quote(pattern.as_ref()));
        let unneeded = below_top.map(exclude).collect::<Vec<_>>().join(" ");
        let to = exec::quote(tree.as_os_str());
        let script = match &self.origin {
            Origin::Deb { file, tarball } => format!(
                "set -o pipefail; dpkg-deb --fsys-tarfile {} | tar -xO ./{} | xz -dc | tar -x -C {to} --strip-components=1 {unneeded}",
                exec::quote(file.as_os_str()),
                exec::quote(tarball.as_ref()),
            ),
            Origin::Tree(source) => {
                let left = NOT_COPIED.iter().map(|pattern| exclude(pattern.to_string()));
                format!(
                    "set -o pipefail; tar -c -C {} {unneeded} {} . | tar -x -C {to}",
                    exec::quote(source.as_os_str()),
                    left.collect::<Vec<_>>().join(" ")
                )
            }
        };
        let step = self.step("unpack");
        self.run(&Command::new("bash").arg("-c").arg(script))?;
        step.done("");
        Ok(())
    }

    fn configure(&self, tree: &Path) -> Result<()> {
        let step = self.step("configure");
        let all = tree.join("allconfig.tmp");
        let names: Vec<String> = self.fragments.iter().map(|path| exec::quote(path.as_os_str())).collect();
        let join = format!("cat {} > {}", names.join(" "), exec::quote(all.as_os_str()));
        self.run(&Command::new("sh").arg("-c").arg(join))?;
        self.run(&self.kbuild(tree).arg("KCONFIG_ALLCONFIG=allconfig.tmp").arg("allnoconfig"))?;
        if !self.context.dry_run {
            let path = tree.join(".config");
            let config = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
            self.judge(&kconfig::refusals(&self.wishes, &config))?;
        }
        step.done(format!("{} symbols asked for", self.wishes.len()));
        Ok(())
    }

    pub fn judge(&self, refused: &[kconfig::Refusal]) -> Result<()> {
        let Some(first) = refused.first() else { return Ok(()) };
        let each = |r: &kconfig::Refusal| {
            format!("CONFIG_{}={} of {}.config (the kernel has {})", r.symbol, r.wanted, r.fragment, r.got)
        };
        let named: Vec<String> = refused.iter().take(REFUSALS_SHOWN).map(each).collect();
        let more = match refused.len().saturating_sub(REFUSALS_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!("the kernel's configuration did not take {}{more}", named.join(", "));
        if self.is_strict {
            return Err(Error::failed(text).remedy(format!(
                "see the dependencies of {} in its Kconfig, then change {}.config",
                first.symbol, first.fragment
            )));
        }
        self.context.progress.warn(text);
        Ok(())
    }

    /// Returns the number of objects compiled.
    pub fn compile(&self, tree: &Path, targets: &[&str], mib: u64) -> Result<u64> {
        let known = self.context.cache.find_where(self.class, |name, _| name == self.name);
        let total = known.and_then(|entry| entry.fact("objects").parse().ok()).unwrap_or(OBJECTS_ESTIMATE);
        let step = self.step("compile");
        let mut objects = 0u64;
        let on_line = |line: &str| {
            if line.starts_with("  CC ") {
                objects += 1;
                step.waiting(format!("{objects}/{} objects", total.max(objects)));
            } else if let Some(last) =
                ["  LD ", "  KSYMS ", "  OBJCOPY ", "  BUILD "].iter().find_map(|s| line.strip_prefix(s))
            {
                step.waiting(format!("{objects}/{} objects, {}", total.max(objects), last.trim()));
            }
        };
        let command = self.kbuild(tree).arg(format!("-j{}", self.context.jobs + 1)).args(targets);
        let options =
            Options { on_line: Some(Box::new(on_line)), ..step_options(self.context, &self.log, tree, mib) };
        exec::run(&command, options).map_err(|error| self.explain(error))?;
        step.done(format!("{objects} objects"));
        Ok(objects)
    }

    fn explain(&self, error: Error) -> Error {
        match error.kind {
            Kind::Failed => Error {
                message: format!("the kernel {} does not compile: {}", self.name, error.message),
                ..error
            },
            _ => error,
        }
    }

    pub fn kbuild(&self, tree: &Path) -> Command {
        let command =
            Command::new("make").arg("-C").arg(tree).arg("ARCH=x86_64").args(REPRODUCIBLE).env("LC_ALL", "C");
        recipe::without_callers_variables(command)
    }

    pub fn run(&self, command: &Command) -> Result<()> {
        exec::run(command, step_options(self.context, &self.log, self.context.cache.dir(), BUILD_MIB))
            .map(drop)
    }

    pub fn step(&self, what: &str) -> ceasefire_base::Step {
        self.context.step(format!("kernel {}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bzimage(offset: u16, text: &[u8]) -> Vec<u8> {
        let mut data = vec![0u8; 0x400];
        data[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        data[0x202..0x206].copy_from_slice(b"HdrS");
        data[0x20e..0x210].copy_from_slice(&offset.to_le_bytes());
        data.extend_from_slice(text);
        data
    }

    #[test]
    fn the_release_is_read_from_the_boot_header() {
        let whole = bzimage(0x200, b"6.12.117 (me@there) #1 SMP\0");
        assert_eq!(bzimage_release(&whole).as_deref(), Some("6.12.117"));
        for length in 0..whole.len() {
            // Cut anywhere: no panic, and no release unless its end is there.
            assert_eq!(bzimage_release(&whole[..length]).is_some(), length > 0x400 + 8, "{length}");
        }
        assert_eq!(bzimage_release(&bzimage(0, b"6.12 ")), None);
        assert_eq!(bzimage_release(&bzimage(0xffff, b"6.12 ")), None);
        assert_eq!(bzimage_release(&bzimage(0x200, b"\xff\xfe ")), None);
        assert_eq!(bzimage_release(b"\x7fELF"), None);
    }

    /// The baseline is the unpatched kernel: no file, patch or symbol of ABIS in its key or its source.
    #[test]
    fn vanilla_carries_nothing_of_abis() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut spec: KernelSpec =
            recipe::read_toml(&root.join("kernel/recipes/vanilla.toml")).expect("the recipe");
        let (wishes, _) = read_fragments(&root, &spec).expect("its fragments");
        assert!(wishes.keys().all(|symbol| !symbol.contains("ABIS")), "{wishes:?}");
        let lab = changes(&root, &spec).expect("its changes");
        let files: Vec<PathBuf> = lab.layers.iter().flat_map(Layer::targets).collect();
        assert!(!files.is_empty() && files.iter().all(|file| file.starts_with("mm/ceasefire")), "{files:?}");
        for patch in &lab.patches {
            let text = fs::read_to_string(patch).expect("a patch");
            assert!(!text.to_lowercase().contains("abis"), "{}", patch.display());
        }
        spec.mechanisms.push("abis".into());
        let with_engine = changes(&root, &spec).expect("its changes");
        let files: Vec<PathBuf> = with_engine.layers.iter().flat_map(Layer::targets).collect();
        assert!(files.contains(&PathBuf::from("mm/abis/engine/engine.c")), "{files:?}");
        assert_ne!(
            lab.hash().expect("hashed"),
            with_engine.hash().expect("hashed"),
            "the engine is in the key"
        );
        spec.mechanisms.push("nowhere".into());
        let error = changes(&root, &spec).expect_err("no such room");
        assert!(error.message.contains("wants the mechanism 'nowhere'"), "{error:?}");
    }

    #[test]
    fn what_is_not_an_image_is_a_usage_error() {
        for path in ["/no/such/image", "/dev/null", "/"] {
            let error = from_image(Path::new(path)).expect_err("no image");
            assert_eq!(error.kind, Kind::Usage, "{path}");
            assert!(error.remedy.is_some());
        }
    }
}
