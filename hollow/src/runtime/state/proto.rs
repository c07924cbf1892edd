//! Stores CRI messages in JSON: their own encoding, in base64.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serializer, de::Error};
use wire::cri::Message;

pub(super) fn serialize<M: Message, S: Serializer>(message: &M, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&BASE64_STANDARD.encode(message.encode_to_vec()))
}

pub(super) fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(
    d: D,
) -> Result<M, D::Error> {
    let bytes = BASE64_STANDARD
        .decode(String::deserialize(d)?)
        .map_err(D::Error::custom)?;
    M::decode(&*bytes).map_err(D::Error::custom)
}
