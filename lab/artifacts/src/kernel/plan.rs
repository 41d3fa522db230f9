// SPDX-License-Identifier: GPL-2.0-only
//! From a source to an image: unpack, change, configure, compile. Packages of a kernel take the same steps.

use crate::base::Architecture;
use crate::cache::{Entry, Facts, Key};
use crate::changes::Changes;
use crate::kconfig::{self, Wishes};
use crate::steps::{self, step_options};
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Source and objects of a trimmed configuration.
const BUILD_MIB: u64 = 2500;
/// Objects of the lab's configuration; later builds know their own number.
const OBJECTS_ESTIMATE: u64 = 1172;
/// Not needed to configure or to compile for x86, and half of the unpacked size.
pub(crate) const NOT_UNPACKED: [&str; 4] =
    ["Documentation/*/*", "arch/*/boot/dts", "tools/perf", "tools/testing"];
/// Nor for any of the lab's kernels, which have none of these drivers: another half of what is left.
const DRIVERS_NOT_UNPACKED: [&str; 6] = [
    "drivers/gpu/*.[ch]",
    "drivers/infiniband/*.[ch]",
    "drivers/media/*.[ch]",
    "drivers/net/*/*.[ch]",
    "drivers/staging/*.[ch]",
    "sound/*.[ch]",
];
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
    "./arch/*/include/generated",
];
/// Of all kernels together: some 5,000 objects, compressed.
const OBJECTS_KEPT: &str = "1500M";
/// Symbols named when a configuration did not stick.
const REFUSALS_SHOWN: usize = 6;
/// Equal inputs give equal images.
const REPRODUCIBLE: [&str; 4] = [
    "KBUILD_BUILD_TIMESTAMP=@0",
    "KBUILD_BUILD_USER=ceasefire",
    "KBUILD_BUILD_HOST=ceasefire",
    "KBUILD_BUILD_VERSION=1",
];

/// Where a kernel's source comes from.
pub(crate) enum Origin {
    Deb { file: PathBuf, tarball: String },
    Tree(PathBuf),
}

/// Everything a build needs to know.
pub(crate) struct Plan<'a> {
    pub context: &'a Context,
    pub architecture: &'a Architecture,
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

impl Plan<'_> {
    pub fn obtain(&self, key: &Key) -> Result<Entry> {
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
        // Architectures that begin with another letter: tar cannot say "all but this one". Their Kconfig files are read.
        let architectures =
            format!("arch/[!{}]*/*.[chS]", self.architecture.directory.get(..1).unwrap_or_default());
        let mut unneeded = vec![architectures.as_str()];
        unneeded.extend(NOT_UNPACKED.into_iter().chain(DRIVERS_NOT_UNPACKED));
        self.unpack(&tree, &unneeded)?;
        self.changes.apply(self.context, &tree, &self.log)?;
        self.configure(&tree)?;
        let Architecture { target, image, .. } = self.architecture;
        let objects = self.compile(&tree, &[target], BUILD_MIB)?;
        let file = self.architecture.file();
        for (from, to) in [
            (image.as_path(), file),
            (Path::new(".config"), Path::new("config")),
            (Path::new("System.map"), Path::new("System.map")),
            (Path::new("include/config/kernel.release"), Path::new("release")),
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
            ("image_sha256".into(), hash::file(&dir.join(file))?),
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
        let Architecture { name, compiler, .. } = self.architecture;
        let mut command = Command::new("make").arg("-C").arg(tree).arg(format!("ARCH={name}"));
        if !compiler.is_empty() {
            command = command.arg(format!("CROSS_COMPILE={compiler}"));
        }
        // What was compiled before of the same files is taken from there: most of a kernel where few files of a mechanism
        // have changed. Each build has a directory of its own; names in the objects are relative to it.
        command = command
            .arg(format!("CC=ccache {compiler}gcc"))
            .env("CCACHE_DIR", self.context.cache.objects())
            .env("CCACHE_BASEDIR", tree)
            // Which files those are the compiler says itself; else each is preprocessed once more.
            .env("CCACHE_DEPEND", "1")
            .env("CCACHE_MAXSIZE", OBJECTS_KEPT);
        steps::without_callers_variables(command.args(REPRODUCIBLE).env("LC_ALL", "C"))
    }

    pub fn run(&self, command: &Command) -> Result<()> {
        exec::run(command, step_options(self.context, &self.log, self.context.cache.dir(), BUILD_MIB))
            .map(drop)
    }

    pub fn step(&self, what: &str) -> ceasefire_base::Step {
        self.context.step(format!("kernel {}: {what}", self.name))
    }
}
