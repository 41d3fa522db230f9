// SPDX-License-Identifier: GPL-2.0-only
//! The threads that a window names.

use crate::stat;
use ceasefire_watch_model::Snapshot;
use std::collections::HashMap;

pub struct Names(HashMap<u32, String>);

impl Names {
    pub fn of(window: &Snapshot) -> Names {
        let senders = window.senders.iter().map(|sender| &sender.task);
        let tasks = senders.chain(window.victims.iter().map(|victim| &victim.task));
        Names(tasks.map(|task| (task.tid, stat::task(task))).collect())
    }

    pub fn known(&self, tid: u32) -> Option<&str> {
        self.0.get(&tid).map(String::as_str).or((tid == 0).then_some("idle"))
    }

    /// Its number where it has no name.
    pub fn get(&self, tid: u32) -> String {
        self.known(tid).map_or_else(|| tid.to_string(), str::to_string)
    }
}
