// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own tests of memory management, tools/testing/selftests/mm: built from the source that the kernels are built
//! from, as static programs in an archive for the guest; and the list of those that are run (kernel/selftests.toml).

use crate::cache::{Facts, Key};
use crate::cpio::Archive;
use crate::debian::apt::PackageKind;
use crate::kernel;
use crate::recipe;
use crate::source::{self, Source};
use crate::steps::{self, read_toml, step_options};
use crate::Context;
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// To be raised when the code below makes something else of the same inputs.
const RECIPE: &str = "2";
const ARCHIVE: &str = "selftests.cpio";
/// Where the guest's PID 1 runs them (lab/guest/jobs.c).
const DIRECTORY: &str = "/selftests";
const TOOLS: [&str; 4] = ["gcc", "make", "binutils", "xz-utils"];
/// What the tests are linked with: their versions are part of the key.
const LIBRARIES: [&str; 4] = ["libc6-dev", "libnuma-dev", "libcap-dev", "liburing-dev"];
/// Below the source's top: what `make headers` and the tests read.
const UNPACKED: [&str; 14] = [
    "Makefile",
    "Kbuild",
    "scripts",
    "include",
    "arch/x86",
    "usr",
    "mm/gup_test.h",
    "lib/test_hmm_uapi.h",
    "tools/include",
    "tools/scripts",
    "tools/testing/selftests/*.*",
    "tools/testing/selftests/lib",
    "tools/testing/selftests/mm",
    "tools/testing/selftests/x86",
];
/// Static, so that the image needs no libraries. 6.12.117's khugepaged.c names KSFT_SKIP and includes nothing that defines
/// it; the value is kselftest.h's.
const FLAGS: &str = "-static -DKSFT_SKIP=4";
/// The harness that many of them share ends a subtest after 30 s, which emulation with lockdep and KASAN may take; the limit
/// of the list ends what hangs.
const HARNESS: &str = "tools/testing/selftests/kselftest_harness.h";
const HARNESS_LIMIT: [&str; 2] = ["define TEST_TIMEOUT_DEFAULT 30", "define TEST_TIMEOUT_DEFAULT 3600"];
/// 32-bit forms would be there or not with the machine's compiler.
const SETTINGS: [&str; 2] = ["ARCH=x86_64", "CAN_BUILD_I386=0"];
const BUILD_MIB: u64 = 400;
/// The guest reads lines of 64 KiB, and a word must be one word (lab/guest/jobs.c).
const RUN_BYTES_MAX: usize = 1024;

/// kernel/selftests.toml
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Files of the guest that tests set, with the value they have otherwise.
    pub defaults: BTreeMap<String, String>,
    /// Pass on an unchanged kernel.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
    /// Do not, or were not measured to their end, with the reason.
    #[serde(rename = "other", default)]
    pub others: Vec<Test>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    pub name: String,
    /// Program and arguments.
    pub run: String,
    /// Stopped after so many seconds.
    pub limit_s: u32,
    /// Without root's rights.
    #[serde(default)]
    pub nobody: bool,
    /// Files to set to other than their defaults.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Part of `--subset short`.
    #[serde(default)]
    pub short: bool,
    /// Subtests, and how the program exits.
    #[serde(default)]
    pub pass: u32,
    #[serde(default)]
    pub fail: u32,
    #[serde(default)]
    pub skip: u32,
    #[serde(default)]
    pub xfail: u32,
    #[serde(default)]
    pub exit: i32,
    /// Why it does not pass; or why some of its subtests do not.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The list of tests.
pub fn list(context: &Context) -> Result<List> {
    let path = context.root.join("kernel/selftests.toml");
    let list: List = read_toml(&path)?;
    match fault(&list) {
        None => Ok(list),
        Some(fault) => Err(Error::failed(format!("{}: {fault}", path.display()))
            .remedy("write the entry as its neighbours are written")),
    }
}

fn fault(list: &List) -> Option<String> {
    let mut names = BTreeSet::new();
    for test in list.tests.iter().chain(&list.others) {
        let name = &test.name;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Some(format!("'{name}' is no name for a test"));
        }
        if !names.insert(name) {
            return Some(format!("the test {name} is there twice"));
        }
        let is_line = !test.run.trim().is_empty() && !test.run.contains(['\n', '\r', '\0']);
        if !is_line || test.run.len() > RUN_BYTES_MAX || test.limit_s == 0 {
            return Some(format!("the test {name} has no program or no time limit"));
        }
        if let Some(file) = test.set.keys().find(|file| !list.defaults.contains_key(*file)) {
            return Some(format!("the test {name} sets {file}, which has no default"));
        }
    }
    if let Some(test) = list.tests.iter().find(|test| test.pass == 0) {
        return Some(format!("of the test {} nothing passes, so it proves nothing", test.name));
    }
    let unexplained = list.others.iter().chain(list.tests.iter().filter(|test| test.fail + test.skip > 0));
    unexplained
        .filter(|test| test.reason.is_none())
        .map(|test| format!("the test {} does not pass whole and has no reason", test.name))
        .next()
}

