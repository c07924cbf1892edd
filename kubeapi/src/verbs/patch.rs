//! `patch`, in its four kinds.

use http::{Response, StatusCode};
use serde_json::Value;

use super::{
    create::{Origin, create_if_missing},
    get::answer,
    update::{check_expected, finish},
    write::{Admitted, admit, modify, now, target, writer},
};
use crate::{
    Api, Body,
    body::{json, media_type, yaml},
    defaults,
    patch::{self, ApplyOptions, PatchKind},
    registry::KindSchema,
    service::Call,
    status::StatusError,
};

/// The media types of patches.
const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, \
                        application/strategic-merge-patch+json";

/// Changes the request's object, or its status, by a patch.
pub(crate) async fn patch(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let kind = PatchKind::from_content_type(media_type(&call.headers))
        .ok_or_else(|| StatusError::unsupported_media_type(ACCEPTED))?;
    let body = read(api, call, kind)?;
    let is_apply = kind == PatchKind::Apply;
    if is_apply && call.target.part.is_none() {
        let new = || admit(api, call, patched(call, kind, None, &body)?);
        if let Some(created) = create_if_missing(api, call, new, Origin::Apply).await? {
            return Ok(created);
        }
    }
    let mut warnings = Vec::new();
    let object = modify(api, call, |current| {
        if is_apply {
            check_expected(call, &body, current)?;
        }
        let new = patched(call, kind, Some(current), &body)?;
        let Admitted { object, warnings: found } = admit(api, call, new)?;
        warnings = found;
        check_expected(call, &object, current)?;
        finish(api, call, current, object, !is_apply)
    })
    .await?;
    answer(call, StatusCode::OK, object, &warnings)
}

/// The patch that came in. What is applied is an object, and is read as one: what means the same as what stands, but is
/// written in another way (`cpu: 1`, `stringData`), is no change.
fn read(api: &Api, call: &Call, kind: PatchKind) -> Result<Value, StatusError> {
    if kind != PatchKind::Apply {
        return json(&call.body);
    }
    let mut object = yaml(&call.body)?;
    defaults::written(&call.target.kind, &mut object);
    if let KindSchema::Published(schema) = call.target.kind.schema()
        && api.is_full()
    {
        schema.normalise(&mut object);
    }
    Ok(object)
}

fn patched(
    call: &Call,
    kind: PatchKind,
    current: Option<&Value>,
    body: &Value,
) -> Result<Value, StatusError> {
    let now = now();
    let options = ApplyOptions { force: call.query.flag("force"), ..writer(call, &now) };
    patch::patch(kind, &target(&call.target.kind), current, body, &options).map_err(StatusError::from)
}
