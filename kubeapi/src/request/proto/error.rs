//! Why a protobuf body was not understood.

use thiserror::Error;

use super::{
    limits::{DEPTH, VALUES},
    wire_type::WireType,
};

/// A protobuf body was not understood.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// It does not begin as every such body does.
    #[error(
        "the body does not begin with \"k8s\" and a zero byte: it is not Kubernetes protobuf, send JSON as application/json"
    )]
    Magic,
    /// No table has this kind.
    #[error(
        "kind {kind:?} of {api_version:?} is not known in protobuf: send it as application/json"
    )]
    Kind {
        /// As the envelope says.
        api_version: String,
        /// As the envelope says.
        kind: String,
    },
    /// The envelope holds something else than protobuf, or compressed.
    #[error("the envelope contains {found:?}; it must contain plain protobuf")]
    Content {
        /// The content type or encoding.
        found: String,
    },
    /// Bytes that do not fit the kind.
    #[error("the body is not a valid protobuf of its kind, at {at}: {fault}")]
    Damaged {
        /// A message, or one of its fields: `PodSpec.containers`.
        at: String,
        /// What is wrong there.
        fault: Fault,
    },
    /// The tables of this program are at fault.
    #[error("the field tables are wrong at {line:?}: send JSON as application/json")]
    Schema {
        /// The line.
        line: &'static str,
    },
}

/// What is wrong with some bytes.
#[derive(Clone, Debug, Error, PartialEq)]
pub(crate) enum Fault {
    /// A value continues after the end.
    #[error("it ends within a value")]
    Truncated,
    /// More than ten bytes long.
    #[error("an integer does not end")]
    Varint,
    /// The number is zero or too large, or the wire type is none.
    #[error("{0:#x} is not the tag of a field")]
    Tag(u64),
    /// A field of another type.
    #[error("a value is of wire type {found} instead of {expected}")]
    WireType {
        /// What came.
        found: WireType,
        /// What belongs there.
        expected: WireType,
    },
    /// Strings are UTF-8.
    #[error("a string is not UTF-8")]
    Text,
    /// Some fields hold JSON, which did not parse.
    #[error("a value is not JSON: {0}")]
    Json(String),
    /// Before the year 1 or after 9999, or a fraction of more than a second.
    #[error("a time is out of range")]
    Time,
    /// JSON has no such number.
    #[error("a number is not finite")]
    Number,
    /// Objects within objects.
    #[error("it is nested more than {} deep", DEPTH)]
    TooDeep,
    /// Small bodies must not become large objects.
    #[error("it has more than {} values", VALUES)]
    TooMany,
}
