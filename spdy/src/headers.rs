//! Header blocks before compression: `u32 count`, then `u32 length, name, u32 length, value` for each.

use bytes::{Buf, BufMut};

use crate::Error;

/// The most headers of one block.
pub const MAX_HEADERS: usize = 100;
/// The largest inflated block, bytes.
pub const MAX_BLOCK: usize = 64 * 1024;

/// The headers of a stream, in order. Names are written in lower case and looked up in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Returns the first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(has, _)| has.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns all names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Encodes the headers as a block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = self
            .0
            .iter()
            .map(|(name, value)| name.len() + value.len() + 8)
            .sum::<usize>();
        let mut block = Vec::with_capacity(4 + length);
        put_length(&mut block, self.0.len());
        for (name, value) in &self.0 {
            for text in [name, value] {
                put_length(&mut block, text.len());
                block.put_slice(text.as_bytes());
            }
        }
        block
    }

    /// Decodes a block.
    pub(crate) fn decode(mut block: &[u8]) -> Result<Self, Error> {
        let count = block.try_get_u32().map_err(|_| Error::Block)?;
        if count as usize > MAX_HEADERS {
            return Err(Error::TooManyHeaders(count));
        }
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = text(&mut block)?.to_ascii_lowercase();
            headers.push((name, text(&mut block)?));
        }
        if block.is_empty() {
            Ok(Self(headers))
        } else {
            Err(Error::Block)
        }
    }
}

/// Writes a length. The limit of a block keeps lengths far below 2^32; a longer one would make a block that nobody can read.
fn put_length(block: &mut Vec<u8>, length: usize) {
    block.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

fn text(block: &mut &[u8]) -> Result<String, Error> {
    let length = block.try_get_u32().map_err(|_| Error::Block)? as usize;
    let (text, rest) = block.split_at_checked(length).ok_or(Error::Block)?;
    *block = rest;
    String::from_utf8(text.to_vec()).map_err(|_| Error::Block)
}
