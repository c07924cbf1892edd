//! `update`, and its common end with `patch`.

use http::{Response, StatusCode};
use serde_json::Value;

use super::{
    create::create_if_missing,
    get::{self, answer},
    merge::merge,
    write::{Change, admit, modify},
};
use crate::{
    Api, Body,
    api::strategy::Origin,
    cause::Cause,
    object::{deletion::Next, metadata, text_or_empty},
    request::{body, call::Call},
    status::StatusError,
};

/// Replaces the request's object, or its status.
pub(crate) async fn update(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let kind = &call.target.kind;
    let object = body::parse(&call.headers, &call.body, &kind.kind)?;
    check_name(call, &object)?;
    let object = admit(api, call, object)?;
    if kind.allows_create_on_update() && call.target.part.is_none() {
        let new = || Ok(object.clone());
        if let Some(created) = create_if_missing(api, call, new, Origin::Update).await? {
            return Ok(created);
        }
    }
    if call.target.part.is_none() && api.store().damaged_objects().has(&get::key(&call.target)) {
        let new = || {
            let mut object = object.clone();
            // nobody can compare it with that of the damaged object
            metadata(&mut object).shift_remove("resourceVersion");
            Ok(object)
        };
        if let Some(created) = create_if_missing(api, call, new, Origin::Update).await? {
            return Ok(created);
        }
    }
    let needs_version = api.strategy().requires_resource_version(kind);
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
        finish(api, call, current, object.clone(), Origin::Update)
    })
    .await?;
    answer(call, StatusCode::OK, updated)
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

/// `new` in place of `current`, as it is stored: merged, defaulted.
pub(super) fn finish(
    api: &Api,
    call: &Call,
    current: &Value,
    new: Value,
    origin: Origin,
) -> Result<Next, StatusError> {
    let kind = &call.target.kind;
    let mut new = merge(kind, call.target.part, current, new);
    api.strategy()
        .prepare_update(call, current, &mut new, origin)?;
    Ok(Next::Replace(new))
}
