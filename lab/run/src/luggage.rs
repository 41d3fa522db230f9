// SPDX-License-Identifier: GPL-2.0-only
//! What the user takes into the guest: as words of a command line, and packed for one session.

use crate::board::Board;
use crate::files;
use crate::machine::MachineSpec;
use crate::words::Line;
use ceasefire_artifacts::Context;
use ceasefire_base::{exec, Result};
use std::path::PathBuf;
use tempfile::TempDir;

pub use ceasefire_artifacts::luggage::{Luggage, Program};

/// Ready to go into every boot of a session.
pub struct Packed {
    pub archive: PathBuf,
    /// The program's path below the directory, and its command as the rows show it.
    pub program: Option<String>,
    pub command: Option<String>,
    /// Holds the archive, which goes with it.
    _scratch: Option<TempDir>,
}

/// `None` where nothing goes along. A dry run looks at everything and writes nothing.
pub fn pack(
    ctx: &Context,
    luggage: &Luggage,
    program: Option<&Program>,
    board: &Board,
    machine: &MachineSpec,
) -> Result<Option<Packed>> {
    if luggage.is_empty() && program.is_none() {
        return Ok(None);
    }
    board.check(machine)?;
    machine.check()?;
    let packed = luggage.pack(program, board.processor()?, board.memory_mib(machine.memory_mib))?;
    let command = packed.program.as_ref().zip(program).map(|(name, program)| {
        let words = std::iter::once(name.as_ref()).chain(program.args.iter().map(|word| word.as_os_str()));
        words.map(exec::quote).collect::<Vec<_>>().join(" ")
    });
    let program = packed.program;
    if ctx.dry_run {
        let archive = std::env::temp_dir().join("ceasefire-dry-run/luggage.cpio");
        exec::print_line(&format!("# {} is made of what goes along", archive.display()));
        return Ok(Some(Packed { archive, program, command, _scratch: None }));
    }
    let scratch = files::scratch("luggage")?;
    let archive = scratch.path().join("luggage.cpio");
    files::write_whole(&archive, &packed.archive)?;
    Ok(Some(Packed { archive, program, command, _scratch: Some(scratch) }))
}

pub fn put_words(luggage: &Luggage, line: &mut Line) {
    line.maybe("dir", luggage.dir.as_ref());
    luggage.tools.iter().for_each(|tool| line.flag("with", tool));
}
