// SPDX-License-Identifier: GPL-2.0-only
//! Can KVM boot a guest here? A device that opens proves nothing: only a boot does.

use crate::boot::{self, Start};
use crate::files::Scratch;
use crate::image::Images;
use crate::plan::Boot;
use crate::qemu::{self, Accel, Console, Cpu, Hardware};
use ceasefire_artifacts::kernel::KernelImage;
use ceasefire_artifacts::machine::Machine;
use ceasefire_artifacts::Context;
use ceasefire_base::exec::Command;
use ceasefire_base::{disk, Error, Kind, Result};
use std::fs::OpenOptions;
use std::time::Duration;

/// A plain guest is up in under a second where KVM works.
const PROBE_LIMIT: Duration = Duration::from_secs(15);

/// Boots an empty job on one vCPU. Err (a skip) says what is missing.
pub fn probe(ctx: &Context, machine: &Machine, kernel: &KernelImage, images: &Images) -> Result<()> {
    let refuse = |why: String| Error::skip(why).remedy("leave out --accel kvm: the emulator counts the same");
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Err(refuse(format!("KVM cannot be used here: /dev/kvm: {}", disk::reason(&error))));
    }
    let step = ctx.progress.step("kvm: boot a plain guest");
    let scratch = Scratch::new("kvm")?;
    match boot_empty(machine, kernel, images, &scratch.path.join("probe")) {
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

fn boot_empty(machine: &Machine, kernel: &KernelImage, images: &Images, log: &std::path::Path) -> Result<()> {
    let empty = Boot::new(1, 1);
    let initrd = images.initrd_for(&empty, log)?;
    let hardware = Hardware {
        qemu: &machine.qemu,
        firmware: &machine.firmware,
        kernel: &kernel.bzimage,
        initrd: &initrd.path,
        accel: Accel::Kvm,
        cpu: Cpu::default(),
        memory_mib: 512,
        console: Console::File(boot::console_path(log)),
        mode: None,
        kernel_arguments: "",
    };
    let command = Command::new(&machine.qemu).args(qemu::arguments(&hardware, &empty));
    boot::boot(
        &Start { command: &command, log, limit: PROBE_LIMIT, rerun: "", is_useless: &|| false },
        &mut |_| (),
    )
    .map(drop)
}
