// SPDX-License-Identifier: GPL-2.0-only
//! The guest's first file system: PID 1, the workloads, and empty file systems, as a cpio archive; and the
//! small archive that tells PID 1 what to do. They take seconds and no shell command makes them, so a dry run
//! makes them too.

use std::path::{Path, PathBuf};

use ceasefire_base::{disk, Kind, Result};

use crate::base::Architecture;
use crate::cache::{Facts, Key};
use crate::compiler::{Compiler, Target};
use crate::cpio::Archive;
use crate::{hash, images, Context};

/// To be raised when the code below makes something else of the same inputs.
const RECIPE: &str = "2";
const ARCHIVE: &str = "initrd.cpio";
const DIRECTORIES: [&str; 7] = ["/dev", "/proc", "/sys", "/run", "/mnt", "/root", "/ext2"];

/// The archive with `/job`, which PID 1 reads line by line.
pub fn job_archive(job: &str) -> Vec<u8> {
    let mut archive = Archive::new();
    archive.file("/job", 0o644, job.as_bytes().to_vec());
    archive.into_bytes()
}

/// Names the exact workloads in a result.
pub fn source_hash(context: &Context) -> Result<String> {
    Ok(hash::bytes(hash::tree(&context.root.join("workloads"))?.as_bytes()))
}

/// The static program with all workloads, as this machine runs it. It can tell which there are.
pub fn workloads_binary(context: &Context) -> Result<PathBuf> {
    workloads(context, &Compiler::find()?)
}

fn workloads(context: &Context, compiler: &Compiler) -> Result<PathBuf> {
    program(context, compiler, Target::Linux, "workloads", "workloads")
}

/// The guest without an operating system that tries the machine's rules, for QEMU's `-kernel`.
pub fn machine_test(context: &Context) -> Result<PathBuf> {
    program(context, &Compiler::find()?, Target::Bare, "machine-test", "machine/x86_64/guest")
}

/// The archive with all that every guest with that processor needs.
///
/// In a dry run its compiler may not be installed yet: then the archive is named, and not made.
pub fn initrd(context: &Context, architecture: &Architecture) -> Result<PathBuf> {
    let compiler = match Compiler::of(architecture) {
        Err(error) if context.dry_run && error.kind == Kind::Skip => {
            let output = context.dry_dir(ARCHIVE);
            context.dry_comment(&format!(
                "{} is made when {}gcc is there",
                output.display(),
                architecture.compiler
            ));
            return Ok(output);
        }
        other => other?,
    };
    let workloads = workloads(context, &compiler)?;
    let init = program(context, &compiler, Target::Linux, "init", "lab/guest")?;
    let key = Key::new("initrd").text("recipe", RECIPE).text("mke2fs", images::version()?);
    let key = key.file("workloads", &workloads)?.file("init", &init)?;
    let entry = context.cache.obtain(&context.progress, "guest", "initrd", &key, |directory| {
        let mut archive = Archive::new();
        for path in DIRECTORIES {
            archive.directory(path, 0o755);
        }
        archive.directory("/tmp", 0o1777);
        // The kernel opens it for PID 1 before anything is mounted.
        archive.character_device("/dev/console", 0o600, 5, 1);
        archive.file("/init", 0o755, read(&init)?);
        archive.file("/bin/workloads", 0o755, read(&workloads)?);
        for image in &images::IMAGES {
            archive.file(&format!("/{}.blocks", image.kind), 0o644, images::blocks(image, directory)?);
        }
        let output = directory.join(ARCHIVE);
        std::fs::write(&output, archive.into_bytes())
            .map_err(|error| disk::error("write", &output, &error))?;
        Ok(Facts::new())
    })?;
    Ok(entry.dir.join(ARCHIVE))
}

/// One static program from all sources in a directory of the checkout.
fn program(
    context: &Context,
    compiler: &Compiler,
    target: Target,
    name: &str,
    sources: &str,
) -> Result<PathBuf> {
    let sources = context.root.join(sources);
    let key = Key::new("program")
        .text("recipe", RECIPE)
        .text("compiler", compiler.identity(target))
        .tree("sources", &sources)?;
    let log = context.cache.log_path("guest", name, &key);
    let entry = context.cache.obtain(&context.progress, "guest", name, &key, |directory| {
        let step = context.progress.step(format!("guest: compile {name}"));
        step.waiting(&compiler.version);
        compiler.link(target, &sources, &directory.join(name), &log)?;
        step.done("");
        Ok(Facts::from([("compiler".to_string(), compiler.version.clone())]))
    })?;
    Ok(entry.dir.join(name))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| disk::error("read", path, &error))
}
