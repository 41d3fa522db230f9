// SPDX-License-Identifier: GPL-2.0-only
//! Names of user addresses, from the symbol tables of what processes map, or from their debug information. The files are
//! any user's and are read as root: only ordinary ones, and nothing they hold makes a name long. One that is cut short
//! meanwhile ends us (SIGBUS), as it does its own process.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Sym, Symbolizer};
use ceasefire_watch_model::jit::JitNames;
use ceasefire_watch_model::thin::is_thin;
use ceasefire_watch_model::user::{Mapping, Mappings};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// Processes whose mappings and files are remembered; more are read again.
const PROCESSES_MAX: usize = 256;
/// Bytes of a function's name; the rest is dropped.
const NAME_MAX: usize = 256;
/// Functions inline in one another at one address; the innermost are told.
const INLINE_MAX: usize = 16;
/// Of a thin system call, from its function's start.
const THIN_BYTES_MAX: usize = 64;
/// Of a list of names that a program has written, and of all such names in memory.
const JIT_FILE_BYTES_MAX: u64 = 32 << 20;
const JIT_BYTES_MAX: usize = 12 << 20;
/// Between two looks at what a process maps, or has written, for an address that was not there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Looks in vain after which the time between two of them grows.
const TRIES: u32 = 20;

/// Until the next look, after so many in vain.
pub fn pause_after(tries: u32) -> Duration {
    LOOK_AGAIN * (1 << tries.saturating_sub(TRIES).min(10))
}

pub struct Processes {
    names: Names,
    of: HashMap<u32, Process>,
}

/// Where names are looked up.
struct Names {
    symbolizer: Symbolizer,
    /// Debug information is read as well, and tells what the compiler made inline.
    inlined: bool,
}

struct Process {
    mappings: Mappings,
    /// Its own number for itself: what it writes has that in its name.
    number: u32,
    jit: JitNames,
    /// Of the file that they are from.
    jit_stamp: Option<Stamp>,
    looked: Instant,
    /// Looks in vain.
    tries: u32,
}

/// Device, inode, size in bytes, and when it was written to.
type Stamp = (u64, u64, u64, i64, i64);

impl Processes {
    /// `inlined`: also what the compiler made inline, where there is debug information.
    pub fn new(inlined: bool) -> Processes {
        Processes { names: Names::new(inlined), of: HashMap::new() }
    }

    /// At what a process maps and has written, for the first time; or again, where that does not say all. Names have a bound.
    fn look(&mut self, tgid: u32, addresses: &[u64]) {
        if let Some(process) = self.of.get_mut(&tgid) {
            // What follows data is no frame.
            let is_mapped = |address: &&u64| process.mappings.find(**address).is_some();
            let frames = addresses.iter().take_while(is_mapped).count() + 1;
            let lacks = addresses.iter().take(frames).any(|address| process.lacks(*address));
            if !lacks || process.looked.elapsed() < pause_after(process.tries) {
                return;
            }
            process.look_again(tgid);
        } else if self.of.len() >= PROCESSES_MAX {
            *self = Processes::new(self.names.inlined);
        }
        self.of.entry(tgid).or_insert_with(|| Process::of(tgid));
        let jit_bytes: usize = self.of.values().map(|process| process.jit.bytes()).sum();
        if jit_bytes > JIT_BYTES_MAX {
            self.of.retain(|of, _| *of == tgid);
        }
    }

    /// `top`: what lay on top of the stack. A process that has ended before anybody looked leaves bare addresses.
    pub fn frames(&mut self, tgid: u32, addresses: &[u64], top: u64) -> Frames {
        self.look(tgid, addresses);
        let process = self.of.entry(tgid).or_insert_with(|| Process::of(tgid));
        let names = &self.names;
        let top = (top != 0 && is_in_thin_call(names, tgid, process, addresses)).then_some(top);
        let (first, others) = addresses.split_at(addresses.len().min(1));
        let mut all: Vec<u64> = first.iter().chain(&top).chain(others).copied().collect();
        // Code without frame pointers keeps data where they would be: what follows is no frame.
        let end = all.iter().position(|address| process.mappings.find(*address).is_none());
        let end = end.filter(|end| *end > 0);
        all.truncate(end.unwrap_or(all.len()));
        // Or code that is not known yet.
        let lacking = all.iter().filter(|address| process.lacks(**address)).count();
        let bare = lacking + usize::from(end.is_some());
        Frames {
            names: all.iter().map(|address| process.frames(names, tgid, *address)).collect(),
            bare,
            named: all.len() - lacking,
            has_top: top.is_some(),
        }
    }
}

