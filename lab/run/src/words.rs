// SPDX-License-Identifier: GPL-2.0-only
//! Command lines in the making: words after the program's name, each quoted once, at the end.

use ceasefire_base::exec;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where results and logs go unless told otherwise.
pub const OUT: &str = "out";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub out: PathBuf,
    /// JSON on standard output in place of the table.
    pub json: bool,
}

impl Default for Output {
    fn default() -> Output {
        Output { out: OUT.into(), json: false }
    }
}

/// As a shell takes it.
pub fn shell(words: &[OsString]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| exec::quote(word)).collect();
    format!("ceasefire {}", quoted.join(" "))
}

#[derive(Default)]
pub struct Line(pub Vec<OsString>);

impl Line {
    pub fn word(&mut self, word: impl AsRef<OsStr>) {
        self.0.push(word.as_ref().into());
    }

    pub fn flag(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let value = value.as_ref();
        // Else it would be read as a flag of its own.
        if value.as_encoded_bytes().starts_with(b"-") {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            return self.0.push(word);
        }
        self.0.extend([format!("--{name}").into(), value.into()]);
    }

    pub fn maybe(&mut self, name: &str, value: Option<impl AsRef<OsStr>>) {
        if let Some(value) = value {
            self.flag(name, value);
        }
    }

    /// Nothing where the list is empty.
    pub fn list<T: ToString>(&mut self, name: &str, values: &[T]) {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(T::to_string).collect();
            self.flag(name, values.join(","));
        }
    }

    pub fn limit(&mut self, limit: Option<Duration>) {
        self.maybe("timeout", limit.map(|limit| limit.as_secs().to_string()));
    }

    pub fn output(&mut self, output: &Output, usual: &str) {
        if output.out != Path::new(usual) {
            self.flag("out", &output.out);
        }
        if output.json {
            self.word("--json");
        }
    }
}
