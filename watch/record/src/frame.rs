// SPDX-License-Identifier: GPL-2.0-only
//! Tag, length, checksum, payload.

use crate::error::{Error, Result};
use crate::limits::PAYLOAD_MAX;
use std::io::{ErrorKind, Read};

pub type Tag = [u8; 4];

pub const ENVIRONMENT: Tag = *b"ENVT";
pub const STACKS: Tag = *b"STCK";
pub const PROCESSES: Tag = *b"PROC";
pub const WINDOW: Tag = *b"WNDW";
pub const EVENTS: Tag = *b"EVNT";
pub const END: Tag = *b"END ";

const HEAD_BYTES: usize = 12;

/// CRC-32 as in zlib.
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.finalize()
}

/// None where the payload is too long for any reader.
pub fn encode(tag: Tag, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok().filter(|length| *length <= PAYLOAD_MAX)?.to_le_bytes();
    let crc = crc32(&[&tag, &length, payload]).to_le_bytes();
    Some([&tag[..], &length, &crc, payload].concat())
}

/// The next frame; None at the end of the file. `at` is where it begins.
pub fn decode(source: &mut impl Read, at: u64) -> Result<Option<(Tag, Vec<u8>)>> {
    let head = read(source, HEAD_BYTES)?;
    if head.is_empty() {
        return Ok(None);
    }
    let word = |n: usize| head.get(n * 4..n * 4 + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let (Some(tag), Some(length), Some(crc)) = (word(0), word(1), word(2)) else {
        return Err(Error::Cut(at));
    };
    if !tag.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' ')) {
        return Err(Error::damaged(at, "no frame begins there"));
    }
    let bytes = u32::from_le_bytes(length);
    if bytes > PAYLOAD_MAX {
        return Err(Error::damaged(at, format!("a frame of {bytes} bytes")));
    }
    let payload = read(source, bytes as usize)?;
    if payload.len() < bytes as usize {
        return Err(Error::Cut(at));
    }
    if crc32(&[&tag, &length, &payload]) != u32::from_le_bytes(crc) {
        return Err(Error::damaged(at, "the checksum does not match"));
    }
    Ok(Some((tag, payload)))
}

/// So many bytes, or fewer at the end. Memory is taken as they come, not as they are promised.
pub fn read(source: &mut impl Read, bytes: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    match source.take(bytes as u64).read_to_end(&mut buffer) {
        Ok(_) => Ok(buffer),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(buffer),
        Err(error) => Err(Error::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = encode(WINDOW, b"{\"a\":1}").expect("short");
        assert_eq!(decode(&mut &good[..], 0).expect("good").expect("one").1, b"{\"a\":1}");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&mut &bad[..], 0).is_err(), "bit {bit}");
        }
        for end in 1..good.len() {
            assert!(matches!(decode(&mut &good[..end], 7), Err(Error::Cut(7))), "{end}");
        }
    }
}
