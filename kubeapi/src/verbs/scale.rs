//! `…/scale`: the current and desired replicas of an object, in one form for all scalable kinds.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use super::{
    get::find,
    update::{check_expected, check_name, finish},
    write::{Change, modify},
};
use crate::{
    Api, Body,
    api::strategy::Origin,
    cause::Cause,
    object::{as_map, child, scale::scale_of},
    patch::{self, PatchKind},
    registry::ScalePaths,
    request::{
        body::{self, json, media_type},
        call::Call,
        request_type,
    },
    status::StatusError,
    validate::decode_body,
};

/// Answers with the object's scale, after the change by the request.
pub(crate) async fn scale(
    api: &Api,
    call: &Call,
    method: &Method,
) -> Result<Response<Body>, StatusError> {
    let paths = call
        .target
        .kind
        .scale()
        .ok_or_else(StatusError::no_resource)?;
    let mut warnings = Vec::new();
    let object = match *method {
        Method::GET => find(api, &call.target).await?.value()?,
        Method::PUT => {
            let (scale, found) =
                decode_body(&request_type::SCALE, &call.headers, &call.body, &call.query)?;
            check_name(call, &scale)?;
            warnings = found;
            update_scale(api, call, &paths, |_| Ok(scale.clone())).await?
        }
        _ => {
            let kind =
                PatchKind::from_content_type(media_type(&call.headers)).ok_or_else(|| {
                    StatusError::unsupported_patch(call.target.kind.defined.is_some())
                })?;
            // who applies a scale owns its one field, which a merge changes too
            let (kind, patch) = match kind {
                PatchKind::Json => (kind, json(&call.body)?),
                PatchKind::Merge | PatchKind::Strategic => (PatchKind::Merge, json(&call.body)?),
                PatchKind::Apply => (PatchKind::Merge, body::yaml(&call.body)?),
            };
            update_scale(api, call, &paths, |scale| {
                let options = super::write::writer(call, "");
                let target = patch::Target {
                    group: "autoscaling",
                    version: "v1",
                    kind: "Scale",
                    schema: None,
                };
                Ok(patch::patch(kind, &target, Some(scale), &patch, &options)?)
            })
            .await?
        }
    };
    let answer = scale_of(&paths, &object);
    Ok(body::answer(
        StatusCode::OK,
        Bytes::from(answer.to_string()),
        &warnings,
    ))
}

/// Returns the object with the replicas of its scale after `change`.
async fn update_scale(
    api: &Api,
    call: &Call,
    paths: &ScalePaths,
    change: impl Fn(&Value) -> Result<Value, StatusError>,
) -> Result<Value, StatusError> {
    modify(api, call, Change::Update, |current| {
        let scale = change(&scale_of(paths, current))?;
        check_expected(call, &scale, current)?;
        let replicas = scale
            .pointer("/spec/replicas")
            .cloned()
            .unwrap_or_else(|| 0.into());
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
        finish(api, call, current, new, Origin::Update)
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
        Some(number) if i32::try_from(number).is_err() => {
            "must be less than or equal to 2147483647"
        }
        Some(_) => return Ok(()),
    };
    let causes = vec![Cause::invalid("spec.replicas", replicas, wrong)];
    Err(StatusError::invalid(
        "autoscaling",
        "Scale",
        &call.target.name,
        causes,
    ))
}
