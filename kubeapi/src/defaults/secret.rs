//! Defaults of secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::fields::default_text;
use crate::object::child;

/// Fills in a secret, and moves `stringData`.
pub fn fill(secret: &mut Map<String, Value>) {
    default_text(secret, "type", "Opaque");
    normalise(secret);
}

/// Moves the write-only `stringData` into `data`.
pub fn normalise(secret: &mut Map<String, Value>) {
    if let Some(Value::Object(texts)) = secret.shift_remove("stringData") {
        let data = child(secret, "data");
        for (key, text) in texts {
            data.insert(
                key,
                STANDARD.encode(text.as_str().unwrap_or_default()).into(),
            );
        }
    }
}
