// SPDX-License-Identifier: GPL-2.0-only
//! What the preload library is asked to do.

/// The variable that names the modes, with commas between.
pub const MODES_VARIABLE: &str = "CEASEFIRE_DETER";

/// The variable that names the file of a [`crate::Stop`].
pub const STOP_VARIABLE: &str = "CEASEFIRE_DETER_STOP";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `malloc_trim` gives nothing back, and says so.
    Trim,
    /// MADV_FREE, MADV_COLD and MADV_PAGEOUT are answered.
    Free,
    /// MADV_DONTNEED writes zeros.
    Zero,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Trim, Mode::Free, Mode::Zero];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Trim => "trim",
            Mode::Free => "free",
            Mode::Zero => "zero",
        }
    }

    /// Whether a correct program can notice more than how much memory it has: then it is only done where asked for.
    pub fn is_loose(self) -> bool {
        self == Mode::Zero
    }

    /// What to print before use.
    pub fn risks(self) -> &'static [&'static str] {
        match self {
            Mode::Trim => &["memory that the program freed stays with it: it may need more"],
            Mode::Free => &[
                "memory that the program offered to give back stays with it, under memory pressure, too",
                "smaps and its like never show that memory as lazily freed, cold or paged out",
            ],
            Mode::Zero => &[
                "zeroing is not atomic: a thread that writes at the same moment can see half of a page zeroed",
                "data still on its way out of that memory (vmsplice, MSG_ZEROCOPY, O_DIRECT, io_uring) is zeroed, too",
                "a program that maps through libc, and unmaps or remaps by inline system calls, can lose data or crash",
                "memory that the program dropped stays with it: mincore and smaps show it, and so does a memory limit",
                "pages stay where they are: on their NUMA node, in their huge page, and under a device that writes to them",
                "a program whose seccomp filter was there before its start may be killed for mincore",
            ],
        }
    }
}

/// The value of [`MODES_VARIABLE`]. The sentence of an error says what is missing.
pub fn setting(modes: &[Mode], loose: bool) -> Result<String, String> {
    if let Some(mode) = modes.iter().find(|mode| mode.is_loose() && !loose) {
        return Err(format!("a program can notice '{}', so it must be asked for: --loose", mode.name()));
    }
    let mut words: Vec<&str> =
        Mode::ALL.iter().filter(|mode| modes.contains(mode)).map(|mode| mode.name()).collect();
    if loose {
        words.push("loose");
    }
    Ok(words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_can_notice_is_asked_for() {
        assert_eq!(setting(&[Mode::Free, Mode::Trim], false).as_deref(), Ok("trim,free"));
        assert_eq!(setting(&[Mode::Zero], true).as_deref(), Ok("zero,loose"));
        assert!(setting(&[Mode::Zero], false).is_err_and(|why| why.contains("--loose")));
        assert!(Mode::ALL.iter().all(|mode| !mode.risks().is_empty()));
    }
}
