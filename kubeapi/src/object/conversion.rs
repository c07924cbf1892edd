//! Objects of kinds that are served in several versions: they are stored in one, and leave in the one in which they are asked for.
//! Those of definitions differ in `apiVersion` and in the fields that a version knows, unless somebody said how they are converted;
//! events have two groups, autoscalers two versions.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    object::{as_map, autoscalers, events, text_or_empty},
    registry::{Builtin, Kind, KindSchema},
};
use objectstore::{Object, StoreError};

/// Whether what is stored may not be what is served.
fn differs(kind: &Kind) -> bool {
    let defined = kind.defined.as_ref();
    kind.is(Builtin::NewEvent)
        || kind.is(Builtin::AutoscalerV1)
        || defined.is_some_and(|defined| defined.has_versions || defined.defaults_on_read)
}

/// `object` as one of `kind`.
pub fn convert_served(kind: &Kind, object: Object) -> Result<Object, StoreError> {
    if !differs(kind) {
        return Ok(object);
    }
    let value = served_value(kind, object.value()?);
    Ok(object.with_json(Bytes::from(value.to_string())))
}

fn served_value(kind: &Kind, mut value: Value) -> Value {
    let Some(defined) = &kind.defined else {
        return if kind.is(Builtin::NewEvent) {
            events::to_new(value)
        } else {
            autoscalers::to_v1(value)
        };
    };
    if defined.has_versions && text_or_empty(&value, "/apiVersion") != kind.api_version() {
        value = match defined.convert {
            Some(convert) => convert(&kind.version, value),
            None => value,
        };
        as_map(&mut value).insert("apiVersion".into(), kind.api_version().into());
        if let (None, KindSchema::Defined(schema)) = (defined.convert, kind.schema()) {
            schema.prune(&mut value);
        }
    }
    if let (true, KindSchema::Defined(schema)) = (defined.defaults_on_read, kind.schema()) {
        // of an object that would be too large with all of them, as many as fit are filled in
        if schema.fill_defaults(&mut value).is_err() {
            tracing::debug!(
                kind = kind.kind,
                "defaults of a stored object too large; some are omitted"
            );
        }
    }
    value
}

/// The same for many.
pub fn all_served(kind: &Kind, objects: Vec<Object>) -> Result<Vec<Object>, StoreError> {
    if !differs(kind) {
        return Ok(objects);
    }
    objects
        .into_iter()
        .map(|object| convert_served(kind, object))
        .collect()
}

/// The same for an object that is only read.
pub fn stored_form<'a>(kind: &Kind, object: &'a Value) -> Cow<'a, Value> {
    let stays = kind
        .builtin
        .is_none_or(|kind| !matches!(kind, Builtin::NewEvent | Builtin::AutoscalerV1))
        && kind
            .defined
            .as_ref()
            .is_none_or(|defined| defined.storage_version == kind.version);
    if stays {
        Cow::Borrowed(object)
    } else {
        Cow::Owned(to_stored(kind, object.clone()))
    }
}

/// An object of `kind` as it is stored.
pub fn to_stored(kind: &Kind, object: Value) -> Value {
    match kind.builtin {
        Some(Builtin::NewEvent) => return events::to_core(object),
        Some(Builtin::AutoscalerV1) => return autoscalers::to_v2(object),
        _ => {}
    }
    match &kind.defined {
        Some(defined) => defined.to_storage(object),
        None => object,
    }
}
