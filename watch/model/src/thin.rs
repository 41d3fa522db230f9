// SPDX-License-Identifier: GPL-2.0-only
//! Thin system calls: code that goes from a function's start to its `syscall` and leaves the stack as it was. Then the
//! word on top of the stack is the return address, though no frame pointer leads to it. (Intel SDM, volume 2: encodings.)

const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RSP: u8 = 4;
const RBP: u8 = 5;

/// `code`: from the start of the function to where its system call returns to. What is not known here is not thin.
pub fn is_thin(code: &[u8]) -> bool {
    let Some(mut rest) = code.strip_suffix(&SYSCALL) else { return false };
    while !rest.is_empty() {
        match harmless(rest) {
            Some(length) if length <= rest.len() => rest = &rest[length..],
            _ => return false,
        }
    }
    true
}

/// Bytes of the first instruction, if it is one that changes neither the stack nor its pointers.
fn harmless(code: &[u8]) -> Option<usize> {
    match code {
        // endbr64
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => return Some(4),
        // cmpb $…, …(%rip): is there one thread alone?
        [0x80, 0x3d, ..] => return Some(7),
        // A jump on condition passes by what follows; that is looked at all the same.
        [0x70..=0x7f, ..] => return Some(2),
        [0x0f, 0x80..=0x8f, ..] => return Some(6),
        _ => {}
    }
    let (rex, rest) = match code {
        [rex @ 0x40..=0x4f, rest @ ..] => (*rex, rest),
        _ => (0, code),
    };
    let prefix = code.len() - rest.len();
    let (extends_reg, extends_rm) = (rex & 4 != 0, rex & 1 != 0);
    let is_free = |register: u8, is_extended: bool| is_extended || (register != RSP && register != RBP);
    match *rest {
        // mov $…, %r32; with REX.W it has eight bytes.
        [op @ 0xb8..=0xbf, ..] if is_free(op & 7, extends_rm) && rex & 8 == 0 => Some(prefix + 5),
        // mov $…, %r64
        [0xc7, modrm, ..] if modrm >> 3 == 0b11000 && is_free(modrm & 7, extends_rm) => Some(prefix + 6),
        // mov, xor: register to register
        [0x89 | 0x31, modrm, ..] if modrm >> 6 == 3 && is_free(modrm & 7, extends_rm) => Some(prefix + 2),
        // mov, xor, movslq: the other way round
        [0x8b | 0x33 | 0x63, modrm, ..] if modrm >> 6 == 3 && is_free(modrm >> 3 & 7, extends_reg) => {
            Some(prefix + 2)
        }
        // test, cmp
        [0x85 | 0x39 | 0x3b, modrm, ..] if modrm >> 6 == 3 => Some(prefix + 2),
        // An argument from the stack: mov …(%rsp), %r
        [0x8b | 0x63, modrm, 0x24, ..] if modrm & 0xc7 == 0x44 && is_free(modrm >> 3 & 7, extends_reg) => {
            Some(prefix + 4)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        text.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
    }

    #[test]
    fn thin_calls_of_c_libraries_and_of_go_are_told_from_others() {
        for (code, is) in [
            // glibc: brk; process_madvise; the same with endbr64; syscall(); msync with one thread
            ("b8 0c 00 00 00 0f 05", true),
            ("49 89 ca b8 b8 01 00 00 0f 05", true),
            ("f3 0f 1e fa b8 1c 00 00 00 0f 05", true),
            ("48 89 f8 48 89 f7 48 89 d6 48 89 ca 4d 89 c2 4d 89 c8 4c 8b 4c 24 08 0f 05", true),
            ("80 3d 71 9b 0d 00 00 74 17 b8 1a 00 00 00 0f 05", true),
            // musl: mov $0xb, %rax. Go: its arguments lie on the stack
            ("48 c7 c0 0b 00 00 00 0f 05", true),
            ("48 8b 7c 24 08 48 8b 74 24 10 8b 54 24 18 b8 1c 00 00 00 0f 05", true),
            // mremap and the long way of msync make room; one keeps %rbp, one %rbx; one moves %rsp, one %rbp
            ("48 83 ec 58 0f 05", false),
            ("80 3d 71 9b 0d 00 00 74 17 b8 1a 00 00 00 0f 05 48 3d 00 f0 ff ff 77 58 c3 48 83 ec 28 0f 05", false),
            ("55 48 89 e5 b8 0c 00 00 00 0f 05", false),
            ("53 b8 0c 00 00 00 0f 05", false),
            ("48 89 fc 0f 05", false),
            ("48 8b 6c 24 08 0f 05", false),
            ("bc 00 00 00 00 0f 05", false),
            // r12 is no stack pointer
            ("49 89 fc 0f 05", true),
            // Cut short, and no system call at all
            ("b8 0c 00 0f 05", false),
            ("b8 0c 00 00 00", false),
            ("0f 05", true),
        ] {
            assert_eq!(is_thin(&bytes(code)), is, "{code}");
        }
        assert!(!is_thin(&[]));
    }
}
