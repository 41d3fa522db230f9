// SPDX-License-Identifier: GPL-2.0-only
//! Debian's packages: which are missing, installing them where that is allowed, fetching them without root.
pub mod apt;
pub mod sources;
pub mod version;

use crate::Context;
use ceasefire_base::exec::{self, Command, Options, Stop};
use ceasefire_base::{Error, Kind, Result};
use std::time::Duration;

/// An interrupted dpkg would leave the machine half-configured: it may take its time to stop.
const INSTALL_STOP: Stop = Stop { signal: libc::SIGINT, grace: Duration::from_secs(300) };
const NO_RECOMMENDS: [&str; 3] = ["install", "-y", "--no-install-recommends"];

/// How apt says that nobody answers.
const NETWORK_SIGNS: [&str; 9] = [
    "Temporary failure resolving",
    "Could not resolve",
    "Could not connect",
    "Unable to connect",
    "Connection timed out",
    "connection timed out",
    "Connection failed",
    "Network is unreachable",
    "Unable to fetch",
];

/// The packages of the list that are not installed.
pub fn missing_packages(packages: &[&str]) -> Result<Vec<String>> {
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    if exec::find_program("dpkg-query").is_none() {
        return Err(not_debian(&format!("look for the packages {}", packages.join(", "))));
    }
    let format = "${db:Status-Status} ${Package}\n";
    let query = Command::new("dpkg-query").arg("-W").arg("-f").arg(format).args(packages).env("LC_ALL", "C");
    // It exits 1 when one is unknown, and still tells of the others.
    let said = exec::capture(&query, None)?.stdout;
    Ok(not_installed(packages, &said))
}

fn not_installed(packages: &[&str], said: &str) -> Vec<String> {
    let installed: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("installed ")).collect();
    packages
        .iter()
        .filter(|package| !installed.contains(package))
        .map(|package| package.to_string())
        .collect()
}

/// Installs what is missing, or says with which command to do it.
pub fn ensure_packages(context: &Context, packages: &[&str]) -> Result<()> {
    let missing = missing_packages(packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let sudo = if is_root() { "" } else { "sudo " };
    let pasteable = format!("{sudo}apt-get {} {names}", NO_RECOMMENDS.join(" "));
    if context.dry_run {
        exec::print_line(&pasteable);
        return Ok(());
    }
    let plural = if missing.len() == 1 { "Debian package is" } else { "Debian packages are" };
    let refused = |why: &str| {
        Error::skip(format!("{} {plural} missing: {names}{why}", missing.len())).remedy(&pasteable)
    };
    if !context.may_install {
        return Err(refused(" (installing is switched off)"));
    }
    if context.offline {
        return Err(refused(" (and the network is switched off)"));
    }
    if exec::find_program("apt-get").is_none() {
        return Err(not_debian("install packages"));
    }
    if !is_root() && !may_sudo() {
        return Err(refused(" (and this user may not install them)"));
    }
    context.progress.note(format!("{} {plural} missing and will be installed: {names}", missing.len()));
    install(context, &missing).map_err(|error| match error.kind {
        Kind::Interrupted => error,
        _ => {
            let mut error = explain(error);
            let more = error.remedy.take().map_or_else(String::new, |remedy| format!("; {remedy}"));
            error.remedy(format!("{pasteable}{more}"))
        }
    })
}

fn install(context: &Context, missing: &[String]) -> Result<()> {
    let mut words: Vec<&str> = NO_RECOMMENDS.to_vec();
    // Another apt may be at work: wait for it.
    words.extend(["-q", "-o", "DPkg::Lock::Timeout=300"]);
    words.extend(missing.iter().map(String::as_str));
    match privileged(context, "Debian: install packages", "apt-get", &words) {
        Err(error) if error.kind == Kind::Failed => {
            if error.message.contains("dpkg --configure -a") {
                privileged(
                    context,
                    "Debian: finish an interrupted installation",
                    "dpkg",
                    &["--configure", "-a"],
                )?;
            } else {
                // No or old package lists: the usual state of a fresh machine.
                privileged(context, "Debian: fetch the package lists", "apt-get", &["update", "-q"])?;
            }
            privileged(context, "Debian: install packages", "apt-get", &words)
        }
        other => other,
    }
}

fn privileged(context: &Context, title: &str, program: &str, words: &[&str]) -> Result<()> {
    let step = context.progress.step(title);
    let environment = ["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"];
    let command = match is_root() {
        true => Command::new("env"),
        false => Command::new("sudo").args(["-n", "env"]),
    };
    let command = command.args(environment).arg(program).args(words);
    let options = Options {
        log: Some(context.cache.dir().join("logs/install.log")),
        on_line: Some(Box::new(|line| step.waiting(line))),
        disk: Some(("/usr".into(), 500)),
        stop: INSTALL_STOP,
        // sudo runs as root: our signals do not reach it, the terminal's do.
        foreground: !is_root(),
        ..Options::default()
    };
    exec::run(&command, options)?;
    step.done("");
    Ok(())
}

fn is_root() -> bool {
    // SAFETY: geteuid() has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Does sudo work without a password?
fn may_sudo() -> bool {
    let probe = Command::new("sudo").args(["-n", "true"]);
    exec::capture(&probe, Some(Duration::from_secs(10))).is_ok_and(|said| said.status.success())
}

/// Turns apt's words into a sentence where the cause is known.
pub(crate) fn explain(error: Error) -> Error {
    let text = &error.message;
    if error.kind != Kind::Failed {
        return error;
    }
    if let Some(sign) = NETWORK_SIGNS.iter().find(|sign| text.contains(**sign)) {
        let log = error.remedy.as_ref().map_or_else(String::new, |log| format!("; {log}"));
        return Error::skip(format!("no network: the package mirror does not answer (apt: {sign})"))
            .remedy(format!("connect this machine to the network or set http_proxy, then try again{log}"));
    }
    error
}

pub(crate) fn offline(what: &str) -> Error {
    Error::skip(format!("{what}: the network is switched off and nothing suitable is cached"))
        .remedy("unset CEASEFIRE_OFFLINE and run it once with a network")
}

pub(crate) fn not_debian(purpose: &str) -> Error {
    Error::skip(format!("cannot {purpose}: this is not a Debian machine (no apt-get)"))
        .remedy("use Debian 12 or newer, a container of it will do; or bring your own with --kernel-image")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_counts_as_installed() {
        let said = "installed gcc\nnot-installed flex\nconfig-files bison\ninstalled make-guile\nhalf-installed bc\n";
        assert_eq!(
            not_installed(&["gcc", "flex", "bison", "make", "bc", "xz-utils"], said),
            ["flex", "bison", "make", "bc", "xz-utils"]
        );
        assert!(not_installed(&["gcc"], said).is_empty());
    }

    #[test]
    fn apts_words_become_a_sentence() {
        for words in [
            "apt-get failed (exit status 100): E: Failed to fetch x  Temporary failure resolving 'mirror.example'",
            "apt-get failed (exit status 100): W: Could not connect to mirror.example:80 (192.0.2.1)",
            "apt-get failed (exit status 100): E: Unable to fetch some archives, maybe run apt-get update",
        ] {
            let error = explain(Error::failed(words));
            assert_eq!(error.kind, Kind::Skip);
            assert!(error.message.starts_with("no network: the package mirror does not answer"), "{error:?}");
            assert!(error.remedy.is_some());
        }
        let other = Error::failed("apt-get failed (exit status 100): E: Broken packages");
        assert_eq!(explain(other.clone()), other);
        assert_eq!(explain(Error::interrupted()), Error::interrupted());
    }
}
