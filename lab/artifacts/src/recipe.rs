// SPDX-License-Identifier: GPL-2.0-only
//! What kernel/ and machine/ have in common: a Debian source (base.toml), files laid over it, patches in order.

use crate::cache::{Entry, Facts, Key};
use crate::debian::apt::{Apt, PackageKind};
use crate::debian::version;
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};
use serde::de::DeserializeOwned;
use serde::Deserialize;
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

/// Raised when the code that builds changes so that old results must not be reused.
pub const BUILDER: &str = "1";

/// Variables of the caller that would change what is made of Linux's source.
const ENV_DROPPED: [&str; 16] = [
    "ARCH",
    "CROSS_COMPILE",
    "CC",
    "LD",
    "LLVM",
    "LLVM_IAS",
    "HOSTCC",
    "HOSTCFLAGS",
    "KCFLAGS",
    "KAFLAGS",
    "KCPPFLAGS",
    "KBUILD_OUTPUT",
    "KCONFIG_ALLCONFIG",
    "KCONFIG_CONFIG",
    "LOCALVERSION",
    "INSTALL_PATH",
];
/// base.toml: which source everything applies to.
#[derive(Debug, Clone, Deserialize)]
pub struct Base {
    pub package: String,
    /// Where the tar file lies in a binary package; source packages have none.
    #[serde(default)]
    pub tarball: String,
    /// Upstream series; a version of another series is never taken.
    pub series: String,
    pub checked: Vec<Checked>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Checked {
    pub version: String,
    /// Of the .deb or of the .dsc, where it is recorded.
    #[serde(default)]
    pub sha256: Option<String>,
}

/// A fetched source.
#[derive(Debug, Clone)]
pub struct Source {
    pub version: String,
    /// Everything was tried with exactly this version before.
    pub is_checked: bool,
    /// The .deb or the .dsc; in a dry run perhaps not there yet.
    pub file: PathBuf,
    pub sha256: String,
}

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

pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).map_err(|error| disk::error("read", path, &error))?;
    toml::from_str(&text).map_err(|error| {
        Error::failed(format!("{}: {}", path.display(), error.message()))
            .remedy("restore the file, or write it as its neighbours are written")
    })
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

    /// Every patch of these directories, in the order of their names, over these files.
    pub fn of_hooks(dirs: &[PathBuf], layers: Vec<Layer>) -> Result<Changes> {
        check_layers(&layers)?;
        let mut patches = Vec::new();
        for dir in dirs {
            let mut names = hash::files(dir)?;
            names.retain(|name| name.extension().is_some_and(|extension| extension == "patch"));
            names.sort();
            patches.extend(names.into_iter().map(|name| dir.join(name)));
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

    /// Would every patch apply? The tree is not changed: copies of the files they touch are, in `scratch`.
    pub fn would_apply(&self, tree: &Path, scratch: &Path) -> Result<bool> {
        for patch in &self.patches {
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
                return Ok(false);
            }
        }
        Ok(true)
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

/// Options of an ordinary step that writes below `dir`.
pub(crate) fn step_options(context: &Context, log: &Path, dir: &Path, mib: u64) -> Options<'static> {
    Options {
        dry_run: context.dry_run,
        log: Some(log.to_path_buf()),
        disk: Some((dir.to_path_buf(), mib)),
        ..Options::default()
    }
}

/// The version to use of those offered, and whether it is a checked one.
pub fn choose(base: &Base, offered: &[String]) -> Option<(String, bool)> {
    let newest = |versions: Vec<&String>| versions.into_iter().max_by(|a, b| version::compare(a, b)).cloned();
    let is_checked = |version: &String| base.checked.iter().any(|checked| checked.version == *version);
    if let Some(version) = newest(offered.iter().filter(|version| is_checked(version)).collect()) {
        return Some((version, true));
    }
    let is_newer = |version: &String| {
        version::is_of_series(version, &base.series)
            && base
                .checked
                .iter()
                .all(|checked| version::compare(version, &checked.version) == Ordering::Greater)
    };
    newest(offered.iter().filter(|version| is_newer(version)).collect()).map(|version| (version, false))
}

/// Fetches the source, or finds it in the cache. A cached newest checked version needs no network at all.
pub fn source(context: &Context, base: &Base, kind: PackageKind) -> Result<Source> {
    let newest = base.checked.iter().max_by(|a, b| version::compare(&a.version, &b.version));
    let Some(newest) = newest else {
        return Err(Error::failed("base.toml names no checked version").remedy("restore it (git checkout)"));
    };
    if let Some(entry) =
        context.cache.find("source", &entry_name(base, &newest.version), &key(base, &newest.version))
    {
        return of_entry(base, &newest.version, &entry);
    }
    match fetch(context, base, kind) {
        Err(error) if error.kind == Kind::Skip => match cached(context, base) {
            Some(source) => {
                context
                    .progress
                    .note(format!("{}; using the cached {} {}", error.message, base.package, source.version));
                Ok(source)
            }
            None => Err(error),
        },
        other => other,
    }
}

fn fetch(context: &Context, base: &Base, kind: PackageKind) -> Result<Source> {
    if context.dry_run {
        return dry_source(context, base, kind);
    }
    let apt = Apt::open(context)?;
    apt.refresh()?;
    let mut offered = apt.versions(&base.package, kind)?;
    if choose(base, &offered).is_none() {
        // Lists that are hours old may not know the version yet.
        apt.refresh_now()?;
        offered = apt.versions(&base.package, kind)?;
    }
    let Some((version, is_checked)) = choose(base, &offered) else { return Err(not_offered(base, &offered)) };
    if !is_checked {
        context.progress.warn(format!(
            "{} {version} was never checked with these patches; results are marked",
            base.package
        ));
    }
    let build = |dir: &Path| -> Result<Facts> {
        let file = match kind {
            PackageKind::Binary => apt.download(&base.package, &version, dir)?,
            PackageKind::Source => apt.download_source(&base.package, &version, dir)?,
        };
        let sha256 = hash::file(&file)?;
        check_sum(base, &version, &sha256)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Facts::from([
            ("package".into(), base.package.clone()),
            ("version".into(), version.clone()),
            ("file".into(), name),
            ("sha256".into(), sha256),
        ]))
    };
    let entry = context.cache.obtain(
        &context.progress,
        "source",
        &entry_name(base, &version),
        &key(base, &version),
        build,
    )?;
    of_entry(base, &version, &entry)
}

