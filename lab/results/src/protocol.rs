// SPDX-License-Identifier: GPL-2.0-only
//! The guest's log: JSON Lines by the virtio port, a saved file, or a console with everything mixed in.
//!
//! Whatever comes, the parser neither fails nor grows without bound: what it cannot use it counts as a problem.

use crate::record::{self, Record, SelftestMark, SelftestState};
use ceasefire_base::{Error, Result};
use std::io::Read;

pub use crate::record::{Boot, Counters, Expect, GuestVerdict, Run, SelftestEnd, Unmeasured};

/// The protocol this version reads; a guest that says more was built by a newer ceasefire.
pub const PROTOCOL: u64 = 1;
/// No honest record comes near this; the rest of a longer line is dropped unread.
pub const LINE_BYTES_MAX: usize = 256 * 1024;
/// Records kept per kind and log: 64 vCPUs, every workload, and 100 repeats stay far below.
const RECORDS_MAX: usize = 65_536;
/// A guest command's output comes as these.
const LOG_LINES_MAX: usize = 100_000;
const PROBLEMS_MAX: usize = 50;
const OUTPUT_LINES_MAX: usize = 20;
const SENTENCE_CHARS_MAX: usize = 300;

/// How a log ended. Only `Complete` carries results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The guest's verdict is there and counts what the log holds.
    Complete,
    /// The log stops inside a record, or the verdict counts records that are missing.
    Truncated(String),
    /// The kernel complained; the text is its first complaint.
    Panic(String),
    /// The host's hard limit (seconds, where known) ended the guest.
    TimedOut(Option<u64>),
    /// Whole records, but no verdict: the guest or the emulator died early.
    NoVerdict,
    /// Not one readable record.
    Garbage,
    /// A protocol newer than [`PROTOCOL`].
    NewerProtocol(u64),
}

impl Outcome {
    pub fn is_complete(&self) -> bool {
        *self == Outcome::Complete
    }

    pub fn sentence(&self) -> String {
        match self {
            Outcome::Complete => "the guest finished and gave its verdict".into(),
            Outcome::Truncated(why) => format!("the log is cut short: {why}"),
            Outcome::Panic(text) => format!("the guest's kernel complained: {text}"),
            Outcome::TimedOut(Some(seconds)) => {
                format!("the guest was stopped after {seconds} s, its hard time limit")
            }
            Outcome::TimedOut(None) => "the guest was stopped at its hard time limit".into(),
            Outcome::NoVerdict => "the guest ended without a verdict, so nothing it counted is used".into(),
            Outcome::Garbage => "the log holds no record of the guest protocol".into(),
            Outcome::NewerProtocol(found) => format!(
                "the log speaks protocol {found} and this version reads up to {PROTOCOL}: use a newer ceasefire"
            ),
        }
    }
}

/// One of the kernel's own tests: its words, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selftest {
    pub name: String,
    pub lines: Vec<String>,
    /// None: the log ends while it runs.
    pub end: Option<SelftestEnd>,
}

/// Everything one boot (or one run on a host) said.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestLog {
    pub boot: Option<Boot>,
    pub runs: Vec<Run>,
    pub skips: Vec<Unmeasured>,
    pub fails: Vec<Unmeasured>,
    pub selftests: Vec<Selftest>,
    /// The guest's own words, for the verbose user.
    pub log: Vec<String>,
    pub verdict: Option<GuestVerdict>,
    /// One sentence for each thing that had to be skipped; the last says how many more there were.
    pub problems: Vec<String>,
    pub outcome: Outcome,
}

impl GuestLog {
    /// Complete, and the guest itself calls it a success.
    pub fn is_success(&self) -> bool {
        self.outcome.is_complete() && self.verdict.is_some_and(|verdict| verdict.ok)
    }

    /// `Ok` for a log whose figures may be used; fails of single rows are not judged here.
    pub fn usable(&self) -> Result<()> {
        if self.outcome.is_complete() {
            return Ok(());
        }
        let error = Error::failed(self.outcome.sentence());
        Err(match &self.outcome {
            Outcome::Panic(_) => {
                error.remedy("the whole complaint is in the console log beside the guest log")
            }
            Outcome::TimedOut(_) => {
                error.remedy("ask for fewer threads, repeats or units, or a longer --timeout")
            }
            Outcome::NewerProtocol(_) => error.remedy("rebuild: make tool"),
            _ => match self.problems.first() {
                Some(problem) => error.remedy(format!("first problem: {problem}")),
                None => error,
            },
        })
    }

