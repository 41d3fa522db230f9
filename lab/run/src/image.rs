// SPDX-License-Identifier: GPL-2.0-only
//! The initial file system of a boot: base, applications where they are needed, and the job.

use crate::plan::Boot;
use ceasefire_artifacts::base::Architecture;
use ceasefire_artifacts::{apps, guest, Context};
use ceasefire_base::{disk, exec, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Images {
    base: PathBuf,
    apps: Option<PathBuf>,
    /// In every boot.
    extra: Option<PathBuf>,
}

/// A file that goes with its value.
pub struct Temporary {
    pub path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Images {
    /// Builds what these boots need; the applications only if one of them runs some.
    pub fn prepare(
        ctx: &Context,
        architecture: &Architecture,
        packages: &[String],
        programs: &[String],
    ) -> Result<Images> {
        let apps = if packages.is_empty() { None } else { Some(apps::root(ctx, packages, programs)?) };
        Ok(Images { apps, ..Images::of(guest::initrd(ctx, architecture)?) })
    }

    /// Nothing but this archive.
    pub fn of(base: PathBuf) -> Images {
        Images { base, apps: None, extra: None }
    }

    /// The same with one more archive in every boot.
    pub fn with(self, archive: PathBuf) -> Images {
        Images { extra: Some(archive), ..self }
    }

    fn parts(&self, boot: &Boot) -> Vec<&Path> {
        let mut parts = vec![self.base.as_path()];
        if !boot.packages.is_empty() {
            parts.extend(self.apps.as_deref());
        }
        parts.extend(self.extra.as_deref());
        parts
    }

    /// Names all that a boot finds in its file system: entries of the cache carry the hash of their content's sources.
    pub fn identity(&self, boot: &Boot) -> String {
        self.parts(boot).iter().map(|part| part.display().to_string() + "\n").collect()
    }

    /// Writes LOG.initrd: the kernel unpacks cpio archives one after the other.
    pub fn initrd_for(&self, boot: &Boot, log: &Path) -> Result<Temporary> {
        self.initrd_with_job(boot, &boot.job_text(), log)
    }

    pub fn initrd_with_job(&self, boot: &Boot, job: &str, log: &Path) -> Result<Temporary> {
        let initrd = Temporary { path: crate::boot::beside(log, "initrd") };
        let write = || -> io::Result<()> {
            let mut file = File::create(&initrd.path)?;
            for part in self.parts(boot) {
                io::copy(&mut File::open(part)?, &mut file)?;
            }
            file.write_all(&guest::job_archive(job))
        };
        write().map_err(|error| disk::error("write", &initrd.path, &error))?;
        Ok(initrd)
    }

    /// The same as a shell command.
    pub fn initrd_shell(&self, boot: &Boot, initrd: &Path) -> String {
        self.initrd_shell_with_job(boot, &boot.job_text(), initrd)
    }

    pub fn initrd_shell_with_job(&self, boot: &Boot, job: &str, initrd: &Path) -> String {
        let quoted = |path: &Path| exec::quote(path.as_os_str());
        let parts: Vec<String> = self.parts(boot).into_iter().map(quoted).collect();
        let directory = initrd.parent().unwrap_or(Path::new("."));
        let job = exec::quote(job.as_ref());
        format!(
            "mkdir -p {dir} && printf %s {job} > {dir}/job && {{ cat {parts}; (cd {dir} && echo job | cpio -o -H newc --quiet); }} > {initrd}",
            dir = quoted(directory),
            parts = parts.join(" "),
            initrd = quoted(initrd),
        )
    }
}
