// SPDX-License-Identifier: GPL-2.0-only
//! A kernel's modes are those of its mechanisms. Where several have some, a mode is one of each: `full+on`.

use crate::Mechanism;

/// Between the modes of two mechanisms in one kernel.
pub const SEPARATOR: char = '+';

/// What a kernel with these mechanisms can be set to, what it boots with first.
pub fn modes_of(mechanisms: &[Mechanism]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for own in mechanisms.iter().map(|mechanism| &mechanism.modes).filter(|modes| !modes.is_empty()) {
        all = match all.is_empty() {
            true => own.clone(),
            false => {
                let join = |first: String| own.iter().map(move |mode| format!("{first}{SEPARATOR}{mode}"));
                all.into_iter().flat_map(join).collect()
            }
        };
    }
    all
}

/// Each mechanism's part of a mode. Mechanisms without modes have none.
pub fn parts<'a>(mechanisms: &'a [Mechanism], mode: &'a str) -> Vec<(&'a Mechanism, &'a str)> {
    let with_modes = mechanisms.iter().filter(|mechanism| !mechanism.modes.is_empty());
    with_modes.zip(mode.split(SEPARATOR)).collect()
}

/// What chooses a mode on the kernel's command line.
pub fn boot_words(mechanisms: &[Mechanism], mode: &str) -> String {
    let word = |(mechanism, mode): &(&Mechanism, &str)| Some(format!("{}={mode}", mechanism.boot.as_ref()?));
    parts(mechanisms, mode).iter().filter_map(word).collect::<Vec<_>>().join(" ")
}