/// Of one user stack, innermost first.
pub struct Frames {
    /// Of each address: its function, behind those that are inline there.
    pub names: Vec<Vec<String>>,
    /// Those of no file, and without a name so far.
    pub bare: usize,
    /// All others.
    pub named: usize,
    /// The word on top of the stack is one of them: the first is in a thin system call, and that called it.
    pub has_top: bool,
}

impl Process {
    fn of(tgid: u32) -> Process {
        let number = own_number(tgid).unwrap_or(tgid);
        let (jit, jit_stamp) = jit_names(tgid, number, None).unwrap_or_default();
        Process { mappings: mappings(tgid), number, jit, jit_stamp, looked: Instant::now(), tries: 0 }
    }

    fn look_again(&mut self, tgid: u32) {
        let mappings = mappings(tgid);
        let is_news = mappings != self.mappings;
        self.mappings = mappings;
        let jit = jit_names(tgid, self.number, self.jit_stamp);
        self.tries = if is_news || jit.is_some() { 0 } else { self.tries + 1 };
        if let Some((jit, stamp)) = jit {
            (self.jit, self.jit_stamp) = (jit, stamp);
        }
        self.looked = Instant::now();
    }

    fn lacks(&self, address: u64) -> bool {
        self.mappings.find(address).map_or(true, Mapping::is_anonymous)
            && self.jit.name(address.saturating_sub(1)).is_none()
    }

    fn frames(&self, names: &Names, tgid: u32, address: u64) -> Vec<String> {
        match self.mappings.find(address) {
            Some(mapping) if !mapping.is_anonymous() => {
                let Some(symbol) = names.symbol(tgid, mapping, address) else {
                    return vec![mapping.frame(address, None)];
                };
                let inline = symbol.inlined.iter().rev().take(INLINE_MAX).map(|inline| &inline.name);
                inline
                    .chain([&symbol.name])
                    .map(|name| mapping.frame(address, Some(&demangled(name))))
                    .collect()
            }
            Some(mapping) => {
                vec![mapping.jit_frame(address, self.number, self.jit.name(address.saturating_sub(1)))]
            }
            None => vec![format!("{address:#x}")],
        }
    }
}

impl Names {
    fn new(inlined: bool) -> Names {
        // Inline functions are told with the lines, or not at all.
        let builder = Symbolizer::builder().enable_code_info(inlined).enable_inlined_fns(inlined);
        Names { symbolizer: builder.enable_demangling(false).build(), inlined }
    }

    fn symbol(&self, tgid: u32, mapping: &Mapping, address: u64) -> Option<Sym<'_>> {
        let file = file(tgid, mapping)?;
        // A return address: the byte before belongs to the call.
        let offset = mapping.offset(address).saturating_sub(1);
        let look = |debug_syms| {
            let mut elf = Elf::new(&file);
            elf.debug_syms = debug_syms;
            let found =
                self.symbolizer.symbolize_single(&Source::Elf(elf), Input::FileOffset(offset)).ok()?;
            // One without a size says where something begins, not that it reaches this far.
            found.into_sym().filter(|symbol| symbol.size.is_some() && !symbol.name.is_empty())
        };
        // Without debug information, or with some that cannot be read, the symbol table still has names.
        self.inlined.then(|| look(true)).flatten().or_else(|| look(false))
    }
}

