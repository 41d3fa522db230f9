// SPDX-License-Identifier: GPL-2.0-only
//! Stack ids to names. An id keeps its frames for as long as the probes are loaded, so each is named once.

use crate::maps;
use ceasefire_base::Result;
use ceasefire_watch_model::symbols::{Mappings, Symbols};
use ceasefire_watch_model::Stacks;
use libbpf_rs::MapHandle;
use std::collections::HashMap;

/// Processes whose mappings are remembered; more are read again.
const PROCESSES_MAX: usize = 1024;

pub struct Namer {
    symbols: Symbols,
    kernel: MapHandle,
    user: MapHandle,
    processes: HashMap<u32, Mappings>,
    pub known: Stacks,
}

impl Namer {
    pub fn new(symbols: Symbols, kernel: MapHandle, user: MapHandle) -> Namer {
        Namer { symbols, kernel, user, processes: HashMap::new(), known: Stacks::default() }
    }

    /// Frames of a kernel stack, without those of the probe itself.
    pub fn kernel(&mut self, id: u32) -> Result<&[String]> {
        if !self.known.kernel.contains_key(&id) {
            let mut frames = self.symbols.frames(&maps::stack(&self.kernel, id)?);
            let is_probe = |frame: &String| {
                ["bpf_", "__bpf_", "__traceiter_", "0x"].iter().any(|stem| frame.starts_with(stem))
            };
            let first = frames.iter().position(|frame| !is_probe(frame)).unwrap_or(0);
            frames.drain(..first);
            self.known.kernel.insert(id, frames);
        }
        Ok(self.known.kernel.get(&id).map_or(&[], Vec::as_slice))
    }

    /// A process that has ended leaves bare addresses.
    pub fn user(&mut self, id: u32, tgid: u32) -> Result<()> {
        if self.known.user.contains_key(&id) {
            return Ok(());
        }
        let addresses = maps::stack(&self.user, id)?;
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        let mappings = self.processes.entry(tgid).or_insert_with(|| {
            Mappings::parse(&std::fs::read_to_string(format!("/proc/{tgid}/maps")).unwrap_or_default())
        });
        let frames = addresses.iter().map(|address| mappings.frame(*address)).collect();
        self.known.user.insert(id, frames);
        Ok(())
    }
}
