// SPDX-License-Identifier: GPL-2.0-only
//! The file under a record: a hidden one beside it until it is whole, and always readable.

use crate::{End, Environment, Process, Writer};
use ceasefire_base::{disk, Error, Result};
use ceasefire_watch_model::{Shootdown, Snapshot, Stacks};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{fchown, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Given its name when it is finished or dropped; then it holds all that was written before. One that holds nothing
/// yet replaces nothing.
pub struct Recording {
    path: PathBuf,
    temporary: PathBuf,
    writer: Writer<File>,
    /// Bytes after which recording stops.
    bytes_max: u64,
    /// Of its head, which is no content.
    head_bytes: u64,
    is_named: bool,
}

impl Recording {
    pub fn create(path: &Path, environment: &Environment, bytes_max: u64) -> Result<Recording> {
        let path = match fs::metadata(path) {
            Ok(is) if !is.is_file() => {
                return Err(Error::usage(format!("{} is no ordinary file", path.display()))
                    .remedy("name another file after -o"));
            }
            // The file a link leads to is replaced, not the link.
            Ok(_) => fs::canonicalize(path).map_err(|error| disk::error("find", path, &error))?,
            Err(_) => path.to_path_buf(),
        };
        let Some(name) = path.file_name() else {
            return Err(
                Error::usage(format!("{} names no file", path.display())).remedy("name a file after -o")
            );
        };
        let temporary =
            path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        let _ = fs::remove_file(&temporary);
        // Command lines and addresses are the owner's.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let file = file.map_err(|error| not_created(&path, &error))?;
        give_to_caller(&file);
        let writer = Writer::new(file, environment).map_err(|error| {
            let _ = fs::remove_file(&temporary);
            unwritten(&path, &error)
        })?;
        let head_bytes = writer.whole_bytes();
        Ok(Recording { path, temporary, writer, bytes_max, head_bytes, is_named: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> u64 {
        self.writer.whole_bytes()
    }

    pub fn events_written(&self) -> u64 {
        self.writer.events
    }

    pub fn stacks_unnamed(&self) -> u64 {
        self.writer.stacks_unnamed
    }

    /// No more than was asked for.
    pub fn is_full(&self) -> bool {
        self.writer.whole_bytes() >= self.bytes_max
    }

    pub fn processes(&self) -> usize {
        self.writer.processes()
    }

    pub fn knows(&self, tgid: u32) -> bool {
        self.writer.knows(tgid)
    }

    pub fn window(&mut self, window: &Snapshot) -> Result<()> {
        self.write(|writer| writer.window(window))
    }

    pub fn events(&mut self, events: &[Shootdown], stacks: &Stacks) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.write(|writer| {
            writer.stacks(stacks)?;
            writer.events(events)
        })
    }

    pub fn later_names(&mut self, stacks: &Stacks) -> Result<()> {
        self.write(|writer| writer.later_names(stacks))
    }

    pub fn process(&mut self, process: &Process) -> Result<()> {
        self.write(|writer| writer.process(process))
    }

    /// Its end, then its name.
    pub fn finish(mut self, end: &End) -> Result<()> {
        self.write(|writer| writer.end(end))?;
        self.name()
    }

    fn write(&mut self, part: impl FnOnce(&mut Writer<File>) -> io::Result<()>) -> Result<()> {
        let error = match part(&mut self.writer) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // The whole frames stay, and what the broken one took may hold the end.
        let whole_bytes = self.writer.whole_bytes();
        let is_empty = whole_bytes <= self.head_bytes;
        let file = self.writer.get_mut();
        if !is_empty && file.set_len(whole_bytes).is_ok() && file.seek(SeekFrom::Start(whole_bytes)).is_ok() {
            let why = format!("it could not be written any further: {}", disk::reason(&error));
            let _ = self.writer.end(&End { reason: why, ..End::default() });
        }
        self.name()?;
        Err(unwritten(&self.path, &error))
    }

    fn name(&mut self) -> Result<()> {
        if self.is_named {
            return Ok(());
        }
        self.is_named = true;
        if self.writer.whole_bytes() <= self.head_bytes {
            let _ = fs::remove_file(&self.temporary);
            return Ok(());
        }
        let file = self.writer.get_mut();
        let _ = file.flush().and_then(|()| file.sync_all());
        fs::rename(&self.temporary, &self.path).map_err(|error| {
            disk::error("write", &self.path, &error)
                .remedy(format!("what was recorded is in {}", self.temporary.display()))
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.name();
    }
}

fn not_created(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            Error::usage(format!("cannot write {}: its directory does not exist", path.display()))
                .remedy("make the directory, or name another file after -o")
        }
        _ => unwritten(path, error),
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Error {
    let sentence = format!("cannot write {}: {}", path.display(), disk::reason(error));
    Error::failed(sentence).remedy(if disk::is_full(error) {
        "what was recorded before is kept; free space, or name a file on another disk after -o"
    } else {
        "name another file after -o"
    })
}

/// Under sudo the record belongs to whoever asked for it.
fn give_to_caller(file: &File) {
    let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if let (Some(user), Some(group)) = (id("SUDO_UID"), id("SUDO_GID")) {
        let _ = fchown(file, Some(user), Some(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ceasefire-record-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("made");
        path
    }

    #[test]
    fn a_recording_is_there_at_once_or_not_at_all() {
        let dir = scratch("atomic");
        let path = dir.join("a.record");
        fs::write(&path, "older").expect("written");
        let environment = Environment::default();
        drop(Recording::create(&path, &environment, 1 << 20).expect("created"));
        assert_eq!(fs::read(&path).expect("there"), b"older");
        let mut recording = Recording::create(&path, &environment, 1 << 20).expect("created");
        recording.window(&Snapshot::default()).expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"older");
        drop(recording);
        let bytes = fs::read(&path).expect("there");
        let mut reader = crate::Reader::new(&bytes[..]).expect("a record");
        assert!(matches!(reader.next_item(), Ok(Some(crate::Item::Window(_)))));
        assert!(matches!(reader.next_item(), Err(crate::Error::Cut(_))));
        assert_eq!(fs::read_dir(&dir).expect("there").count(), 1);
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        for path in ["/dev/null", "/"] {
            let error =
                Recording::create(Path::new(path), &Environment::default(), 1).err().expect("refused");
            assert_eq!(error.kind, ceasefire_base::Kind::Usage);
        }
    }
}