/// The Debian packages that building them needs.
pub fn packages() -> Vec<&'static str> {
    TOOLS.iter().chain(&LIBRARIES).copied().collect()
}

/// The archive with all programs, out of the cache if it is there.
pub fn archive(context: &Context) -> Result<PathBuf> {
    let base = recipe::base_of(&context.root, &kernel::find(context, "vanilla")?)?;
    let source = source::source(context, &base, PackageKind::Binary)?;
    context.ensure(&packages())?;
    if context.dry_run {
        let output = context.dry_dir(ARCHIVE);
        context.dry_comment(&format!(
            "{} does not exist yet: a run without --dry-run makes it of tools/testing/selftests/mm",
            output.display()
        ));
        return Ok(output);
    }
    let key = Key::new("selftests")
        .text("recipe", RECIPE)
        .text("builder", steps::BUILDER)
        .text("compiler", steps::compiler("")?)
        .text("libraries", library_versions()?)
        .text("source", format!("{} {} {}", base.package, source.version, source.sha256))
        .text("settings", format!("{UNPACKED:?} {SETTINGS:?} {FLAGS}"));
    let log = context.cache.log_path("selftests", "mm", &key);
    let entry = context.cache.obtain(&context.progress, "selftests", "mm", &key, |directory| {
        disk::require(directory, BUILD_MIB)?;
        let _ = fs::remove_file(&log);
        Build { context, directory, base: &base, source: &source, log: &log }.run()
    })?;
    Ok(entry.dir.join(ARCHIVE))
}

fn library_versions() -> Result<String> {
    exec::read(&Command::new("dpkg-query").args(["-W", "-f", "${Package} ${Version};"]).args(LIBRARIES))
}

fn patient(harness: &Path) -> Result<()> {
    let text = fs::read_to_string(harness).map_err(|error| disk::error("read", harness, &error))?;
    let [short, long] = HARNESS_LIMIT;
    if !text.contains(short) {
        return Err(Error::failed(format!("{} has no '{short}'", harness.display()))
            .remedy("this source's harness is another: adapt HARNESS_LIMIT in lab/build/src/selftests.rs"));
    }
    fs::write(harness, text.replace(short, long)).map_err(|error| disk::error("write", harness, &error))
}

struct Build<'a> {
    context: &'a Context,
    /// The cache entry in the making.
    directory: &'a Path,
    base: &'a crate::base::Base,
    source: &'a Source,
    log: &'a Path,
}

