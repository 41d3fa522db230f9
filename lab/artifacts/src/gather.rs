// SPDX-License-Identifier: GPL-2.0-only
//! Programs with all they load, out of trees of files: of unpacked packages, or of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use ceasefire_base::{disk, Result};

use crate::cpio::Archive;
use crate::elf::{self, Fit, Processor};

/// Where the guest's loader looks for libraries, and where a package may hold them.
const LIBRARY_DIRECTORY: &str = "/usr/lib/x86_64-linux-gnu";
const LIBRARY_SOURCES: [&str; 5] =
    [LIBRARY_DIRECTORY, "/lib/x86_64-linux-gnu", "/usr/lib", "/lib", "/usr/local/lib"];
/// The C library loads it by name when a thread ends, so no program asks for it.
const LIBRARY_OF_THREADS: &str = "libgcc_s.so.1";
const SYMLINKS_MAX: usize = 16;

/// The file behind a path in one of the trees. A package may link to a file of another one.
pub(crate) fn find(trees: &[PathBuf], path: &str) -> Option<PathBuf> {
    let inside = Path::new(path.trim_start_matches('/'));
    find_file(trees, path).or_else(|| {
        let mut targets = trees.iter().filter_map(|tree| target(tree, inside));
        targets.find_map(|target| find_file(trees, &format!("/{}", target.to_string_lossy())))
    })
}

/// The file, whatever side of the merged /usr its package put it on.
fn find_file(trees: &[PathBuf], path: &str) -> Option<PathBuf> {
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
        inside = target(tree, &inside)?;
    }
    None
}

/// Where a link of the tree leads, as a path inside a tree.
fn target(tree: &Path, link: &Path) -> Option<PathBuf> {
    let target = fs::read_link(tree.join(link)).ok()?;
    let base = if target.is_absolute() { PathBuf::new() } else { link.parent()?.to_path_buf() };
    lexical_join(base, &target)
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
pub(crate) struct Gathered {
    /// Path in the guest → file in a tree.
    pub files: BTreeMap<String, PathBuf>,
    pub missing: BTreeSet<String>,
}

impl Gathered {
    /// The trees' names that files came from.
    pub fn packages(&self, trees: &Path) -> BTreeSet<String> {
        let name = |file: &PathBuf| {
            let first = file.strip_prefix(trees).ok()?.components().next()?;
            Some(first.as_os_str().to_string_lossy().into_owned())
        };
        self.files.values().filter_map(name).collect()
    }

    /// Without what can neither run nor be loaded: a file may name any other as its loader, library or interpreter, and
    /// data of this machine is no business of it.
    pub fn without_data(mut self) -> Result<Gathered> {
        for (path, file) in std::mem::take(&mut self.files) {
            if is_executable(&file)? || elf::fit(&read(&file)?, Processor::default()) != Fit::Other {
                self.files.insert(path, file);
            } else {
                self.missing.insert(path);
            }
        }
        Ok(self)
    }

    pub fn add_to(&self, archive: &mut Archive) -> Result<()> {
        for (path, file) in &self.files {
            // Libraries are marked as executable or not, as each release likes.
            let is_program = path.contains("bin/")
                || path.contains("/ld-")
                || !path.contains(".so") && is_executable(file)?;
            archive.file(path, if is_program { 0o755 } else { 0o644 }, read(file)?);
        }
        Ok(())
    }
}

/// Servers that drop root rights look up who they become.
pub(crate) fn add_users(archive: &mut Archive) {
    let users = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
    archive.file("/etc/passwd", 0o644, users.into());
    archive.file("/etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n".into());
}

/// Follows programs to their loader, and to the libraries that any of these asks for.
#[derive(Default)]
pub(crate) struct Gatherer<'a> {
    trees: &'a [PathBuf],
    queue: Vec<(String, Option<PathBuf>)>,
}

