// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the probes, twice: with CO-RE, and for kernels without BTF. Nothing is compiled on the machine observed.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (name, more) in [("watch.bpf.o", &[][..]), ("watch-nobtf.bpf.o", &["-DNO_BTF"][..])] {
        if let Err(why) = compile(&out.join(name), more) {
            eprintln!("error: the probes cannot be compiled: {why}\n  remedy: make watch");
            std::process::exit(1);
        }
    }
}

fn compile(output: &std::path::Path, more: &[&str]) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let mut command = Command::new(&clang);
    command.args("-target bpf -mcpu=v3 -O2 -g -Wall -Werror -D__TARGET_ARCH_x86 -I../bpf -c".split(' '));
    command.args("-Wno-unused-function -Wno-address-of-packed-member".split(' ')).args(more);
    // clang's BPF target does not look where Debian keeps asm/.
    command.args(["-idirafter", "/usr/include/x86_64-linux-gnu"]);
    if let Some(include) = std::env::var_os("DEP_LIBBPF_INCLUDE") {
        command.arg("-isystem").arg(include);
    }
    command.arg("../bpf/watch.bpf.c").arg("-o").arg(output);
    let status = command.status().map_err(|error| format!("{clang} does not start: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{clang} failed")),
    }
}
