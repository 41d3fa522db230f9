// SPDX-License-Identifier: GPL-2.0-only
//! Puts every kernel/NAME/mechanism.toml into the program, for machines without a checkout and for old files.
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    // Asked when it runs: a checkout may have been moved since this was compiled.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let rooms = Path::new(&here).join("../../kernel");
    println!("cargo:rerun-if-changed={}", rooms.display());
    let list = fs::read_dir(&rooms).unwrap_or_else(|error| panic!("{}: {error}", rooms.display()));
    let mut names: Vec<String> = list
        .flatten()
        .filter(|room| room.path().join("mechanism.toml").is_file())
        .map(|room| room.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let entry = |name: &String| {
        let file = rooms.join(name).join("mechanism.toml");
        println!("cargo:rerun-if-changed={}", file.display());
        format!("({name:?}, include_str!({:?})),\n", file.display().to_string())
    };
    let text = format!("&[\n{}]", names.iter().map(entry).collect::<String>());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("known.rs");
    fs::write(&out, text).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}
