//! `patch`, in its four kinds.

use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::Value;

use super::{
    create::create_object,
    get::{answer, find},
    update::{check_expected, finish},
    write::{Admitted, admit, modify, target, timestamp, writer},
};
use crate::{
    Api, Body,
    body::{json, media_type, yaml},
    patch::{self, ApplyOptions, PatchKind},
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
    let body = if kind == PatchKind::Apply { yaml(&call.body)? } else { json(&call.body)? };
    if kind == PatchKind::Apply {
        if call.query.get("fieldManager").is_none() {
            return Err(StatusError::bad_request("fieldManager is required for apply patch"));
        }
        if call.target.part.is_none() && is_missing(api, call).await? {
            let applied = patched(call, kind, None, &body)?;
            let (object, warnings) = create_object(api, call, applied).await?;
            return answer(call, StatusCode::CREATED, object, &warnings);
        }
    }
    let mut warnings = Vec::new();
    let object = modify(api, call, |current| {
        let new = patched(call, kind, Some(current), &body)?;
        let Admitted { object, warnings: found } = admit(api, call, new)?;
        warnings = found;
        check_expected(call, &object, current)?;
        finish(api, call, current, object, kind != PatchKind::Apply)
    })
    .await?;
    answer(call, StatusCode::OK, object, &warnings)
}

async fn is_missing(api: &Api, call: &Call) -> Result<bool, StatusError> {
    match find(api, &call.target).await {
        Ok(_) => Ok(false),
        Err(error) if error.code == StatusCode::NOT_FOUND => Ok(true),
        Err(error) => Err(error),
    }
}

fn patched(call: &Call, kind: PatchKind, current: Option<&Value>, body: &Value) -> Result<Value, StatusError> {
    let now = timestamp(Duration::ZERO);
    let options = ApplyOptions { force: call.query.flag("force"), ..writer(call, &now) };
    patch::patch(kind, &target(&call.target.kind), current, body, &options).map_err(StatusError::from)
}
