//! `…/scale`: how many replicas an object has and shall have, the same for all kinds that have some.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{
    get::find,
    update::{check_expected, finish},
    write::{Change, modify},
};
use crate::{
    Api, Body,
    body::{self, json, media_type},
    object::{as_map, assign, child, metadata, text_or_empty},
    patch::{self, PatchKind},
    registry::ScalePaths,
    status::{Cause, StatusError},
    tower_service::Call,
};

/// Answers the request's scale, after the change that the request makes.
pub(crate) async fn scale(api: &Api, call: &Call, method: &Method) -> Result<Response<Body>, StatusError> {
    let paths = call.target.kind.scale().ok_or_else(StatusError::no_resource)?;
    let object = match *method {
        Method::GET => find(api, &call.target).await?.value()?,
        Method::PUT => {
            let scale = body::parse(&call.headers, &call.body)?;
            changed(api, call, &paths, |_| Ok(scale.clone())).await?
        }
        _ => {
            let kind = PatchKind::from_content_type(media_type(&call.headers))
                .ok_or_else(|| StatusError::unsupported_media_type("application/merge-patch+json"))?;
            // who applies a scale owns its one field, which a merge changes too
            let (kind, patch) = match kind {
                PatchKind::Json => (kind, json(&call.body)?),
                PatchKind::Merge | PatchKind::Strategic => (PatchKind::Merge, json(&call.body)?),
                PatchKind::Apply => (PatchKind::Merge, body::yaml(&call.body)?),
            };
            changed(api, call, &paths, |scale| {
                let options = super::write::writer(call, "");
                let target =
                    patch::Target { group: "autoscaling", version: "v1", kind: "Scale", schema: None };
                Ok(patch::patch(kind, &target, Some(scale), &patch, &options)?)
            })
            .await?
        }
    };
    let answer = shown(&paths, &object);
    Ok(body::answer(StatusCode::OK, Bytes::from(answer.to_string()), &[]))
}

/// The object with the replicas of the scale that `change` makes of its present one.
async fn changed(
    api: &Api,
    call: &Call,
    paths: &ScalePaths,
    change: impl Fn(&Value) -> Result<Value, StatusError>,
) -> Result<Value, StatusError> {
    modify(api, call, Change::Update, |current| {
        let scale = change(&shown(paths, current))?;
        check_expected(call, &scale, current)?;
        let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
        check(call, &replicas)?;
        let mut new = current.clone();
        let mut at = as_map(&mut new);
        let mut steps = paths.replicas.split('/').skip(1).peekable();
        while let Some(step) = steps.next() {
            if steps.peek().is_none() {
                at.insert(step.to_owned(), replicas);
                break;
            }
            at = child(at, step);
        }
        finish(api, call, current, new, true)
    })
    .await?
    .value()
}

fn check(call: &Call, replicas: &Value) -> Result<(), StatusError> {
    let wrong = match replicas.as_i64() {
        None => {
            let why = format!(
                "Scale in version \"v1\" cannot be handled as a Scale: spec.replicas is {replicas}, not an int32"
            );
            return Err(StatusError::bad_request(why));
        }
        Some(number) if number < 0 => "must be greater than or equal to 0",
        Some(number) if i32::try_from(number).is_err() => "must be less than or equal to 2147483647",
        Some(_) => return Ok(()),
    };
    let causes = vec![Cause::invalid("spec.replicas", replicas, wrong)];
    Err(StatusError::invalid("autoscaling", "Scale", &call.target.name, causes))
}

/// The scale of `object`.
pub(crate) fn shown(paths: &ScalePaths, object: &Value) -> Value {
    let mut scale =
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {}, "status": {}});
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = object.pointer("/metadata").and_then(|metadata| metadata.get(name)).cloned();
        assign(metadata(&mut scale), name, value);
    }
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    if let Some(replicas) = number(&paths.replicas) {
        scale["spec"]["replicas"] = replicas.into();
    }
    scale["status"]["replicas"] = number(&paths.status_replicas).unwrap_or_default().into();
    let selector = paths.selector.as_deref().and_then(|pointer| object.pointer(pointer)).map(selector_text);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// A selector as one text, as in the parameter `labelSelector`: of a text itself, a `LabelSelector` or a map of labels.
pub(super) fn selector_text(selector: &Value) -> String {
    let Value::Object(map) = selector else { return selector.as_str().unwrap_or_default().to_owned() };
    let is_structured = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
    let labels = if is_structured { map.get("matchLabels").and_then(Value::as_object) } else { Some(map) };
    let mut terms: Vec<_> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    terms.sort_unstable();
    for expression in map.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = text_or_empty(expression, "/key");
        let values: Vec<_> =
            crate::object::items(expression, "/values").iter().filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match text_or_empty(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}
