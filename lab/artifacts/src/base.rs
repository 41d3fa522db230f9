// SPDX-License-Identifier: GPL-2.0-only
//! base.toml: which Debian source everything applies to, and the processor that it is built for.

use crate::debian::version;
use crate::steps::read_toml;
use ceasefire_base::{Error, Result};
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// base.toml: which source everything applies to.
#[derive(Debug, Clone, Deserialize)]
pub struct Base {
    pub package: String,
    /// Where the tar file lies in a binary package; source packages have none.
    #[serde(default)]
    pub tarball: String,
    /// Upstream series; a version of another series is never taken.
    pub series: String,
    /// A suite of Debian that has the package, where those of this machine's release do not. Nothing is installed from it.
    #[serde(default)]
    pub suite: Option<String>,
    /// The base that has the fragments of a kernel's configuration which this one has not.
    #[serde(default)]
    pub fragments: Option<String>,
    /// Symbols of these fragments that the source does not have, and why.
    #[serde(default)]
    pub gone: BTreeMap<String, String>,
    pub checked: Vec<Checked>,
    /// Of a kernel's source.
    #[serde(default)]
    pub architecture: Option<Architecture>,
}

/// The processor that a kernel is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// `make ARCH=NAME`
    pub name: String,
    /// Of the source: arch/DIRECTORY.
    pub directory: String,
    /// What is compiled, and where it then lies below the source's top.
    pub target: String,
    pub image: PathBuf,
    /// Before the names of compiler and linker: `powerpc-linux-gnu-`.
    #[serde(default)]
    pub compiler: String,
    /// Debian packages beside those that every kernel needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Debian packages that the guest's own programs need, and libraries that they are linked with beside the C library.
    #[serde(default)]
    pub packages_guest: Vec<String>,
    #[serde(default)]
    pub libraries_guest: Vec<String>,
    /// The folder of machine/ that boots it.
    pub machine: String,
}

impl Architecture {
    /// The image's name in the cache.
    pub fn file(&self) -> &Path {
        self.image.file_name().map_or(Path::new("image"), Path::new)
    }

    /// It is not this machine's own: programs of this machine do not run there.
    pub fn is_foreign(&self) -> bool {
        !self.compiler.is_empty()
    }
}

impl Base {
    pub fn read(folder: &Path) -> Result<Base> {
        read_toml(&folder.join("base.toml"))
    }

    pub fn architecture(&self) -> Result<&Architecture> {
        self.architecture.as_ref().ok_or_else(|| {
            Error::failed(format!("the base.toml of {} names no [architecture]", self.package))
                .remedy("write it as its neighbours are written (docs/reference/mechanism.md)")
        })
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Checked {
    pub version: String,
    /// Of the .deb or of the .dsc, where it is recorded.
    #[serde(default)]
    pub sha256: Option<String>,
}

/// The version to use of those offered, and whether it is a checked one.
pub fn choose(base: &Base, offered: &[String]) -> Option<(String, bool)> {
    let newest = |versions: Vec<&String>| versions.into_iter().max_by(|a, b| version::compare(a, b)).cloned();
    let is_checked = |version: &String| base.checked.iter().any(|checked| checked.version == *version);
    if let Some(version) = newest(offered.iter().filter(|version| is_checked(version)).collect()) {
        return Some((version, true));
    }
    let is_newer = |version: &String| {
        version::is_of_series(version, &base.series)
            && base
                .checked
                .iter()
                .all(|checked| version::compare(version, &checked.version) == Ordering::Greater)
    };
    newest(offered.iter().filter(|version| is_newer(version)).collect()).map(|version| (version, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base {
        toml::from_str(
            "package = \"linux-source-6.12\"\nseries = \"6.12\"\nunknown = 1\n\
             [[checked]]\nversion = \"6.12.107-1~deb12u1\"\n[[checked]]\nversion = \"6.12.117-1~deb12u1\"\nsha256 = \"ab\"\n",
        )
        .expect("parses")
    }

    #[test]
    fn the_newest_checked_version_wins_then_a_newer_one_of_the_series() {
        const OLD: &str = "6.12.107-1~deb12u1";
        const NEW: &str = "6.12.117-1~deb12u1";
        type Row = (&'static [&'static str], Option<(&'static str, bool)>);
        let table: [Row; 8] = [
            (&[OLD, NEW, "6.12.120-1~deb12u1"], Some((NEW, true))),
            (&[OLD, "6.12.120-1~deb12u1"], Some((OLD, true))),
            (&["6.12.118-1", "6.12.120-1~deb12u1", "6.12.119-1"], Some(("6.12.120-1~deb12u1", false))),
            (&["6.12.90-1~deb12u1"], None),
            (&["6.12.110-1~deb12u1"], None),
            (&["6.13.1-1", "6.120.1-1"], None),
            (&["6.12.117-2~deb12u1"], Some(("6.12.117-2~deb12u1", false))),
            (&[], None),
        ];
        for (offered, expected) in table {
            let offered: Vec<String> = offered.iter().map(|version| version.to_string()).collect();
            let chosen = choose(&base(), &offered);
            assert_eq!(
                chosen,
                expected.map(|(version, checked)| (version.to_string(), checked)),
                "{offered:?}"
            );
        }
    }
}