impl<'a> Gatherer<'a> {
    pub fn new(trees: &'a [PathBuf]) -> Gatherer<'a> {
        Gatherer { trees, queue: Vec::new() }
    }

    /// A program or another file of the trees.
    pub fn add(&mut self, path: &str) {
        self.queue.push((path.into(), find(self.trees, path)));
    }

    /// What a file loads that itself is added by somebody else.
    pub fn add_needs_of(&mut self, content: &[u8]) {
        // Anything else is a script or data.
        let Some(dynamic) = elf::dynamic(content) else { return };
        if let Some(loader) = dynamic.interpreter {
            // The loader's directory is itself a link on some releases.
            let name = loader.rsplit('/').next().unwrap_or(&loader);
            let found = find(self.trees, &loader).or_else(|| self.locate(name).1);
            self.queue.push((loader, found));
        }
        // Libraries name the loader too; it is there already.
        for name in dynamic.needed.iter().filter(|name| !name.starts_with("ld-linux")) {
            match name.starts_with('/') {
                true => self.add(name),
                // Another one with a slash lies beside the program.
                false if name.contains('/') => {}
                false => self.queue.push(self.locate(name)),
            }
        }
        match self.locate(LIBRARY_OF_THREADS) {
            (path, Some(file)) if !dynamic.needed.is_empty() => self.queue.push((path, Some(file))),
            _ => {}
        }
    }

    fn locate(&self, name: &str) -> (String, Option<PathBuf>) {
        let paths = LIBRARY_SOURCES.map(|directory| format!("{directory}/{name}"));
        let found = self.trees.iter().find_map(|tree| paths.iter().find_map(|path| resolve(tree, path)));
        (format!("{LIBRARY_DIRECTORY}/{name}"), found)
    }

    pub fn finish(mut self) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        while let Some((path, file)) = self.queue.pop() {
            let Some(file) = file else {
                gathered.missing.insert(path);
                continue;
            };
            if gathered.files.contains_key(&path) {
                continue;
            }
            self.add_needs_of(&read(&file)?);
            gathered.files.insert(path, file);
        }
        Ok(gathered)
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| disk::error("read", path, &error))
}

pub(crate) fn is_executable(path: &Path) -> Result<bool> {
    let about = fs::metadata(path).map_err(|error| disk::error("read", path, &error))?;
    Ok(about.permissions().mode() & 0o111 != 0)
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

    fn gather(trees: &[PathBuf], programs: &[&str]) -> Gathered {
        let mut gatherer = Gatherer::new(trees);
        programs.iter().for_each(|path| gatherer.add(path));
        gatherer.finish().expect("gathers")
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
    fn a_package_may_link_to_a_file_of_another() {
        let trees = Trees::new();
        trees.link("server/usr/bin/server", "check");
        trees.link("server/usr/bin/outside", "../../../../../../etc/passwd");
        trees.link("server/usr/bin/loop", "loop");
        trees.link("server/usr/bin/dangling", "nothing");
        trees.file("tools/usr/bin/check", b"x");
        let real = Some(trees.0.path().join("tools/usr/bin/check"));
        assert_eq!(find(&trees.list(), "/usr/bin/server"), real);
        for path in ["/usr/bin/outside", "/usr/bin/loop", "/usr/bin/dangling"] {
            assert_eq!(find(&trees.list(), path), None, "{path}");
        }
        assert_eq!(gather(&trees.list(), &["/usr/bin/server"]).packages(trees.0.path()), set(&["tools"]));
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
        let gathered = gather(&trees.list(), &["/usr/bin/tool"]);
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
        let archive = || {
            let mut archive = Archive::new();
            gathered.add_to(&mut archive).expect("the files are there");
            archive.into_bytes()
        };
        let bytes = archive();
        assert_eq!(bytes, archive());
        assert!(bytes.windows(13).any(|part| part == b"usr/bin/tool\0"));
    }

    #[test]
    fn what_no_package_has_is_missing() {
        let trees = Trees::new();
        trees.file("tool/usr/bin/tool", &elf::tests::file(None, &["libgone.so.3"]));
        let gathered = gather(&trees.list(), &["/usr/bin/tool", "/usr/bin/none"]);
        let expected = set(&["/usr/bin/none", "/usr/lib/x86_64-linux-gnu/libgone.so.3"]);
        assert_eq!(gathered.missing, expected);
    }
}
