// SPDX-License-Identifier: GPL-2.0-only
//! Reads a record, trusting nothing in it.

use crate::clean::{self, Clean};
use crate::error::{Error, Result};
use crate::events::Block;
use crate::limits::{stack_bytes, PROCESSES_MAX, ROWS_MAX, SITES_MAX, STACKS_MAX, STACK_BYTES_MAX};
use crate::{frame, End, Environment, Process, SCHEMA, VERSION};
use ceasefire_watch_model::{Shootdown, Snapshot, Stacks, Sum};
use serde::de::DeserializeOwned;
use std::io::Read;

/// What a record is made of, in its order.
#[derive(Debug)]
pub enum Item {
    /// A window or a part of one, without stacks.
    Window(Box<Snapshot>),
    Events(Vec<Shootdown>),
}

pub struct Reader<R: Read> {
    source: R,
    at: u64,
    pub environment: Environment,
    /// Those named so far.
    pub stacks: Stacks,
    stack_bytes: usize,
    pub processes: Vec<Process>,
    pub end: Option<End>,
    /// All windows so far.
    pub sum: Sum,
}

impl<R: Read> Reader<R> {
    /// Reads up to the environment.
    pub fn new(mut source: R) -> Result<Reader<R>> {
        let mut at = version(&mut source)?;
        let Some((tag, payload)) = frame::decode(&mut source, at)? else { return Err(Error::Cut(at)) };
        if tag != frame::ENVIRONMENT {
            return Err(Error::damaged(at, "it does not begin with its environment"));
        }
        let mut environment: Environment = parse(&payload, at)?;
        environment.clean();
        at += frame_bytes(&payload);
        Ok(Reader {
            source,
            at,
            environment,
            stacks: Stacks::default(),
            stack_bytes: 0,
            processes: Vec::new(),
            end: None,
            sum: Sum::default(),
        })
    }

    /// The next window or events; None at a proper end. After an error, what came before it still stands.
    pub fn next_item(&mut self) -> Result<Option<Item>> {
        loop {
            let at = self.at;
            let Some((tag, payload)) = frame::decode(&mut self.source, at)? else {
                return if self.end.is_some() { Ok(None) } else { Err(Error::Cut(at)) };
            };
            if self.end.is_some() {
                return Err(Error::damaged(at, "something follows its end"));
            }
            let item = self.take(tag, &payload)?;
            self.at += frame_bytes(&payload);
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    fn take(&mut self, tag: frame::Tag, payload: &[u8]) -> Result<Option<Item>> {
        let at = self.at;
        match tag {
            frame::ENVIRONMENT => return Err(Error::damaged(at, "a second environment")),
            frame::STACKS => self.add_stacks(parse(payload, at)?)?,
            frame::PROCESSES => {
                let mut processes: Vec<Process> = parse(payload, at)?;
                if self.processes.len() + processes.len() > PROCESSES_MAX {
                    return Err(Error::TooMuch("processes"));
                }
                processes.clean();
                self.processes.append(&mut processes);
            }
            frame::END => {
                let mut end: End = parse(payload, at)?;
                end.clean();
                self.end = Some(end);
            }
            frame::WINDOW => {
                let mut window: Snapshot = parse(payload, at)?;
                window.clean();
                window.stacks = Stacks::default();
                self.sum.add(window.clone());
                let is_long = self.sum.rows() > ROWS_MAX;
                if is_long && !self.sum.shrink(ROWS_MAX / 2) || self.sum.sites() > SITES_MAX {
                    return Err(Error::TooMuch("rows"));
                }
                return Ok(Some(Item::Window(Box::new(window))));
            }
            frame::EVENTS => {
                let block: Block = parse(payload, at)?;
                let events = block.unpack();
                let mut events =
                    events.ok_or_else(|| Error::damaged(at, "an event names what is not there"))?;
                events.clean();
                return Ok(Some(Item::Events(events)));
            }
            _ => {}
        }
        Ok(None)
    }

    fn add_stacks(&mut self, more: Stacks) -> Result<()> {
        for (mine, more) in [(&mut self.stacks.kernel, more.kernel), (&mut self.stacks.user, more.user)] {
            for (id, mut frames) in more {
                clean::frames(&mut frames);
                self.stack_bytes += stack_bytes(&frames);
                if self.stack_bytes > STACK_BYTES_MAX || (mine.len() >= STACKS_MAX && !mine.contains_key(&id))
                {
                    return Err(Error::TooMuch("stacks"));
                }
                mine.insert(id, frames);
            }
        }
        Ok(())
    }

    /// All windows so far, with the stacks named so far.
    pub fn whole(&self) -> Snapshot {
        self.sum.snapshot(self.stacks.clone())
    }
}

fn frame_bytes(payload: &[u8]) -> u64 {
    12 + payload.len() as u64
}

/// Name and version of the form; how many bytes they took.
fn version(source: &mut impl Read) -> Result<u64> {
    let name = frame::read(source, SCHEMA.len() + 1)?;
    let expected = [SCHEMA.as_bytes(), b"/"].concat();
    if name.is_empty() {
        return Err(Error::Empty);
    }
    if name != expected {
        return Err(if expected.starts_with(&name) { Error::Cut(0) } else { Error::NotARecord });
    }
    let mut number: u32 = 0;
    for place in 0..12 {
        let digit = frame::read(source, 1)?;
        match digit.first() {
            None => return Err(Error::Cut(0)),
            Some(b'\n') if place > 0 && number > VERSION => return Err(Error::Newer(number)),
            Some(b'\n') if place > 0 && number > 0 => return Ok(expected.len() as u64 + place + 1),
            Some(digit @ b'0'..=b'9') => {
                number = number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
            }
            Some(_) => return Err(Error::NotARecord),
        }
    }
    Err(Error::NotARecord)
}

/// serde_json bounds the depth of nesting.
fn parse<T: DeserializeOwned>(payload: &[u8], at: u64) -> Result<T> {
    serde_json::from_slice(payload).map_err(|error| {
        let mut why = error.to_string();
        why.clean();
        Error::damaged(at, format!("a frame cannot be understood ({why})"))
    })
}
