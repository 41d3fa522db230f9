// SPDX-License-Identifier: GPL-2.0-only
//! Reads from an ELF file whether the guest can run it, and which loader and libraries it names.

use ceasefire_base::{Error, Result};
use object::elf::{
    FileHeader32, FileHeader64, DT_NEEDED, DT_STRTAB, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, EM_AARCH64,
    EM_LOONGARCH, EM_PPC, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64, ET_CORE, ET_DYN, ET_EXEC, ET_REL, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{BigEndian, LittleEndian, StringTable};

/// What a program or library asks for at run time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The dynamic loader's path; `None` for libraries and static programs.
    pub interpreter: Option<String>,
    /// Names of libraries, in the file's order.
    pub needed: Vec<String>,
}

/// What runs a guest's programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Processor {
    #[default]
    X86_64,
    /// 32 bits, big-endian.
    PowerPc,
}

impl Processor {
    /// By the name that `make ARCH=` has for it.
    pub fn named(architecture: &str) -> Result<Processor> {
        match architecture {
            "x86_64" => Ok(Processor::X86_64),
            "powerpc" => Ok(Processor::PowerPc),
            _ => Err(Error::failed(format!("the lab does not know the programs of '{architecture}'"))
                .remedy("say in lab/artifacts/src/elf.rs which they are")),
        }
    }

    /// How a program becomes one of its.
    pub fn advice(self) -> &'static str {
        match self {
            Processor::X86_64 => "compile and link it for x86-64",
            Processor::PowerPc => "compile it with powerpc-linux-gnu-gcc -static",
        }
    }

    /// What it runs.
    pub fn programs(self) -> &'static str {
        match self {
            Processor::X86_64 => "64-bit programs for x86-64",
            Processor::PowerPc => "static 32-bit programs for big-endian PowerPC",
        }
    }
}

/// What a file is to a guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Fit {
    /// No ELF file.
    Other,
    Program,
    /// In words that follow "is".
    Not(String),
}

