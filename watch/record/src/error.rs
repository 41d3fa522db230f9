// SPDX-License-Identifier: GPL-2.0-only
//! Why a record cannot be read, or only up to a point.

use ceasefire_base::disk;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("is empty")]
    Empty,
    #[error("is no record of ceasefire watch")]
    NotARecord,
    #[error(
        "was written by a newer ceasefire: version {0} of the form, and this one reads version {}",
        crate::VERSION
    )]
    Newer(u32),
    #[error("ends in the middle, after {0} bytes")]
    Cut(u64),
    #[error("is damaged after {at} bytes: {why}")]
    Damaged { at: u64, why: String },
    #[error("holds more {0} than any recording has")]
    TooMuch(&'static str),
    #[error("cannot be read: {}", disk::reason(.0))]
    Io(std::io::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn damaged(at: u64, why: impl Into<String>) -> Error {
        Error::Damaged { at, why: why.into() }
    }

    /// One sentence for whoever named the file. What is no record is a wrong request; a damaged one is a failure.
    pub fn about(&self, path: &Path) -> ceasefire_base::Error {
        let sentence = format!("{} {self}", path.display());
        let record_again = "record again: ceasefire watch record -o FILE";
        match self {
            Error::NotARecord => ceasefire_base::Error::usage(sentence)
                .remedy("name a file that `ceasefire watch record -o FILE` has written"),
            Error::Io(cause) if is_wrong_name(cause) => ceasefire_base::Error::usage(sentence)
                .remedy("name a file that `ceasefire watch record -o FILE` has written"),
            Error::Newer(_) => ceasefire_base::Error::failed(sentence)
                .remedy("read it with the ceasefire that wrote it, or a newer one"),
            Error::Cut(_) | Error::Damaged { .. } => ceasefire_base::Error::failed(sentence).remedy(
                "what comes before that is shown; copy the file again if it was whole elsewhere, or record again",
            ),
            Error::Empty | Error::TooMuch(_) => ceasefire_base::Error::failed(sentence).remedy(record_again),
            Error::Io(_) => ceasefire_base::Error::failed(sentence).remedy("check its owner, mode and disk"),
        }
    }
}

fn is_wrong_name(cause: &std::io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::EISDIR | libc::ENOTDIR | libc::ENAMETOOLONG))
}
