//! Protobuf's framing: tags, integers and lengths. Nothing is copied, nothing is read beyond the end.

use super::{error::Fault, wire_type::WireType};

/// A value before its type is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Raw<'a> {
    pub(super) fn varint(self) -> Result<u64, Fault> {
        if let Self::Varint(value) = self {
            Ok(value)
        } else {
            Err(self.instead_of(WireType::Varint))
        }
    }

    pub(super) fn double(self) -> Result<f64, Fault> {
        if let Self::Fixed64(bits) = self {
            Ok(f64::from_bits(bits))
        } else {
            Err(self.instead_of(WireType::Fixed64))
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Fault> {
        if let Self::Bytes(bytes) = self {
            Ok(bytes)
        } else {
            Err(self.instead_of(WireType::Bytes))
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Fault::Text)
    }

    fn instead_of(self, expected: WireType) -> Fault {
        let found = match self {
            Self::Varint(_) => WireType::Varint,
            Self::Fixed64(_) => WireType::Fixed64,
            Self::Bytes(_) => WireType::Bytes,
            Self::Fixed32 => WireType::Fixed32,
        };
        Fault::WireType { found, expected }
    }
}

/// The fields of a message as they come: number and value. Ends at the first fault.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn field(&mut self) -> Result<(u32, Raw<'a>), Fault> {
        let tag = varint(&mut self.rest)?;
        // 29 bits are for the number; the groups (wire types 3 and 4) are in no message of Kubernetes
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or(Fault::Tag(tag))?;
        let value = match tag & 7 {
            0 => Raw::Varint(varint(&mut self.rest)?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.read_array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| Fault::Truncated)?;
                let (value, rest) = self.rest.split_at_checked(length).ok_or(Fault::Truncated)?;
                self.rest = rest;
                Raw::Bytes(value)
            }
            5 => {
                self.read_array::<4>()?;
                Raw::Fixed32
            }
            _ => return Err(Fault::Tag(tag)),
        };
        Ok((number, value))
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (value, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*value)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The integer at the start of `bytes`, which then begin after it.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Fault> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Fault::Truncated)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Fault::Varint)
}
