// SPDX-License-Identifier: GPL-2.0-only
//! Makes the archive of real programs that the application workloads run in
//! the guest, from the Debian packages of this machine's own release. Needs no
//! root: packages are unpacked, never installed, and only the named programs
//! with the libraries they ask for are kept, because the guest unpacks the
//! archive at each boot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};

use crate::cache::{Facts, Key};
use crate::cpio::Archive;
use crate::debian::{self, apt::Apt};
use crate::{elf, Context};

/// To be raised when the code below makes something else of the same packages.
const RECIPE: &str = "1";
const ARCHIVE: &str = "apps.cpio";
/// Beside the archive: a line `name version` per package that gave it a file.
const VERSIONS: &str = "packages.txt";
/// All packages of the present workloads with their libraries, fetched and unpacked.
const NEEDS_MIB: u64 = 300;

/// Where the guest's loader looks for libraries, and where a package may hold them.
const LIBRARY_DIRECTORY: &str = "/usr/lib/x86_64-linux-gnu";
const LIBRARY_SOURCES: [&str; 4] = [LIBRARY_DIRECTORY, "/lib/x86_64-linux-gnu", "/usr/lib", "/lib"];
/// The C library loads it by name when a thread ends, so no program asks for it.
const LIBRARY_OF_THREADS: &str = "libgcc_s.so.1";
const SYMLINKS_MAX: usize = 16;

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
        let apt = Apt::open(self.context)?;
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
        gather(&trees, self.programs)
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

/// The file behind a path in one of the trees, whatever side of the merged /usr its package put it on.
fn find(trees: &[PathBuf], path: &str) -> Option<PathBuf> {
    let other = match path.strip_prefix("/usr") {
        Some(rest) => rest.to_string(),
        None => format!("/usr{path}"),
    };
    trees.iter().find_map(|tree| resolve(tree, path).or_else(|| resolve(tree, &other)))
}

/// Follows symbolic links inside the tree.
fn resolve(tree: &Path, path: &str) -> Option<PathBuf> {
    let mut inside = PathBuf::from(path.trim_start_matches('/'));
    for _ in 0..SYMLINKS_MAX {
        let full = tree.join(&inside);
        let kind = fs::symlink_metadata(&full).ok()?.file_type();
        if kind.is_file() {
            return Some(full);
        }
        if !kind.is_symlink() {
            return None;
        }
        let target = fs::read_link(&full).ok()?;
        let base = if target.is_absolute() { PathBuf::new() } else { inside.parent()?.to_path_buf() };
        inside = lexical_join(base, &target)?;
    }
    None
}

