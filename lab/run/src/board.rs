// SPDX-License-Identifier: GPL-2.0-only
//! What the kernels that were asked for boot on: a processor and a board. What these have not is refused in a sentence.

use crate::catalog::Catalog;
use crate::kernels::{Choice, Kernels};
use crate::machine::MachineSpec;
use crate::plan::{Matrix, ThreadMode, VCPUS_MAX};
use crate::request::GuestSpec;
use ceasefire_artifacts::base::Architecture;
use ceasefire_artifacts::elf::Processor;
use ceasefire_artifacts::machine::{self, Guest};
use ceasefire_artifacts::Context;
use ceasefire_base::{Error, Result};

/// Of a guest that runs workloads.
const MEMORY_MIB: u32 = 2048;
const MEMORY_MIB_MIN: u32 = 256;
const MEMORY_MIB_MAX: u32 = 64 * 1024;

#[derive(Debug, Clone)]
pub struct Board {
    pub architecture: Architecture,
    shape: Guest,
}

impl Board {
    /// Refuses kernels that are not there, too.
    pub fn of(ctx: &Context, spec: &GuestSpec) -> Result<Board> {
        Board::find(ctx, &spec.kernels, &spec.kernels.choices(ctx, &spec.machine)?)
    }

    pub fn find(ctx: &Context, kernels: &Kernels, choices: &[Choice]) -> Result<Board> {
        let architecture = kernels.architecture(ctx, choices)?;
        let shape = machine::guest(ctx, &architecture.machine)?;
        Ok(Board { architecture, shape })
    }

    /// The folder of machine/.
    pub fn machine(&self) -> &str {
        &self.architecture.machine
    }

    pub fn processor(&self) -> Result<Processor> {
        Processor::named(&self.architecture.name)
    }

    pub fn cpus_max(&self) -> u32 {
        self.shape.cpus_max.unwrap_or(VCPUS_MAX)
    }

    pub fn memory_mib(&self, wanted: Option<u32>) -> u32 {
        wanted.or(self.shape.memory_mib).unwrap_or(MEMORY_MIB)
    }

    fn is_of_one_cpu(&self) -> bool {
        self.cpus_max() == 1
    }

    /// Can a machine of that kind be so?
    pub fn check(&self, wanted: &MachineSpec) -> Result<()> {
        let name = self.machine();
        let refuse = |what: &str, flag: &str| {
            Err(Error::usage(format!("the machine {name} {what}")).remedy(format!("leave out {flag}")))
        };
        if wanted.is_kvm && self.architecture.is_foreign() {
            return refuse("has another processor than this one, and KVM has no other", "--accel kvm");
        }
        if wanted.thread_mode == ThreadMode::Multi && self.is_of_one_cpu() {
            return refuse("has one CPU, and so one thread of this host", "--thread-mode multi");
        }
        if wanted.slice_us.is_some() && self.is_of_one_cpu() {
            return refuse("has one CPU, which takes no turns", "--slice-us");
        }
        if wanted.tlb.is_some() && !self.shape.cpu_model.is_empty() {
            return refuse("has the TLBs of its processor and no others", "--tlb");
        }
        if wanted.la57 && self.shape.cpu_without_la57.is_empty() {
            return refuse("has no five-level page tables", "--la57");
        }
        let most = self.shape.memory_mib_max.unwrap_or(MEMORY_MIB_MAX);
        let least = self.shape.memory_mib.map_or(MEMORY_MIB_MIN, |usual| usual.min(MEMORY_MIB_MIN));
        match wanted.memory_mib {
            Some(mib) if !(least..=most).contains(&mib) => {
                Err(Error::usage(format!("a guest cannot have {mib} MiB of memory"))
                    .remedy(format!("choose --memory between {least} and {most}")))
            }
            _ => Ok(()),
        }
    }

    pub fn check_matrices(&self, matrices: &[Matrix]) -> Result<()> {
        for matrix in matrices {
            for &cpus in &matrix.vcpus {
                self.check_shape(cpus, matrix.nodes.unwrap_or(1))?;
            }
        }
        Ok(())
    }

    pub fn check_shape(&self, cpus: u32, nodes: u32) -> Result<()> {
        let (name, most) = (self.machine(), self.cpus_max());
        if cpus > most {
            let plural = if most == 1 { "CPU" } else { "CPUs" };
            return Err(Error::usage(format!("the machine {name} has {most} {plural}, not {cpus}"))
                .remedy(format!("choose --cpus {most}, or leave it out")));
        }
        if nodes > 1 && self.is_of_one_cpu() {
            return Err(Error::usage(format!("the machine {name} has one NUMA node, not {nodes}"))
                .remedy("leave out --nodes"));
        }
        Ok(())
    }

