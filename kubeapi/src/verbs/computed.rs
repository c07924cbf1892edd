//! `get` and `list` of objects that are computed.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    get::{Outcome, answer, metadata_of},
    list::{Continue, PageOptions, page_options, remove_kind, selection},
};
use crate::{
    Api, Body,
    object::text_or_empty,
    request::{accept::Shape, body, call::Call},
    status::StatusError,
    table::{self, IncludeObject},
};

/// Answers with the request's objects, or the one that it names.
pub(crate) async fn answer_computed(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let target = &call.target;
    let source = api
        .computed_objects(&target.kind)
        .ok_or_else(StatusError::no_resource)?;
    source
        .warning()
        .into_iter()
        .for_each(|warning| call.warnings.add(warning.to_owned()));
    let selection = selection(call)?;
    let computed = source
        .list(&target.kind, &target.namespace, &target.name)
        .await;
    let mut items = computed.map_err(|error| StatusError::internal(error.to_string()))?;
    if !target.name.is_empty() {
        let found = items.into_iter().next();
        let found = found.ok_or_else(|| StatusError::not_found(&target.kind, &target.name))?;
        return answer(call, StatusCode::OK, Outcome::DryRun(found));
    }
    items.retain(|item| selection.matches(item));
    let metadata = take_page(api, call, &mut items)?;
    let list = match call.shape {
        Shape::Objects => {
            items.iter_mut().for_each(remove_kind);
            list(
                &target.kind.list_kind(),
                &target.kind.api_version(),
                metadata,
                items,
            )
        }
        Shape::Metadata => {
            let items = items.iter().map(metadata_of).collect();
            list(
                "PartialObjectMetadataList",
                "meta.k8s.io/v1",
                metadata,
                items,
            )
        }
        Shape::Table => {
            let include = IncludeObject::parse(call.query.get("includeObject"))?;
            table::table(&target.kind, &items, metadata, include, true, clock::now())
        }
    };
    Ok(body::answer(
        StatusCode::OK,
        Bytes::from(list.to_string()),
        &[],
    ))
}

/// Reduces the objects to the page that the request asks for, and returns the metadata of the list. Computed objects have no versions.
fn take_page(api: &Api, call: &Call, items: &mut Vec<Value>) -> Result<Value, StatusError> {
    let PageOptions { limit, start, .. } = page_options(api, call)?;
    let place = |item: &Value| {
        ["namespace", "name"]
            .map(|field| text_or_empty(item, &format!("/metadata/{field}")).to_owned())
    };
    if let Some(start) = start {
        items.retain(|item| place(item) > start.place());
    }
    let left = limit.map_or(0, |limit| items.len().saturating_sub(limit));
    items.truncate(items.len() - left);
    match items.last().filter(|_| left > 0) {
        None => Ok(json!({})),
        Some(last) => {
            let token = Continue::after(place(last)).encode();
            Ok(json!({"continue": token, "remainingItemCount": left}))
        }
    }
}

fn list(kind: &str, api_version: &str, metadata: Value, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
}
