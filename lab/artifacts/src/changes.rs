// SPDX-License-Identifier: GPL-2.0-only
//! What kernel/ and machine/ do to a source: files laid over it, patches in order.

use crate::steps::step_options;
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Patches with the groups of the series file they belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    pub group: String,
    pub name: String,
}

/// Files that are laid over a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub from: PathBuf,
    /// Below `from`.
    pub files: Vec<PathBuf>,
    /// Where they go, below the source's top.
    pub to: PathBuf,
}

/// Overlay and patches that a kernel or the emulator wants.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub layers: Vec<Layer>,
    pub patches: Vec<PathBuf>,
}

/// "# group: NAME" opens a group; other comments and blank lines say why.
pub fn parse_series(text: &str) -> Vec<Patch> {
    let mut group = String::new();
    let mut patches = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('#') {
            Some(comment) => {
                if let Some(name) = comment.trim().strip_prefix("group:") {
                    group = name.trim().to_string();
                }
            }
            None => patches.push(Patch { group: group.clone(), name: line.to_string() }),
        }
    }
    patches
}

impl Layer {
    /// Every file of a directory, laid over the source's top. A directory that is not there is empty.
    pub fn all(from: PathBuf) -> Result<Layer> {
        Ok(Layer { files: hash::files(&from)?, from, to: PathBuf::new() })
    }

    /// Where its files go, below the source's top.
    pub fn targets(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.files.iter().map(|file| self.to.join(file))
    }

    fn copies(&self, tree: &Path) -> Vec<Command> {
        let mut directories: Vec<PathBuf> = Vec::new();
        let mut copies = Vec::new();
        for file in &self.files {
            let below = file.parent().unwrap_or(Path::new(""));
            let to = tree.join(&self.to).join(below);
            if !directories.contains(&to) {
                copies.push(Command::new("mkdir").arg("-p").arg(&to));
                directories.push(to.clone());
            }
            copies.push(Command::new("cp").arg(self.from.join(file)).arg(&to));
        }
        copies
    }
}

impl Changes {
    /// The patches of the wanted groups, in the order of the series file, over these files.
    pub fn of_groups(dir: &Path, groups: &[String], layers: Vec<Layer>) -> Result<Changes> {
        check_layers(&layers)?;
        let path = dir.join("patches/series");
        let all = match fs::read_to_string(&path) {
            Ok(text) => parse_series(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && groups.is_empty() => Vec::new(),
            Err(error) => return Err(disk::error("read", &path, &error)),
        };
        for group in groups {
            if !all.iter().any(|patch| patch.group == *group) {
                return Err(Error::failed(format!("{} has no patch of the group '{group}'", path.display()))
                    .remedy(format!("add a line \"# group: {group}\" above its patches")));
            }
        }
        let mut patches = Vec::new();
        for patch in all.iter().filter(|patch| groups.contains(&patch.group)) {
            let file = dir.join("patches").join(&patch.name);
            if !file.is_file() {
                return Err(Error::failed(format!(
                    "the patch {} of {} is missing",
                    patch.name,
                    path.display()
                ))
                .remedy("restore it (git checkout), or remove its line from the series"));
            }
            patches.push(file);
        }
        Ok(Changes { layers, patches })
    }

    /// Every patch of these mechanisms over these files: each one's in the order of their names. Of several directories
    /// of a mechanism the later ones' patches take the place of those of the same name; an empty one leaves it out.
    pub fn of_hooks(mechanisms: &[Vec<PathBuf>], layers: Vec<Layer>) -> Result<Changes> {
        check_layers(&layers)?;
        let mut patches = Vec::new();
        for dirs in mechanisms {
            let mut by_name = BTreeMap::new();
            for dir in dirs {
                let mut names = hash::files(dir)?;
                names.retain(|name| name.extension().is_some_and(|extension| extension == "patch"));
                by_name.extend(names.into_iter().map(|name| (name.clone(), dir.join(name))));
            }
            let is_empty = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.len() == 0);
            patches.extend(by_name.into_values().filter(|path| !is_empty(path)));
        }
        Ok(Changes { layers, patches })
    }

