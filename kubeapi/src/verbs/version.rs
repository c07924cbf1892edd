//! Objects of kinds that are served in several versions: they are stored in the one in which they were written, and leave in
//! the one in which they are asked for. Without conversion, only `apiVersion` differs.

use bytes::Bytes;

use crate::{
    object::as_map,
    registry::Kind,
    store::{Object, StoreError},
};

/// `object` as one of `kind`.
pub(super) fn served(kind: &Kind, object: Object) -> Result<Object, StoreError> {
    if !kind.defined.as_ref().is_some_and(|defined| defined.has_versions) {
        return Ok(object);
    }
    let mut value = object.value()?;
    as_map(&mut value).insert("apiVersion".into(), kind.api_version().into());
    Ok(Object { json: Bytes::from(value.to_string()), ..object })
}

/// The same for many.
pub(super) fn all_served(kind: &Kind, objects: Vec<Object>) -> Result<Vec<Object>, StoreError> {
    if !kind.defined.as_ref().is_some_and(|defined| defined.has_versions) {
        return Ok(objects);
    }
    objects.into_iter().map(|object| served(kind, object)).collect()
}
