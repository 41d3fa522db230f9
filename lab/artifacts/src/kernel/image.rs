// SPDX-License-Identifier: GPL-2.0-only
//! A finished kernel of the user's own.

use super::KernelImage;
use crate::hash;
use ceasefire_base::{disk, Error, Result};
use std::fs;
use std::path::Path;

/// A distribution's image with everything built in stays far below; /dev/zero does not.
const IMAGE_BYTES_MAX: u64 = 512 << 20;

/// A finished bzImage, taken as it is.
pub fn from_image(path: &Path) -> Result<KernelImage> {
    let unusable = |why: &str| {
        Error::usage(format!("cannot read the kernel image {}: {why}", path.display()))
            .remedy("give the path of a bzImage (arch/x86/boot/bzImage, or /boot/vmlinuz-…)")
    };
    let meta = fs::metadata(path).map_err(|error| unusable(&disk::reason(&error)))?;
    if !meta.is_file() || meta.len() > IMAGE_BYTES_MAX {
        return Err(unusable("it is not a file of a kernel's size"));
    }
    let data = fs::read(path).map_err(|error| unusable(&disk::reason(&error)))?;
    let release = bzimage_release(&data).ok_or_else(|| {
        Error::usage(format!("{} is not an x86 bzImage", path.display()))
            .remedy("give arch/x86/boot/bzImage or /boot/vmlinuz-…, not vmlinux")
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(KernelImage {
        name,
        file: fs::canonicalize(path).map_err(|error| disk::error("read", path, &error))?,
        config: None,
        release: Some(release),
        source_version: None,
        source_checked: None,
        series_hash: None,
        config_hash: None,
        image_hash: hash::bytes(&data),
        modes: Vec::new(),
        mechanisms: ceasefire_mechanism::built_in()?,
        dir: None,
    })
}

/// The release that the boot protocol's header points to (Documentation/arch/x86/boot.rst).
fn bzimage_release(data: &[u8]) -> Option<String> {
    const BOOT_FLAG: usize = 0x1fe;
    const MAGIC: usize = 0x202;
    const KERNEL_VERSION: usize = 0x20e;
    const HEADER: usize = 0x200;
    const RELEASE_BYTES_MAX: usize = 128;
    let field = |at: usize, length: usize| data.get(at..at + length);
    if field(BOOT_FLAG, 2)? != [0x55, 0xaa] || field(MAGIC, 4)? != b"HdrS" {
        return None;
    }
    let offset = u16::from_le_bytes(field(KERNEL_VERSION, 2)?.try_into().ok()?);
    if offset == 0 {
        return None;
    }
    let text = data.get(HEADER + usize::from(offset)..)?;
    let text = &text[..text.len().min(RELEASE_BYTES_MAX)];
    let end = text.iter().position(|byte| byte.is_ascii_whitespace() || *byte == 0)?;
    let release = std::str::from_utf8(&text[..end]).ok()?;
    (!release.is_empty() && release.chars().all(|c| c.is_ascii_graphic())).then(|| release.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_base::Kind;

    fn bzimage(offset: u16, text: &[u8]) -> Vec<u8> {
        let mut data = vec![0u8; 0x400];
        data[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        data[0x202..0x206].copy_from_slice(b"HdrS");
        data[0x20e..0x210].copy_from_slice(&offset.to_le_bytes());
        data.extend_from_slice(text);
        data
    }

    #[test]
    fn the_release_is_read_from_the_boot_header() {
        let whole = bzimage(0x200, b"6.12.117 (me@there) #1 SMP\0");
        assert_eq!(bzimage_release(&whole).as_deref(), Some("6.12.117"));
        for length in 0..whole.len() {
            // Cut anywhere: no panic, and no release unless its end is there.
            assert_eq!(bzimage_release(&whole[..length]).is_some(), length > 0x400 + 8, "{length}");
        }
        assert_eq!(bzimage_release(&bzimage(0, b"6.12 ")), None);
        assert_eq!(bzimage_release(&bzimage(0xffff, b"6.12 ")), None);
        assert_eq!(bzimage_release(&bzimage(0x200, b"\xff\xfe ")), None);
        assert_eq!(bzimage_release(b"\x7fELF"), None);
    }

    #[test]
    fn what_is_not_an_image_is_a_usage_error() {
        for path in ["/no/such/image", "/dev/null", "/"] {
            let error = from_image(Path::new(path)).expect_err("no image");
            assert_eq!(error.kind, Kind::Usage, "{path}");
            assert!(error.remedy.is_some());
        }
    }
}
