// SPDX-License-Identifier: GPL-2.0-only
//! Space on the disk, and input/output errors as sentences.

use crate::Error;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const REMEDY: &str = "free space, or set CEASEFIRE_CACHE to a directory on a larger file system";

/// Free space for an ordinary user on the file system of `path` (or of its nearest existing parent).
pub fn free_mib(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|p| p.exists())?;
    let name = CString::new(existing.as_os_str().as_bytes()).ok()?;
    // SAFETY: `name` is a NUL-terminated string and `info` plain data, both valid for the call.
    let info = unsafe {
        let mut info: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(name.as_ptr(), &mut info) != 0 {
            return None;
        }
        info
    };
    Some((info.f_bavail as u64).saturating_mul(info.f_frsize as u64) >> 20)
}

/// The error for a file system that has run full, or is too small to begin with.
pub fn full(path: &Path, needs_mib: Option<u64>) -> Error {
    let free = match free_mib(path) {
        Some(mib) => format!("{mib} MiB free under {}", path.display()),
        None => format!("nothing free under {}", path.display()),
    };
    let needs = match needs_mib {
        Some(mib) => format!(", the step needs about {mib} MiB"),
        None => String::new(),
    };
    Error::failed(format!("disk full: {free}{needs}")).remedy(REMEDY)
}

/// Refuses to begin what cannot end.
pub fn require(path: &Path, needs_mib: u64) -> crate::Result<()> {
    match free_mib(path) {
        Some(free) if free < needs_mib => Err(full(path, Some(needs_mib))),
        _ => Ok(()),
    }
}

pub fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC) | Some(libc::EDQUOT))
}

/// An input/output error as one sentence: what was being done, to which file, why not.
/// `action` is an infinitive: "read", "create the directory".
pub fn error(action: &str, path: &Path, cause: &io::Error) -> Error {
    if is_full(cause) {
        return full(path.parent().unwrap_or(path), None);
    }
    let error = Error::failed(format!("cannot {action} {}: {}", path.display(), reason(cause)));
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            error.remedy("check the owner and the mode of that path, or choose another")
        }
        _ => error,
    }
}

/// The system's words without Rust's "(os error 2)".
pub fn reason(cause: &io::Error) -> String {
    let text = cause.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_how_much_is_free_and_what_helps() {
        let cause = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = error("write", Path::new("/tmp/file"), &cause);
        assert!(error.message.starts_with("disk full: "), "{error:?}");
        assert!(error.message.contains("MiB free under /tmp"), "{error:?}");
        assert!(error.remedy.is_some_and(|r| r.contains("CEASEFIRE_CACHE")));
    }

    #[test]
    fn more_space_than_there_is_is_refused_before_the_work() {
        assert!(require(Path::new("/tmp"), 0).is_ok());
        let error = require(Path::new("/tmp"), u64::MAX).expect_err("no disk has that");
        assert!(error.message.contains("the step needs about"), "{error:?}");
    }

    #[test]
    fn a_path_that_is_not_there_yet_is_measured_at_its_parent() {
        assert!(free_mib(Path::new("/tmp/no/such/dir")).is_some());
    }

    #[test]
    fn other_errors_name_the_path_and_the_reason() {
        let cause = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(
            error("read", Path::new("/x/y"), &cause).message,
            "cannot read /x/y: no such file or directory"
        );
    }
}
