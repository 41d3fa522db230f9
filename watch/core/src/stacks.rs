// SPDX-License-Identifier: GPL-2.0-only
//! Stack ids to names. An id keeps its frames for as long as the probes are loaded, so each is named once.

use crate::maps;
use crate::user::Processes;
use ceasefire_base::Result;
use ceasefire_watch_model::symbols::{stem, Symbols};
use ceasefire_watch_model::Stacks;
use libbpf_rs::MapHandle;

/// A probe's own frames are among so many.
const PROBE_FRAMES: usize = 6;

pub struct Namer {
    symbols: Symbols,
    processes: Processes,
    kernel: MapHandle,
    user: MapHandle,
    pub known: Stacks,
}

impl Namer {
    pub fn new(symbols: Symbols, kernel: MapHandle, user: MapHandle) -> Namer {
        Namer { symbols, processes: Processes::new(), kernel, user, known: Stacks::default() }
    }

    /// Of a call, by the lower half of its address: kernel code lies where the upper half is all ones.
    pub fn function(&self, low: u32) -> String {
        let address = u64::from(low) | 0xffff_ffff_0000_0000;
        self.symbols.name(address).map_or_else(|| format!("{address:#x}"), |name| stem(name).to_string())
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

    /// The id of a user stack, if there is one; its frames are known then.
    pub fn user(&mut self, id: i32, tgid: u32) -> Result<Option<u32>> {
        let Ok(id) = u32::try_from(id) else { return Ok(None) };
        if !self.known.user.contains_key(&id) {
            let frames = self.processes.frames(tgid, &maps::stack(&self.user, id)?);
            self.known.user.insert(id, frames);
        }
        Ok(Some(id))
    }
}
