// SPDX-License-Identifier: GPL-2.0-only
// How the library is compiled: by build.rs, and by the tests, which add deliberate mistakes.

/// For the C compiler. No builtins: a loop over the table must not become a call of memmove.
pub const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-builtin",
    "-fno-stack-protector",
    "-Wall",
    "-Wextra",
    "-Werror",
    // All is bound at the start: nothing is looked up in a signal handler. No path of the machine that compiles stays.
    "-Wl,-z,now,-z,relro,-z,defs,-z,nodelete,--as-needed",
    "-Wl,-soname,libceasefire-deter.so",
    "-Wl,--build-id=none",
    "-s",
];

/// In `c/`.
pub const SOURCES: &[&str] = &["calls.c", "state.c", "syscall.c", "table.c", "trim.c", "zero.c"];
