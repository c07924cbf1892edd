//! Objects of kinds that are served in several versions: they are stored in one, and leave in the one in which they are asked for.
//! Those of definitions differ in `apiVersion` and in the fields that a version knows, unless this program or a webhook converts them;
//! events have two groups, autoscalers two versions.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    Api,
    object::{as_map, autoscalers, events, text_or_empty},
    registry::{Builtin, Conversion, Defined, Kind},
    status::StatusError,
};
use objectstore::Object;

/// Whether what is stored may not be what is served.
fn differs(kind: &Kind) -> bool {
    let defined = kind.defined.as_ref();
    kind.is(Builtin::NewEvent)
        || kind.is(Builtin::AutoscalerV1)
        || defined.is_some_and(|defined| defined.has_versions || defined.defaults_on_read)
}

/// `object` as one of `kind`.
///
/// # Errors
/// A damaged object, or a failed conversion.
pub async fn convert_served(api: &Api, kind: &Kind, object: Object) -> Result<Object, StatusError> {
    let served = all_served(api, kind, vec![object])
        .await?
        .into_iter()
        .next();
    served.ok_or_else(|| StatusError::internal("the conversion returned no object"))
}

/// The same for many: a webhook gets them together.
///
/// # Errors
/// As [`convert_served`].
pub async fn all_served(
    api: &Api,
    kind: &Kind,
    objects: Vec<Object>,
) -> Result<Vec<Object>, StatusError> {
    if !differs(kind) {
        return Ok(objects);
    }
    let mut values = objects
        .iter()
        .map(Object::value)
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(defined) = kind.defined.as_ref().filter(|one| one.defaults_on_read) {
        // before the conversion, as in kube-apiserver: what it leaves out stays absent
        values
            .iter_mut()
            .for_each(|value| fill_defaults(defined, value));
    }
    let values = match &kind.defined {
        Some(defined) if defined.has_versions => {
            convert(api, kind, &kind.api_version(), values).await?
        }
        Some(_) => values,
        None if kind.is(Builtin::NewEvent) => values.into_iter().map(events::to_new).collect(),
        None => values.into_iter().map(autoscalers::to_v1).collect(),
    };
    let served = objects
        .into_iter()
        .zip(values)
        .map(|(object, value)| object.with_json(Bytes::from(value.to_string())));
    Ok(served.collect())
}

/// Adds the defaults that the version in which the object is stored got afterwards.
fn fill_defaults(defined: &Defined, value: &mut Value) {
    let version = text_or_empty(value, "/apiVersion").to_owned();
    // of an object that would be too large with all of them, as many as fit are filled in
    if defined.fill_defaults(&version, value).is_err() {
        tracing::debug!(
            version,
            "defaults of a stored object too large; some are omitted"
        );
    }
}

/// Converts objects of a defined kind, of whichever versions, into the version `<group>/<version>`.
///
/// # Errors
/// Why the definition's webhook did not convert them.
pub async fn convert(
    api: &Api,
    kind: &Kind,
    api_version: &str,
    objects: Vec<Value>,
) -> Result<Vec<Value>, StatusError> {
    let Some(defined) = &kind.defined else {
        return Ok(objects);
    };
    let is_other = |object: &Value| text_or_empty(object, "/apiVersion") != api_version;
    if !matches!(defined.conversion, Conversion::Webhook) {
        let here = |object| match is_other(&object) {
            true => defined.convert_here(api_version, object),
            false => object,
        };
        return Ok(objects.into_iter().map(here).collect());
    }
    let others: Vec<_> = objects
        .iter()
        .filter(|&object| is_other(object))
        .cloned()
        .collect();
    if others.is_empty() {
        return Ok(objects);
    }
    check_versions(defined, &others)?;
    let request = ConversionRequest {
        kind,
        defined,
        api_version,
    };
    let converted = api.strategy().convert(api, request, others).await?;
    let mut converted = converted.into_iter();
    let filled = objects.into_iter().map(|object| {
        if !is_other(&object) {
            return Some(object);
        }
        let mut object = converted.next()?;
        defined.prune(api_version, &mut object);
        Some(object)
    });
    filled
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| StatusError::internal("the conversion returned too few objects"))
}

/// Refuses objects in versions that the definition does not have.
fn check_versions(defined: &Defined, objects: &[Value]) -> Result<(), StatusError> {
    let unknown = objects
        .iter()
        .map(|object| text_or_empty(object, "/apiVersion"))
        .find(|version| defined.schema_of(version).is_none());
    match unknown {
        None => Ok(()),
        Some(version) => Err(StatusError::unexpected(format!(
            "request to convert CR from an invalid group/version: {version}"
        ))),
    }
}

/// Objects that a webhook has to convert.
#[derive(Clone, Copy, Debug)]
pub struct ConversionRequest<'a> {
    /// Their kind.
    pub kind: &'a Kind,
    /// Its definition.
    pub defined: &'a Defined,
    /// The wanted version, as `<group>/<version>`.
    pub api_version: &'a str,
}

/// An object that is only read, as it is stored.
///
/// # Errors
/// As [`to_stored`].
pub async fn stored_form<'a>(
    api: &Api,
    kind: &Kind,
    object: &'a Value,
) -> Result<Cow<'a, Value>, StatusError> {
    let stays = kind
        .builtin
        .is_none_or(|kind| !matches!(kind, Builtin::NewEvent | Builtin::AutoscalerV1))
        && kind
            .defined
            .as_ref()
            .is_none_or(|defined| defined.storage_version == kind.version);
    Ok(if stays {
        Cow::Borrowed(object)
    } else {
        Cow::Owned(to_stored(api, kind, object.clone()).await?)
    })
}

/// An object of `kind` as it is stored.
///
/// # Errors
/// Why the definition's webhook did not convert it.
pub async fn to_stored(api: &Api, kind: &Kind, object: Value) -> Result<Value, StatusError> {
    match kind.builtin {
        Some(Builtin::NewEvent) => return Ok(events::to_core(object)),
        Some(Builtin::AutoscalerV1) => return Ok(autoscalers::to_v2(object)),
        _ => {}
    }
    let stays = |defined: &Defined| {
        defined.storage_version == kind.version
            // a cache stores objects as they come
            || (matches!(defined.conversion, Conversion::Webhook) && !api.strategy().converts())
    };
    let Some(defined) = kind.defined.as_ref().filter(|defined| !stays(defined)) else {
        return Ok(object);
    };
    let stored = convert(api, kind, &defined.storage_api_version(), vec![object]).await?;
    stored
        .into_iter()
        .next()
        .ok_or_else(|| StatusError::internal("the conversion returned no object"))
}

/// Returns an object without the owners of its fields, which no version converts.
pub(crate) fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    as_map(&mut object)
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .map(|metadata| metadata.shift_remove("managedFields"));
    object
}