/// `None` when the target would leave the tree.
fn lexical_join(mut base: PathBuf, target: &Path) -> Option<PathBuf> {
    for component in target.components() {
        match component {
            Component::Normal(name) => base.push(name),
            Component::ParentDir => {
                if !base.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(base)
}

/// What goes into the archive.
#[derive(Default)]
struct Gathered {
    /// Path in the guest → file in a tree.
    files: BTreeMap<String, PathBuf>,
    missing: BTreeSet<String>,
}

impl Gathered {
    /// The trees' names that files came from.
    fn packages(&self, trees: &Path) -> BTreeSet<String> {
        let name = |file: &PathBuf| {
            let first = file.strip_prefix(trees).ok()?.components().next()?;
            Some(first.as_os_str().to_string_lossy().into_owned())
        };
        self.files.values().filter_map(name).collect()
    }
}

/// An archive with a program of this machine as /bin/NAME, and all it loads.
pub fn of_host(program: &Path) -> Result<Vec<u8>> {
    let remedy = "give the path of a program of this machine";
    let unusable = |why: String| Error::usage(format!("cannot take {} along: {why}", program.display()));
    let full = fs::canonicalize(program).map_err(|error| unusable(disk::reason(&error)).remedy(remedy))?;
    let path = full.to_string_lossy().into_owned();
    let mut gathered = gather(&[PathBuf::from("/")], &BTreeSet::from([path.clone()]))?;
    if let Some(missing) = gathered.missing.first() {
        return Err(unusable(format!("there is no file {missing}")).remedy(remedy));
    }
    if let (Some(file), Some(name)) = (gathered.files.remove(&path), full.file_name()) {
        gathered.files.insert(format!("/bin/{}", name.to_string_lossy()), file);
    }
    archive(&gathered)
}

/// The programs, their loader, and the libraries that any of these asks for.
fn gather(trees: &[PathBuf], programs: &BTreeSet<String>) -> Result<Gathered> {
    let mut gathered = Gathered::default();
    let library = |name: &str| {
        let paths = LIBRARY_SOURCES.map(|directory| format!("{directory}/{name}"));
        let found = trees.iter().find_map(|tree| paths.iter().find_map(|path| resolve(tree, path)));
        (format!("{LIBRARY_DIRECTORY}/{name}"), found)
    };
    let mut queue: Vec<(String, Option<PathBuf>)> =
        programs.iter().map(|path| (path.clone(), find(trees, path))).collect();
    if let (path, Some(file)) = library(LIBRARY_OF_THREADS) {
        queue.push((path, Some(file)));
    }
    while let Some((path, file)) = queue.pop() {
        let Some(file) = file else {
            gathered.missing.insert(path);
            continue;
        };
        if gathered.files.contains_key(&path) {
            continue;
        }
        let content = read(&file)?;
        gathered.files.insert(path, file);
        // Anything else is a script or data.
        let Some(dynamic) = elf::dynamic(&content) else { continue };
        if let Some(loader) = dynamic.interpreter {
            // The loader's directory is itself a link on some releases.
            let name = loader.rsplit('/').next().unwrap_or(&loader);
            let found = find(trees, &loader).or_else(|| library(name).1);
            queue.push((loader, found));
        }
        // Libraries name the loader too; it is there already.
        let needed = dynamic.needed.iter().filter(|name| !name.starts_with("ld-linux"));
        queue.extend(needed.map(|name| library(name)));
    }
    Ok(gathered)
}

fn archive(gathered: &Gathered) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    for (path, file) in &gathered.files {
        let permissions = if path.contains("bin/") || path.contains("/ld-") { 0o755 } else { 0o644 };
        archive.file(path, permissions, read(file)?);
    }
    // Servers that drop root rights look up who they become.
    let users = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
    archive.file("/etc/passwd", 0o644, users.into());
    archive.file("/etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n".into());
    Ok(archive.into_bytes())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| disk::error("read", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Trees(tempfile::TempDir);

    impl Trees {
        fn new() -> Trees {
            Trees(tempfile::tempdir().expect("a directory"))
        }

        fn list(&self) -> Vec<PathBuf> {
            let mut list: Vec<PathBuf> =
                fs::read_dir(self.0.path()).expect("trees").flatten().map(|entry| entry.path()).collect();
            list.sort();
            list
        }

        fn file(&self, path: &str, content: &[u8]) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, content).expect("a file");
        }

        fn link(&self, path: &str, target: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            symlink(target, path).expect("a link");
        }
    }

    fn set(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| path.to_string()).collect()
    }

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
    fn links_are_followed_but_never_out_of_the_tree() {
        let trees = Trees::new();
        trees.file("p/usr/lib/tool/real", b"x");
        trees.link("p/usr/bin/relative", "../lib/tool/real");
        trees.link("p/usr/bin/absolute", "/usr/lib/tool/real");
        trees.link("p/usr/bin/outside", "../../../../../../etc/passwd");
        trees.link("p/usr/bin/loop", "loop");
        trees.link("p/usr/bin/dangling", "nothing");
        let tree = trees.0.path().join("p");
        let real = Some(tree.join("usr/lib/tool/real"));
        assert_eq!(resolve(&tree, "/usr/bin/relative"), real);
        assert_eq!(resolve(&tree, "/usr/bin/absolute"), real);
        for path in ["/usr/bin/outside", "/usr/bin/loop", "/usr/bin/dangling", "/usr/lib/tool", "/none"] {
            assert_eq!(resolve(&tree, path), None, "{path}");
        }
    }

    #[test]
    fn either_side_of_the_merged_usr_will_do() {
        let trees = Trees::new();
        trees.file("p/bin/tool", b"x");
        trees.file("q/usr/bin/other", b"x");
        assert_eq!(find(&trees.list(), "/usr/bin/tool"), Some(trees.0.path().join("p/bin/tool")));
        assert_eq!(find(&trees.list(), "/bin/other"), Some(trees.0.path().join("q/usr/bin/other")));
    }

    #[test]
    fn libraries_of_libraries_come_along_and_their_packages_are_named() {
        let trees = Trees::new();
        trees.file(
            "tool/usr/bin/tool",
            &elf::tests::file(Some("/lib64/ld-linux-x86-64.so.2"), &["liba.so.1"]),
        );
        trees.file("liba1/usr/lib/x86_64-linux-gnu/liba.so.1.2", &elf::tests::file(None, &["libc.so.6"]));
        trees.link("liba1/usr/lib/x86_64-linux-gnu/liba.so.1", "liba.so.1.2");
        let libc = elf::tests::file(None, &["ld-linux-x86-64.so.2"]);
        trees.file("libc6/lib/x86_64-linux-gnu/libc.so.6", &libc);
        trees.file("libc6/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", b"loader");
        trees.file("libb1/usr/lib/x86_64-linux-gnu/libb.so.1", b"not asked for");
        let gathered = gather(&trees.list(), &set(&["/usr/bin/tool"])).expect("gathers");
        assert!(gathered.missing.is_empty());
        assert_eq!(
            gathered.files.keys().map(String::as_str).collect::<Vec<_>>(),
            [
                "/lib64/ld-linux-x86-64.so.2",
                "/usr/bin/tool",
                "/usr/lib/x86_64-linux-gnu/liba.so.1",
                "/usr/lib/x86_64-linux-gnu/libc.so.6",
            ]
        );
        assert_eq!(gathered.packages(trees.0.path()), set(&["liba1", "libc6", "tool"]));
        let bytes = archive(&gathered).expect("an archive");
        assert_eq!(bytes, archive(&gathered).expect("an archive"));
        assert!(bytes.windows(13).any(|part| part == b"usr/bin/tool\0"));
    }

    #[test]
    fn what_no_package_has_is_missing() {
        let trees = Trees::new();
        trees.file("tool/usr/bin/tool", &elf::tests::file(None, &["libgone.so.3"]));
        let gathered = gather(&trees.list(), &set(&["/usr/bin/tool", "/usr/bin/none"])).expect("gathers");
        let expected = set(&["/usr/bin/none", "/usr/lib/x86_64-linux-gnu/libgone.so.3"]);
        assert_eq!(gathered.missing, expected);
    }

    #[test]
    fn versions_are_read_beside_the_archive() {
        let trees = Trees::new();
        trees.file(VERSIONS, b"libc6 2.36-9\nwrk 4.1.0-3+b2\n");
        let versions = versions(&trees.0.path().join(ARCHIVE)).expect("versions");
        assert_eq!(versions[1], ("wrk".to_string(), "4.1.0-3+b2".to_string()));
        assert_eq!(versions.len(), 2);
    }
}
