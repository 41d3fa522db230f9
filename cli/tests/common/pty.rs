// SPDX-License-Identifier: GPL-2.0-only
//! A program on a terminal of our own: keys in, the screen out.
#![allow(dead_code)] // each test file uses its own part

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for anything: the machine may have much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Pty {
    child: Child,
    /// Ours; the program has the other end.
    master: File,
    /// Kept open, so that its settings can be read when the program has ended.
    slave: OwnedFd,
    before: Settings,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

struct Seen {
    screen: vt100::Parser,
    bytes: Vec<u8>,
}

/// What raw mode changes.
pub type Settings = (u32, u32, u32, u32);

pub struct End {
    /// 128 and the signal, as a shell says it.
    pub code: i32,
    pub bytes: Vec<u8>,
    pub is_restored: bool,
    pub screen: String,
    pub is_alternate: bool,
    pub is_cursor_hidden: bool,
}

fn size(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn settings(terminal: &OwnedFd) -> Settings {
    // SAFETY: termios is plain data, and tcgetattr() fills it.
    unsafe {
        let mut found: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut found), 0);
        (found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag)
    }
}

impl Pty {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn spawn(command: &mut Command, columns: u16, rows: u16) -> Pty {
        let (mut master, mut slave) = (0, 0);
        // SAFETY: openpty() fills two numbers; name and settings may be null; it only reads the size.
        let code = unsafe {
            libc::openpty(
                &mut master,
                &mut slave,
                std::ptr::null_mut(),
                std::ptr::null(),
                &size(columns, rows),
            )
        };
        assert_eq!(code, 0, "a terminal: {}", std::io::Error::last_os_error());
        // SAFETY: descriptors that were just opened and that nobody else holds.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end());
        let ours = master.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made; the terminal becomes the new session's own.
        unsafe {
            command.pre_exec(move || {
                libc::close(ours);
                // A new terminal's; the tests themselves may run under nohup.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let before = settings(&slave);
        let child = command.spawn().expect("the program starts");
        let seen =
            Arc::new(Mutex::new(Seen { screen: vt100::Parser::new(rows, columns, 0), bytes: Vec::new() }));
        let (mut reader, shared) = (master.try_clone().expect("a descriptor"), Arc::clone(&seen));
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while !stop.load(Ordering::SeqCst) {
                let mut wait = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one descriptor, which is ours.
                if unsafe { libc::poll(&mut wait, 1, 50) } <= 0 {
                    continue;
                }
                let Ok(length @ 1..) = reader.read(&mut buffer) else { return };
                let mut seen = shared.lock().expect("no panic there");
                seen.screen.process(&buffer[..length]);
                seen.bytes.extend(&buffer[..length]);
            }
        });
        Pty { child, master, slave, before, seen, reader: Some(reader), is_over }
    }

    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.seen.lock().expect("no panic there").screen.set_size(rows, columns);
        // SAFETY: TIOCSWINSZ reads the size and tells the program.
        let code = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size(columns, rows)) };
        assert_eq!(code, 0);
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill() takes numbers; the child has not been waited for, so its id is its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub fn screen(&self) -> String {
        self.seen.lock().expect("no panic there").screen.screen().contents()
    }

    /// The screen, once it is as wanted.
    pub fn wait(&mut self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("waiting for {what}, it ended with {status}; the screen:\n{}", self.screen());
            }
            assert!(Instant::now() < end, "no {what} on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Closes our end, as a terminal's window does, and waits for the program's end.
    pub fn hang_up(mut self) -> i32 {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic there");
        }
        self.master = File::open("/dev/null").expect("a descriptor");
        let end = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().expect("our child") {
                Some(status) => return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
                None => assert!(Instant::now() < end, "it outlives its terminal"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn end(mut self) -> End {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("our child") {
                Some(status) => break status,
                None => assert!(Instant::now() < end, "it does not end; the screen:\n{}", self.screen()),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        // What it wrote last may still be on its way to the reader.
        std::thread::sleep(Duration::from_millis(200));
        let seen = self.seen.lock().expect("no panic there");
        End {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            bytes: seen.bytes.clone(),
            is_restored: settings(&self.slave) == self.before,
            screen: seen.screen.screen().contents(),
            is_alternate: seen.screen.screen().alternate_screen(),
            is_cursor_hidden: seen.screen.screen().hide_cursor(),
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
