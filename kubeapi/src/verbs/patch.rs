//! `patch`, in its four types.

use http::{Response, StatusCode};
use serde_json::Value;

use super::{
    create::{Origin, create_if_missing},
    get::answer,
    update::{check_expected, finish},
    write::{AdmittedObject, Change, admit, check_limits, modify, target, writer},
};
use crate::{
    Api, Body,
    body::{json, media_type, yaml},
    call::Call,
    defaults,
    duplicates::DuplicateFields,
    object::text_or_empty,
    object_size,
    patch::{self, ApplyOptions, PatchKind},
    registry::{Kind, KindSchema},
    status::StatusError,
    timestamp::now,
    validate::{FieldValidation, unknown_metadata},
};

/// Patches the request's object or its status.
pub(crate) async fn patch(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let kind = PatchKind::from_content_type(media_type(&call.headers))
        .ok_or_else(|| StatusError::unsupported_patch(call.target.kind.defined.is_some()))?;
    let body = read(api, call, kind)?;
    let is_apply = kind == PatchKind::Apply;
    if is_apply && call.target.part.is_none() {
        let new = || {
            check_applied(api, call, None, &body)?;
            admit(api, call, patched(call, kind, None, &body)?)
        };
        if let Some(created) = create_if_missing(api, call, new, Origin::Apply).await? {
            return Ok(created);
        }
    }
    let mut warnings = Vec::new();
    let object = modify(api, call, Change::Update, |current| {
        if is_apply {
            check_expected(call, &body, current)?;
            check_applied(api, call, Some(current), &body)?;
        }
        let new = patched(call, kind, Some(current), &body)?;
        let AdmittedObject {
            object,
            warnings: found,
        } = admit(api, call, new)?;
        warnings = found;
        check_expected(call, &object, current)?;
        finish(api, call, current, object, !is_apply)
    })
    .await?;
    answer(call, StatusCode::OK, object, &warnings)
}

/// Checks the limits of what is applied before the owners of its fields are determined.
fn check_applied(
    api: &Api,
    call: &Call,
    current: Option<&Value>,
    body: &Value,
) -> Result<(), StatusError> {
    if !api.is_full() {
        return Ok(());
    }
    check_limits(&call.target.kind, &call.target.name, current, body)?;
    Ok(object_size::check(body, current)?)
}

/// The patch that came in. What is applied is an object, and is read as one: what means the same as what stands, but is
/// written in another way (`cpu: 1`, `stringData`), is no change.
fn read(api: &Api, call: &Call, kind: PatchKind) -> Result<Value, StatusError> {
    if kind != PatchKind::Apply {
        return json(&call.body);
    }
    let mut object = yaml(&call.body)?;
    if api.is_full() {
        declared(&call.target.kind, &object)?;
        check_repeated(call)?;
    }
    defaults::written(&call.target.kind, &mut object);
    if let KindSchema::Published(schema) = call.target.kind.schema()
        && api.is_full()
    {
        schema.normalise(&mut object);
    }
    Ok(object)
}

/// Refuses unknown fields in an apply, whatever `fieldValidation` says, since they could have no owner.
fn declared(kind: &Kind, object: &Value) -> Result<(), StatusError> {
    let mut unknown = match kind.schema() {
        KindSchema::Published(schema) => schema.check(object).unknown,
        KindSchema::Defined(schema) => {
            let mut unknown = schema.prune(&mut object.clone());
            unknown.extend(unknown_metadata(object));
            unknown
        }
    };
    unknown.sort_unstable();
    let faults: Vec<_> = unknown
        .iter()
        .map(|path| format!("{}: field not declared in schema", keyed_path(object, path)))
        .collect();
    let fault = match faults.as_slice() {
        [] => return Ok(()),
        [fault] => fault.clone(),
        faults => format!("errors:\n  {}", faults.join("\n  ")),
    };
    let (namespace, name) = (
        text_or_empty(object, "/metadata/namespace"),
        text_or_empty(object, "/metadata/name"),
    );
    Err(StatusError::unexpected(format!(
        "failed to create typed patch object ({namespace}/{name}; {}, Kind={}): {fault}",
        kind.api_version(),
        kind.kind
    )))
}

/// Returns a path in the form of server-side apply: `.spec.containers[name="c"].image` for `spec.containers[0].image`.
fn keyed_path(object: &Value, path: &str) -> String {
    let (mut at, mut written) = (Some(object), String::new());
    for step in path.split('.') {
        let (field, indices) = step.split_once('[').unwrap_or((step, ""));
        written.push('.');
        written.push_str(field);
        at = at.and_then(|value| value.get(field));
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            at = at.and_then(|value| value.get(index.parse::<usize>().ok()?));
            match at.and_then(|item| item.get("name")) {
                Some(name) => written.push_str(&format!("[name={name}]")),
                None => written.push_str(&format!("[{index}]")),
            }
        }
    }
    written
}

/// Returns 400 under `Strict` for duplicate keys in an apply.
fn check_repeated(call: &Call) -> Result<(), StatusError> {
    if FieldValidation::parse(call.query.get("fieldValidation"))? != FieldValidation::Strict {
        return Ok(());
    }
    let repeated = DuplicateFields::Yaml(&call.body);
    let told = repeated.messages();
    if told.is_empty() {
        return Ok(());
    }
    let why = repeated.refused(&told);
    Err(StatusError::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: {why}"
    )))
}

fn patched(
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
