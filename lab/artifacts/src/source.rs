// SPDX-License-Identifier: GPL-2.0-only
//! Fetches a Debian source, or finds it in the cache.

use crate::base::{choose, Base};
use crate::cache::{Entry, Facts, Key};
use crate::debian::apt::{Apt, PackageKind};
use crate::debian::version;
use crate::{hash, Context};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{Error, Kind, Result};
use std::path::{Path, PathBuf};

/// A fetched source.
#[derive(Debug, Clone)]
pub struct Source {
    pub version: String,
    /// Everything was tried with exactly this version before.
    pub is_checked: bool,
    /// The .deb or the .dsc; in a dry run perhaps not there yet.
    pub file: PathBuf,
    pub sha256: String,
}

/// Fetches the source, or finds it in the cache. A cached newest checked version needs no network at all.
pub fn source(context: &Context, base: &Base, kind: PackageKind) -> Result<Source> {
    let newest = base.checked.iter().max_by(|a, b| version::compare(&a.version, &b.version));
    let Some(newest) = newest else {
        return Err(Error::failed("base.toml names no checked version").remedy("restore it (git checkout)"));
    };
    if let Some(entry) =
        context.cache.find("source", &entry_name(base, &newest.version), &key(base, &newest.version))
    {
        return of_entry(base, &newest.version, &entry);
    }
    match fetch(context, base, kind) {
        Err(error) if error.kind == Kind::Skip => match cached(context, base) {
            Some(source) => {
                context
                    .progress
                    .note(format!("{}; using the cached {} {}", error.message, base.package, source.version));
                Ok(source)
            }
            None => Err(error),
        },
        other => other,
    }
}

fn fetch(context: &Context, base: &Base, kind: PackageKind) -> Result<Source> {
    if context.dry_run {
        return dry_source(context, base, kind);
    }
    let apt = Apt::open(context, base.suite.as_deref())?;
    apt.refresh()?;
    let mut offered = apt.versions(&base.package, kind)?;
    if choose(base, &offered).is_none() {
        // Lists that are hours old may not know the version yet.
        apt.refresh_now()?;
        offered = apt.versions(&base.package, kind)?;
    }
    let Some((version, is_checked)) = choose(base, &offered) else { return Err(not_offered(base, &offered)) };
    if !is_checked {
        context.progress.warn(format!(
            "{} {version} was never checked with these patches; results are marked",
            base.package
        ));
    }
    let build = |dir: &Path| -> Result<Facts> {
        let file = match kind {
            PackageKind::Binary => apt.download(&base.package, &version, dir)?,
            PackageKind::Source => apt.download_source(&base.package, &version, dir)?,
        };
        let sha256 = hash::file(&file)?;
        check_sum(base, &version, &sha256)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Facts::from([
            ("package".into(), base.package.clone()),
            ("version".into(), version.clone()),
            ("file".into(), name),
            ("sha256".into(), sha256),
        ]))
    };
    let entry = context.cache.obtain(
        &context.progress,
        "source",
        &entry_name(base, &version),
        &key(base, &version),
        build,
    )?;
    of_entry(base, &version, &entry)
}

fn not_offered(base: &Base, offered: &[String]) -> Error {
    let there = match offered.first() {
        Some(newest) => format!("apt offers {newest} at best"),
        None => "apt does not know that package".to_string(),
    };
    Error::skip(format!("no {} of series {} that the patches are known to fit: {there}", base.package, base.series)).remedy(
        "add Debian's security and updates suites to /etc/apt/sources.list, or bring your own: --kernel-source DIR, --kernel-image FILE, --machine stock",
    )
}

/// In a dry run: prints how the source would be fetched into the place its later commands read.
fn dry_source(context: &Context, base: &Base, kind: PackageKind) -> Result<Source> {
    let version = base
        .checked
        .iter()
        .map(|c| c.version.clone())
        .max_by(|a, b| version::compare(a, b))
        .unwrap_or_default();
    let dir = context.dry_dir("source");
    let what = format!("{}={version}", base.package);
    let bare = version.split_once(':').map_or(version.as_str(), |(_, rest)| rest);
    let (words, file) = match kind {
        PackageKind::Binary => {
            (vec!["download"], format!("{}_{}_all.deb", base.package, version.replace(':', "%3a")))
        }
        PackageKind::Source => {
            (vec!["source", "--download-only", "--only-source"], format!("{}_{bare}.dsc", base.package))
        }
    };
    // Only files of ours in the cache are written: a private list with source packages, so that no root is needed.
    let apt = Apt::open(context, base.suite.as_deref())?;
    exec::print_line(&Command::new("mkdir").arg("-p").arg(&dir).to_shell());
    exec::print_line(&apt.command("apt-get").arg("update").to_shell());
    exec::print_line(&apt.command("apt-get").args(words).arg(what).cwd(&dir).to_shell());
    Ok(Source { version, is_checked: true, file: dir.join(file), sha256: String::new() })
}

/// Any fitting version in the cache, checked ones first.
fn cached(context: &Context, base: &Base) -> Option<Source> {
    let usages = context.cache.usage().ok()?;
    let prefix = format!("{}_", base.package);
    let mut versions: Vec<String> = Vec::new();
    for usage in usages.iter().filter(|usage| usage.class == "source" && usage.name.starts_with(&prefix)) {
        let entry = context.cache.find_where("source", |name, _| name == usage.name);
        versions.extend(entry.map(|entry| entry.fact("version")));
    }
    let (version, _) = choose(base, &versions)?;
    let entry = context.cache.find("source", &entry_name(base, &version), &key(base, &version))?;
    of_entry(base, &version, &entry).ok()
}

/// Is it the very file that base.toml was checked with?
fn check_sum(base: &Base, version: &str, sha256: &str) -> Result<()> {
    let recorded = base.checked.iter().find(|checked| checked.version == version);
    match recorded.and_then(|checked| checked.sha256.as_ref()) {
        Some(expected) if !expected.eq_ignore_ascii_case(sha256) => Err(Error::failed(format!(
            "{} {version} is not the file that base.toml records (sha256 {sha256})",
            base.package
        ))
        .remedy(
            "check the package mirror; if Debian did replace the file, check it anew and record its sha256",
        )),
        _ => Ok(()),
    }
}

fn of_entry(base: &Base, version: &str, entry: &Entry) -> Result<Source> {
    check_sum(base, version, &entry.fact("sha256"))?;
    Ok(Source {
        version: version.to_string(),
        is_checked: base.checked.iter().any(|checked| checked.version == version),
        file: entry.dir.join(entry.fact("file")),
        sha256: entry.fact("sha256"),
    })
}

fn entry_name(base: &Base, version: &str) -> String {
    format!("{}_{version}", base.package)
}

fn key(base: &Base, version: &str) -> Key {
    Key::new("source").text("package", &base.package).text("version", version)
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
    fn another_file_under_a_checked_version_is_refused() {
        let base = base();
        assert!(check_sum(&base, "6.12.117-1~deb12u1", "AB").is_ok());
        assert!(check_sum(&base, "6.12.107-1~deb12u1", "anything").is_ok(), "none is recorded");
        let error = check_sum(&base, "6.12.117-1~deb12u1", "cd").expect_err("another file");
        assert!(error.message.contains("sha256 cd"), "{error:?}");
    }

    #[test]
    fn not_offered_says_what_there_is() {
        assert!(not_offered(&base(), &[]).message.contains("does not know that package"));
        assert!(not_offered(&base(), &["6.1.9-1".to_string()]).message.contains("6.1.9-1 at best"));
    }
}
