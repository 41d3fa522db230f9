// SPDX-License-Identifier: GPL-2.0-only
//! `run`: becomes the program, with remedies, and lets somebody look whether they reached it.

use super::args::Run;
use super::interception::{self, Ours};
use super::lines;
use super::plan::environment;
use ceasefire_base::{Error, Result};
use ceasefire_deter::launch::Launch;
use ceasefire_deter::machine::Machine;
use ceasefire_deter::plan::why_not;
use ceasefire_deter::program::of_command;
use ceasefire_deter::proof::prove_after_exec;
use ceasefire_deter::remedy::{self, Remedy};
use ceasefire_deter::settings::Settings;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A loader has mapped everything long before.
const PROOF_MAX: Duration = Duration::from_secs(2);

pub fn run(args: &Run) -> Result<u8> {
    let remedies = chosen(&args.with, args.loose)?;
    let program = of_command(&args.command, environment())?;
    let machine = Machine::here(Path::new("/"));
    for remedy in &remedies {
        if let Some(why) = why_not(remedy, &program, &machine) {
            if remedy.is_loose {
                return Err(Error::usage(format!("{} is not for this program: {why}", remedy.name))
                    .remedy("leave it out"));
            }
            lines::warn(&format!("{} has no effect: {why}", remedy.name));
        }
    }
    let settings = Settings::of(&remedies, &program)?;
    interception::check(&settings, &program)?;
    if !args.quiet {
        for risk in interception::risks(&settings) {
            lines::warn(&format!("risk: {risk}"));
        }
    }
    let ours = Ours { is_loose: args.loose };
    let mut launch = Launch::new(&args.command, settings, &ours, cache().as_deref())?;
    let guard = launch.guard(&ours)?;
    prove_after_exec(launch.preloads(), launch.has_filter(), guard, args.quiet, PROOF_MAX);
    Err(launch.exec())
}

/// Where what we preload is kept: for root, where programs that run as others can read it.
pub fn cache() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // SAFETY: a call without preconditions.
    let system = || (unsafe { libc::geteuid() } == 0).then(|| PathBuf::from("/var/cache"));
    let home = || of("HOME").map(|home| home.join(".cache"));
    Some(of("XDG_CACHE_HOME").or_else(system).or_else(home)?.join("ceasefire/deter"))
}

/// By name; those that are for programs.
pub fn chosen(names: &[String], loose: bool) -> Result<Vec<&'static Remedy>> {
    let mut chosen: Vec<&'static Remedy> = Vec::new();
    for name in names {
        let remedy = remedy::named(name)?;
        if remedy.is_host() {
            return Err(Error::usage(format!("{name} is about the host, not about a program"))
                .remedy(format!("ceasefire deter host on {name}")));
        }
        if remedy.is_change_only() {
            return Err(Error::usage(format!("{name} cannot be set from outside"))
                .remedy(format!("ceasefire deter show {name}")));
        }
        if remedy.is_loose && !loose {
            return Err(Error::usage(format!("a program can notice {name}: {}", remedy.costs))
                .remedy("add --loose if that is right for this program"));
        }
        if !chosen.iter().any(|other| other.name == remedy.name) {
            chosen.push(remedy);
        }
    }
    Ok(chosen)
}
