//! Objects of kinds that are served in several versions: they are stored in one, and leave in the one in which they are asked
//! for. Those of definitions are stored as they were written and differ in `apiVersion` alone; events have two groups.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    events,
    object::as_map,
    registry::{Builtin, Kind},
    store::{Object, StoreError},
};

/// Whether what is stored is not what is served.
fn differs(kind: &Kind) -> bool {
    kind.is(Builtin::NewEvent) || kind.defined.as_ref().is_some_and(|defined| defined.has_versions)
}

/// `object` as one of `kind`.
pub(super) fn served(kind: &Kind, object: Object) -> Result<Object, StoreError> {
    if !differs(kind) {
        return Ok(object);
    }
    let mut value = object.value()?;
    if kind.is(Builtin::NewEvent) {
        value = events::to_new(value);
    } else {
        as_map(&mut value).insert("apiVersion".into(), kind.api_version().into());
    }
    Ok(Object { json: Bytes::from(value.to_string()), ..object })
}

/// The same for many.
pub(super) fn all_served(kind: &Kind, objects: Vec<Object>) -> Result<Vec<Object>, StoreError> {
    if !differs(kind) {
        return Ok(objects);
    }
    objects.into_iter().map(|object| served(kind, object)).collect()
}

/// An object of `kind` as it is stored.
pub(super) fn stored(kind: &Kind, object: Value) -> Value {
    if kind.is(Builtin::NewEvent) { events::to_core(object) } else { object }
}
