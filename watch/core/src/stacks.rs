// SPDX-License-Identifier: GPL-2.0-only
//! Stack ids to names. An id keeps its frames for as long as the probes are loaded, so each is named once.

use crate::maps;
use crate::user::{pause_after, Processes};
use ceasefire_base::Result;
use ceasefire_watch_model::symbols::{stem, Symbols};
use ceasefire_watch_model::Stacks;
use libbpf_rs::MapHandle;
use std::collections::HashMap;
use std::time::Instant;

/// A probe's own frames are among so many.
const PROBE_FRAMES: usize = 6;
/// Ids of the probes' table are below.
const USER_STACKS_MAX: u32 = 16_384;
/// Stacks by what lay on top of them; a program may put there what it likes.
const NAMED_MAX: usize = 2 * USER_STACKS_MAX as usize;

pub struct Namer {
    symbols: Symbols,
    processes: Processes,
    kernel: MapHandle,
    user: MapHandle,
    /// By stack, and what lay on top of it.
    named: HashMap<(u32, u64), Named>,
    pub known: Stacks,
}

impl Namer {
    /// `inlined`: user frames from debug information as well.
    pub fn new(symbols: Symbols, kernel: MapHandle, user: MapHandle, inlined: bool) -> Namer {
        let (processes, known) = (Processes::new(inlined), Stacks::default());
        Namer { symbols, processes, kernel, user, named: HashMap::new(), known }
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

    /// The id of a user stack, if there is one; its frames are known then. `top`: what lay on top of it.
    pub fn user(&mut self, id: i32, top: u64, tgid: u32) -> Result<Option<u32>> {
        let Ok(stack) = u32::try_from(id) else { return Ok(None) };
        let is_known = self.named.contains_key(&(stack, top));
        let top = if is_known || self.named.len() < NAMED_MAX { top } else { 0 };
        let before = self.named.get(&(stack, top));
        if let Some(named) = before.filter(|named| !named.is_due()) {
            return Ok(Some(named.id));
        }
        let mut frames = self.processes.frames(tgid, &maps::stack(&self.user, stack)?, top);
        // Its id is that of all tops of this stack: whose caller it would be is not told.
        if frames.has_top && before.is_some_and(|before| before.id == stack) {
            frames.names.remove(1);
        }
        // One stack with several callers of a thin call stands for several.
        let new_id = match frames.has_top {
            true => USER_STACKS_MAX + self.named.len() as u32,
            false => stack,
        };
        // A process that has ended meanwhile has fewer names than it had.
        let is_better = before.map_or(true, |before| frames.named > before.named);
        let (id, tries) = before.map_or((new_id, 0), |before| (before.id, before.tries + 1));
        let best = if is_better { frames.named } else { before.map_or(0, |before| before.named) };
        let named = Named { id, bare: frames.bare, named: best, at: Instant::now(), tries };
        if is_better {
            self.known.user.insert(named.id, frames.names.concat());
        }
        let id = named.id;
        self.named.insert((stack, top), named);
        Ok(Some(id))
    }
}

/// A user stack whose frames were looked for.
struct Named {
    id: u32,
    /// Frames that may get a name yet.
    bare: usize,
    /// Frames that had one when they had most.
    named: usize,
    at: Instant,
    tries: u32,
}

impl Named {
    fn is_due(&self) -> bool {
        self.bare > 0 && self.at.elapsed() >= pause_after(self.tries)
    }
}