fn is_in_thin_call(names: &Names, tgid: u32, process: &Process, addresses: &[u64]) -> bool {
    let code = || {
        let address = *addresses.first()?;
        let mapping = process.mappings.find(address).filter(|mapping| !mapping.is_anonymous())?;
        // Up to and with the byte before `address`.
        let length = names.symbol(tgid, mapping, address)?.offset + 1;
        let start =
            mapping.offset(address).checked_sub(length as u64).filter(|_| length <= THIN_BYTES_MAX)?;
        let mut code = vec![0; length];
        File::open(file(tgid, mapping)?).ok()?.read_exact_at(&mut code, start).ok()?;
        Some(code)
    };
    code().is_some_and(|code| is_thin(&code))
}

fn mappings(tgid: u32) -> Mappings {
    Mappings::parse(&fs::read_to_string(format!("/proc/{tgid}/maps")).unwrap_or_default())
}

fn own_number(tgid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tgid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// What a process has written of its own code; None where it has not, or nothing new.
fn jit_names(tgid: u32, number: u32, before: Option<Stamp>) -> Option<(JitNames, Option<Stamp>)> {
    let (file, stamp) = jit_file(tgid, number)?;
    (before != Some(stamp)).then(|| {
        let text = BufReader::new(file.take(JIT_FILE_BYTES_MAX));
        (JitNames::read(text, NAME_MAX, JIT_BYTES_MAX), Some(stamp))
    })
}

/// In its own file system. It is anybody's text: only a plain file of that user's, or of root's, and not endless.
fn jit_file(tgid: u32, number: u32) -> Option<(File, Stamp)> {
    let path = format!("/proc/{tgid}/root/tmp/perf-{number}.map");
    // A pipe would keep us waiting.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok().filter(|meta| meta.is_file())?;
    let user = fs::metadata(format!("/proc/{tgid}")).ok()?.uid();
    let stamp = (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
    let is_ours = (meta.uid() == 0 || meta.uid() == user) && meta.mtime() >= began(tgid)?;
    is_ours.then_some((file, stamp))
}

/// When a process began, in seconds since the epoch, or up to 3 seconds earlier: what was written before that is from an
/// earlier one with the same number (proc(5), /proc/pid/stat, field 22).
fn began(tgid: u32) -> Option<i64> {
    let stat = fs::read_to_string(format!("/proc/{tgid}/stat")).ok()?;
    // The name may hold anything, blanks and parentheses too.
    let ticks: i64 = stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()?;
    // SAFETY: sysconf() reads a number.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let since_boot = clock_s(libc::CLOCK_BOOTTIME)?;
    Some(clock_s(libc::CLOCK_REALTIME)? - since_boot + ticks / ticks_per_s.max(1) - 1)
}

fn clock_s(clock: libc::clockid_t) -> Option<i64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is there to be written to.
    (unsafe { libc::clock_gettime(clock, &mut now) } == 0).then_some(now.tv_sec)
}

/// What is mapped, also if it was replaced or lies in a container; where we may not follow that, or the process has ended,
/// its path.
fn file(tgid: u32, mapping: &Mapping) -> Option<String> {
    let mapped = format!("/proc/{tgid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let meta = |path: &str| fs::metadata(path).ok().filter(fs::Metadata::is_file);
    if meta(&mapped).is_some() {
        return Some(mapped);
    }
    meta(&mapping.path).filter(|meta| meta.ino() == mapping.inode).map(|_| mapping.path.to_string())
}

/// Without parameters, return types and hashes. A few bytes of a mangled name can stand for gigabytes.
fn demangled(name: &str) -> String {
    let mut short = Short(String::new());
    // An error is that it is full, or that the rest is no mangled name.
    let _ = match rustc_demangle::try_demangle(name) {
        Ok(rust) => write!(short, "{rust:#}"),
        Err(_) => match cpp_demangle::Symbol::new(name) {
            Ok(cpp) => cpp.structured_demangle(
                &mut short,
                &cpp_demangle::DemangleOptions::new().no_params().no_return_type(),
            ),
            Err(_) => short.write_str(name),
        },
    };
    match short.0.is_empty() {
        true => name.chars().take(NAME_MAX).collect(),
        false => short.0,
    }
}

struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_MAX - self.0.len();
        let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        if end < text.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn names_are_those_of_the_source_and_never_long() {
        for (name, is) in [
            ("madvise", "madvise"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC3app4main", "app::main"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"),
        ] {
            assert_eq!(demangled(name), is);
        }
        // f(A, B<A, A>, B<B<A, A>, B<A, A>>, …): twice as long with each.
        let mut bomb = "_ZN1A1BIS_S_E".to_string();
        (0..30).for_each(|step| bomb.push_str(&format!("1BIS{step}_S{step}_E")));
        bomb.push_str("1fEv");
        for long in [bomb, "é".repeat(NAME_MAX)] {
            let name = demangled(&long);
            assert!((NAME_MAX / 2..=NAME_MAX).contains(&name.len()), "{name}");
        }
    }

    #[test]
    fn our_own_code_is_named_from_our_own_file() {
        let here = our_own_code_is_named_from_our_own_file as fn() as usize as u64 + 1;
        let frames = Processes::new(false).frames(std::process::id(), &[here, 1], 0).names.concat();
        assert!(frames[0].contains("::our_own_code_is_named_from_our_own_file ("), "{frames:?}");
        assert_eq!(frames.len(), 1, "1 is no code");
        assert_eq!(
            Processes::new(false).frames(u32::MAX, &[here, 1], 0).names.concat(),
            [format!("{here:#x}"), "0x1".into()]
        );
    }

    /// getppid() is as thin as a call can be; memcpy() is none.
    #[test]
    fn who_called_a_thin_call_is_a_frame_and_what_lies_on_top_of_another_stack_is_none() {
        let here =
            who_called_a_thin_call_is_a_frame_and_what_lies_on_top_of_another_stack_is_none as fn() as usize;
        let returns = |function: usize| {
            // SAFETY: code of the C library, which is mapped and longer than that.
            let code = unsafe { std::slice::from_raw_parts(function as *const u8, 32) };
            code.windows(2).position(|two| two == [0x0f, 0x05]).map(|at| (function + at + 2) as u64)
        };
        let thin = returns(libc::getppid as *const () as usize).expect("its system call");
        let of = |first: u64| Processes::new(false).frames(std::process::id(), &[first, 1], here as u64 + 1);
        let Frames { names, has_top, .. } = of(thin);
        assert!(has_top && names.len() == 2 && names[1][0].contains("who_called_a_thin_call"), "{names:?}");
        let Frames { names, has_top, .. } = of(libc::memcpy as *const () as u64 + 8);
        assert!(!has_top && names.len() == 1, "{names:?}");
    }

    #[test]
    fn code_made_at_run_time_has_the_name_that_its_program_wrote() {
        let length = 4096;
        // SAFETY: a fresh mapping, which is not run.
        let code = unsafe {
            let executable = libc::PROT_READ | libc::PROT_EXEC;
            libc::mmap(
                std::ptr::null_mut(),
                length,
                executable,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        } as u64;
        let own = std::process::id();
        let map = format!("/tmp/perf-{own}.map");
        let frames = || Processes::new(false).frames(own, &[code + 8], 0).names.concat();
        assert!(frames()[0].ends_with(&format!(" (not in perf-{own}.map)")), "{:?}", frames());
        fs::write(&map, format!("{code:x} 10 Hot::loop\n")).expect("written");
        assert_eq!(frames(), [format!("Hot::loop (perf-{own}.map)")]);
        // An earlier process with this number has left one behind.
        let file = File::options().write(true).open(&map).expect("opened");
        let began = began(own).expect("since when this process is there");
        let at = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64);
        // Two looks at the clocks may differ by a second.
        file.set_modified(at(began + 2)).expect("set");
        assert!(jit_file(own, own).is_some());
        file.set_modified(at(began - 3)).expect("set");
        assert!(jit_file(own, own).is_none());
        fs::remove_file(&map).expect("removed");
        // A link may lead anywhere.
        std::os::unix::fs::symlink("/etc/passwd", &map).expect("linked");
        assert!(jit_file(own, own).is_none());
        fs::remove_file(&map).expect("removed");
    }
}
