// SPDX-License-Identifier: GPL-2.0-only
//! What works on this machine, and the remedy for what does not. Looks only; changes nothing.

use ceasefire_artifacts::{debian, kernel, machine, Context};
use ceasefire_base::{disk, exec, progress::clock, Error, Result};
use serde::Serialize;
use std::time::Duration;

/// A build of everything with nothing cached needs this much for a while.
const DISK_MIB: u64 = 6 * 1024;

#[derive(Debug, Serialize)]
pub struct Check {
    pub name: String,
    pub ok: bool,
    /// Wrong, but only an option of ours is lost.
    pub optional: bool,
    pub found: String,
    pub remedy: Option<String>,
}

impl Check {
    fn new(name: &str, outcome: Result<String>, optional: bool) -> Check {
        match outcome {
            Ok(found) => Check { name: name.into(), ok: true, optional, found, remedy: None },
            Err(error) => {
                Check { name: name.into(), ok: false, optional, found: error.message, remedy: error.remedy }
            }
        }
    }
}

/// Every check, in the order of a build.
pub fn examine(ctx: &Context) -> Result<Vec<Check>> {
    let mut checks = vec![
        Check::new("C compiler", version("cc"), false),
        Check::new("make", version("make"), false),
        Check::new("Rust", version("cargo").map_err(rust_remedy), false),
        Check::new("packages", packages(ctx), false),
        Check::new("disk", space(ctx), false),
        Check::new("cache", cache(ctx), false),
    ];
    for spec in kernel::list(ctx)? {
        checks.push(Check::new(&format!("kernel {}", spec.name), Ok(spec.about), false));
    }
    let stock = machine::stock(ctx, machine::USUAL).map(|machine| machine.version);
    checks.push(Check::new("stock QEMU (--machine stock)", stock, true));
    checks.push(Check::new("KVM (--accel kvm)", kvm(), true));
    Ok(checks)
}

/// The table for people.
pub fn table(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match (check.ok, check.optional) {
            (true, _) => "ok  ",
            (false, true) => "-   ",
            (false, false) => "NO  ",
        };
        text += &format!("{mark} {}: {}\n", check.name, check.found);
        if let Some(remedy) = &check.remedy {
            text += &format!("      remedy: {remedy}\n");
        }
    }
    text
}

fn version(program: &str) -> Result<String> {
    let text = exec::read(&exec::Command::new(program).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_string())
}

fn rust_remedy(error: Error) -> Error {
    error.remedy("install Rust (rustup, or your distribution), or put cargo on PATH")
}

fn packages(ctx: &Context) -> Result<String> {
    let mut needed = kernel::packages(ctx, [crate::kernels::USUAL])?;
    needed.extend(machine::packages(ctx, machine::USUAL)?);
    let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
    let missing = debian::missing_packages(&needed)?;
    if missing.is_empty() {
        return Ok(format!("all {} build packages are installed", needed.len()));
    }
    Err(Error::skip(format!("missing: {}", missing.join(" ")))
        .remedy(format!("sudo apt-get install --no-install-recommends {}", missing.join(" "))))
}

fn space(ctx: &Context) -> Result<String> {
    disk::require(ctx.cache.dir(), DISK_MIB)?;
    let free = disk::free_mib(ctx.cache.dir()).unwrap_or(0);
    Ok(format!("{} GiB free for the cache", free / 1024))
}

fn cache(ctx: &Context) -> Result<String> {
    let usage = ctx.cache.usage()?;
    let bytes: u64 = usage.iter().map(|entry| entry.bytes).sum();
    let oldest = usage.iter().filter_map(|entry| entry.used.elapsed().ok()).max().unwrap_or(Duration::ZERO);
    Ok(format!(
        "{} entries, {} MiB in {}; longest unused for {}",
        usage.len(),
        bytes >> 20,
        ctx.cache.dir().display(),
        clock(oldest)
    ))
}

/// Only whether the device opens: whether it boots is found out by the run that asks for it.
fn kvm() -> Result<String> {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => Ok("/dev/kvm opens; a run with --accel kvm first proves that it boots".into()),
        Err(error) => Err(Error::skip(format!("/dev/kvm: {}", disk::reason(&error)))
            .remedy("nothing is lost: the emulator counts the same")),
    }
}
