// SPDX-License-Identifier: GPL-2.0-only
//! Which kernels there are: kernel/recipes/NAME.toml, and one for each mechanism without a recipe of its own.

use crate::base::{Architecture, Base};
use crate::changes::{Changes, Layer};
use crate::kconfig::{self, Wishes};
use crate::steps::read_toml;
use crate::Context;
use ceasefire_base::{disk, Error, Result};
use ceasefire_mechanism::{self as mechanism, Mechanism};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The recipe that mechanisms without one of their own are added to.
const PLAIN: &str = "vanilla";
/// The folder of kernel/ with what is no mechanism's.
const BASES: &str = "bases";

/// kernel/recipes/NAME.toml
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    about: String,
    base: String,
    config: Vec<String>,
    #[serde(default)]
    mechanisms: Vec<String>,
    /// `None`: all that the mechanisms have.
    #[serde(default)]
    modes: Option<Vec<String>>,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    only_by_name: bool,
}

/// A kernel: a base, configuration, and mechanisms.
#[derive(Debug, Clone, Default)]
pub struct KernelSpec {
    pub name: String,
    pub about: String,
    /// A folder of kernel/bases/.
    pub base: String,
    /// NAME.config of the base or of a mechanism, in order.
    pub config: Vec<String>,
    /// Folders of kernel/, in order: files laid over the source's top, then patches to files that exist.
    pub mechanisms: Vec<String>,
    /// Those of `mechanisms` that say what they are.
    pub described: Vec<Mechanism>,
    /// What it can be set to, what it boots with first; empty for a kernel without a switch.
    pub modes: Vec<String>,
    /// Debian packages that building it needs, beside those that all kernels need.
    pub packages: Vec<String>,
    /// Left out where all kernels are built.
    pub only_by_name: bool,
}

/// The kernels that there are, sorted: those of kernel/recipes/, and each mechanism that none of them is named after.
pub fn list(context: &Context) -> Result<Vec<KernelSpec>> {
    list_of(&context.root)
}

pub(crate) fn list_of(root: &Path) -> Result<Vec<KernelSpec>> {
    let dir = root.join("kernel/recipes");
    let entries = fs::read_dir(&dir).map_err(|error| disk::error("list", &dir, &error))?;
    let mechanisms = mechanism::all(root)?;
    let mut specs = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            specs.push(resolve(&name, read_toml(&path)?, &mechanisms)?);
        }
    }
    for own in &mechanisms {
        if specs.iter().all(|spec| spec.name != own.name) {
            specs.push(plain_with(root, own, &mechanisms)?);
        }
    }
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(specs)
}

/// The plain kernel with one mechanism.
fn plain_with(root: &Path, own: &Mechanism, all: &[Mechanism]) -> Result<KernelSpec> {
    let mut recipe: Recipe = read_toml(&root.join(format!("kernel/recipes/{PLAIN}.toml")))?;
    recipe.about.clone_from(&own.about);
    recipe.mechanisms.push(own.name.clone());
    if root.join("kernel").join(&own.name).join(format!("config/{}.config", own.name)).is_file() {
        recipe.config.push(own.name.clone());
    }
    resolve(&own.name, recipe, all)
}

fn resolve(name: &str, recipe: Recipe, all: &[Mechanism]) -> Result<KernelSpec> {
    let described: Vec<Mechanism> = recipe
        .mechanisms
        .iter()
        .filter_map(|name| all.iter().find(|mechanism| mechanism.name == *name).cloned())
        .collect();
    let known = mechanism::modes_of(&described);
    let modes = recipe.modes.unwrap_or_else(|| known.clone());
    if let Some(mode) = modes.iter().find(|mode| !known.contains(mode)) {
        return Err(Error::failed(format!(
            "kernel/recipes/{name}.toml: no mechanism of it has the mode '{mode}'"
        ))
        .remedy(format!("choose of: {}", known.join(", "))));
    }
    Ok(KernelSpec {
        name: name.to_string(),
        about: recipe.about,
        base: recipe.base,
        config: recipe.config,
        mechanisms: recipe.mechanisms,
        described,
        modes,
        packages: recipe.packages,
        only_by_name: recipe.only_by_name,
    })
}

pub fn find(context: &Context, name: &str) -> Result<KernelSpec> {
    known(&list(context)?, name).cloned()
}

/// One sentence for a name that is not there, with those that are, the nearest first.
pub fn known<'a>(specs: &'a [KernelSpec], name: &str) -> Result<&'a KernelSpec> {
    specs.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let mut names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        names.sort_by_cached_key(|known| strsim::levenshtein(name, known));
        Error::usage(format!("there is no kernel named '{name}'")).remedy(format!(
            "choose one of: {}; a new one is a file kernel/recipes/{name}.toml or a folder kernel/{name}/ with a mechanism.toml",
            names.join(", ")
        ))
    })
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
        hooks.push(hooks_of(&room, spec));
        let engine = root.join("engine").join(name);
        if engine.is_dir() {
            layers.push(Layer {
                files: engine_files(&engine)?,
                from: engine,
                to: Path::new("mm").join(name).join("engine"),
            });
        }
    }
    Changes::of_hooks(&hooks, layers)
}

