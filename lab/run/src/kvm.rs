// SPDX-License-Identifier: GPL-2.0-only
//! Can KVM boot a guest here? A device that opens proves nothing: only a boot does.

use crate::files;
use ceasefire_artifacts::Context;
use ceasefire_base::{disk, Error, Kind, Result};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

/// A plain guest is up in under a second where KVM works.
const PROBE_LIMIT: Duration = Duration::from_secs(15);

/// Has a plain guest booted, with its log there and within the limit. Err (a skip) says what is missing.
pub fn probe(ctx: &Context, boot: impl Fn(&Path, Duration) -> Result<()>) -> Result<()> {
    let refuse = |why: String| Error::skip(why).remedy("leave out --accel kvm: the emulator counts the same");
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Err(refuse(format!("KVM cannot be used here: /dev/kvm: {}", disk::reason(&error))));
    }
    let step = ctx.progress.step("kvm: boot a plain guest");
    let scratch = files::scratch("kvm")?;
    match boot(&scratch.path().join("probe"), PROBE_LIMIT) {
        Ok(()) => {
            step.done("works");
            Ok(())
        }
        Err(error) if error.kind == Kind::Interrupted => Err(error),
        Err(error) => Err(refuse(format!(
            "KVM opens here but does not boot a plain guest within {} s ({error})",
            PROBE_LIMIT.as_secs()
        ))),
    }
}
