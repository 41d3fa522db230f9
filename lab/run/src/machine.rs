// SPDX-License-Identifier: GPL-2.0-only
//! The emulated machine as it is asked for: what cannot be right is refused, the rest is found or built.

use crate::plan::ThreadMode;
use crate::qemu::{Accel, Cpu};
use crate::tlb::Tlb;
use crate::words::Line;
use ceasefire_artifacts::machine::{self, Machine};
use ceasefire_artifacts::Context;
use ceasefire_base::{Error, Result};
use std::path::PathBuf;

const SLICE_US_MAX: u32 = 100_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSpec {
    pub emulator: Emulator,
    pub is_kvm: bool,
    pub thread_mode: ThreadMode,
    /// `None`: the emulator's own.
    pub slice_us: Option<u32>,
    /// `None`: `plain`, where there is a model to set.
    pub tlb: Option<Tlb>,
    pub la57: bool,
    /// `None`: what the work wants.
    pub memory_mib: Option<u32>,
    /// Appended to the kernel's command line.
    pub kernel_args: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Emulator {
    /// Built from machine/.
    #[default]
    Ours,
    /// The one that is installed.
    Stock,
    /// One of the user's own.
    Given(PathBuf),
}

impl MachineSpec {
    /// Ours emulates and nothing else: KVM is used through the QEMU that is installed.
    pub fn is_ours(&self) -> bool {
        self.emulator == Emulator::Ours && !self.is_kvm
    }

    pub fn put_words(&self, line: &mut Line) {
        if !self.kernel_args.is_empty() {
            line.flag("kernel-args", &self.kernel_args);
        }
        if self.is_kvm {
            line.flag("accel", "kvm");
        }
        if self.thread_mode != ThreadMode::default() {
            line.flag("thread-mode", self.thread_mode.as_str());
        }
        line.maybe("slice-us", self.slice_us.map(|slice| slice.to_string()));
        match &self.emulator {
            Emulator::Ours => {}
            Emulator::Stock => line.flag("machine", "stock"),
            Emulator::Given(path) => line.flag("qemu", path),
        }
        line.maybe("tlb", self.tlb.map(|tlb| tlb.to_string()));
        if self.la57 {
            line.flag("la57", "on");
        }
        line.maybe("memory", self.memory_mib.map(|mib| mib.to_string()));
    }

    /// Everything that can be refused without looking at any machine.
    pub fn check(&self) -> Result<()> {
        let is_stock = !self.is_ours() && !matches!(self.emulator, Emulator::Given(_));
        match self.slice_us {
            Some(slice) if !(1..=SLICE_US_MAX).contains(&slice) => {
                return Err(Error::usage(format!("a slice of {slice} us is out of range"))
                    .remedy(format!("choose --slice-us between 1 and {SLICE_US_MAX}")))
            }
            Some(_) if is_stock => {
                return Err(Error::usage("stock QEMU has no settable slice")
                    .remedy("leave out --slice-us, or --machine stock"))
            }
            _ => {}
        }
        if self.is_kvm && (self.tlb.is_some() || self.la57) {
            return Err(Error::usage("with KVM the guest has this machine's own CPU and TLBs")
                .remedy("leave out --tlb and --la57, or --accel kvm"));
        }
        if self.tlb.is_some() && self.emulator == Emulator::Stock {
            return Err(Error::usage("stock QEMU has no TLB model to set").remedy(
                "leave out --tlb, or --machine stock; --tlb stock makes the lab's QEMU behave like stock QEMU",
            ));
        }
        Ok(())
    }

    /// The machine, unless it is the lab's own, which may have to be built first. What it cannot do is said before a
    /// kernel is built for it. `name`: the folder of machine/.
    pub fn find(&self, ctx: &Context, name: &str) -> Result<Option<Machine>> {
        let machine = match &self.emulator {
            Emulator::Given(path) => {
                let tlb = (!self.is_kvm).then(|| self.tlb.unwrap_or_default().cpu_flags());
                machine::given(ctx, name, path, tlb.as_deref())?
            }
            _ if self.is_ours() => return Ok(None),
            _ => machine::stock(ctx, name)?,
        };
        self.cpu(&machine)?;
        if self.slice_us.is_some() && machine.slice_us_default.is_none() {
            return Err(Error::usage(format!("{} has no settable slice", machine.qemu.display()))
                .remedy("leave out --slice-us, or use the lab's own QEMU"));
        }
        Ok(Some(machine))
    }

    /// The CPU that was asked for, if this machine has it.
    pub fn cpu(&self, machine: &Machine) -> Result<Cpu> {
        if self.tlb.is_some() && !machine.has_tlb_model {
            return Err(Error::usage(format!("{} has no TLB model to set", machine.qemu.display()))
                .remedy("leave out --tlb, or use the lab's own QEMU"));
        }
        // Where the machine's own words are all that there is to say, there is nothing to set.
        let is_modelled = machine.has_tlb_model && machine.guest.cpu_model.is_empty() && !self.is_kvm;
        Ok(Cpu { la57: self.la57, tlb: is_modelled.then(|| self.tlb.unwrap_or_default()) })
    }

    /// Whether instructions can be counted on several vCPUs. `found`: `None` for the lab's own machine.
    pub fn check_counting(&self, found: Option<&Machine>) -> Result<()> {
        let is_modelled = self.tlb.map_or(true, |tlb| tlb.is_modelled());
        if !is_modelled || self.is_kvm || found.is_some_and(|machine| !machine.has_tlb_model) {
            return Err(Error::usage("on several CPUs only the lab's own QEMU can count instructions")
                .remedy(
                "leave out --cost, or choose --cpus 1, or leave out --machine, --accel kvm and --tlb stock",
            ));
        }
        match self.thread_mode {
            ThreadMode::Single => Ok(()),
            // There the host decides how many turns a loop that waits takes, and which interrupts fall together.
            ThreadMode::Multi => {
                Err(Error::usage("with --thread-mode multi the counts of several CPUs depend on the host")
                    .remedy("leave out --thread-mode multi, or --cost, or choose --cpus 1"))
            }
        }
    }

    pub fn accel(&self, machine: &Machine) -> Accel {
        match self.is_kvm {
            true => Accel::Kvm,
            false => Accel::Tcg {
                thread_mode: self.thread_mode,
                slice_us: self.slice_us.or(machine.slice_us_default),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_without_settings_has_none() {
        let machine = |cpu_model: &str| Machine {
            origin: machine::Origin::Built,
            qemu: PathBuf::new(),
            sha256: None,
            version: String::new(),
            source_version: None,
            source_checked: None,
            series_hash: None,
            firmware: Vec::new(),
            slice_us_default: None,
            has_tlb_model: true,
            guest: machine::Guest { cpu_model: cpu_model.into(), ..machine::Guest::default() },
        };
        let tlb = |cpu_model: &str| MachineSpec::default().cpu(&machine(cpu_model)).expect("a CPU").tlb;
        assert_eq!(tlb(""), Some(Tlb::default()));
        assert_eq!(tlb("tlb-model=on"), None);
    }

    #[test]
    fn only_our_machine_counts_and_only_in_turns() {
        let ours = MachineSpec::default();
        assert_eq!(ours.check_counting(None), Ok(()));
        for (spec, message) in [
            (MachineSpec { thread_mode: ThreadMode::Multi, ..ours.clone() }, "--thread-mode multi"),
            (MachineSpec { is_kvm: true, ..ours.clone() }, "only the lab's own QEMU"),
            (MachineSpec { tlb: Tlb::parse("stock").ok(), ..ours }, "only the lab's own QEMU"),
        ] {
            let error = spec.check_counting(None).expect_err(message);
            assert!(error.message.contains(message) && error.remedy.is_some(), "{error:?}");
            assert_eq!(error.kind.exit_code(), 2);
        }
    }
}