    /// Says that the host's hard limit ended the guest; a panic seen before stays the cause.
    pub fn timed_out(&mut self, seconds: u64) {
        if !matches!(self.outcome, Outcome::Panic(_)) {
            self.outcome = Outcome::TimedOut(Some(seconds));
        }
    }

    /// Looks through a console log, which travels apart from the records, for the kernel's first complaint.
    pub fn add_console(&mut self, console: &[u8]) {
        if let Some(text) = first_complaint(console) {
            self.outcome = Outcome::Panic(text);
        }
    }

    /// On a host there is no guest to give a verdict: the exit of the workloads binary takes its place.
    pub fn end_on_host(&mut self, exit_code: Option<i32>) {
        if self.verdict.is_some() || matches!(self.outcome, Outcome::Truncated(_)) {
            return;
        }
        // 0 pass, 1 a row failed, 4 skipped: all three end a run in order.
        if matches!(exit_code, Some(0 | 1 | 4)) {
            self.verdict = Some(GuestVerdict {
                ok: self.fails.is_empty() && exit_code != Some(1),
                runs: self.runs.len() as u64,
                skips: self.skips.len() as u64,
                fails: self.fails.len() as u64,
            });
            if matches!(self.outcome, Outcome::NoVerdict) {
                self.outcome = Outcome::Complete;
            }
        }
    }
}

/// Reads a whole log in memory.
pub fn parse_log(bytes: &[u8]) -> GuestLog {
    let mut parser = LogParser::new();
    parser.push(bytes);
    parser.finish()
}

