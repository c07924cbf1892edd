//! The WebSocket codec: one JSON document a message, bare, with limits applied before anything is allocated.

use crate::Message;

/// The default limit of one message, bytes (a Kubernetes object is at most 3 MiB; a cloud may batch).
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Larger than the receiver allows.
    #[error(
        "a message of {size} bytes exceeds the limit of {limit}; the sender must split it, or the limit be raised"
    )]
    TooLarge {
        /// Bytes received.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Not JSON, nested deeper than 128 levels, or a header or route of the wrong shape.
    #[error("not a KubeEdge message (line {}, column {}); both ends must speak KubeEdge's JSON", .0.line(), .0.column())]
    Malformed(#[source] serde_json::Error),
}

/// Reads one message of at most `limit` bytes. Unknown fields are ignored; nesting is limited to 128 levels.
pub fn decode(bytes: &[u8], limit: usize) -> Result<Message, DecodeError> {
    if bytes.len() > limit {
        return Err(DecodeError::TooLarge { size: bytes.len(), limit });
    }
    serde_json::from_slice(bytes).map_err(DecodeError::Malformed)
}

/// Writes one message.
pub fn encode(message: &Message) -> String {
    // a Message holds strings, numbers and JSON values only: each of them has a JSON text
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod tests;