fn not_offered(base: &Base, offered: &[String]) -> Error {
    let there = match offered.first() {
        Some(newest) => format!("apt offers {newest} at best"),
        None => "apt does not know that package".to_string(),
    };
    Error::skip(format!("no {} of series {} that the patches are known to fit: {there}", base.package, base.series)).remedy(
        "add Debian's security and updates suites to /etc/apt/sources.list, or bring your own: --kernel-source DIR, --kernel-image FILE, --machine stock",
    )
}

/// In a dry run: prints how the source would be fetched into the place its later commands read.
fn dry_source(context: &Context, base: &Base, kind: PackageKind) -> Result<Source> {
    let version = base
        .checked
        .iter()
        .map(|c| c.version.clone())
        .max_by(|a, b| version::compare(a, b))
        .unwrap_or_default();
    let dir = context.dry_dir("source");
    let what = format!("{}={version}", base.package);
    let bare = version.split_once(':').map_or(version.as_str(), |(_, rest)| rest);
    let (words, file) = match kind {
        PackageKind::Binary => {
            (vec!["download"], format!("{}_{}_all.deb", base.package, version.replace(':', "%3a")))
        }
        PackageKind::Source => {
            (vec!["source", "--download-only", "--only-source"], format!("{}_{bare}.dsc", base.package))
        }
    };
    // Only files of ours in the cache are written: a private list with source packages, so that no root is needed.
    let apt = Apt::open(context)?;
    exec::print_line(&Command::new("mkdir").arg("-p").arg(&dir).to_shell());
    exec::print_line(&apt.command("apt-get").arg("update").to_shell());
    exec::print_line(&apt.command("apt-get").args(words).arg(what).cwd(&dir).to_shell());
    Ok(Source { version, is_checked: true, file: dir.join(file), sha256: String::new() })
}

/// Any fitting version in the cache, checked ones first.
fn cached(context: &Context, base: &Base) -> Option<Source> {
    let usages = context.cache.usage().ok()?;
    let prefix = format!("{}_", base.package);
    let mut versions: Vec<String> = Vec::new();
    for usage in usages.iter().filter(|usage| usage.class == "source" && usage.name.starts_with(&prefix)) {
        let entry = context.cache.find_where("source", |name, _| name == usage.name);
        versions.extend(entry.map(|entry| entry.fact("version")));
    }
    let (version, _) = choose(base, &versions)?;
    let entry = context.cache.find("source", &entry_name(base, &version), &key(base, &version))?;
    of_entry(base, &version, &entry).ok()
}