    /// Notes which workloads cannot run there, and why.
    pub fn mark(&self, catalog: &mut Catalog) {
        let name = self.machine();
        for workload in &mut catalog.workloads {
            let least = workload.threads_min;
            workload.refusal = if least > self.cpus_max() {
                Some(format!("needs {least} CPUs, and the machine {name} has {}", self.cpus_max()))
            } else if self.is_of_one_cpu() && workload.needs("nodes") {
                Some(format!("needs 2 NUMA nodes, and the machine {name} has one"))
            } else if self.architecture.is_foreign() && !workload.packages.is_empty() {
                Some(format!("runs programs of this machine, and the machine {name} has another processor"))
            } else {
                None
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Site;
    use crate::guest::GuestSite;
    use crate::luggage::{self, Luggage, Program};
    use crate::machine::Emulator;
    use crate::tlb::Tlb;
    use ceasefire_base::Kind;

    fn architecture(name: &str, compiler: &str) -> Architecture {
        Architecture {
            name: name.into(),
            directory: name.into(),
            target: "vmlinux".into(),
            image: "vmlinux".into(),
            compiler: compiler.into(),
            packages: Vec::new(),
            packages_guest: Vec::new(),
            libraries_guest: Vec::new(),
            machine: name.into(),
        }
    }

    fn powerpc() -> Board {
        let shape = Guest {
            cpu_model: "tlb-model=on".into(),
            cpus_max: Some(1),
            memory_mib: Some(64),
            memory_mib_max: Some(2047),
            ..Guest::default()
        };
        Board { architecture: architecture("powerpc", "powerpc-linux-gnu-"), shape }
    }

    fn x86_64() -> Board {
        let shape = Guest { cpu_without_la57: "-la57".into(), ..Guest::default() };
        Board { architecture: architecture("x86_64", ""), shape }
    }

    #[test]
    fn what_a_board_has_not_is_refused_in_a_sentence() {
        let usual = MachineSpec::default();
        let memory = |mib: u32| MachineSpec { memory_mib: Some(mib), ..usual.clone() };
        for (wanted, said) in [
            (MachineSpec { is_kvm: true, ..usual.clone() }, "KVM has no other"),
            (MachineSpec { thread_mode: ThreadMode::Multi, ..usual.clone() }, "has one CPU"),
            (MachineSpec { slice_us: Some(1), ..usual.clone() }, "takes no turns"),
            (MachineSpec { tlb: Some(Tlb::default()), ..usual.clone() }, "the TLBs of its processor"),
            (MachineSpec { la57: true, ..usual.clone() }, "five-level"),
            (memory(63), "63 MiB"),
            (memory(2048), "2048 MiB"),
        ] {
            let error = powerpc().check(&wanted).expect_err(said);
            assert!(error.kind == Kind::Usage && error.message.contains(said), "{error:?}");
            assert!(error.remedy.is_some(), "{error:?}");
            if wanted.memory_mib != Some(63) {
                x86_64().check(&wanted).expect(said);
            }
        }
        for wanted in [usual.clone(), memory(64), memory(2047)] {
            powerpc().check(&wanted).expect("it can be so");
        }
        assert_eq!((powerpc().memory_mib(None), powerpc().memory_mib(Some(128))), (64, 128));
        assert_eq!(x86_64().memory_mib(None), 2048);
        for (cpus, nodes, said) in [(2, 1, "has 1 CPU, not 2"), (1, 2, "has one NUMA node, not 2")] {
            let error = powerpc().check_shape(cpus, nodes).expect_err(said);
            assert!(error.kind == Kind::Usage && error.message.contains(said), "{error:?}");
            x86_64().check_shape(cpus, nodes).expect(said);
        }
        powerpc().check_shape(1, 1).expect("it has one of each");
    }

    /// On its own, advice for another machine would send the reader to what this board refuses.
    #[test]
    fn the_board_is_asked_before_the_emulator() {
        let progress = ceasefire_base::Progress::new(ceasefire_base::Verbosity::Quiet);
        let mut ctx = Context::without_checkout(progress).expect("a context");
        ctx.root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let machine =
            MachineSpec { emulator: Emulator::Stock, tlb: Some(Tlb::default()), ..MachineSpec::default() };
        let kernels = Kernels::named(&["ppc".into()], &[]);
        let spec = GuestSpec { kernels, machine: machine.clone() };
        let site = GuestSite::new(spec.clone()).refuse(&ctx, &mut []);
        let program = Program { file: "/bin/true".into(), args: Vec::new() };
        let board = Board::of(&ctx, &spec).expect("a board");
        let packed = luggage::pack(&ctx, &Luggage::default(), Some(&program), &board, &machine).map(drop);
        for said in [site, packed] {
            let error = said.expect_err("no TLB to set");
            assert_eq!(error.message, "the machine powerpc has the TLBs of its processor and no others");
        }
    }

    #[test]
    fn workloads_that_cannot_run_there_say_why() {
        let line = |name: &str, threads: u32, needs: &str, packages: &str| {
            format!(
                r#"{{"name":"{name}","group":"g","unit":"u","about":"a","threads_min":{threads},"needs":[{needs}],"packages":[{packages}],"programs":[],"shared":false}}"#
            )
        };
        let text = [
            line("fits", 1, "", ""),
            line("pairs", 2, "", ""),
            line("far", 1, "\"nodes\"", ""),
            line("apache", 1, "", "\"apache2\""),
        ]
        .join("\n");
        let said = |board: Board| {
            let mut catalog = Catalog::parse(&text).expect("parses");
            board.mark(&mut catalog);
            catalog.workloads.into_iter().map(|workload| workload.refusal).collect::<Vec<_>>()
        };
        let refusals = said(powerpc());
        assert_eq!(refusals[0], None);
        for (refusal, fragment) in refusals[1..].iter().zip(["2 CPUs", "2 NUMA nodes", "another processor"]) {
            assert!(refusal.as_ref().is_some_and(|text| text.contains(fragment)), "{refusal:?}");
        }
        assert!(said(x86_64()).iter().all(Option::is_none));
    }
}
