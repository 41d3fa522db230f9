// SPDX-License-Identifier: GPL-2.0-only
//! What all builds from source have in common: how they are keyed, run and kept apart from the caller.

use crate::Context;
use ceasefire_base::exec::{self, Command, Options};
use ceasefire_base::{disk, Error, Result};
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

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

pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).map_err(|error| disk::error("read", path, &error))?;
    toml::from_str(&text).map_err(|error| {
        Error::failed(format!("{}: {}", path.display(), error.message()))
            .remedy("restore the file, or write it as its neighbours are written")
    })
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

/// A build of Linux's source that depends on nothing but what its key names.
pub(crate) fn without_callers_variables(mut command: Command) -> Command {
    for name in ENV_DROPPED {
        command = command.env_remove(name);
    }
    command
}

/// What compiles and links, for the keys of builds. `prefix`: of a compiler for another processor.
pub fn compiler(prefix: &str) -> Result<String> {
    let first = |program: &str| -> Result<String> {
        let text =
            exec::read(&Command::new(format!("{prefix}{program}")).arg("--version").env("LC_ALL", "C"))?;
        Ok(text.lines().next().unwrap_or_default().to_string())
    };
    Ok(format!("{}; {}", first("gcc")?, first("ld")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_toml_names_the_file() {
        let path = std::env::temp_dir().join(format!("ceasefire-toml-{}", std::process::id()));
        fs::write(&path, "package = ").expect("written");
        let error = read_toml::<crate::base::Base>(&path).expect_err("broken");
        assert!(error.message.contains("ceasefire-toml-"), "{error:?}");
        fs::remove_file(path).expect("removed");
    }
}
