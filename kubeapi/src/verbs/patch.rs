//! `patch`, in its four types.

use http::{Response, StatusCode};
use serde_json::Value;

use super::{
    create::create_if_missing,
    get::answer,
    update::{check_expected, check_name, finish},
    write::{Change, admit, modify, target, writer},
};
use crate::{
    Api, Body,
    api::strategy::Origin,
    cause::Cause,
    object::timestamp::now,
    patch::{
        self, ApplyOptions, PatchKind,
        restore::{go_format, restore_error},
    },
    request::{
        body::{json, media_type, yaml},
        call::Call,
    },
    status::StatusError,
};

/// Patches the request's object or its status.
pub(crate) async fn patch(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let kind = PatchKind::from_content_type(media_type(&call.headers))
        .ok_or_else(|| StatusError::unsupported_patch(call.target.kind.defined.is_some()))?;
    let body = read(api, call, kind)?;
    let is_apply = kind == PatchKind::Apply;
    let origin = match is_apply {
        true => Origin::Apply,
        false => Origin::Update,
    };
    if is_apply && call.target.part.is_none() {
        let new = || {
            api.strategy().check_applied(call, None, &body)?;
            admit(api, call, apply_patch(call, kind, None, &body)?)
        };
        if let Some(created) = create_if_missing(api, call, new, Origin::Apply).await? {
            return Ok(created);
        }
    }
    let object = modify(api, call, Change::Update, |current| {
        if is_apply {
            check_expected(call, &body, current)?;
            api.strategy().check_applied(call, Some(current), &body)?;
        }
        let patched = || apply_patch(call, kind, Some(current), &body);
        let new = patched()?;
        if !is_apply && new.is_object() {
            check_name(call, &new)?;
        }
        let object = admit(api, call, new).map_err(|error| match is_apply {
            true => error,
            false if kind == PatchKind::Strategic => {
                let patch = || Ok(go_format(&body));
                refusal(call, error, patch, restore_error)
            }
            false => {
                let patched = || Ok(patched()?.to_string());
                refusal(call, error, patched, str::to_owned)
            }
        })?;
        check_expected(call, &object, current)?;
        finish(api, call, current, object, origin)
    })
    .await?;
    answer(call, StatusCode::OK, object)
}

/// Returns why a patched object is refused. If it cannot be decoded, that is the fault of the patch, which is named with `value`.
fn refusal(
    call: &Call,
    error: StatusError,
    value: impl FnOnce() -> Result<String, StatusError>,
    describe: fn(&str) -> String,
) -> StatusError {
    let prefix = format!(" cannot be handled as a {}: ", call.target.kind.kind);
    let why = error.message().split_once(&prefix).map(|(_, why)| why);
    let Some(why) = why.filter(|why| !why.starts_with("no kind ")) else {
        return error;
    };
    match value() {
        Ok(value) => {
            let cause = Cause::invalid("patch", &value.into(), &describe(why));
            StatusError::invalid("", "", "", vec![cause])
        }
        Err(error) => error,
    }
}

/// The patch that came in. What is applied is an object, and is read as one: what means the same as what stands, but is
/// written in another way (`cpu: 1`, `stringData`), is no change.
fn read(api: &Api, call: &Call, kind: PatchKind) -> Result<Value, StatusError> {
    if kind != PatchKind::Apply {
        return json(&call.body);
    }
    let mut object = yaml(&call.body)?;
    api.strategy().decode_applied(call, &mut object)?;
    Ok(object)
}

fn apply_patch(
    call: &Call,
    kind: PatchKind,
    current: Option<&Value>,
    body: &Value,
) -> Result<Value, StatusError> {
    let now = now();
    let options = ApplyOptions {
        force: call.query.flag("force"),
        ..writer(call, &now)
    };
    patch::patch(kind, &target(&call.target.kind), current, body, &options)
        .map_err(StatusError::from)
}
