//! The wire types of protobuf.

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
