//! Decodes objects, and checks pods. The rules of other kinds are in the crate `apiserver`, which uses the same tables and engine.

use serde_json::Value;

use crate::{cause::Cause, registry::Kind, status::StatusError};

use place::Place;
use tables::pod;

pub mod addresses;
pub mod change;
mod decode;
pub mod engine;
pub mod formats;
pub mod labels;
pub mod metadata;
pub mod numbers;
pub mod place;
pub mod repeats;
mod sysctl;
pub mod tables;

pub use addresses::endpoint_address;
pub use decode::{decode, decode_body, unknown_metadata};

/// How unknown fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// The write is refused.
    Strict,
    /// The fields are dropped with a warning.
    Warn,
    /// The fields are dropped.
    Ignore,
}

impl FieldValidation {
    /// Parses the query parameter `fieldValidation`.
    pub fn parse(text: Option<&str>) -> Result<Self, StatusError> {
        match text {
            Some("Strict") => Ok(Self::Strict),
            None | Some("Warn") => Ok(Self::Warn),
            Some("Ignore") => Ok(Self::Ignore),
            Some(other) => Err(StatusError::bad_request(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }
}

/// Returns the faults of a new pod, which is complete except for what only the server sets. `kind` is that of pods.
pub(crate) fn new_pod(kind: &Kind, object: &Value) -> Vec<Cause> {
    let (place, mut causes) = (Place::root(object), Vec::new());
    metadata::create(kind, &place, &mut causes);
    engine::check(pod::POD, &place, &mut causes);
    engine::check(pod::NEW_POD, &place, &mut causes);
    causes
}
