// SPDX-License-Identifier: GPL-2.0-only
//! Frames of user stacks: `function (object)`; where the function has no name, `object+0x…`; else the bare address.

/// Where code of one process lies, from the text of /proc/PID/maps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mappings(Vec<Mapping>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    offset: u64,
    pub inode: u64,
    pub path: Box<str>,
}

impl Mappings {
    pub fn parse(text: &str) -> Mappings {
        Mappings(text.lines().filter_map(mapping).collect())
    }

    pub fn find(&self, address: u64) -> Option<&Mapping> {
        self.0.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }
}

impl Mapping {
    /// Of this address, in the file.
    pub fn offset(&self, address: u64) -> u64 {
        (address - self.start).saturating_add(self.offset)
    }

    /// Code without a file: made at run time.
    pub fn is_anonymous(&self) -> bool {
        const MADE: [&str; 4] = ["/memfd:", "[anon:", "//anon", "/dev/zero"];
        self.path.is_empty() || MADE.iter().any(|start| self.path.starts_with(start))
    }

    /// Where it has no name, what would have it is said.
    pub fn jit_frame(&self, address: u64, pid: u32, name: Option<&str>) -> String {
        let frame = match name {
            Some(name) => format!("{name} (perf-{pid}.map)"),
            None => format!("{address:#x} (not in perf-{pid}.map)"),
        };
        frame.replace(char::is_control, "?")
    }

    pub fn frame(&self, address: u64, function: Option<&str>) -> String {
        let object = self.path.rsplit('/').next().unwrap_or_default();
        let frame = match function {
            Some(function) => format!("{function} ({object})"),
            None => format!("{object}+{:#x}", self.offset(address)),
        };
        // Both names are those of any user's files, and go to our terminal.
        frame.replace(char::is_control, "?")
    }
}

/// The object that a frame lies in, by its file name.
pub fn object(frame: &str) -> Option<&str> {
    match frame.strip_suffix(')').and_then(|frame| frame.rsplit_once(" (")) {
        Some((_, object)) => Some(object),
        None => frame.rsplit_once("+0x").map(|(object, _)| object),
    }
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (flags, offset) = (words.next()?, words.next()?);
    flags.contains('x').then_some(())?;
    let inode = words.nth(1)?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
    Some(Mapping { start, end, offset, inode, path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "7f00-8f00 r-xp 00001000 08:01 12                 /usr/lib/libc.so.6\n\
        9000-9100 rw-p 00000000 00:00 0      [heap]\n\
        a000-a100 r-xp 00000000 00:00 0 \n\
        b000-b100 r-xp 00000000 08:01 13     /opt/my \u{1b}app (deleted)\n";

    #[test]
    fn a_frame_is_function_and_object_or_object_and_offset() {
        let mappings = Mappings::parse(TEXT);
        let libc = mappings.find(0x7f10).expect("libc");
        assert_eq!(libc.frame(0x7f10, None), "libc.so.6+0x1010");
        assert_eq!(libc.frame(0x7f10, Some("madvise")), "madvise (libc.so.6)");
        assert!(mappings.find(0x9010).is_none(), "no code");
        let made = mappings.find(0xa010).filter(|mapping| mapping.is_anonymous()).expect("made at run time");
        assert_eq!(made.jit_frame(0xa010, 7, None), "0xa010 (not in perf-7.map)");
        assert_eq!(made.jit_frame(0xa010, 7, Some("A::f\n")), "A::f? (perf-7.map)");
        assert_eq!(mappings.find(0xb010).expect("app").frame(0xb010, Some("f")), "f (my ?app)");
    }

    #[test]
    fn the_object_of_a_frame_is_found_in_each_of_its_forms() {
        for (frame, is) in [
            ("libc.so.6+0x1010", Some("libc.so.6")),
            ("libstdc++.so.6+0x10", Some("libstdc++.so.6")),
            ("madvise (libc.so.6)", Some("libc.so.6")),
            ("operator+(A, void (*)(int)) (libstdc++.so.6)", Some("libstdc++.so.6")),
            ("0x7f10", None),
            ("", None),
        ] {
            assert_eq!(object(frame), is, "{frame}");
        }
    }
}
