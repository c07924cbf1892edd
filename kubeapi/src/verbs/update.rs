//! `update`, and its common end with `patch`.

use http::{Response, StatusCode};
use serde_json::Value;

use super::{
    create::{Origin, create_if_missing},
    get::{self, answer},
    merge::merged,
    write::{AdmittedObject, Change, admit, check_limits, modify, target, writer},
};
use crate::{
    Api, Body, admission, body,
    call::Call,
    cause::Cause,
    defaults, definitions,
    deletion::Next,
    object::{as_map, child, metadata, text, text_or_empty},
    object_size, patch,
    registry::Builtin,
    service_allocator,
    status::StatusError,
    timestamp::now,
};

/// Replaces the request's object, or its status.
pub(crate) async fn update(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let kind = &call.target.kind;
    let object = body::parse(&call.headers, &call.body, &kind.kind)?;
    check_name(call, &object)?;
    let AdmittedObject { object, warnings } = admit(api, call, object)?;
    if kind.allows_create_on_update() && call.target.part.is_none() {
        let new = || {
            Ok(AdmittedObject {
                object: object.clone(),
                warnings: warnings.clone(),
            })
        };
        if let Some(created) = create_if_missing(api, call, new, Origin::Update).await? {
            return Ok(created);
        }
    }
    if call.target.part.is_none() && api.store().damaged().has(&get::key(&call.target)) {
        let new = || {
            let mut object = object.clone();
            // nobody can compare it with that of the damaged object
            metadata(&mut object).shift_remove("resourceVersion");
            Ok(AdmittedObject {
                object,
                warnings: warnings.clone(),
            })
        };
        if let Some(created) = create_if_missing(api, call, new, Origin::Update).await? {
            return Ok(created);
        }
    }
    let needs_version = api.is_full() && !kind.allows_unconditional_update();
    let updated = modify(api, call, Change::Update, |current| {
        if needs_version && text_or_empty(&object, "/metadata/resourceVersion").is_empty() {
            // the real server names the collection in place of the kind
            let causes = vec![Cause::unversioned()];
            return Err(StatusError::invalid(
                &kind.group,
                &kind.plural,
                &call.target.name,
                causes,
            ));
        }
        check_expected(call, &object, current)?;
        finish(api, call, current, object.clone(), true)
    })
    .await?;
    answer(call, StatusCode::OK, updated, &warnings)
}

/// Checks that the received object says its name, which must be the one in the path.
pub(super) fn check_name(call: &Call, object: &Value) -> Result<(), StatusError> {
    let (name, namespace) = (&call.target.name, &call.target.namespace);
    let own = |field: &str| text_or_empty(object, &format!("/metadata/{field}")).to_owned();
    match (own("name"), own("namespace")) {
        (found, _) if found.is_empty() => Err(StatusError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        (found, _) if found != *name => Err(StatusError::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
        (_, found) if call.target.kind.namespaced && !found.is_empty() && found != *namespace => {
            Err(StatusError::bad_request(format!(
                "the namespace of the object ({found}) does not match the namespace on the request ({namespace})"
            )))
        }
        _ => Ok(()),
    }
}

/// Checks the version and uid in the received object, if given.
pub(super) fn check_expected(
    call: &Call,
    object: &Value,
    current: &Value,
) -> Result<(), StatusError> {
    let (kind, name) = (&call.target.kind, &call.target.name);
    let differs = |field: &str| {
        let expected = text_or_empty(object, field);
        !expected.is_empty() && expected != text_or_empty(current, field)
    };
    if differs("/metadata/uid") {
        let (expected, found) = (
            text_or_empty(object, "/metadata/uid"),
            text_or_empty(current, "/metadata/uid"),
        );
        let why = format!(
            "Precondition failed: UID in precondition: {expected}, UID in object meta: {found}"
        );
        return Err(StatusError::conflict(kind, name, &why));
    }
    // "0" stands for any version
    if differs("/metadata/resourceVersion")
        && text_or_empty(object, "/metadata/resourceVersion") != "0"
    {
        return Err(StatusError::modified(kind, name));
    }
    Ok(())
}

/// `new` in place of `current`, as it is stored: merged, defaulted. `track`: the writer's fields are noted as those
/// of an update (an apply has noted its own).
pub(super) fn finish(
    api: &Api,
    call: &Call,
    current: &Value,
    new: Value,
    track: bool,
) -> Result<Next, StatusError> {
    let kind = &call.target.kind;
    let mut new = merged(kind, call.target.part, current, new);
    if api.is_full() {
        if kind.is(Builtin::PersistentVolume) {
            note_phase(current, &mut new);
        }
        if kind.is(Builtin::Service) {
            service_allocator::carry(current, &mut new);
        }
        check_limits(kind, &call.target.name, Some(current), &new)?;
        defaults::fill(kind, &mut new)?;
        object_size::check(&new, Some(current))?;
        if kind.is(Builtin::CustomResourceDefinition) && call.target.part.is_none() {
            definitions::status::follow(&mut new);
        }
        admission::observe(kind, &mut new);
        if track {
            patch::track_update(
                &target(kind),
                Some(current),
                &mut new,
                &writer(call, &now()),
            );
        }
    }
    Ok(Next::Replace(new))
}

/// Notes when a volume's phase changes, unless the writer has done so.
fn note_phase(current: &Value, new: &mut Value) {
    const SINCE: &str = "/status/lastPhaseTransitionTime";
    let differs = |field: &str| text(current, field) != text(new, field);
    if !differs("/status/phase") || (differs(SINCE) && text(new, SINCE).is_some()) {
        return;
    }
    child(as_map(new), "status").insert("lastPhaseTransitionTime".into(), now().into());
}
