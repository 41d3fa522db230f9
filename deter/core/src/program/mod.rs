// SPDX-License-Identifier: GPL-2.0-only
//! What a command or a process is, as far as it can be seen without running or stopping it.

mod command;
mod elf;
mod kind;
mod libraries;
mod object;
mod process;

pub use command::of_command;
pub use elf::go_version;
pub use kind::{glibc_version, java_heap, java_options, jdk_version, python_version};
pub use libraries::{find_library, Search};
pub use object::Object;
pub use process::{mapped, of_process};

use crate::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Debug, Clone, Default)]
pub struct Program {
    /// File name of what runs: the interpreter's, for a script.
    pub name: String,
    pub path: PathBuf,
    pub pid: Option<u32>,
    /// The file that the command names, where an interpreter runs it.
    pub script: Option<PathBuf>,
    pub kinds: BTreeSet<Kind>,
    /// By what they are of: glibc, python, go, jdk.
    pub versions: BTreeMap<String, String>,
    /// The program first, then its libraries.
    pub objects: Vec<Object>,
    /// Why the dynamic loader ignores variables and preloads.
    pub privileged: Option<String>,
    pub sanitizer: Option<String>,
    /// Of a process.
    pub threads: Option<u32>,
    /// CPUs that it may use, of a process.
    pub cpus_allowed: Option<u32>,
    /// Those that it has, or would be given.
    pub environment: BTreeMap<String, String>,
    /// Without the program's name.
    pub arguments: Vec<String>,
    /// What could not be seen, in sentences.
    pub notes: Vec<String>,
}

impl Program {
    pub fn is(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// "python3.11: CPython 3.11, glibc 2.36, linked dynamically".
    pub fn describe(&self) -> String {
        let version = |of: &str| self.versions.get(of).map_or(String::new(), |version| format!(" {version}"));
        let mut parts: Vec<String> = Vec::new();
        for kind in &self.kinds {
            match kind {
                Kind::Go => parts.push(format!("Go{}", version("go"))),
                Kind::Cpython => parts.push(format!("CPython{}", version("python"))),
                Kind::CpythonFreeThreaded => parts.push("free-threaded".into()),
                Kind::Jvm => parts.push(format!("Java{}", version("jdk"))),
                Kind::JvmSerial => parts.push("collector Serial".into()),
                Kind::JvmParallel => parts.push("collector Parallel".into()),
                Kind::JvmG1 => parts.push("collector G1".into()),
                Kind::JvmZ => parts.push("collector ZGC".into()),
                Kind::JvmShenandoah => parts.push("collector Shenandoah".into()),
                Kind::Node => parts.push("Node.js".into()),
                Kind::Beam => parts.push("Erlang".into()),
                Kind::Dotnet => parts.push(".NET".into()),
                Kind::Apache => parts.push("Apache".into()),
                Kind::Redis => parts.push("Redis".into()),
                Kind::Mariadb => parts.push("MariaDB or MySQL".into()),
                Kind::Postgresql => parts.push("PostgreSQL".into()),
                Kind::Shell => parts.push("a shell, which starts others".into()),
                Kind::Musl => parts.push("musl".into()),
                Kind::Glibc => parts.push(format!("glibc{}", version("glibc"))),
                Kind::Static => parts.push("linked statically".into()),
                Kind::SingleThreaded => {}
            }
        }
        for object in self.objects.iter().filter(|object| object::is_allocator(&object.name)) {
            parts.push(object.name.clone());
        }
        if parts.is_empty() {
            parts.push("a program of no kind that is known".into());
        }
        format!("{}: {}", self.name, parts.join(", "))
    }
}
