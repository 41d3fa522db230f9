// SPDX-License-Identifier: GPL-2.0-only
//! Strings of a record go to terminals: no control characters, no endless names.

use crate::limits::{FRAMES_MAX, STRING_MAX};
use crate::{End, Environment, Process};
use ceasefire_watch_model::histogram::BUCKETS;
use ceasefire_watch_model::{Cause, Coverage, Histogram, Shootdown, Snapshot, Task};

/// Things of a list that are looked at.
const LIST_MAX: usize = 256;

pub trait Clean {
    fn clean(&mut self);
}

impl Clean for String {
    fn clean(&mut self) {
        if self.len() > STRING_MAX {
            let end = (0..=STRING_MAX).rev().find(|end| self.is_char_boundary(*end)).unwrap_or(0);
            self.truncate(end);
        }
        // Also the marks that turn the direction of writing around.
        let is_bad = |c: char| {
            c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        if self.contains(is_bad) {
            *self = self.replace(is_bad, "?");
        }
        self.shrink_to_fit();
    }
}

impl<T: Clean> Clean for Vec<T> {
    fn clean(&mut self) {
        self.iter_mut().for_each(Clean::clean);
    }
}

impl<T: Clean> Clean for Option<T> {
    fn clean(&mut self) {
        self.iter_mut().for_each(Clean::clean);
    }
}

impl Clean for Cause {
    fn clean(&mut self) {
        if let Cause::Unknown(frame) | Cause::Call(frame) = self {
            frame.clean();
        }
    }
}

impl Clean for Task {
    fn clean(&mut self) {
        self.comm.clean();
    }
}

impl Clean for Histogram {
    fn clean(&mut self) {
        self.buckets.truncate(BUCKETS);
    }
}

impl Clean for Shootdown {
    fn clean(&mut self) {
        self.cause.clean();
        self.task.clean();
        if let Some((_, task)) = &mut self.slowest {
            task.clean();
        }
    }
}

impl Clean for Coverage {
    fn clean(&mut self) {
        self.classes.truncate(8);
        self.classes.iter_mut().for_each(|class| class.source.clean());
        self.overhead.programs.truncate(64);
        self.overhead.programs.iter_mut().for_each(|program| program.name.clean());
        self.blind.truncate(LIST_MAX);
        self.blind.clean();
    }
}

impl Clean for Snapshot {
    fn clean(&mut self) {
        self.schema.clean();
        self.kernel.clean();
        self.coverage.clean();
        for site in &mut self.sites {
            site.cause.clean();
            site.function.clean();
            for histogram in
                [&mut site.pages, &mut site.targets, &mut site.wait, &mut site.delivery, &mut site.handler]
            {
                histogram.clean();
            }
        }
        for sender in &mut self.senders {
            sender.cause.clean();
            sender.function.clean();
            sender.task.clean();
        }
        for victim in &mut self.victims {
            victim.task.clean();
            victim.stolen.clean();
        }
        self.by_targets.iter_mut().for_each(|row| row.wait.clean());
    }
}

impl Clean for Environment {
    fn clean(&mut self) {
        for text in [&mut self.ceasefire, &mut self.kernel, &mut self.machine, &mut self.cpu_model] {
            text.clean();
        }
        self.command.truncate(LIST_MAX);
        self.command.clean();
        self.filters.truncate(LIST_MAX);
        self.filters.clean();
        let settings = std::mem::take(&mut self.settings).into_iter().take(LIST_MAX);
        self.settings = settings
            .map(|(mut path, mut content)| {
                path.clean();
                content.clean();
                (path, content)
            })
            .collect();
    }
}

impl Clean for Process {
    fn clean(&mut self) {
        self.built_with.truncate(LIST_MAX);
        for built in &mut self.built_with {
            built.name.clean();
            built.variable.clean();
            built.version.clean();
        }
        self.runtimes.truncate(LIST_MAX);
        for runtime in &mut self.runtimes {
            runtime.name.clean();
            runtime.version.clean();
            runtime.detail.clean();
        }
        if let Some(limit) = &mut self.memory_limit {
            limit.path.clean();
        }
        self.comm.clean();
        self.cpus_allowed.clean();
        for list in [&mut self.command, &mut self.libraries, &mut self.variables] {
            list.truncate(LIST_MAX);
            list.clean();
        }
    }
}

impl Clean for End {
    fn clean(&mut self) {
        self.reason.clean();
        self.evidence.clean();
    }
}

pub fn frames(frames: &mut Vec<String>) {
    frames.truncate(FRAMES_MAX);
    frames.clean();
    frames.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_string_can_speak_to_a_terminal() {
        for (text, plain) in [
            ("munmap", "munmap"),
            ("\u{1b}[2Jgone", "?[2Jgone"),
            ("a\nb\r\u{7f}\u{9b}", "a?b???"),
            ("\u{202e}evil", "?evil"),
            ("größe", "größe"),
        ] {
            let mut cleaned = text.to_string();
            cleaned.clean();
            assert_eq!(cleaned, plain);
        }
        let mut long = "ä".repeat(STRING_MAX);
        long.clean();
        assert_eq!(long, "ä".repeat(STRING_MAX / 2));
    }
}
