//! Compression of WebSocket messages, used if both ends agree on it when they connect. It is our extension: `CloudCore` and `EdgeCore` do
//! not know the header, so connections with them stay uncompressed.
//!
//! Each end keeps the last bytes that it sent, and the receiver keeps the same bytes. A message is an LZ4 block that refers to them. An
//! idle node repeats itself, so that little more than ids and times remains. A compressed message is a binary frame; any other is a text
//! frame, as without compression:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | bytes of the message, little-endian |
//! | 4 | n | an [LZ4 block](https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md) |

use bytes::Bytes;
use lz4_flex::block;

/// The header of the upgrade with which a node offers compression and the cloud accepts it.
pub const HEADER: &str = "outrigger-compression";
/// The header's value: this format, with a history of [`REMEMBERED`] bytes.
pub const FORM: &str = "lz4-8k";
/// The bytes of history that a message may refer to.
pub const REMEMBERED: usize = 8 * 1024;

/// Why a compressed message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CompressionError {
    /// The message is larger than the receiver allows.
    #[error("a compressed message of {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Announced size, bytes.
        size: usize,
        /// Allowed size, bytes.
        limit: usize,
    },
    /// The bytes are not an LZ4 block, or the block refers to bytes outside the history.
    #[error("a compressed message cannot be decompressed")]
    Malformed(#[from] block::DecompressError),
}

/// The history of one direction: the last bytes that one end sent and the other received.
#[derive(Debug, Default)]
struct Past(Vec<u8>);

impl Past {
    fn add(&mut self, text: &[u8]) {
        let new = &text[text.len().saturating_sub(REMEMBERED)..];
        let old = (self.0.len() + new.len()).saturating_sub(REMEMBERED);
        self.0.drain(..old);
        self.0.extend_from_slice(new);
    }
}

/// The sending end. Every message must go through it, in the order of sending.
#[derive(Debug, Default)]
pub struct Compressor(Past);

impl Compressor {
    /// Compresses a message; returns `None` if it would not get smaller and is to be sent as it is.
    pub fn compress(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let packed = block::compress_prepend_size_with_dict(text, &self.0.0);
        self.0.add(text);
        (packed.len() < text.len()).then_some(packed)
    }
}

/// The receiving end. Every message must go through it, in the order of arrival.
#[derive(Debug, Default)]
pub struct Decompressor(Past);

impl Decompressor {
    /// Returns the message in a frame. Binary frames are decompressed, to at most `limit` bytes.
    ///
    /// # Errors
    /// The bytes are not a compressed message, or belong to another connection's history; later messages cannot be read either.
    pub fn read(
        &mut self,
        frame: Bytes,
        is_binary: bool,
        limit: usize,
    ) -> Result<Bytes, CompressionError> {
        if is_binary {
            return self.decompress(&frame, limit).map(Bytes::from);
        }
        self.0.add(&frame);
        Ok(frame)
    }

    fn decompress(&mut self, packed: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
        let (size, packed) = block::uncompressed_size(packed)?;
        if size > limit {
            return Err(CompressionError::TooLarge { size, limit });
        }
        let text = block::decompress_with_dict(packed, size, &self.0.0)?;
        self.0.add(&text);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sends a text through both ends and returns the bytes on the wire.
    fn say(
        (compressor, decompressor): &mut (Compressor, Decompressor),
        text: &[u8],
    ) -> Result<usize, CompressionError> {
        let (frame, is_binary) = match compressor.compress(text) {
            Some(packed) => (packed, true),
            None => (text.to_vec(), false),
        };
        let size = frame.len();
        assert_eq!(
            decompressor.read(frame.into(), is_binary, text.len())?,
            text
        );
        Ok(size)
    }

    #[test]
    fn what_was_said_before_costs_little() {
        let captures = include_str!("../tests/fixtures/edgecore-cloudcore-1.23-full.jsonl");
        let lease = captures
            .lines()
            .find(|line| line.contains("renewTime"))
            .unwrap();
        let mut ends = <(Compressor, Decompressor)>::default();
        let first = say(&mut ends, lease.as_bytes()).unwrap();
        let again = lease.replace("at_ms\":1", "at_ms\":2");
        let second = say(&mut ends, again.as_bytes()).unwrap();
        assert!(second < 40 && first > 10 * second, "{first}, then {second}");
    }

    #[test]
    fn what_is_no_compressed_message_is_an_error() {
        let mut decompressor = Decompressor::default();
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x05\0\0\0",
            b"\x05\0\0\0\x14aaaaaaaa",
            b"\x08\0\0\0\x00\xff\xff\x00",
        ] {
            let error = decompressor.read(bytes.into(), true, 100).unwrap_err();
            assert!(
                matches!(error, CompressionError::Malformed(_)),
                "{bytes:?}: {error}"
            );
        }
        let error = decompressor
            .read(b"\xff\xff\xff\xff\x14aaaa"[..].into(), true, 100)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "a compressed message of 4294967295 bytes exceeds the limit of 100"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_said_arrives(
            texts in proptest::collection::vec(
                prop_oneof![
                    "[a-c]{0,300}".prop_map(String::into_bytes),
                    proptest::collection::vec(any::<u8>(), 0..100),
                    ("[a-z]{1,9}", 1..3000usize).prop_map(|(text, times)| text.repeat(times).into_bytes()),
                ],
                0..12,
            )
        ) {
            let mut ends = <(Compressor, Decompressor)>::default();
            for text in texts {
                say(&mut ends, &text).unwrap();
                prop_assert!(ends.0.0.0.len() <= REMEMBERED);
            }
        }
    }
}
