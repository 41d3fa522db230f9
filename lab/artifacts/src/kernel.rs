// SPDX-License-Identifier: GPL-2.0-only
//! Kernels: named ones built from kernel/, a tree of the user's own, a finished image.

mod image;
pub(crate) mod plan;

pub use crate::recipe::{architecture_of, find, known, list, machine_of, KernelSpec};
pub use image::from_image;

use crate::base::Architecture;
use crate::cache::{Entry, Key};
use crate::changes::Changes;
use crate::debian::apt::PackageKind;
use crate::recipe;
use crate::source::source;
use crate::{hash, kconfig, steps, Context};
use ceasefire_base::{disk, Error, Result};
use ceasefire_mechanism::Mechanism;
use plan::{Origin, Plan};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What compiling needs beside the source.
pub(crate) const PACKAGES: [&str; 10] =
    ["gcc", "ccache", "make", "flex", "bison", "bc", "libelf-dev", "xz-utils", "patch", "binutils"];
/// Of the cache.
const CLASS: &str = "kernel";
/// One that can be booted.
#[derive(Debug, Clone, Default)]
pub struct KernelImage {
    pub name: String,
    pub file: PathBuf,
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
    /// What its mechanisms say of themselves; of an image of the user's own, all that may be in it.
    pub mechanisms: Vec<Mechanism>,
    /// The cache entry.
    pub dir: Option<PathBuf>,
}

/// The named kernel from Debian's source, out of the cache if it is there.
pub fn build(context: &Context, name: &str) -> Result<KernelImage> {
    let spec = find(context, name)?;
    let base = recipe::base_of(&context.root, &spec)?;
    let architecture = base.architecture()?;
    let changes = recipe::changes(&context.root, &spec)?;
    let (wishes, fragments) = recipe::read_fragments(&context.root, &spec)?;
    let source = source(context, &base, PackageKind::Binary)?;
    context.ensure(&packages_of(&spec, architecture))?;
    let series_hash = changes.hash()?;
    let key = build_key(context, architecture, &fragments, &series_hash)?
        .text("source", format!("{} {} {}", base.package, source.version, source.sha256));
    let plan = Plan {
        context,
        architecture,
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
    let entry = Built { spec: &spec, architecture, entry };
    entry.image(name, &source.version, Some(source.is_checked), series_hash)
}

/// A kernel tree of the user's own, and fragments of configuration over those of the named kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    pub dir: PathBuf,
    pub config: Vec<PathBuf>,
}

/// The user's own tree with a named kernel's configuration. The tree is copied and never written to.
/// The lab's counters are added as far as they apply; where they do not, the generic ones serve.
pub fn build_from_tree(context: &Context, own_tree: &Tree, spec_name: &str) -> Result<KernelImage> {
    let spec = find(context, spec_name)?;
    let base = recipe::base_of(&context.root, &spec)?;
    let architecture = base.architecture()?;
    let tree = check_tree(&own_tree.dir)?;
    let own = Path::new("arch").join(&architecture.directory);
    if !tree.join(&own).is_dir() {
        return Err(Error::usage(format!("{} has no {}", tree.display(), own.display()))
            .remedy(format!("kernel {spec_name} is for {}: choose another --kernel", architecture.name)));
    }
    context.ensure(&packages_of(&spec, architecture))?;
    let (mut wishes, mut fragments) = recipe::read_fragments(&context.root, &spec)?;
    for path in &own_tree.config {
        kconfig::add_fragment(&mut wishes, &fragment_name(path), &read_fragment(path)?);
        fragments.push(path.clone());
    }
    let changes = fitting(context, &spec, &tree)?;
    let series_hash = changes.hash()?;
    let step = context.progress.step("kernel source: look through the tree");
    let state = tree_state(&tree)?;
    step.done("");
    let leaf = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("source-{leaf}");
    let key = build_key(context, architecture, &fragments, &series_hash)?.text("tree", state.clone());
    let plan = Plan {
        context,
        architecture,
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
    let entry = Built { spec: &spec, architecture, entry };
    entry.image(&name, &format!("tree {}", &state[..16]), None, series_hash)
}

fn packages_of<'a>(spec: &'a KernelSpec, architecture: &'a Architecture) -> Vec<&'a str> {
    let more = spec.packages.iter().chain(&architecture.packages);
    PACKAGES.into_iter().chain(more.map(String::as_str)).collect()
}

fn fragment_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn read_fragment(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| {
        Error::usage(format!("cannot read the fragment {}: {}", path.display(), disk::reason(&error)))
            .remedy("give --config a file with lines CONFIG_NAME=VALUE")
    })
}