impl Build<'_> {
    fn run(&self) -> Result<Facts> {
        let tree = self.directory.join("tree");
        let programs = self.directory.join("programs");
        for dir in [&tree, &programs] {
            fs::create_dir(dir).map_err(|error| disk::error("create the directory", dir, &error))?;
        }
        let step = self.context.step("selftests: unpack");
        self.command(&Command::new("bash").arg("-c").arg(self.unpack_script(&tree)))?;
        patient(&tree.join(HARNESS))?;
        step.done("");
        let step = self.context.step("selftests: compile");
        self.command(&self.make(&tree).arg("headers"))?;
        let output = format!("OUTPUT={}", programs.display());
        let tests = self.make(&tree.join("tools/testing/selftests/mm"));
        self.command(&tests.arg(format!("EXTRA_CFLAGS={FLAGS}")).arg(output))?;
        let names = self.pack(&programs)?;
        step.done(format!("{} programs", names.len()));
        for dir in [&tree, &programs] {
            fs::remove_dir_all(dir).map_err(|error| disk::error("remove", dir, &error))?;
        }
        Ok(Facts::from([("programs".to_string(), names.join(" "))]))
    }

    fn unpack_script(&self, tree: &Path) -> String {
        let quote = |text: &str| exec::quote(text.as_ref());
        let wanted: Vec<String> = UNPACKED.iter().map(|path| quote(&format!("*/{path}"))).collect();
        format!(
            "set -o pipefail; dpkg-deb --fsys-tarfile {} | tar -xO ./{} | xz -dc | \
             tar -x -C {} --strip-components=1 --wildcards --no-wildcards-match-slash {}",
            exec::quote(self.source.file.as_os_str()),
            quote(&self.base.tarball),
            exec::quote(tree.as_os_str()),
            wanted.join(" "),
        )
    }

    fn make(&self, directory: &Path) -> Command {
        let command = Command::new("make").arg("-C").arg(directory).args(SETTINGS);
        let command = command.arg(format!("-j{}", self.context.jobs + 1)).env("LC_ALL", "C");
        steps::without_callers_variables(command)
    }

    /// Strips the programs and puts them into the archive. Returns their names.
    fn pack(&self, programs: &Path) -> Result<Vec<String>> {
        let entries = fs::read_dir(programs).map_err(|error| disk::error("list", programs, &error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file());
        paths.sort();
        self.command(&Command::new("strip").args(&paths))?;
        let mut archive = Archive::new();
        let mut names = Vec::new();
        for path in &paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let content = fs::read(path).map_err(|error| disk::error("read", path, &error))?;
            archive.file(&format!("{DIRECTORY}/{name}"), 0o755, content);
            names.push(name);
        }
        let output = self.directory.join(ARCHIVE);
        fs::write(&output, archive.into_bytes()).map_err(|error| disk::error("write", &output, &error))?;
        Ok(names)
    }

    fn command(&self, command: &Command) -> Result<()> {
        exec::run(command, step_options(self.context, self.log, self.directory, BUILD_MIB)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> List {
        toml::from_str(text).expect("parses")
    }

    const GOOD: &str = "[defaults]\n\"/proc/a\" = \"0\"\n\
         [[test]]\nname = \"cow\"\nrun = \"cow -x\"\nlimit_s = 9\npass = 3\nset = { \"/proc/a\" = \"1\" }\n\
         [[other]]\nname = \"broken\"\nrun = \"broken\"\nlimit_s = 9\nreason = \"it is\"\n";

    #[test]
    fn the_list_in_the_repository_is_sound() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/selftests.toml");
        let list: List = read_toml(&path).expect("the list");
        assert_eq!(fault(&list), None);
        assert!(list.tests.len() >= 30, "{}", list.tests.len());
        assert!(list.tests.iter().any(|test| test.short));
    }

    const PAGE: &str = "docs/reference/selftests.md";
    const MARK: &str = "<!-- from here on written by UPDATE_EXPECT=1 make test-unit -->\n";

    fn cell(count: u32) -> String {
        if count == 0 {
            String::new()
        } else {
            count.to_string()
        }
    }

    /// An item of a list, in lines of up to 116 columns.
    fn item(text: &str) -> String {
        let mut lines = vec![String::from("-")];
        for word in text.split(' ') {
            if lines.last().is_some_and(|line| line.chars().count() + word.chars().count() >= 116) {
                lines.push(String::from(" "));
            }
            lines.last_mut().expect("one").extend([" ", word]);
        }
        lines.join("\n") + "\n"
    }

    fn tables(list: &List) -> String {
        let mut text = String::from(
            "\n## Pass on an unchanged kernel\n\n\
             | test | program | pass | skip | xfail | short |\n|---|---|---:|---:|---:|---|\n",
        );
        for test in &list.tests {
            let mut run = format!("`{}`", test.run);
            for (file, value) in &test.set {
                let name = file.rsplit('/').next().unwrap_or(file);
                run += &format!(", {name} {value}");
            }
            if test.nobody {
                run += ", not as root";
            }
            let short = if test.short { "yes" } else { "" };
            let (pass, skip, xfail) = (test.pass, cell(test.skip), cell(test.xfail));
            text += &format!("| `{}` | {run} | {pass} | {skip} | {xfail} | {short} |\n", test.name);
        }
        text += "\nWhy some subtests are skipped:\n\n";
        for test in &list.tests {
            if let Some(reason) = &test.reason {
                text += &item(&format!("`{}`: {reason}", test.name));
            }
        }
        text += "\n## Not judged: do not pass, or not measured to their end\n\n";
        for test in &list.others {
            let reason = test.reason.as_deref().unwrap_or_default();
            text += &item(&format!("`{}` (`{}`): {reason}", test.name, test.run));
        }
        text
    }

    #[test]
    fn the_page_shows_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list: List = read_toml(&root.join("kernel/selftests.toml")).expect("the list");
        let path = root.join(PAGE);
        let found = fs::read_to_string(&path).expect("the page");
        let (prose, _) = found.split_once(MARK).expect("the mark");
        let page = format!("{prose}{MARK}{}", tables(&list));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &page).expect("written");
            return;
        }
        assert!(found == page, "{PAGE} does not show kernel/selftests.toml: UPDATE_EXPECT=1 make test-unit");
    }

    #[test]
    fn faults_of_a_list_are_named() {
        toml::from_str::<List>(&GOOD.replace("limit_s", "limit")).expect_err("an unknown key");
        assert_eq!(fault(&parsed(GOOD)), None);
        for (from, to, why) in [
            ("\"cow\"", "\"c w\"", "no name"),
            ("\"broken\"\nrun", "\"cow\"\nrun", "twice"),
            ("\"cow -x\"", "\"\"", "no program"),
            ("\"cow -x\"", "\"cow\\nselftest\"", "no program"),
            ("limit_s = 9\npass", "limit_s = 0\npass", "no time limit"),
            ("{ \"/proc/a\"", "{ \"/proc/b\"", "no default"),
            ("pass = 3", "pass = 0", "proves nothing"),
            ("pass = 3", "pass = 3\nskip = 1", "no reason"),
            ("reason = \"it is\"", "", "no reason"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            assert!(fault(&parsed(&text)).is_some_and(|fault| fault.contains(why)), "{to}");
        }
    }
}
