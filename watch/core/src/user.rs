// SPDX-License-Identifier: GPL-2.0-only
//! Names of user addresses, from the symbol tables of what processes map. The files are any user's and are read as root:
//! only ordinary ones, and nothing they hold makes a name long. One that is cut short meanwhile ends us (SIGBUS), as it does
//! its own process.

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use ceasefire_watch_model::user::{Mapping, Mappings};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Processes whose mappings and files are remembered; more are read again.
const PROCESSES_MAX: usize = 256;
/// Bytes of a function's name; the rest is dropped.
const NAME_MAX: usize = 256;

pub struct Processes {
    symbolizer: Symbolizer,
    mappings: HashMap<u32, Mappings>,
}

impl Processes {
    pub fn new() -> Processes {
        let builder = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false);
        Processes { symbolizer: builder.enable_demangling(false).build(), mappings: HashMap::new() }
    }

    /// A process that has ended before anybody looked leaves bare addresses.
    pub fn frames(&mut self, tgid: u32, addresses: &[u64]) -> Vec<String> {
        if self.mappings.len() >= PROCESSES_MAX && !self.mappings.contains_key(&tgid) {
            *self = Processes::new();
        }
        let mappings = self.mappings.entry(tgid).or_insert_with(|| {
            Mappings::parse(&fs::read_to_string(format!("/proc/{tgid}/maps")).unwrap_or_default())
        });
        let frame = |address: &u64| match mappings.find(*address) {
            Some(mapping) => {
                mapping.frame(*address, function(&self.symbolizer, tgid, mapping, *address).as_deref())
            }
            None => format!("{address:#x}"),
        };
        addresses.iter().map(frame).collect()
    }
}

fn function(symbolizer: &Symbolizer, tgid: u32, mapping: &Mapping, address: u64) -> Option<String> {
    let source = Source::Elf(Elf::new(file(tgid, mapping)?));
    // A return address: the byte before belongs to the call.
    let offset = mapping.offset(address).saturating_sub(1);
    let found = symbolizer.symbolize_single(&source, Input::FileOffset(offset)).ok()?;
    // One without a size says where something begins, not that it reaches this far.
    let symbol = found.as_sym().filter(|symbol| symbol.size.is_some())?;
    Some(demangled(&symbol.name))
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
        let frames = Processes::new().frames(std::process::id(), &[here, 1]);
        assert!(frames[0].contains("::our_own_code_is_named_from_our_own_file ("), "{frames:?}");
        assert_eq!(frames[1], "0x1");
    }
}