/// Reads a log of any length in bounded memory.
pub fn read_log(mut reader: impl Read) -> std::io::Result<GuestLog> {
    let mut parser = LogParser::new();
    let mut buffer = [0u8; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(parser.finish()),
            Ok(length) => parser.push(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes a log in pieces of any size, so that a supervisor can watch it while the guest runs.
#[derive(Debug)]
pub struct LogParser {
    line: Vec<u8>,
    line_number: u64,
    /// The rest of an over-long line is being dropped.
    is_dropping: bool,
    complaint: Option<String>,
    timeout: Option<Option<u64>>,
    newer_protocol: Option<u64>,
    broken_end: Option<String>,
    dropped_records: u64,
    problems_unsaid: u64,
    log: GuestLog,
}

impl Default for LogParser {
    fn default() -> Self {
        Self::new()
    }
}

impl LogParser {
    pub fn new() -> Self {
        LogParser {
            line: Vec::new(),
            line_number: 0,
            is_dropping: false,
            complaint: None,
            timeout: None,
            newer_protocol: None,
            broken_end: None,
            dropped_records: 0,
            problems_unsaid: 0,
            log: GuestLog {
                boot: None,
                runs: Vec::new(),
                skips: Vec::new(),
                fails: Vec::new(),
                selftests: Vec::new(),
                log: Vec::new(),
                verdict: None,
                problems: Vec::new(),
                outcome: Outcome::NoVerdict,
            },
        }
    }

    /// What has been understood so far; its outcome is only set by [`LogParser::finish`].
    pub fn so_far(&self) -> &GuestLog {
        &self.log
    }

    /// The verdict has arrived: nothing more is to be waited for.
    pub fn has_verdict(&self) -> bool {
        self.log.verdict.is_some()
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            self.extend_line(piece);
            match end {
                Some(end) => {
                    self.end_line(true);
                    bytes = &bytes[end + 1..];
                }
                None => return,
            }
        }
    }

    fn extend_line(&mut self, piece: &[u8]) {
        if self.is_dropping {
            return;
        }
        if self.line.len() + piece.len() > LINE_BYTES_MAX {
            self.is_dropping = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self, is_whole: bool) {
        self.line_number += 1;
        if std::mem::take(&mut self.is_dropping) {
            self.problem(format!(
                "line {} is longer than {} KiB and was dropped",
                self.line_number,
                LINE_BYTES_MAX / 1024
            ));
            return;
        }
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, is_whole);
        // Keep the allocation of ordinary lines.
        self.line = line;
        self.line.clear();
    }

    fn take_line(&mut self, line: &[u8], is_whole: bool) {
        let text = String::from_utf8_lossy(line);
        // A record may share its line with console output: start where it starts.
        let Some(start) = text.find("{\"kind\"") else {
            if self.complaint.is_none() {
                self.complaint = complaint(&text);
            }
            if !is_whole && text.trim_start().starts_with('{') {
                self.broken_end = Some(format!("line {} is half a record", self.line_number));
            }
            return;
        };
        match record::read(&text[start..]) {
            Ok(record) => self.take_record(record),
            Err(error) if !is_whole && error.is_eof() => {
                self.broken_end = Some(format!("line {} is half a record", self.line_number));
            }
            Err(error) => {
                let why = strip_position(&error.to_string());
                self.problem(format!("line {} is not a usable record: {why}", self.line_number));
            }
        }
    }

    fn take_record(&mut self, record: Record) {
        if self.log.verdict.is_some() && !matches!(record, Record::Timeout(_)) {
            self.problem(format!("line {} comes after the verdict and was ignored", self.line_number));
            return;
        }
        let is_full = self.log.runs.len().max(self.log.skips.len()).max(self.log.fails.len()) >= RECORDS_MAX;
        if is_full && matches!(record, Record::Run(_) | Record::Skip(_) | Record::Fail(_)) {
            self.dropped_records += 1;
            return;
        }
        match record {
            Record::Boot(mut boot) => {
                boot.release = cut(&boot.release);
                boot.mode = boot.mode.map(|mode| cut(&mode));
                boot.cpu_flags = boot.cpu_flags.map(|flags| printable(&flags));
                if boot.protocol > PROTOCOL {
                    self.newer_protocol = Some(boot.protocol);
                }
                if self.log.boot.is_some() {
                    self.problem(format!(
                        "line {} is a second boot in one log and was ignored",
                        self.line_number
                    ));
                } else {
                    self.log.boot = Some(boot);
                }
            }
            Record::Run(mut run) => {
                run.workload = cut(&run.workload);
                run.unit = cut(&run.unit);
                run.checksum = cut(&run.checksum);
                if run.units == 0 {
                    self.problem(format!(
                        "line {}: {} at {} threads did no work, so nothing can be divided by it",
                        self.line_number, run.workload, run.threads
                    ));
                }
                self.log.runs.push(*run);
            }
            Record::Skip(skip) => self.log.skips.push(clean_unmeasured(skip)),
            Record::Fail(fail) => self.log.fails.push(clean_unmeasured(fail)),
            Record::Log(text) => {
                if self.log.log.len() < LOG_LINES_MAX {
                    let text = printable(&text);
                    if let Some(test) = self.log.selftests.last_mut().filter(|test| test.end.is_none()) {
                        test.lines.push(text.clone());
                    }
                    self.log.log.push(text);
                }
            }
            Record::Selftest(mark) => self.take_selftest(mark),
            Record::Verdict(verdict) => self.log.verdict = Some(verdict),
            Record::Timeout(seconds) => self.timeout = Some(seconds),
            Record::Unknown(kind) => {
                let line = self.line_number;
                self.problem(format!(
                    "line {line} is of a kind this version does not know: '{}'",
                    cut(&kind)
                ));
            }
        }
    }

    fn take_selftest(&mut self, mark: SelftestMark) {
        let is_full = self.log.selftests.len() >= RECORDS_MAX;
        let running = self.log.selftests.last_mut().filter(|test| test.end.is_none());
        match (mark.state, running) {
            (SelftestState::Begin, None) if !is_full => {
                let name = cut(&mark.name);
                self.log.selftests.push(Selftest { name, lines: Vec::new(), end: None });
            }
            (SelftestState::End(end), Some(test)) if test.name == mark.name => test.end = Some(end),
            _ => self.problem(format!(
                "line {}: begin and end of the test {} do not match",
                self.line_number, mark.name
            )),
        }
    }

    fn problem(&mut self, sentence: String) {
        if self.log.problems.len() < PROBLEMS_MAX {
            self.log.problems.push(cut(&sentence));
        } else {
            self.problems_unsaid += 1;
        }
    }

    pub fn finish(mut self) -> GuestLog {
        if !self.line.is_empty() || self.is_dropping {
            self.end_line(false);
        }
        if self.problems_unsaid > 0 {
            let unsaid = self.problems_unsaid;
            self.log.problems.push(format!("and {unsaid} more problems of this sort"));
        }
        self.log.outcome = self.outcome();
        self.log
    }

    fn outcome(&mut self) -> Outcome {
        let log = &self.log;
        let is_empty = log.boot.is_none()
            && log.runs.is_empty()
            && log.skips.is_empty()
            && log.fails.is_empty()
            && log.selftests.is_empty();
        if let Some(text) = self.complaint.take() {
            return Outcome::Panic(text);
        }
        if let Some(found) = self.newer_protocol {
            return Outcome::NewerProtocol(found);
        }
        if let Some(seconds) = self.timeout {
            return Outcome::TimedOut(seconds);
        }
        if let Some(verdict) = log.verdict {
            if self.dropped_records > 0 {
                return Outcome::Truncated(format!("{} records were too many to keep", self.dropped_records));
            }
            for (what, said, held) in [
                ("runs", verdict.runs, log.runs.len()),
                ("skips", verdict.skips, log.skips.len()),
                ("fails", verdict.fails, log.fails.len()),
            ] {
                if said != held as u64 {
                    return Outcome::Truncated(format!(
                        "the verdict counts {said} {what}, the log holds {held}"
                    ));
                }
            }
            return Outcome::Complete;
        }
        if let Some(why) = self.broken_end.take() {
            return Outcome::Truncated(why);
        }
        if is_empty {
            Outcome::Garbage
        } else {
            Outcome::NoVerdict
        }
    }
}

/// The kernel's first complaint in a console log, if there is one.
pub fn first_complaint(console: &[u8]) -> Option<String> {
    console
        .split(|&byte| byte == b'\n')
        .find_map(|line| complaint(&String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)])))
}

