// SPDX-License-Identifier: GPL-2.0-only
//! Empty file systems for the guest's disks in memory, made on the host because the guest has no mke2fs.

use std::path::{Path, PathBuf};

use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Result};

/// The RAM disk has as much (CONFIG_BLK_DEV_RAM_SIZE), and so has lab/guest/mounts.c.
const IMAGE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: usize = 4096;
/// Any fixed value will do: a random one would make each image another.
const UUID: &str = "00000000-0000-4000-8000-00000000cea5";

/// A file system. To mke2fs all of one family are ext2, with more features or fewer: another type it only knows from a
/// configuration file.
pub struct Image {
    pub kind: &'static str,
    features: &'static str,
    extended: &'static str,
}

pub const IMAGES: [Image; 2] = [
    // On the RAM disk.
    Image { kind: "ext2", features: "^resize_inode", extended: "" },
    // On a loop device: what distributions have, with the smallest journal there is (4 MiB), and nothing left for the
    // kernel to do in the background.
    Image {
        kind: "ext4",
        features:
            "^resize_inode,has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize",
        extended: ",lazy_itable_init=0,lazy_journal_init=0",
    },
];

/// mke2fs lies outside of an ordinary user's PATH.
fn program() -> Result<PathBuf> {
    let places = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].map(PathBuf::from);
    exec::find_program("mke2fs")
        .or_else(|| places.into_iter().find(|path| path.is_file()))
        .ok_or_else(|| exec::missing_program("mke2fs"))
}

/// The version of mke2fs, since it decides the layout.
pub fn version() -> Result<String> {
    let said = exec::capture(&Command::new(program()?).arg("-V"), None)?;
    Ok(said.stderr.lines().next().unwrap_or_default().to_string())
}

/// The image's blocks that are not all zero, each after its offset as a little-endian u64.
pub fn blocks(image: &Image, directory: &Path) -> Result<Vec<u8>> {
    let path = directory.join(format!("{}.image", image.kind));
    let extended = format!("hash_seed={UUID},root_owner=0:0{}", image.extended);
    // Neither the machine's mke2fs.conf nor the clock may change the result.
    let command = Command::new(program()?)
        .args(["-q", "-F", "-t", "ext2", "-b", "4096", "-I", "256", "-m", "0", "-U", UUID])
        .args(["-E", &extended, "-O", image.features])
        .arg(&path)
        .arg(format!("{}k", IMAGE_BYTES >> 10))
        .env("MKE2FS_CONFIG", "/dev/null")
        .env("E2FSPROGS_FAKE_TIME", "1");
    exec::read(&command)?;
    let content = std::fs::read(&path).map_err(|error| disk::error("read", &path, &error))?;
    std::fs::remove_file(&path).map_err(|error| disk::error("remove", &path, &error))?;
    Ok(not_zero(&content))
}

fn not_zero(image: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::new();
    for (index, block) in image.chunks_exact(BLOCK_BYTES).enumerate() {
        if block.iter().any(|&byte| byte != 0) {
            blocks.extend_from_slice(&((index * BLOCK_BYTES) as u64).to_le_bytes());
            blocks.extend_from_slice(block);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut image = vec![0; 4 * BLOCK_BYTES];
        image[BLOCK_BYTES] = 7;
        image[4 * BLOCK_BYTES - 1] = 9;
        let blocks = not_zero(&image);
        assert_eq!(blocks.len(), 2 * (8 + BLOCK_BYTES));
        assert_eq!(blocks[..9], [0, 16, 0, 0, 0, 0, 0, 0, 7]);
        let second = 8 + BLOCK_BYTES;
        assert_eq!(blocks[second..second + 8], (3 * BLOCK_BYTES as u64).to_le_bytes());
        assert_eq!(blocks.last(), Some(&9));
    }
}
