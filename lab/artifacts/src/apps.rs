// SPDX-License-Identifier: GPL-2.0-only
//! Makes the archive of real programs that the application workloads run in
//! the guest, from the Debian packages of this machine's own release. Needs no
//! root: packages are unpacked, never installed, and only the named programs
//! with the libraries they ask for are kept, because the guest unpacks the
//! archive at each boot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};

use crate::cache::{Facts, Key};
use crate::cpio::Archive;
use crate::debian::{self, apt::Apt};
use crate::gather::{add_users, Gathered, Gatherer};
use crate::Context;

/// To be raised when the code below makes something else of the same packages.
const RECIPE: &str = "1";
const ARCHIVE: &str = "apps.cpio";
/// Beside the archive: a line `name version` per package that gave it a file.
const VERSIONS: &str = "packages.txt";
/// All packages of the present workloads with their libraries, fetched and unpacked.
const NEEDS_MIB: u64 = 300;

/// The archive with these programs (and other files, given by their absolute paths) and all they load.
///
/// The entry is kept while the same programs of the same release are asked for: new package versions must not
/// change what is measured from one run to the next. `ceasefire lab clean` makes room for them.
pub fn root(context: &Context, packages: &[String], programs: &[String]) -> Result<PathBuf> {
    let packages: BTreeSet<String> = packages.iter().cloned().collect();
    let programs: BTreeSet<String> = programs.iter().cloned().collect();
    let join = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
    let key = Key::new("apps")
        .text("recipe", RECIPE)
        .text("release", release())
        .text("packages", join(&packages))
        .text("programs", join(&programs));
    if context.dry_run {
        if let Some(entry) = context.cache.find("apps", "root", &key) {
            return Ok(entry.dir.join(ARCHIVE));
        }
        let output = context.dry_dir(ARCHIVE);
        let names = join(&packages).replace(',', " ");
        context.dry_comment(&format!(
            "{} does not exist yet: a run without --dry-run makes one of the Debian packages {names}",
            output.display()
        ));
        return Ok(output);
    }
    let entry = context.cache.obtain(&context.progress, "apps", "root", &key, |directory| {
        let build = Build { context, directory, packages: &packages, programs: &programs };
        build.run()
    })?;
    Ok(entry.dir.join(ARCHIVE))
}

/// Names and versions of the packages in an archive that `root` made.
pub fn versions(archive: &Path) -> Result<Vec<(String, String)>> {
    let path = archive.with_file_name(VERSIONS);
    let text = fs::read_to_string(&path).map_err(|error| disk::error("read", &path, &error))?;
    let split =
        |line: &str| line.split_once(' ').map(|(name, version)| (name.to_string(), version.to_string()));
    Ok(text.lines().filter_map(split).collect())
}

/// Which packages there are differs between Debian's releases.
fn release() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    line.unwrap_or("unknown").trim_matches('"').to_string()
}

struct Build<'a> {
    context: &'a Context,
    /// The cache entry in the making.
    directory: &'a Path,
    packages: &'a BTreeSet<String>,
    programs: &'a BTreeSet<String>,
}