/// Whether one console line is the kernel's complaint. Programs may say "warning" as they like:
/// apart from a panic, the words count only where the kernel puts them, at the start of a message.
fn complaint(line: &str) -> Option<String> {
    let message = strip_printk_prefix(line);
    let is_complaint = message.contains("Kernel panic")
        || ["WARNING:", "BUG:", "watchdog: BUG:", "Oops:", "Oops ", "kernel BUG at", "Internal error: Oops"]
            .iter()
            .any(|start| message.starts_with(start));
    is_complaint.then(|| cut(message.trim()))
}

/// Removes `<4>`, `[    1.234567]` and `[  T123]` from the front.
fn strip_printk_prefix(line: &str) -> &str {
    let mut rest = line.trim_start_matches(['\r', ' ', '\0']);
    for _ in 0..3 {
        let close = match rest.as_bytes().first() {
            Some(b'<') => '>',
            Some(b'[') => ']',
            _ => break,
        };
        // A prefix is short; a bracket anywhere later belongs to the message.
        match rest.char_indices().take(24).find(|&(_, c)| c == close) {
            Some((end, _)) => rest = rest[end + 1..].trim_start(),
            None => break,
        }
    }
    rest
}

/// One line, no control characters, no more than a sentence's length: it may end up in a terminal.
fn cut(text: &str) -> String {
    let mut kept: String =
        text.chars().take(SENTENCE_CHARS_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(SENTENCE_CHARS_MAX).is_some() {
        kept.push('…');
    }
    kept
}

/// A line of a guest command: whole, its tabs kept, nothing that moves a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

fn clean_unmeasured(entry: Unmeasured) -> Unmeasured {
    let output = entry.output.iter().take(OUTPUT_LINES_MAX).map(|line| cut(line)).collect();
    Unmeasured { workload: cut(&entry.workload), reason: cut(&entry.reason), output, ..entry }
}

/// serde_json's "at line 1 column N" counts inside our one line: only the column means something.
fn strip_position(message: &str) -> String {
    message.replace(" at line 1 column ", " at column ")
}
