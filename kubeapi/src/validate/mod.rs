//! Checks whether an object may be written.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    cause::Cause,
    registry::{Builtin, Kind},
    status::StatusError,
    subresource::Subresource,
};

use place::Place;

mod addresses;
mod change;
mod decode;
mod engine;
mod ephemeral;
mod formats;
mod labels;
mod metadata;
mod numbers;
mod place;
mod pod_update;
mod repeats;
mod schedule;
mod sysctl;
mod tables;
#[cfg(test)]
mod tests;

pub use addresses::endpoint_address;
pub use decode::{decode, decode_body, unknown_metadata};

/// What happens to unknown fields.
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

/// Returns the faults of a new object, which is complete except for what only the server sets.
pub fn create(kind: &Kind, object: &Value) -> Vec<Cause> {
    let (place, mut causes) = (Place::root(object), Vec::new());
    let (mut own, mut of_content) = (Vec::new(), Vec::new());
    metadata::create(kind, &place, &mut own);
    if let Some(builtin) = kind.builtin {
        if let Some(tables) = tables::of(builtin) {
            let content = if builtin == Builtin::NewEvent {
                &[]
            } else {
                tables.content
            };
            engine::check(content, &place, &mut of_content);
            engine::check(tables.new, &place, &mut of_content);
        }
        of_content.extend(addresses::check(builtin, None, object));
    }
    if kind.is(Builtin::Event) && !of_content.is_empty() {
        // their own rules come first
        return of_content;
    }
    causes.extend(own);
    causes.extend(of_content);
    causes
}

/// Returns the faults of the numbers of items and bytes in an object that replaces `old`, if there is one. They are found before the
/// defaults are filled in, and before anything else that takes time for each item.
pub fn limits(kind: &Kind, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let Some(tables) = kind.builtin.and_then(tables::of) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    engine::check_limits(tables.content, &Place::root(new), &mut causes);
    if let Some(old) = old.filter(|_| !causes.is_empty()) {
        let mut known = Vec::new();
        engine::check_limits(tables.content, &Place::root(old), &mut known);
        causes.retain(|cause| !known.contains(cause));
    }
    causes
}

/// Returns the faults of a change from `old` to `new` by a subresource (`None`: of the whole object). What was wrong before may stay.
pub fn update(kind: &Kind, old: &Value, new: &Value, part: Option<Subresource>) -> Vec<Cause> {
    let (before, place, mut causes) = (Place::root(old), Place::root(new), Vec::new());
    metadata::update(kind, old, &place, &mut causes);
    let Some(builtin) = kind.builtin else {
        return causes;
    };
    let is_status = matches!(part, Some(Subresource::Status | Subresource::Approval));
    if let Some(tables) = tables::of(builtin) {
        let content = if is_status {
            tables.status
        } else {
            tables.content
        };
        if !is_status || builtin == Builtin::CertificateSigningRequest {
            change::check(tables.changes, old, new, &mut causes);
        }
        let (mut known, mut found) = (Vec::new(), Vec::new());
        engine::check(content, &place, &mut found);
        if !found.is_empty() {
            engine::check(content, &before, &mut known);
        }
        let known: HashSet<_> = known.into_iter().collect();
        causes.extend(found.into_iter().filter(|cause| !known.contains(cause)));
    }
    match (builtin, part) {
        (Builtin::Pod, Some(Subresource::EphemeralContainers)) => {
            causes.extend(ephemeral::update(old, new))
        }
        (Builtin::Pod, _) if is_status => causes.extend(pod_update::mirror(old, new)),
        (Builtin::Pod, _) => causes.extend(pod_update::update(old, new)),
        _ => {}
    }
    causes.extend(addresses::check(builtin, Some(old), new));
    causes
}
