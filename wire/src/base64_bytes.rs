//! Serialises bytes as Go does: base64 in a string, `null` for no bytes.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if bytes.is_empty() {
        serializer.serialize_none()
    } else {
        text::serialize(bytes, serializer)
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    STANDARD
        .decode(text)
        .map_err(|error| D::Error::custom(format!("a byte field is not base64: {error}")))
}

/// Serialises bytes in the same way, but with an empty string for no bytes, as Go writes bytes that are empty and not `nil`.
pub(crate) mod text {
    use super::{Engine, STANDARD, Serializer};

    pub(crate) use super::deserialize;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}
