// SPDX-License-Identifier: GPL-2.0-only
//! What was asked for, typed. The CLI makes it of its arguments; the command line that asks for it is made here and
//! nowhere else, so that what is printed is what runs.

use crate::catalog::{GROUP_OWN, PROGRAM};
use crate::kernels::{Choice, Kernels, USUAL};
use crate::luggage::{self, Luggage, Program};
use crate::machine::MachineSpec;
use crate::plan::{Boot, Matrix};
use crate::presets::Preset;
use crate::words::{self, Line, Output};
use ceasefire_base::{Error, Result};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub work: Work,
    pub place: Place,
    /// Of one boot; `None`: what its jobs may take.
    pub limit: Option<Duration>,
    pub output: Output,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    One(Matrix),
    Program(Own),
    Preset(Preset),
    /// Of a caller that has a command line of its own.
    Many(Vec<Matrix>),
}

/// A program of the user's own, in the place of workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Names no workload.
    pub matrix: Matrix,
    pub program: Program,
    pub luggage: Luggage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Guest(GuestSpec),
    /// This machine. Its kernel is set to each of `modes` and back; without any, it is taken as it is.
    Host {
        modes: Vec<String>,
        /// The workloads, built elsewhere.
        program: Option<PathBuf>,
    },
}

/// An emulated machine and the kernels that boot on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestSpec {
    pub kernels: Kernels,
    pub machine: MachineSpec,
}

impl Request {
    pub fn preset(preset: Preset, output: Output) -> Request {
        let place = Place::Guest(GuestSpec { kernels: preset.kernels(), ..GuestSpec::default() });
        Request { work: Work::Preset(preset), place, limit: None, output }
    }

    pub fn matrices(&self) -> Vec<Matrix> {
        match &self.work {
            Work::One(matrix) => vec![matrix.clone()],
            Work::Program(own) => vec![Matrix { workloads: vec![PROGRAM.into()], ..own.matrix.clone() }],
            Work::Preset(preset) => preset.matrices(),
            Work::Many(matrices) => matrices.clone(),
        }
    }

    /// Checks every number before anything is looked at.
    pub fn validate(&self) -> Result<()> {
        self.check_program()?;
        self.matrices().iter().try_for_each(Matrix::validate)?;
        check_limit(self.limit)
    }

    /// Nobody but --program runs a program, and it has no settings.
    fn check_program(&self) -> Result<()> {
        let nameless = |name: &&String| [PROGRAM, GROUP_OWN].contains(&name.as_str());
        match &self.work {
            Work::One(matrix) => match matrix.workloads.iter().find(nameless) {
                Some(name) => Err(Error::usage(format!("'{name}' does not say which program"))
                    .remedy("name it with --program FILE, in the place of workloads")),
                None => Ok(()),
            },
            Work::Program(_) if matches!(self.place, Place::Host { .. }) => Err(Error::usage(
                "a program of your own is counted in the guest",
            )
            .remedy(
                "leave out --on host; on this machine `ceasefire watch stat -- COMMAND` counts while it runs",
            )),
            Work::Program(own) if !own.matrix.settings.is_empty() => {
                Err(Error::usage("--set is for workloads, and a program of your own is none")
                    .remedy("give it arguments behind --"))
            }
            _ => Ok(()),
        }
    }

    /// Only these jobs, on this kernel in this mode. It writes where a plain run writes.
    pub fn only(&self, boot: &Boot, choice: &Choice) -> Request {
        let place = match &self.place {
            Place::Guest(spec) => {
                Place::Guest(GuestSpec { kernels: spec.kernels.only(choice), machine: spec.machine.clone() })
            }
            Place::Host { modes, program } => Place::Host {
                modes: if modes.is_empty() { Vec::new() } else { choice.mode.iter().cloned().collect() },
                program: program.clone(),
            },
        };
        let mut matrix = boot.matrix();
        if matches!(place, Place::Host { .. }) {
            // They are what they are.
            matrix.nodes = None;
        }
        let work = match &self.work {
            Work::Program(own) => {
                Work::Program(Own { matrix: Matrix { workloads: Vec::new(), ..matrix }, ..own.clone() })
            }
            _ => Work::One(matrix),
        };
        Request { work, place, limit: self.limit, output: Output::default() }
    }

    /// As a shell takes it.
    pub fn command(&self) -> String {
        words::shell(&self.words())
    }

    /// The words after the program's name.
    pub fn words(&self) -> Vec<OsString> {
        let mut line = Line::default();
        line.word("lab");
        match &self.work {
            Work::Preset(preset) => {
                line.word(preset.name());
                if let Preset::Demo(boots @ 2..) = preset {
                    line.flag("boots", boots.to_string());
                }
            }
            Work::One(matrix) => self.run_words(std::slice::from_ref(matrix), &mut line),
            Work::Program(own) => {
                self.run_words(std::slice::from_ref(&own.matrix), &mut line);
                line.flag("program", &own.program.file);
                luggage::put_words(&own.luggage, &mut line);
            }
            Work::Many(matrices) => self.run_words(matrices, &mut line),
        }
        line.output(&self.output, words::OUT);
        if let Work::Program(Own { program, .. }) = &self.work {
            if !program.args.is_empty() {
                line.word("--");
                program.args.iter().for_each(|word| line.word(word));
            }
        }
        line.0
    }

    fn run_words(&self, matrices: &[Matrix], line: &mut Line) {
        line.word("run");
        if let [matrix] = matrices {
            matrix.put_words(line);
        }
        match &self.place {
            Place::Guest(spec) => spec.put_words(line),
            Place::Host { modes, program } => {
                line.flag("on", "host");
                line.list("mode", modes);
                line.maybe("workloads-program", program.as_ref());
            }
        }
        line.limit(self.limit);
    }
}

impl GuestSpec {
    pub fn put_words(&self, line: &mut Line) {
        self.kernels.put_words(line, USUAL);
        self.machine.put_words(line);
    }
}

impl Matrix {
    fn put_words(&self, line: &mut Line) {
        self.workloads.iter().for_each(|name| line.word(name));
        line.list("cpus", &self.vcpus);
        line.list("threads", self.threads.as_deref().unwrap_or_default());
        line.maybe("nodes", self.nodes.map(|nodes| nodes.to_string()));
        if self.cost {
            line.word("--cost");
        }
        if self.record {
            line.word("--record");
        }
        line.flag("repeats", self.repeats.to_string());
        line.maybe("boots", (self.boots != 1).then(|| self.boots.to_string()));
        line.flag("seed", self.seed.to_string());
        line.maybe("units", self.units.map(|units| units.to_string()));
        for (key, value) in &self.settings {
            line.flag("set", format!("{key}={value}"));
        }
    }
}

/// A limit of nothing is a mistake.
pub fn check_limit(limit: Option<Duration>) -> Result<()> {
    match limit {
        Some(limit) if limit.is_zero() => {
            Err(Error::usage("a time limit of 0 s stops every boot").remedy("choose --timeout 1 or more"))
        }
        _ => Ok(()),
    }
}
