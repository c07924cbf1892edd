//! The wire types of protobuf.

use std::fmt;

/// How a value is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireType {
    /// An integer or bool.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length, then as many bytes.
    Bytes,
    /// Four bytes.
    Fixed32,
}

impl fmt::Display for WireType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Varint => "varint",
            Self::Fixed64 => "64-bit",
            Self::Bytes => "length-delimited",
            Self::Fixed32 => "32-bit",
        })
    }
}