/// Where a mechanism's patches are: in hooks/, and in hooks-on-NAME/ those that are others on the base NAME, or where the
/// mechanism NAME comes before it.
fn hooks_of(room: &Path, spec: &KernelSpec) -> Vec<PathBuf> {
    let earlier = spec.mechanisms.iter().take_while(|name| !room.ends_with(name));
    let earlier = std::iter::once(&spec.base).chain(earlier);
    let variants = earlier.map(|name| room.join(format!("hooks-on-{name}"))).filter(|dir| dir.is_dir());
    std::iter::once(room.join("hooks")).chain(variants).collect()
}

/// The C files right in an engine's folder: one copy for the kernel, the tests and the model.
fn engine_files(engine: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(engine).map_err(|error| disk::error("read", engine, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let name = PathBuf::from(entry.map_err(|error| disk::error("read", engine, &error))?.file_name());
        if name.extension().is_some_and(|end| end == "c" || end == "h") {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// All bases, this one first.
pub(crate) fn bases(root: &Path, first: &str) -> Result<Vec<String>> {
    let dir = root.join("kernel").join(BASES);
    let entries = fs::read_dir(&dir).map_err(|error| disk::error("list", &dir, &error))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_by_key(|name| (name != first, name.clone()));
    Ok(names)
}

/// The base's own description.
pub(crate) fn base_of(root: &Path, spec: &KernelSpec) -> Result<Base> {
    Base::read(&root.join("kernel").join(BASES).join(&spec.base))
}

/// The processor that it is for.
pub fn architecture_of(context: &Context, spec: &KernelSpec) -> Result<Architecture> {
    base_of(&context.root, spec)?.architecture().cloned()
}

/// The folder of machine/ that boots it.
pub fn machine_of(context: &Context, spec: &KernelSpec) -> Result<String> {
    Ok(architecture_of(context, spec)?.machine)
}

/// A fragment's file: it lies with the base, with the one that it has its fragments from, or with one of the mechanisms.
fn fragment(root: &Path, spec: &KernelSpec, name: &str) -> Option<PathBuf> {
    let kernel = root.join("kernel");
    let lender = base_of(root, spec).ok().and_then(|base| base.fragments);
    let bases = std::iter::once(spec.base.clone()).chain(lender).map(|base| kernel.join(BASES).join(base));
    let own = spec.mechanisms.iter().map(|mechanism| kernel.join(mechanism));
    let mut rooms = bases.chain(own);
    rooms.find_map(|room| Some(room.join(format!("config/{name}.config"))).filter(|path| path.is_file()))
}

/// Those of its fragments that lie with its mechanisms: all but the base's.
pub(crate) fn own_fragments(root: &Path, spec: &KernelSpec) -> Vec<String> {
    let bases = root.join("kernel").join(BASES);
    let is_base = |name: &str| fragment(root, spec, name).is_some_and(|path| path.starts_with(&bases));
    spec.config.iter().filter(|name| !is_base(name)).cloned().collect()
}

/// Whether there is such a fragment.
pub(crate) fn has_fragment(root: &Path, spec: &KernelSpec, name: &str) -> bool {
    fragment(root, spec, name).is_some()
}

pub(crate) fn read_fragments(root: &Path, spec: &KernelSpec) -> Result<(Wishes, Vec<PathBuf>)> {
    let mut wishes = Wishes::new();
    let mut paths = Vec::new();
    for name in &spec.config {
        let usual = || root.join("kernel").join(BASES).join(&spec.base).join(format!("config/{name}.config"));
        let path = fragment(root, spec, name).unwrap_or_else(usual);
        let text = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
        kconfig::add_fragment(&mut wishes, name, &text);
        paths.push(path);
    }
    let gone = base_of(root, spec)?.gone;
    wishes.retain(|symbol, _| !gone.contains_key(symbol));
    Ok((wishes, paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The baseline is the unpatched kernel: no file, patch or symbol of ABIS in its key or its source.
    #[test]
    fn vanilla_carries_nothing_of_abis() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let specs = list_of(&root).expect("the kernels");
        let mut spec = known(&specs, PLAIN).expect("the recipe").clone();
        let (wishes, _) = read_fragments(&root, &spec).expect("its fragments");
        assert!(wishes.keys().all(|symbol| !symbol.contains("ABIS")), "{wishes:?}");
        let lab = changes(&root, &spec).expect("its changes");
        let files: Vec<PathBuf> = lab.layers.iter().flat_map(Layer::targets).collect();
        let is_of_lab =
            |file: &PathBuf| file.starts_with("mm/ceasefire") || file.ends_with("linux/ceasefire_needed.h");
        assert!(!files.is_empty() && files.iter().all(is_of_lab), "{files:?}");
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
}
