// SPDX-License-Identifier: GPL-2.0-only
//! One at a time, by a file that each has open.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// A child has all that its parent had open until it runs its own program: so long a lock outlives who took it.
pub const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the file until it is closed. False where another has it, and keeps it for that long; an error where the file
/// system has no locks.
pub fn take(file: &File, patience: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        // SAFETY: a descriptor that is open for the call.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock if begun.elapsed() >= patience => return Ok(false),
            io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lets_go_soon_is_waited_for_and_who_keeps_it_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lock");
        let open = || File::create(&path).expect("opened");
        let (first, second) = (open(), open());
        assert!(take(&first, Duration::ZERO).expect("locks"));
        assert!(!take(&second, 4 * PAUSE).expect("locks"));
        let other = std::thread::spawn(move || {
            std::thread::sleep(4 * PAUSE);
            drop(first);
        });
        assert!(take(&second, 60 * PATIENCE).expect("locks"));
        other.join().expect("ended");
    }
}