    /// Hash of all that is changed in the source: names, order and contents.
    pub fn hash(&self) -> Result<String> {
        let mut text = String::new();
        for layer in &self.layers {
            text += &hash::named(&layer.from, &layer.files, &layer.to)?;
        }
        for patch in &self.patches {
            let name = patch.file_name().unwrap_or_default().to_string_lossy();
            text += &format!("{} {name}\n", hash::file(patch)?);
        }
        Ok(hash::bytes(text.as_bytes()))
    }

    /// Lays the files over a tree and applies the patches.
    pub fn apply(&self, context: &Context, tree: &Path, log: &Path) -> Result<()> {
        for copy in self.layers.iter().flat_map(|layer| layer.copies(tree)) {
            exec::run(&copy, step_options(context, log, tree, 10))?;
        }
        self.patches.iter().try_for_each(|patch| apply_patch(context, patch, tree, log))
    }

    /// How many patches would apply, from the first on? The tree is not changed: copies of the files they touch are, in
    /// `scratch`.
    pub fn applying(&self, tree: &Path, scratch: &Path) -> Result<usize> {
        for (count, patch) in self.patches.iter().enumerate() {
            let text = fs::read_to_string(patch).map_err(|error| disk::error("read", patch, &error))?;
            for name in touched(&text) {
                let (from, to) = (tree.join(&name), scratch.join(&name));
                if to.exists() || !from.is_file() {
                    continue;
                }
                let parent = to.parent().unwrap_or(scratch);
                fs::create_dir_all(parent).map_err(|error| disk::error("create", parent, &error))?;
                fs::copy(&from, &to).map_err(|error| disk::error("write", &to, &error))?;
            }
            if !exec::capture(&patch_command(patch, scratch), None)?.status.success() {
                return Ok(count);
            }
        }
        Ok(self.patches.len())
    }
}

/// Two rooms that hold one file would hide each other's.
fn check_layers(layers: &[Layer]) -> Result<()> {
    let mut seen: Vec<(PathBuf, &Path)> = Vec::new();
    for layer in layers {
        for target in layer.targets() {
            if let Some((_, earlier)) = seen.iter().find(|(known, _)| *known == target) {
                return Err(Error::failed(format!(
                    "{} lies in {} and in {}",
                    target.display(),
                    earlier.display(),
                    layer.from.display()
                ))
                .remedy("keep it in one of them"));
            }
            seen.push((target, &layer.from));
        }
    }
    Ok(())
}

