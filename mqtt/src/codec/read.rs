//! A reader over the bytes of one packet; its errors say what was missing.

use crate::reason::Fault;

/// The unread rest of a packet.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// The largest value of a variable byte integer (section 1.5.5).
pub(super) const VARINT_MAX: u32 = 268_435_455;

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the unread bytes.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(Fault::malformed("the packet ends within a field"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn two(&mut self) -> Result<u16, Fault> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn four(&mut self) -> Result<u32, Fault> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Reads a packet identifier, which must not be 0.
    pub(super) fn id(&mut self) -> Result<u16, Fault> {
        match self.two()? {
            0 => Err(Fault::protocol("packet identifier 0")),
            id => Ok(id),
        }
    }

    /// Reads a variable byte integer, which must be in its shortest form.
    pub(super) fn varint(&mut self) -> Result<u32, Fault> {
        let mut value = 0;
        for position in 0..4 {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7F) << (7 * position);
            if byte & 0x80 == 0 {
                let short = position == 0 || byte != 0;
                return if short {
                    Ok(value)
                } else {
                    Err(Fault::malformed("a length longer than it need be"))
                };
            }
        }
        Err(Fault::malformed("a length of more than four bytes"))
    }

    /// Reads bytes that are preceded by a two-byte length.
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.two()?;
        self.take(usize::from(length))
    }

    /// Reads a UTF-8 string (section 1.5.4), which must be well-formed and without U+0000.
    pub(super) fn string(&mut self) -> Result<&'a str, Fault> {
        let bytes = self.binary()?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Fault::malformed("a string that is not UTF-8"))?;
        if bytes.contains(&0) {
            Err(Fault::malformed("a string with U+0000"))
        } else {
            Ok(text)
        }
    }

    /// Checks that everything was read.
    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Fault::malformed("bytes after the end of the packet"))
        }
    }
}