/// What of a kernel's changes a tree of another version takes: all of them, as they are for its own base or for another;
/// of a kernel without modes as many as apply, from the first on; of a tree that has them already none.
fn fitting(context: &Context, spec: &KernelSpec, tree: &Path) -> Result<Changes> {
    let own = recipe::changes(&context.root, spec)?;
    if own.layers.iter().any(|layer| layer.targets().any(|file| tree.join(file).exists())) {
        return Ok(Changes::default());
    }
    let mut most = 0;
    let mut best = Changes::default();
    for base in recipe::bases(&context.root, &spec.base)? {
        let changes = recipe::changes(&context.root, &KernelSpec { base, ..spec.clone() })?;
        let count = applying(&changes, tree)?;
        if count == changes.patches.len() {
            return Ok(changes);
        }
        if count > most {
            most = count;
            best = Changes { patches: changes.patches[..count].to_vec(), layers: changes.layers };
        }
    }
    if !spec.modes.is_empty() {
        return Err(Error::failed(format!(
            "the patches of kernel {} do not fit {}",
            spec.name,
            tree.display()
        ))
        .remedy("use a tree of the version in its base.toml, or --kernel vanilla"));
    }
    context.progress.note(match most {
        0 => {
            "the lab's patches do not fit this tree; it is built as it is, with generic counters".to_string()
        }
        _ => format!(
            "of the lab's {} patches the first {most} fit this tree; what the others count is not counted",
            own.patches.len()
        ),
    });
    Ok(best)
}

/// How many of the patches apply, one after the other.
fn applying(changes: &Changes, tree: &Path) -> Result<usize> {
    let scratch = std::env::temp_dir().join(format!("ceasefire-apply-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(|error| disk::error("create", &scratch, &error))?;
    let result = changes.applying(tree, &scratch);
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
    if !tree.join("Kbuild").is_file() || !tree.join("arch").is_dir() {
        return Err(Error::usage(format!("{} is not a Linux source tree", tree.display())).remedy(remedy));
    }
    Ok(tree)
}

/// The Debian packages that building these kernels needs.
pub fn packages<'a>(context: &Context, kernels: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>> {
    let specs = list(context)?;
    let mut all: Vec<String> = PACKAGES.map(String::from).to_vec();
    for name in kernels {
        let spec = known(&specs, name)?;
        let base = recipe::base_of(&context.root, spec)?;
        all.extend(packages_of(spec, base.architecture()?).into_iter().map(String::from));
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// Has the kernel type information, by which the observer finds what it looks at?
pub fn can_be_observed(context: &Context, spec: &KernelSpec) -> Result<bool> {
    let (wishes, _) = recipe::read_fragments(&context.root, spec)?;
    Ok(wishes.keys().any(|symbol| symbol.ends_with("DEBUG_INFO_BTF")))
}

pub(crate) fn build_key(
    context: &Context,
    architecture: &Architecture,
    fragments: &[PathBuf],
    series_hash: &str,
) -> Result<Key> {
    let mut texts = String::new();
    for path in fragments {
        texts += &fs::read_to_string(path).map_err(|error| disk::error("read", path, &error))?;
    }
    // In a dry run the compiler may not be installed yet.
    let compiler = match steps::compiler(&architecture.compiler) {
        Err(_) if context.dry_run => String::new(),
        other => other?,
    };
    Ok(Key::new("kernel")
        .text("builder", steps::BUILDER)
        .text("compiler", compiler)
        .text("fragments", hash::bytes(texts.as_bytes()))
        .text("series", series_hash))
}

/// `arch/ANY/include/generated/`
fn is_generated(name: &str) -> bool {
    let below = name.strip_prefix("arch/").and_then(|rest| rest.split_once('/'));
    below.is_some_and(|(_, rest)| rest.starts_with("include/generated/"))
}

/// Names, sizes and times of a tree's files: what make itself goes by.
fn tree_state(tree: &Path) -> Result<String> {
    let mut text = String::new();
    for path in hash::files(tree)? {
        let name = path.to_string_lossy();
        let is_skipped = name.starts_with(".git/")
            || name.starts_with("include/config/")
            || name.starts_with("include/generated/")
            || is_generated(&name)
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

/// A kernel in the cache.
struct Built<'a> {
    spec: &'a KernelSpec,
    architecture: &'a Architecture,
    entry: Entry,
}

impl Built<'_> {
    fn image(
        &self,
        name: &str,
        source_version: &str,
        source_checked: Option<bool>,
        series_hash: String,
    ) -> Result<KernelImage> {
        let Built { spec, architecture, entry } = self;
        Ok(KernelImage {
            name: name.to_string(),
            file: entry.dir.join(architecture.file()),
            config: Some(entry.dir.join("config")),
            release: entry.facts.get("release").cloned(),
            source_version: Some(source_version.to_string()),
            source_checked,
            series_hash: Some(series_hash),
            config_hash: entry.facts.get("config_sha256").cloned(),
            image_hash: entry.fact("image_sha256"),
            modes: spec.modes.clone(),
            mechanisms: spec.described.clone(),
            dir: Some(entry.dir.clone()),
        })
    }
}
