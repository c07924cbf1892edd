//! Blocks: a recording is a sequence of them, so that it can be decompressed with `zstd -d`, read in part, and used after a crash.
//!
//! A block is a skippable frame of zstd, which is the index entry, and a frame of zstd with whole lines:
//!
//! | offset | size | field, little-endian |
//! |---|---|---|
//! | 0 | 4 | `5B 2A 4D 18`, a skippable frame |
//! | 4 | 4 | 40, the size of what follows |
//! | 8 | 4 | the block's number, from 0 |
//! | 12 | 4 | bytes of the compressed frame |
//! | 16 | 4 | bytes of the lines |
//! | 20 | 4 | number of lines |
//! | 24 | 8 | time of the first line that has one, nanoseconds since 1970 |
//! | 32 | 8 | time of the last one |
//! | 40 | 4 | CRC-32 of the compressed frame |
//! | 44 | 4 | CRC-32 of bytes 0 to 44 |

use ruzstd::{
    decoding::FrameDecoder,
    encoding::{CompressionLevel, compress_to_vec},
};

/// The size of an index entry, bytes.
pub const INDEX_BYTES: usize = 48;
/// The most bytes of the lines of a block: a message of the largest size, and other lines.
pub const MAX_LINES_BYTES: usize = 40 * 1024 * 1024;
/// The most bytes of a compressed block.
pub const MAX_COMPRESSED_BYTES: usize = MAX_LINES_BYTES + MAX_LINES_BYTES / 128;

pub(crate) const MAGIC: [u8; 4] = [0x5b, 0x2a, 0x4d, 0x18];
const FOLLOWING: u32 = 40;

/// The index entry of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The block's number in the file, from 0.
    pub number: u32,
    /// Bytes of the compressed frame.
    pub compressed: u32,
    /// Bytes of the lines.
    pub bytes: u32,
    /// The number of lines.
    pub lines: u32,
    /// The time of the first line that has one.
    pub first: u64,
    /// The time of the last line.
    pub last: u64,
    /// The checksum of the compressed frame.
    pub checksum: u32,
}

/// Why a block is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The bytes are not an index entry.
    #[error("there is no index entry of a recording")]
    NoIndex,
    /// The entry does not match its checksum.
    #[error("the index entry does not match its checksum")]
    IndexChecksum,
    /// The entry announces more than a block may have.
    #[error("the block announces {0} bytes, of {max} at most", max = MAX_LINES_BYTES)]
    TooLarge(u32),
    /// The block does not match its checksum.
    #[error("the block does not match its checksum")]
    Checksum,
    /// The block cannot be decompressed.
    #[error("the block cannot be decompressed")]
    Compression,
    /// The block has more or fewer bytes than its index entry says.
    #[error("the block has another size than its index entry says")]
    Size,
}

impl Index {
    /// Decodes an index entry.
    ///
    /// # Errors
    /// The bytes are not one, or it announces too much.
    pub fn decode(bytes: &[u8; INDEX_BYTES]) -> Result<Self, BlockError> {
        let u32_at = |at: usize| {
            let mut part = [0; 4];
            part.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(part)
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[..4] != MAGIC || u32_at(4) != FOLLOWING {
            return Err(BlockError::NoIndex);
        }
        if u32_at(44) != crc32fast::hash(&bytes[..44]) {
            return Err(BlockError::IndexChecksum);
        }
        let index = Self {
            number: u32_at(8),
            compressed: u32_at(12),
            bytes: u32_at(16),
            lines: u32_at(20),
            first: u64_at(24),
            last: u64_at(32),
            checksum: u32_at(40),
        };
        for (bytes, limit) in [
            (index.compressed, MAX_COMPRESSED_BYTES),
            (index.bytes, MAX_LINES_BYTES),
        ] {
            if bytes as usize > limit {
                return Err(BlockError::TooLarge(bytes));
            }
        }
        Ok(index)
    }

    fn encode(&self) -> [u8; INDEX_BYTES] {
        let mut bytes = [0; INDEX_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        for (at, value) in [
            (4, FOLLOWING),
            (8, self.number),
            (12, self.compressed),
            (16, self.bytes),
            (20, self.lines),
            (40, self.checksum),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..44]);
        bytes[44..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decompresses the block of this entry.
    ///
    /// # Errors
    /// It does not match the entry.
    pub fn decompress(&self, compressed: &[u8]) -> Result<Vec<u8>, BlockError> {
        if crc32fast::hash(compressed) != self.checksum {
            return Err(BlockError::Checksum);
        }
        let mut lines = vec![0; self.bytes as usize];
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_LINES_BYTES as u64);
        let size = decoder
            .decode_all(compressed, &mut lines)
            .map_err(|_| BlockError::Compression)?;
        if size == lines.len() {
            Ok(lines)
        } else {
            Err(BlockError::Size)
        }
    }
}

/// Compresses lines to a block. `index` has their number and times.
pub fn encode(lines: &[u8], mut index: Index) -> Vec<u8> {
    let compressed = compress_to_vec(lines, CompressionLevel::Fastest);
    index.compressed = u32::try_from(compressed.len()).unwrap_or(u32::MAX);
    index.bytes = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    index.checksum = crc32fast::hash(&compressed);
    [&index.encode()[..], &compressed].concat()
}
