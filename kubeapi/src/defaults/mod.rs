//! The defaults of pods, as the API server fills them in. Those of other kinds are in the crate `apiserver`.

use serde_json::Value;

use crate::registry::{Builtin, Kind};

mod container;
pub mod fields;
pub mod pod;
pub mod secret;

/// Moves fields that clients may write elsewhere, such as `stringData`, to where they are stored.
pub fn normalise(kind: &Kind, object: &mut Value) {
    if let (Some(Builtin::Secret), Value::Object(map)) = (kind.builtin, object) {
        secret::normalise(map);
    }
}
