//! The WebSocket codec: one plain JSON document per message, with limits applied before anything is allocated.

use crate::Message;

/// The default limit of one message, bytes. A Kubernetes object has at most 3 MiB, and a cloud may batch several.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// Why bytes are not a message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The message is larger than the receiver allows.
    #[error(
        "a message of {size} bytes exceeds the limit of {limit}; split it at the sender, or raise the limit"
    )]
    TooLarge {
        /// Received size, bytes.
        size: usize,
        /// Allowed size, bytes.
        limit: usize,
    },
    /// The bytes are not JSON, are nested deeper than 128 levels, or have a header or route of the wrong shape.
    #[error("not a KubeEdge message (line {}, column {}); both ends must speak KubeEdge's JSON", .0.line(), .0.column())]
    Malformed(#[source] serde_json::Error),
}

/// Decodes one message of at most `limit` bytes. Unknown fields are ignored; nesting is limited to 128 levels.
pub fn decode(bytes: &[u8], limit: usize) -> Result<Message, DecodeError> {
    if bytes.len() > limit {
        return Err(DecodeError::TooLarge {
            size: bytes.len(),
            limit,
        });
    }
    serde_json::from_slice(bytes).map_err(DecodeError::Malformed)
}

/// Reads the header and the route of a message from its first bytes; `None` if they are not there. The content is `null`.
pub fn decode_head(beginning: &[u8]) -> Option<Message> {
    // in a text its quotes would be escaped
    const CONTENT: &[u8] = b",\"content\":";
    let end = beginning
        .windows(CONTENT.len())
        .position(|window| window == CONTENT)?;
    serde_json::from_slice(&[beginning.get(..end)?, b"}"].concat()).ok()
}

/// Encodes one message.
pub fn encode(message: &Message) -> String {
    // A `Message` contains only strings, numbers and JSON values; each of them has a JSON text.
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod tests;
