//! Checks whether an object may be written.

use std::collections::HashSet;

use serde_json::Value;

use crate::definitions;
use kubeapi::validate::{change, engine, metadata, place::Place};
use kubeapi::{
    cause::Cause,
    registry::{Builtin, Kind},
    request::subresource::Subresource,
};

mod addresses;
mod ephemeral;
mod pod_update;
mod resize;
mod schedule;
mod tables;
#[cfg(test)]
mod tests;

/// Returns the faults of a new object, which is complete except for what only the server sets.
pub(crate) fn create(kind: &Kind, object: &Value) -> Vec<Cause> {
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
pub(crate) fn limits(kind: &Kind, old: Option<&Value>, new: &Value) -> Vec<Cause> {
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
pub(crate) fn update(
    kind: &Kind,
    old: &Value,
    new: &Value,
    part: Option<Subresource>,
) -> Vec<Cause> {
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
        (Builtin::Pod, Some(Subresource::Resize)) => causes.extend(resize::update(old, new)),
        (Builtin::Pod, _) if is_status => causes.extend(pod_update::mirror(old, new)),
        (Builtin::Pod, _) => causes.extend(pod_update::update(old, new)),
        (Builtin::CustomResourceDefinition, _) => {
            causes.extend(definitions::rules::update(old, new))
        }
        _ => {}
    }
    causes.extend(addresses::check(builtin, Some(old), new));
    causes
}