impl Build<'_> {
    fn run(&self) -> Result<Facts> {
        disk::require(self.directory, NEEDS_MIB)?;
        let apt = Apt::open(self.context, None)?;
        let all = self.closure(&apt)?;
        let is_likely =
            |package: &&Package| self.packages.contains(&package.name) || package.may_hold_libraries();
        let (likely, rest): (Vec<&Package>, Vec<&Package>) = all.iter().partition(is_likely);
        let trees = self.directory.join("trees");
        self.unpack(&apt, &likely, &trees)?;
        let mut gathered = self.gather(&trees)?;
        if !gathered.missing.is_empty() {
            self.unpack(&apt, &rest, &trees)?;
            gathered = self.gather(&trees)?;
        }
        if let Some(path) = gathered.missing.first() {
            let names = self.packages.iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(Error::failed(format!(
                "no package has {path} (looked in {names} and what they need)"
            ))
            .remedy("name the package that has it in the workload's .packages"));
        }
        self.write(ARCHIVE, &archive(&gathered)?)?;
        let kept = gathered.packages(&trees);
        let kept: Vec<&Package> = all.iter().filter(|package| kept.contains(&package.name)).collect();
        let lines = kept.iter().map(|package| format!("{} {}\n", package.name, package.version));
        self.write(VERSIONS, lines.collect::<String>().as_bytes())?;
        fs::remove_dir_all(&trees).map_err(|error| disk::error("remove", &trees, &error))?;
        Ok(kept.iter().map(|package| (package.name.clone(), package.version.clone())).collect())
    }

    /// The packages and all they depend on, as if nothing were installed.
    fn closure(&self, apt: &Apt) -> Result<Vec<Package>> {
        apt.refresh()?;
        let command = apt
            .command("apt-get")
            .args(["-o", "Dir::State::status=/dev/null", "-o", "APT::Install-Recommends=false"])
            .args(["--print-uris", "-q", "-y", "install"])
            .args(self.packages);
        let output = exec::read(&command).map_err(debian::explain)?;
        Ok(parse_packages(&output))
    }

    /// Each package gets a tree of its own, so that a file tells where it came from.
    fn unpack(&self, apt: &Apt, packages: &[&Package], trees: &Path) -> Result<()> {
        if packages.is_empty() {
            return Ok(());
        }
        let context = self.context;
        if context.offline {
            return Err(debian::offline("the packages of the applications cannot be fetched"));
        }
        fs::create_dir_all(trees).map_err(|error| disk::error("create the directory", trees, &error))?;
        let step = context.progress.step("applications: fetch and unpack Debian packages");
        self.download(apt, packages, trees, |line| step.waiting(line))?;
        for entry in fs::read_dir(trees).map_err(|error| disk::error("list", trees, &error))?.flatten() {
            let file = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix(".deb").and_then(|stem| stem.split('_').next()) else {
                continue;
            };
            step.waiting(name);
            exec::read(&Command::new("dpkg-deb").arg("-x").arg(&file).arg(trees.join(name)))?;
            fs::remove_file(&file).map_err(|error| disk::error("remove", &file, &error))?;
        }
        step.done(format!("{} packages", packages.len()));
        Ok(())
    }

    fn download(&self, apt: &Apt, packages: &[&Package], into: &Path, say: impl Fn(&str)) -> Result<()> {
        let wanted = packages.iter().map(|package| format!("{}={}", package.name, package.version));
        let command = apt.command("apt-get").args(["-q", "download"]).args(wanted).cwd(into);
        for is_last in [false, true] {
            let options = Options {
                log: Some(self.context.cache.dir().join("logs/apps.log")),
                on_line: Some(Box::new(|line| say(line))),
                disk: Some((into.to_path_buf(), NEEDS_MIB)),
                ..Options::default()
            };
            match exec::run(&command, options) {
                Ok(_) => break,
                Err(error) if is_last || error.kind == Kind::Interrupted => {
                    return Err(debian::explain(error))
                }
                // What did arrive stays; a mirror that was being renewed has the rest a moment later.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn gather(&self, trees: &Path) -> Result<Gathered> {
        let entries = fs::read_dir(trees).map_err(|error| disk::error("list", trees, &error))?;
        let mut trees: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        trees.sort();
        let mut gatherer = Gatherer::new(&trees);
        self.programs.iter().for_each(|path| gatherer.add(path));
        gatherer.finish()
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, content).map_err(|error| disk::error("write", &path, &error))
    }
}

/// A package as apt names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    architecture: String,
}

impl Package {
    /// A line of `apt-get --print-uris`: `'URI' NAME_VERSION_ARCH.deb SIZE HASH`.
    fn parse(line: &str) -> Option<Package> {
        let file = line.strip_prefix('\'')?.split_once("' ")?.1;
        let stem = file.split(' ').next()?.strip_suffix(".deb")?;
        let mut parts = stem.split('_');
        let (name, version, architecture) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then(|| Package {
            name: name.to_string(),
            version: version.replace("%3a", ":"),
            architecture: architecture.to_string(),
        })
    }

    /// Debian's policy names packages of shared libraries like this; all else
    /// in the closure (passwd, perl, debconf, …) serves installation.
    fn may_hold_libraries(&self) -> bool {
        self.name.starts_with("lib") || self.name.starts_with("zlib")
    }
}

fn parse_packages(output: &str) -> Vec<Package> {
    output.lines().filter_map(Package::parse).collect()
}

fn archive(gathered: &Gathered) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    gathered.add_to(&mut archive)?;
    add_users(&mut archive);
    Ok(archive.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_apt_become_packages() {
        let output = "\
NOTE: This is only a simulation!
Reading package lists...
'http://m.example/pool/p/passwd_4.13%2bdfsg1_amd64.deb' passwd_1%3a4.13+dfsg1-1_amd64.deb 972180 MD5Sum:ddd0
'http://m.example/pool/z/zlib1g_1.2_amd64.deb' zlib1g_1%3a1.2.13.dfsg-1_amd64.deb 86720
'http://m.example/broken' broken.deb 12
'http://m.example/a/apache2-bin_2.4_amd64.deb' apache2-bin_2.4.71-1~deb12u1_amd64.deb 1409916 SHA256:00
";
        let packages = parse_packages(output);
        let text: Vec<String> = packages.iter().map(|p| format!("{} {}", p.name, p.version)).collect();
        assert_eq!(text, ["passwd 1:4.13+dfsg1-1", "zlib1g 1:1.2.13.dfsg-1", "apache2-bin 2.4.71-1~deb12u1"]);
        assert_eq!(
            packages.iter().map(Package::may_hold_libraries).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert!(parse_packages("").is_empty());
    }

    #[test]
    fn versions_are_read_beside_the_archive() {
        let scratch = tempfile::tempdir().expect("a directory");
        fs::write(scratch.path().join(VERSIONS), "libc6 2.36-9\nwrk 4.1.0-3+b2\n").expect("a file");
        let versions = versions(&scratch.path().join(ARCHIVE)).expect("versions");
        assert_eq!(versions[1], ("wrk".to_string(), "4.1.0-3+b2".to_string()));
        assert_eq!(versions.len(), 2);
    }
}
