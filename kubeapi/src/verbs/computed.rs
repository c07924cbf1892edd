//! `get` and `list` of objects that are computed.

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    get::{Outcome, answer, metadata_of},
    list::{remove_kind, selection},
};
use crate::{
    Api, Body,
    accept::Shape,
    body,
    call::Call,
    status::StatusError,
    table::{self, IncludeObject},
};

/// Answers with the request's objects, or the one that it names.
pub(crate) async fn computed(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let target = &call.target;
    let source = api.computed(&target.kind).ok_or_else(StatusError::no_resource)?;
    source.warning().into_iter().for_each(|warning| call.warnings.add(warning.to_owned()));
    let selection = selection(call)?;
    let computed = source.list(&target.kind, &target.namespace, &target.name).await;
    let mut items = computed.map_err(|error| StatusError::internal(error.to_string()))?;
    if !target.name.is_empty() {
        let found = items.into_iter().next();
        let found = found.ok_or_else(|| StatusError::not_found(&target.kind, &target.name))?;
        return answer(call, StatusCode::OK, Outcome::DryRun(found), &[]);
    }
    items.retain(|item| selection.matches(item));
    let list = match call.shape {
        Shape::Objects => {
            items.iter_mut().for_each(remove_kind);
            list(&target.kind.list_kind(), &target.kind.api_version(), items)
        }
        Shape::Metadata => {
            let items = items.iter().map(metadata_of).collect();
            list("PartialObjectMetadataList", "meta.k8s.io/v1", items)
        }
        Shape::Table => {
            let include = IncludeObject::parse(call.query.get("includeObject"))?;
            table::table(&target.kind, &items, json!({}), include, true, Timestamp::now())
        }
    };
    Ok(body::answer(StatusCode::OK, Bytes::from(list.to_string()), &[]))
}

/// Lists computed objects, which have no versions and no pages.
fn list(kind: &str, api_version: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items})
}
