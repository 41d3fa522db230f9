// SPDX-License-Identifier: GPL-2.0-only
//! Writes a record frame by frame. What is written stays readable whatever happens next.

use crate::events::{Block, CHUNK};
use crate::limits::{stack_bytes, STACKS_MAX, STACK_BYTES_MAX};
use crate::{frame, End, Environment, Process, SCHEMA, VERSION};
use ceasefire_watch_model::{Bursts, Coverage, Shootdown, Snapshot, Stacks};
use serde::Serialize;
use std::collections::hash_map::{DefaultHasher, HashMap};
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};

/// Rows of each table in one frame: far below the largest payload.
const ROWS: usize = 400;
/// Bytes of stacks after which a frame is written.
const STACK_BYTES: usize = 1 << 20;

pub struct Writer<W: Write> {
    to: W,
    /// Up to here it can be read.
    whole_bytes: u64,
    /// Ids, and hashes of their frames: a name may come later.
    named: [HashMap<u32, u64>; 2],
    stack_bytes: usize,
    /// Stacks that a reader would have no room for.
    pub stacks_unnamed: u64,
    processes: HashSet<u32>,
    pub events: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut to: W, environment: &Environment) -> io::Result<Writer<W>> {
        let name = format!("{SCHEMA}/{VERSION}\n");
        to.write_all(name.as_bytes())?;
        let mut writer = Writer {
            to,
            whole_bytes: name.len() as u64,
            named: Default::default(),
            stack_bytes: 0,
            stacks_unnamed: 0,
            processes: HashSet::new(),
            events: 0,
        };
        writer.frame(frame::ENVIRONMENT, environment)?;
        Ok(writer)
    }

    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }

    fn frame(&mut self, tag: frame::Tag, content: &impl Serialize) -> io::Result<()> {
        let payload = serde_json::to_vec(content).map_err(io::Error::other)?;
        let bytes =
            frame::encode(tag, &payload).ok_or_else(|| io::Error::other("more than one frame can hold"))?;
        self.to.write_all(&bytes)?;
        self.whole_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Those that are not yet in the record. Before the rows that need them.
    pub fn stacks(&mut self, stacks: &Stacks) -> io::Result<()> {
        let mut some = Stacks::default();
        let mut bytes = 0;
        for (side, all) in [&stacks.kernel, &stacks.user].into_iter().enumerate() {
            for (id, frames) in all {
                if self.named[side].contains_key(id) {
                    continue;
                }
                self.named[side].insert(*id, hash(frames));
                let more = stack_bytes(frames);
                if self.stack_bytes + more > STACK_BYTES_MAX || self.named[side].len() > STACKS_MAX {
                    self.stacks_unnamed += 1;
                    continue;
                }
                self.stack_bytes += more;
                bytes += frames.iter().map(|frame| frame.len() + 3).sum::<usize>() + 16;
                let part = if side == 0 { &mut some.kernel } else { &mut some.user };
                part.insert(*id, frames.clone());
                if bytes > STACK_BYTES {
                    self.frame(frame::STACKS, &some)?;
                    (some, bytes) = (Stacks::default(), 0);
                }
            }
        }
        if bytes > 0 {
            self.frame(frame::STACKS, &some)?;
        }
        Ok(())
    }

    /// Names that came after the rows that need them. Once, at the end: it looks at every frame.
    pub fn later_names(&mut self, stacks: &Stacks) -> io::Result<()> {
        let named = &mut self.named[1];
        let is_news = |id: &u32, frames: &[String]| named.get(id).is_some_and(|was| *was != hash(frames));
        let news = stacks.user.iter().filter(|(id, frames)| is_news(id, frames));
        let user: BTreeMap<u32, Vec<String>> = news.map(|(id, frames)| (*id, frames.clone())).collect();
        named.retain(|id, _| !user.contains_key(id));
        self.stacks(&Stacks { user, ..Stacks::default() })
    }

    /// A difference of two snapshots, and the names of its stacks.
    pub fn window(&mut self, window: &Snapshot) -> io::Result<()> {
        self.stacks(&window.stacks)?;
        let mut from = 0;
        loop {
            let mut part = Snapshot {
                sites: part(&window.sites, from),
                senders: part(&window.senders, from),
                victims: part(&window.victims, from),
                pairs: part(&window.pairs, from),
                by_targets: part(&window.by_targets, from),
                ..window.head()
            };
            if from > 0 {
                // Counted once.
                (part.window_ns, part.coverage, part.bursts) = (0, Coverage::default(), Bursts::default());
            }
            self.frame(frame::WINDOW, &part)?;
            from += ROWS;
            let lengths =
                [window.sites.len(), window.senders.len(), window.victims.len(), window.pairs.len()];
            if lengths.into_iter().all(|length| length <= from) {
                return Ok(());
            }
        }
    }

    pub fn events(&mut self, events: &[Shootdown]) -> io::Result<()> {
        for chunk in events.chunks(CHUNK) {
            self.frame(frame::EVENTS, &Block::pack(chunk))?;
            self.events += chunk.len() as u64;
        }
        Ok(())
    }

    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    pub fn knows(&self, tgid: u32) -> bool {
        self.processes.contains(&tgid)
    }

    pub fn process(&mut self, process: &Process) -> io::Result<()> {
        self.processes.insert(process.tgid);
        self.frame(frame::PROCESSES, &[process])
    }

    pub fn end(&mut self, end: &End) -> io::Result<()> {
        self.frame(frame::END, end)
    }
}

fn part<T: Clone>(rows: &[T], from: usize) -> Vec<T> {
    rows.iter().skip(from).take(ROWS).cloned().collect()
}

fn hash(frames: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    frames.hash(&mut hasher);
    hasher.finish()
}