/// The files a patch changes: its "--- a/NAME" and "+++ b/NAME" lines.
fn touched(patch: &str) -> Vec<PathBuf> {
    let name = |line: &str| {
        let rest = line.strip_prefix("--- a/").or_else(|| line.strip_prefix("+++ b/"))?;
        let name = PathBuf::from(rest.split('\t').next().unwrap_or(rest).trim_end());
        let is_below = name.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_below.then_some(name)
    };
    let mut names: Vec<PathBuf> = Vec::new();
    for name in patch.lines().filter_map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn patch_command(patch: &Path, tree: &Path) -> Command {
    let options = ["-p1", "--fuzz=0", "--forward", "--no-backup-if-mismatch", "-r", "-"];
    Command::new("patch").args(options).arg("-d").arg(tree).arg("-i").arg(patch)
}

fn apply_patch(context: &Context, patch: &Path, tree: &Path, log: &Path) -> Result<()> {
    let mut said = Vec::new();
    let options = Options {
        on_line: Some(Box::new(|line| said.push(line.to_string()))),
        ..step_options(context, log, tree, 10)
    };
    let result = exec::run(&patch_command(patch, tree), options);
    result.map(drop).map_err(|error| match error.kind {
        Kind::Failed => unappliable(patch, &said).unwrap_or(error),
        _ => error,
    })
}

/// Names the patch and the file it failed on.
fn unappliable(patch: &Path, said: &[String]) -> Option<Error> {
    let failed = said.iter().position(|line| {
        ["FAILED", "can't find file", "Reversed", "malformed", "Skipping", "No file to patch"]
            .iter()
            .any(|sign| line.contains(sign))
    })?;
    let file = said[..=failed].iter().rev().find_map(|line| line.strip_prefix("patching file "));
    let name = patch.file_name().unwrap_or_default().to_string_lossy();
    let place = file
        .map_or_else(|| said[failed].trim().to_string(), |file| format!("on {}", file.trim_matches('\'')));
    Some(
        Error::failed(format!("the patch {name} does not apply without fuzz: {place}"))
            .remedy("use a source version named in base.toml, or refresh the patch for this one"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_files_give_patches_and_groups_in_order() {
        let text =
            "# why\n\n0-prep.patch\n# group: lab\n# Fate: lab only\n  1-a.patch \n#group: abis\n2-b.patch\n";
        let patches = parse_series(text);
        let pairs: Vec<(&str, &str)> = patches.iter().map(|p| (p.group.as_str(), p.name.as_str())).collect();
        assert_eq!(pairs, [("", "0-prep.patch"), ("lab", "1-a.patch"), ("abis", "2-b.patch")]);
    }

    #[test]
    fn a_patch_that_does_not_apply_is_named_with_its_file() {
        let said = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        let error = unappliable(
            Path::new("/p/0001-hook.patch"),
            &said("patching file mm/a.c\npatching file mm/b.c\nHunk #1 FAILED at 3.\n1 out of 1 hunk FAILED"),
        )
        .expect("recognised");
        assert_eq!(error.message, "the patch 0001-hook.patch does not apply without fuzz: on mm/b.c");
        let error = unappliable(Path::new("x.patch"), &said("can't find file to patch at input line 5"))
            .expect("recognised");
        assert!(error.message.contains("can't find file to patch"), "{error:?}");
        assert!(unappliable(Path::new("x.patch"), &said("patch: something else")).is_none());
    }

    #[test]
    fn a_file_in_two_rooms_is_refused_and_a_group_that_is_not_there_named() {
        let layer =
            |from: &str, to: &str| Layer { from: from.into(), files: vec!["a.c".into()], to: to.into() };
        assert!(check_layers(&[layer("/lab", ""), layer("/engine", "mm")]).is_ok());
        let error = check_layers(&[layer("/lab/mm", "mm"), layer("/engine", "mm")]).expect_err("twice");
        assert_eq!(error.message, "mm/a.c lies in /lab/mm and in /engine");
        let error =
            Changes::of_groups(Path::new("/no/such/dir"), &["abis".into()], Vec::new()).expect_err("none");
        assert!(error.message.contains("series"), "{error:?}");
        let dir = std::env::temp_dir().join(format!("ceasefire-series-{}", std::process::id()));
        fs::create_dir_all(dir.join("patches")).expect("made");
        fs::write(dir.join("patches/series"), "# group: lab\n").expect("written");
        let error = Changes::of_groups(&dir, &["abis".into()], Vec::new()).expect_err("no group");
        assert!(error.message.ends_with("has no patch of the group 'abis'"), "{error:?}");
        fs::remove_dir_all(dir).expect("removed");
    }

    /// The second patch applies only after the first: tried one by one, it would seem not to fit.
    #[test]
    fn patches_that_build_on_each_other_are_tried_in_order() {
        let dir = std::env::temp_dir().join(format!("ceasefire-apply-{}", std::process::id()));
        let (tree, scratch) = (dir.join("tree"), dir.join("scratch"));
        fs::create_dir_all(tree.join("mm")).expect("made");
        fs::write(tree.join("mm/a.c"), "one\n").expect("written");
        let patch = |name: &str, from: &str, to: &str| {
            let path = dir.join(name);
            let text = format!("--- a/mm/a.c\n+++ b/mm/a.c\n@@ -1 +1 @@\n-{from}\n+{to}\n");
            fs::write(&path, text).expect("written");
            path
        };
        let patches = vec![patch("1", "one", "two"), patch("2", "two", "three")];
        let mut changes = Changes { layers: Vec::new(), patches };
        assert_eq!(changes.applying(&tree, &scratch.join("a")).expect("tried"), changes.patches.len());
        changes.patches.push(patch("3", "one", "four"));
        assert_eq!(changes.applying(&tree, &scratch.join("b")).expect("tried"), 2, "the first two");
        changes.patches.remove(0);
        assert_eq!(changes.applying(&tree, &scratch.join("c")).expect("tried"), 0);
        assert_eq!(fs::read_to_string(tree.join("mm/a.c")).expect("there"), "one\n");
        fs::remove_dir_all(dir).expect("removed");
    }
}
