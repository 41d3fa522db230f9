// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the preload library. Nothing is compiled on the machine where it is used.

use std::path::PathBuf;
use std::process::Command;

include!("src/flags.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/flags.rs");
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-env-changed=CC");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    if let Err(why) = compile(&out.join("libceasefire-deter.so")) {
        eprintln!("error: the preload library cannot be compiled: {why}\n  remedy: install a C compiler, or name one: CC=gcc");
        std::process::exit(1);
    }
}

fn compile(output: &std::path::Path) -> Result<(), String> {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(&cc);
    command.args(FLAGS).arg("-o").arg(output).current_dir("c").args(SOURCES);
    let status = command.status().map_err(|error| format!("{cc} does not start: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{cc} failed")),
    }
}
