// SPDX-License-Identifier: GPL-2.0-only
//! Programs by name: where they are, and which package brings them.

use crate::Error;
use std::path::{Path, PathBuf};

/// Debian's package for a program.
const PACKAGES: &[(&str, &str)] = &[
    ("ar", "binutils"),
    ("as", "binutils"),
    ("bc", "bc"),
    ("bison", "bison"),
    ("cargo", "cargo"),
    ("cpio", "cpio"),
    ("dpkg-source", "dpkg-dev"),
    ("file", "file"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("git", "git"),
    ("ld", "binutils"),
    ("make", "make"),
    ("mke2fs", "e2fsprogs"),
    ("ninja", "ninja-build"),
    ("patch", "patch"),
    ("pkg-config", "pkg-config"),
    ("python3", "python3"),
    ("qemu-system-ppc", "qemu-system-ppc"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("strip", "binutils"),
    ("sudo", "sudo"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// The error for a program that is not installed.
pub fn missing_program(name: &str) -> Error {
    let error = Error::skip(format!("the program {name} is not installed"));
    match PACKAGES.iter().find(|(program, _)| *program == name) {
        Some((_, package)) => {
            // SAFETY: geteuid() has no preconditions.
            let sudo = if unsafe { libc::geteuid() } == 0 { "" } else { "sudo " };
            error.remedy(format!("{sudo}apt-get install {package}"))
        }
        None => error.remedy(format!("install {name}, or put its directory on PATH")),
    }
}

/// Looks a program up on PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
