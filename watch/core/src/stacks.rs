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

/// A probe's own frames are among so many.
const PROBE_FRAMES: usize = 6;

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
            // Innermost is the probe, whose own address has no name; then what called it.
            let is_probe = |frame: &String| {
                ["bpf_trace_run", "__bpf_trace", "__traceiter_"].iter().any(|stem| frame.starts_with(stem))
            };
            let last = frames.iter().take(PROBE_FRAMES).rposition(is_probe);
            frames.drain(..last.map_or(0, |last| last + 1));
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
