// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C and its relatives: a flag that every wait looks at, so that what was begun is tidied away.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest time until a wait notices the flag.
pub const POLL: Duration = Duration::from_millis(50);

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| Arc::new(AtomicBool::new(false)))
}

/// Takes over SIGINT, SIGTERM and SIGHUP. A second signal only sets the flag again: tidying is never cut short.
pub fn install() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Under nohup a closed terminal must not end the work.
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        signal_hook::flag::register(signal, Arc::clone(flag()))
            .map_err(|error| Error::failed(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(())
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: a null new action makes sigaction() only report; `old` is plain data and valid for the call.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    }
}

pub fn requested() -> bool {
    flag().load(Ordering::Relaxed)
}

/// `Err(interrupted)` once a signal has come.
pub fn check() -> Result<()> {
    if requested() {
        return Err(Error::interrupted());
    }
    Ok(())
}

/// Waits, but not past a signal.
pub fn wait(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(POLL));
    }
}