/// This machine has the libraries of x86-64 alone: a program for another processor must need none.
pub fn fit(file: &[u8], processor: Processor) -> Fit {
    let not = |what: &str| Fit::Not(what.into());
    if !file.starts_with(b"\x7fELF") {
        return Fit::Other;
    }
    let class = file.get(4).copied().unwrap_or(0);
    // Before anything is said of bits or a processor: these bytes mean nothing then.
    if ![ELFCLASS32, ELFCLASS64].contains(&class) {
        return not("a damaged program");
    }
    let is_little = file.get(5) == Some(&ELFDATA2LSB);
    let word = |at: usize| {
        let bytes = [*file.get(at)?, *file.get(at + 1)?];
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let (Some(kind), Some(machine)) = (word(16), word(18)) else { return not("a damaged program") };
    let known = [
        (EM_AARCH64, "aarch64"),
        (EM_RISCV, "RISC-V"),
        (EM_PPC, "PowerPC"),
        (EM_PPC64, "PowerPC"),
        (EM_X86_64, "x86-64"),
        (EM_S390, "s390x"),
        (EM_LOONGARCH, "LoongArch"),
    ];
    match (class, machine, processor) {
        (ELFCLASS64, EM_X86_64, Processor::X86_64) => {}
        (ELFCLASS32, EM_PPC, Processor::PowerPc) if !is_little => {}
        (ELFCLASS32, _, Processor::X86_64) => return not("a 32-bit program"),
        (ELFCLASS64, EM_PPC64, Processor::PowerPc) => return not("a 64-bit program"),
        (ELFCLASS32, EM_PPC, Processor::PowerPc) => return not("a little-endian program"),
        _ => {
            let name = known.iter().find(|(number, _)| *number == machine).map(|(_, name)| *name);
            return not(&format!("a program for {}", name.unwrap_or("another processor")));
        }
    }
    let address = if class == ELFCLASS64 { 24..32 } else { 24..28 };
    let has_entry = file.get(address).is_some_and(|entry| entry.iter().any(|&byte| byte != 0));
    let loader = match processor {
        Processor::X86_64 => dynamic(file).map(|_| false),
        Processor::PowerPc => has_loader(file),
    };
    match (kind, has_entry) {
        (ET_EXEC | ET_DYN, true) if loader == Some(false) => Fit::Program,
        (ET_EXEC | ET_DYN, true) if loader == Some(true) => not("a program that is not linked statically"),
        (ET_DYN, false) => not("a shared library"),
        (ET_REL, _) => not("an object file, not linked yet"),
        (ET_CORE, _) => not("a core dump"),
        _ => not("a damaged program"),
    }
}

/// Does it ask for a loader of libraries? `None` when this is no 32-bit big-endian ELF file, or a damaged one.
fn has_loader(file: &[u8]) -> Option<bool> {
    let header = FileHeader32::<BigEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let mut has_code = false;
    for segment in header.program_headers(endian, file).ok()? {
        if segment.interpreter(endian, file).ok()?.is_some() {
            return Some(true);
        }
        has_code |= segment.p_type(endian) == PT_LOAD && segment.data(endian, file).is_ok();
    }
    has_code.then_some(false)
}

/// `None` when this is no 64-bit little-endian ELF file, or a damaged one.
pub fn dynamic(file: &[u8]) -> Option<Dynamic> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let mut dynamic = Dynamic::default();
    let mut entries = &[][..];
    for segment in segments {
        if let Some(path) = segment.interpreter(endian, file).ok()? {
            dynamic.interpreter = Some(text(path)?);
        }
        entries = segment.dynamic(endian, file).ok()?.unwrap_or(entries);
    }
    let Some(strings) = entries.iter().find(|entry| entry.tag32(endian) == Some(DT_STRTAB)) else {
        return Some(dynamic);
    };
    let address = strings.d_val(endian);
    let strings =
        segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(endian))?;
            let (offset, bytes) = segment.file_range(endian);
            let end = offset.checked_add(bytes)?.min(file.len() as u64);
            let table = StringTable::new(file, offset.checked_add(inside)?, end);
            (inside < bytes).then_some(table)
        })?;
    for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED)) {
        dynamic.needed.push(text(entry.string(endian, strings).ok()?)?);
    }
    Some(dynamic)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use object::elf::{PT_DYNAMIC, PT_INTERP};
    use Processor::{PowerPc, X86_64};

    /// A file with one load segment that maps the whole file at 0x1000.
    pub(crate) fn file(interpreter: Option<&str>, needed: &[&str]) -> Vec<u8> {
        let mut file = vec![0u8; 0x400];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let put = |file: &mut Vec<u8>, at: usize, value: u64| {
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        let mut tags = Vec::new();
        let mut end = 0x341;
        for name in needed {
            tags.push((u64::from(DT_NEEDED), end as u64 - 0x340));
            file[end..end + name.len()].copy_from_slice(name.as_bytes());
            end += name.len() + 1;
        }
        tags.insert(tags.len() / 2, (u64::from(DT_STRTAB), 0x1340));
        for (i, (tag, value)) in tags.iter().enumerate() {
            put(&mut file, 0x200 + i * 16, *tag);
            put(&mut file, 0x208 + i * 16, *value);
        }
        let mut segments = vec![(PT_LOAD, 0u64, 0x400u64), (PT_DYNAMIC, 0x200, 16 * tags.len() as u64)];
        if let Some(path) = interpreter {
            file[0x300..0x300 + path.len()].copy_from_slice(path.as_bytes());
            segments.push((PT_INTERP, 0x300, path.len() as u64 + 1));
        }
        file[16] = ET_DYN as u8;
        file[18] = EM_X86_64 as u8;
        put(&mut file, 24, 0x1000);
        put(&mut file, 32, 64);
        file[54] = 56;
        file[56] = segments.len() as u8;
        for (i, (kind, offset, bytes)) in segments.into_iter().enumerate() {
            let at = 64 + i * 56;
            put(&mut file, at, u64::from(kind));
            put(&mut file, at + 8, offset);
            put(&mut file, at + 16, 0x1000 + offset);
            put(&mut file, at + 32, bytes);
        }
        file.truncate(end);
        file
    }

    fn sample() -> Vec<u8> {
        file(Some("/lib/ld"), &["libc.so", "libm.so"])
    }

    #[test]
    fn loader_and_libraries_are_found() {
        let expected = Dynamic {
            interpreter: Some("/lib/ld".to_string()),
            needed: vec!["libc.so".to_string(), "libm.so".to_string()],
        };
        assert_eq!(dynamic(&sample()), Some(expected));
    }

    #[test]
    fn a_static_program_needs_nothing() {
        let mut file = sample();
        file[56] = 1;
        assert_eq!(dynamic(&file), Some(Dynamic::default()));
    }

    #[test]
    fn what_a_guest_cannot_run_is_named() {
        assert_eq!(fit(&sample(), X86_64), Fit::Program);
        assert_eq!(fit(b"#!/bin/sh\n", X86_64), Fit::Other);
        assert_eq!(fit(b"", X86_64), Fit::Other);
        let changed = |bytes: &[(usize, u8)]| {
            let mut file = sample();
            bytes.iter().for_each(|&(at, byte)| file[at] = byte);
            match fit(&file, X86_64) {
                Fit::Not(what) => what,
                other => format!("{other:?}"),
            }
        };
        for (bytes, what) in [
            (&[(18, EM_AARCH64 as u8)][..], "a program for aarch64"),
            (&[(18, EM_RISCV as u8)], "a program for RISC-V"),
            (&[(18, 2), (19, 1)], "a program for LoongArch"),
            (&[(5, 2), (16, 0), (17, 2), (18, 0), (19, 22)], "a program for s390x"),
            (&[(18, 99)], "a program for another processor"),
            (&[(4, 1), (18, 3)], "a 32-bit program"),
            (&[(4, 1), (18, 62)], "a 32-bit program"),
            (&[(16, 1)], "an object file, not linked yet"),
            (&[(16, 4)], "a core dump"),
            (&[(25, 0)], "a shared library"),
            (&[(16, 9)], "a damaged program"),
            (&[(54, 1)], "a damaged program"),
            (&[(4, 0)], "a damaged program"),
            (&[(4, 3)], "a damaged program"),
        ] {
            assert_eq!(changed(bytes), what);
        }
        for end in 0..64 {
            assert_ne!(fit(&sample()[..end], X86_64), Fit::Program, "{end} bytes");
        }
        // This test itself is one.
        let own = std::env::current_exe().and_then(std::fs::read).expect("a program");
        assert_eq!(fit(&own, X86_64), Fit::Program);
    }

    /// A big-endian file of 32 bits with one segment that is its whole.
    pub(crate) fn powerpc(interpreter: Option<&str>) -> Vec<u8> {
        let mut file = vec![0u8; 0x100];
        file[..7].copy_from_slice(b"\x7fELF\x01\x02\x01");
        let put = |file: &mut Vec<u8>, at: usize, value: u32| {
            file[at..at + 4].copy_from_slice(&value.to_be_bytes());
        };
        (file[17], file[19], file[43], file[45]) = (ET_EXEC as u8, EM_PPC as u8, 32, 1);
        put(&mut file, 24, 0x1000_0000);
        put(&mut file, 28, 52);
        put(&mut file, 52, PT_LOAD);
        put(&mut file, 52 + 16, 0x100);
        if let Some(path) = interpreter {
            file[0xc0..0xc0 + path.len()].copy_from_slice(path.as_bytes());
            file[45] = 2;
            put(&mut file, 84, PT_INTERP);
            put(&mut file, 84 + 4, 0xc0);
            put(&mut file, 84 + 16, path.len() as u32 + 1);
        }
        file
    }

    #[test]
    fn a_guest_with_another_processor_gets_static_programs_of_its_own() {
        let not = |what: &str| Fit::Not(what.into());
        let own = powerpc(None);
        let changed = |at: usize, value: u8| {
            let mut file = own.clone();
            file[at] = value;
            fit(&file, PowerPc)
        };
        assert_eq!(fit(&own, PowerPc), Fit::Program);
        assert_eq!(fit(&own, X86_64), not("a 32-bit program"));
        assert_eq!(
            fit(&powerpc(Some("/lib/ld.so.1")), PowerPc),
            not("a program that is not linked statically")
        );
        assert_eq!(fit(&sample(), PowerPc), not("a program for x86-64"));
        assert_eq!(fit(b"#!/bin/sh\n", PowerPc), Fit::Other);
        assert_eq!(changed(19, 40), not("a program for another processor"));
        assert_eq!(changed(17, 1), not("an object file, not linked yet"));
        assert_eq!(changed(45, 0), not("a damaged program"), "no segment");
        assert_eq!(changed(4, 0), not("a damaged program"), "no class");
        assert_eq!(changed(4, 3), not("a damaged program"), "an unknown class");
        let mut little = own.clone();
        (little[5], little[16], little[17], little[18], little[19]) = (1, 2, 0, 20, 0);
        assert_eq!(fit(&little, PowerPc), not("a little-endian program"));
        for end in 0..own.len() {
            assert_ne!(fit(&own[..end], PowerPc), Fit::Program, "cut at {end}");
        }
        for at in 0..own.len() {
            for value in [0x00, 0x7f, 0xff] {
                changed(at, value);
            }
        }
    }

    #[test]
    fn a_processor_that_nobody_knows_is_no_other() {
        assert_eq!(Processor::named("x86_64"), Ok(X86_64));
        assert_eq!(Processor::named("powerpc"), Ok(PowerPc));
        let error = Processor::named("riscv").expect_err("unknown");
        assert!(error.message.contains("'riscv'") && error.remedy.is_some(), "{error:?}");
    }

    #[test]
    fn other_and_cut_files_are_refused() {
        assert_eq!(dynamic(b"#!/bin/sh\n"), None);
        assert_eq!(dynamic(b""), None);
        let file = sample();
        for bytes in 0..file.len() {
            assert_eq!(dynamic(&file[..bytes]), None, "cut at {bytes}");
        }
    }

    #[test]
    fn altered_bytes_never_panic() {
        for at in 0..sample().len() {
            for value in [0x00, 0x7f, 0xff] {
                let mut file = sample();
                file[at] = value;
                let _ = dynamic(&file);
            }
        }
    }
}
