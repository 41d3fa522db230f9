// SPDX-License-Identifier: GPL-2.0-only
//! Compiles C for the guest: static programs, and one that needs no system at all. The compiler is this machine's own,
//! or one for the guest's processor.

use std::path::{Path, PathBuf};

use crate::base::Architecture;
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Kind, Result};

const FLAGS: [&str; 7] = ["-static", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-pthread"];
/// No library, no floating point, no red zone (exceptions use the stack), no tables for unwinding.
const FLAGS_BARE: [&str; 18] = [
    "-std=gnu11",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-fno-pie",
    "-mno-red-zone",
    "-mgeneral-regs-only",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-Wl,--build-id=none",
    "-Wl,-z,max-page-size=4096",
    "-Wl,-z,noexecstack",
];
/// Says where a bare program lies in memory; beside its sources.
const LINKER_SCRIPT: &str = "guest.ld";
/// Words of the linkers (GNU, LLVM, mold) for a libc.a that is not there, and of the compilers (GNU, LLVM), which come
/// first, for its headers.
const NO_LIBRARY: [&str; 5] = [
    "cannot find -l",
    "unable to find library",
    "library not found",
    "stdio.h: No such file or directory",
    "'stdio.h' file not found",
];

/// What a program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Linux,
    /// The machine itself.
    Bare,
}

impl Target {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Target::Linux => &FLAGS,
            Target::Bare => &FLAGS_BARE,
        }
    }

    fn extensions(self) -> &'static [&'static str] {
        match self {
            Target::Linux => &["c"],
            Target::Bare => &["S", "c"],
        }
    }
}

pub struct Compiler {
    words: Vec<String>,
    /// The first line of `--version`.
    pub version: String,
    /// `-lNAME`, behind the sources.
    libraries: Vec<String>,
    /// Debian's, with its C library.
    packages_guest: String,
}

impl Compiler {
    /// `$CC`, which may carry arguments, or `cc`.
    pub fn find() -> Result<Compiler> {
        let variable = std::env::var("CC").unwrap_or_default();
        let mut words: Vec<String> = variable.split_whitespace().map(str::to_string).collect();
        if words.is_empty() {
            words.push("cc".to_string());
        }
        Compiler::with(words, "gcc", Vec::new(), "libc6-dev".into())
    }

    /// The one for the programs of a guest with that processor.
    pub fn of(architecture: &Architecture) -> Result<Compiler> {
        let Architecture { compiler, packages, packages_guest, libraries_guest, .. } = architecture;
        if compiler.is_empty() {
            return Compiler::find();
        }
        let libraries = libraries_guest.iter().map(|name| format!("-l{name}")).collect();
        Compiler::with(
            vec![format!("{compiler}gcc")],
            &packages.join(" "),
            libraries,
            packages_guest.join(" "),
        )
    }

    fn with(
        words: Vec<String>,
        packages: &str,
        libraries: Vec<String>,
        packages_guest: String,
    ) -> Result<Compiler> {
        let command = Command::new(&words[0]).args(&words[1..]).arg("--version");
        let said = exec::read(&command).map_err(|error| match error.kind {
            Kind::Skip => missing(&format!("the C compiler {} is not installed", words[0]), packages),
            _ => error,
        })?;
        let version = said.lines().next().unwrap_or_default().to_string();
        Ok(Compiler { words, version, libraries, packages_guest })
    }

    /// Everything that changes what the compiler makes of the same sources.
    pub fn identity(&self, target: Target) -> String {
        let flags = target.flags().iter().copied().chain(self.libraries.iter().map(String::as_str));
        format!("{} {} {}", self.words.join(" "), self.version, flags.collect::<Vec<_>>().join(" "))
    }

    /// Compiles and links all files below a directory into one program; headers are found from its top.
    pub fn link(&self, target: Target, sources: &Path, output: &Path, log: &Path) -> Result<()> {
        let mut command = Command::new(&self.words[0])
            .args(&self.words[1..])
            .args(target.flags())
            .arg("-I")
            .arg(sources)
            .arg("-o")
            .arg(output);
        if target == Target::Bare {
            command = command.arg("-T").arg(sources.join(LINKER_SCRIPT));
        }
        let command = command.args(source_files(sources, target.extensions())?).args(&self.libraries);
        let options = Options { log: Some(log.to_path_buf()), ..Options::default() };
        exec::run(&command, options).map(drop).map_err(|error| explain(error, &self.packages_guest))
    }
}

fn explain(error: Error, packages: &str) -> Error {
    if NO_LIBRARY.iter().any(|words| error.message.contains(words)) {
        return missing("the static C library is not installed", packages);
    }
    error
}

fn missing(what: &str, packages: &str) -> Error {
    let plural = if packages.contains(' ') { "packages" } else { "package" };
    Error::skip(what).remedy(format!("install Debian's {plural} {packages}: apt-get install {packages}"))
}

/// The sources in a directory and in those below it; sorted, so that the same sources give the same program.
fn source_files(directory: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let unreadable = |error: std::io::Error| disk::error("list", directory, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            files.extend(source_files(&path, extensions)?);
        } else if path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_static_library_names_its_package() {
        for said in [
            "/usr/bin/ld: cannot find -lc: No such file or directory",
            "a.c:13:10: fatal error: stdio.h: No such file or directory",
            "a.c:13:10: fatal error: 'stdio.h' file not found",
        ] {
            let error = explain(Error::failed(format!("cc failed (exit status 1): {said}")), "libc6-dev");
            assert_eq!(error.kind, Kind::Skip, "{said}");
            assert!(error.remedy.is_some_and(|remedy| remedy.ends_with("apt-get install libc6-dev")));
        }
        let other =
            explain(Error::failed("cc failed (exit status 1): a.c:1:1: error: expected ';'"), "libc6-dev");
        assert_eq!(other.kind, Kind::Failed);
    }

    #[test]
    fn a_missing_cross_compiler_names_its_packages() {
        let text = "name = \"powerpc\"\ndirectory = \"powerpc\"\ntarget = \"vmlinux\"\nimage = \"vmlinux\"\n\
                    compiler = \"no-such-linux-gnu-\"\npackages = [\"gcc-no-such\"]\nmachine = \"powerpc\"\n";
        let architecture: Architecture = toml::from_str(text).expect("parses");
        let error = Compiler::of(&architecture).err().expect("there is none");
        assert_eq!(error.kind, Kind::Skip);
        assert!(error.message.contains("no-such-linux-gnu-gcc"), "{error:?}");
        assert!(error.remedy.is_some_and(|remedy| remedy.ends_with("apt-get install gcc-no-such")));
    }

    #[test]
    fn only_sources_are_compiled_in_the_order_of_their_names() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path();
        for name in ["b.c", "a.c", "a.h", "a.c.orig", "boot.S", "README"] {
            std::fs::write(directory.join(name), "").expect("a file");
        }
        let files = source_files(directory, Target::Linux.extensions()).expect("a list");
        let bare = source_files(directory, Target::Bare.extensions()).expect("a list");
        assert_eq!(files, [directory.join("a.c"), directory.join("b.c")]);
        assert_eq!(bare, [directory.join("a.c"), directory.join("b.c"), directory.join("boot.S")]);
    }
}