/// Is it the very file that base.toml was checked with?
fn check_sum(base: &Base, version: &str, sha256: &str) -> Result<()> {
    let recorded = base.checked.iter().find(|checked| checked.version == version);
    match recorded.and_then(|checked| checked.sha256.as_ref()) {
        Some(expected) if !expected.eq_ignore_ascii_case(sha256) => Err(Error::failed(format!(
            "{} {version} is not the file that base.toml records (sha256 {sha256})",
            base.package
        ))
        .remedy(
            "check the package mirror; if Debian did replace the file, check it anew and record its sha256",
        )),
        _ => Ok(()),
    }
}

fn of_entry(base: &Base, version: &str, entry: &Entry) -> Result<Source> {
    check_sum(base, version, &entry.fact("sha256"))?;
    Ok(Source {
        version: version.to_string(),
        is_checked: base.checked.iter().any(|checked| checked.version == version),
        file: entry.dir.join(entry.fact("file")),
        sha256: entry.fact("sha256"),
    })
}

fn entry_name(base: &Base, version: &str) -> String {
    format!("{}_{version}", base.package)
}

fn key(base: &Base, version: &str) -> Key {
    Key::new("source").text("package", &base.package).text("version", version)
}

/// A build of Linux's source that depends on nothing but what its key names.
pub(crate) fn without_callers_variables(mut command: Command) -> Command {
    for name in ENV_DROPPED {
        command = command.env_remove(name);
    }
    command
}

/// What compiles and links, for the keys of builds.
pub fn compiler() -> Result<String> {
    let first = |program: &str| -> Result<String> {
        let text = exec::read(&Command::new(program).arg("--version").env("LC_ALL", "C"))?;
        Ok(text.lines().next().unwrap_or_default().to_string())
    };
    Ok(format!("{}; {}", first("gcc")?, first("ld")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base {
        toml::from_str(
            "package = \"linux-source-6.12\"\nseries = \"6.12\"\nunknown = 1\n\
             [[checked]]\nversion = \"6.12.107-1~deb12u1\"\n[[checked]]\nversion = \"6.12.117-1~deb12u1\"\nsha256 = \"ab\"\n",
        )
        .expect("parses")
    }

    #[test]
    fn the_newest_checked_version_wins_then_a_newer_one_of_the_series() {
        const OLD: &str = "6.12.107-1~deb12u1";
        const NEW: &str = "6.12.117-1~deb12u1";
        type Row = (&'static [&'static str], Option<(&'static str, bool)>);
        let table: [Row; 8] = [
            (&[OLD, NEW, "6.12.120-1~deb12u1"], Some((NEW, true))),
            (&[OLD, "6.12.120-1~deb12u1"], Some((OLD, true))),
            (&["6.12.118-1", "6.12.120-1~deb12u1", "6.12.119-1"], Some(("6.12.120-1~deb12u1", false))),
            (&["6.12.90-1~deb12u1"], None),
            (&["6.12.110-1~deb12u1"], None),
            (&["6.13.1-1", "6.120.1-1"], None),
            (&["6.12.117-2~deb12u1"], Some(("6.12.117-2~deb12u1", false))),
            (&[], None),
        ];
        for (offered, expected) in table {
            let offered: Vec<String> = offered.iter().map(|version| version.to_string()).collect();
            let chosen = choose(&base(), &offered);
            assert_eq!(
                chosen,
                expected.map(|(version, checked)| (version.to_string(), checked)),
                "{offered:?}"
            );
        }
    }

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
        assert!(changes.would_apply(&tree, &scratch.join("a")).expect("tried"));
        changes.patches.remove(0);
        assert!(!changes.would_apply(&tree, &scratch.join("b")).expect("tried"));
        assert_eq!(fs::read_to_string(tree.join("mm/a.c")).expect("there"), "one\n");
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn another_file_under_a_checked_version_is_refused() {
        let base = base();
        assert!(check_sum(&base, "6.12.117-1~deb12u1", "AB").is_ok());
        assert!(check_sum(&base, "6.12.107-1~deb12u1", "anything").is_ok(), "none is recorded");
        let error = check_sum(&base, "6.12.117-1~deb12u1", "cd").expect_err("another file");
        assert!(error.message.contains("sha256 cd"), "{error:?}");
    }

    #[test]
    fn not_offered_says_what_there_is() {
        assert!(not_offered(&base(), &[]).message.contains("does not know that package"));
        assert!(not_offered(&base(), &["6.1.9-1".to_string()]).message.contains("6.1.9-1 at best"));
    }

    #[test]
    fn broken_toml_names_the_file() {
        let path = std::env::temp_dir().join(format!("ceasefire-toml-{}", std::process::id()));
        fs::write(&path, "package = ").expect("written");
        let error = read_toml::<Base>(&path).expect_err("broken");
        assert!(error.message.contains("ceasefire-toml-"), "{error:?}");
        fs::remove_file(path).expect("removed");
    }
}
