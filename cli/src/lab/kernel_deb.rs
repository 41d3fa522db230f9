// SPDX-License-Identifier: GPL-2.0-only
//! `lab kernel-deb`.

use crate::args::KernelDeb;
use ceasefire_artifacts::{kernel, package, Context};
use ceasefire_base::{disk, exec::print_line, Result};
use ceasefire_run::files;
use std::fs;

pub fn run(ctx: &Context, args: &KernelDeb) -> Result<()> {
    let kernel = args.kernel.clone().map_or_else(|| package::usual(ctx), Ok)?;
    kernel::find(ctx, &kernel)?;
    if !ctx.dry_run {
        files::output_directory(&args.out)?;
    }
    let package = package::build(ctx, &kernel, args.config.as_deref())?;
    if ctx.dry_run {
        return Ok(());
    }
    for from in &package.files {
        let to = args.out.join(from.file_name().unwrap_or_default());
        let aside = args.out.join(format!(".kernel-deb.{}", std::process::id()));
        // Copied aside first: nobody installs half a package.
        fs::copy(from, &aside).and_then(|_| fs::rename(&aside, &to)).map_err(|error| {
            let _ = fs::remove_file(&aside);
            disk::error("write", &to, &error)
        })?;
        print_line(&to.display().to_string());
    }
    if is_secure_boot() {
        ctx.progress.warn(
            "this machine boots with Secure Boot, which refuses a kernel that its owner has not signed",
        );
    }
    ctx.progress.note(format!(
        "Linux {}: install, boot it once and roll back as docs/use/hardware.md says",
        package.release
    ));
    Ok(())
}

/// The last byte of the firmware's variable, after four of attributes.
fn is_secure_boot() -> bool {
    const VARIABLE: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    fs::read(VARIABLE).is_ok_and(|bytes| bytes.get(4) == Some(&1))
}
