//! Completes objects before they are admitted: defaults, the metadata that the server controls, the owners of fields.

use crate::defaults;
use kubeapi::{
    object::{
        as_map, assign, child, default_to, definition_status, generation::count_generation,
        metadata, object_size, text, timestamp::now,
    },
    patch,
    registry::{Builtin, Kind},
    request::call::Call,
    status::StatusError,
    strategy::Origin,
    verbs::write::{target, writer},
};
use serde_json::Value;

use crate::{admission, service_allocator, validate};

/// Checks the numbers of items and bytes in an object that replaces `old`, if there is one.
pub(crate) fn check_limits(
    kind: &Kind,
    name: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    let causes = validate::limits(kind, old, new);
    if causes.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid(&kind.group, &kind.kind, name, causes))
    }
}

/// Sets the defaults of a new object, and the metadata that the server controls. Its owners are those of what was `sent`, if admission
/// has changed that.
pub(crate) fn create(
    call: &Call,
    object: &mut Value,
    sent: Option<&Value>,
    origin: Origin,
) -> Result<(), StatusError> {
    let kind = &call.target.kind;
    let now = now();
    let metadata = metadata(object);
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ] {
        metadata.shift_remove(key);
    }
    metadata.insert("uid".into(), clock::uuid().to_string().into());
    metadata.insert("creationTimestamp".into(), now.as_str().into());
    defaults::fill(kind, object)?;
    // before the owners of its fields are determined, which takes many times the memory of the object
    object_size::check(object, None)?;
    defaults::begin(kind, object);
    if kind.is(Builtin::DaemonSet) {
        defaults::workload::count_template(None, object);
    }
    if kind.is(Builtin::CertificateSigningRequest) {
        set_requester(call, object);
    }
    if kind.is(Builtin::CustomResourceDefinition) {
        definition_status::begin(object);
    }
    admission::observe(kind, object);
    if origin == Origin::Update {
        track_creation(call, object, sent, &now)?;
    }
    Ok(())
}

/// Makes the writer the owner of the fields of a new object.
fn track_creation(
    call: &Call,
    object: &mut Value,
    sent: Option<&Value>,
    now: &str,
) -> Result<(), StatusError> {
    let kind = &call.target.kind;
    let (target, writer) = (target(kind), writer(call, now));
    let Some(sent) = sent else {
        return Ok(patch::track_update(&target, None, object, &writer)?);
    };
    let mut sent = sent.clone();
    defaults::fill(kind, &mut sent)?;
    patch::track_update(&target, None, &mut sent, &writer)?;
    let owners = metadata(&mut sent).shift_remove("managedFields");
    assign(metadata(object), "managedFields", owners);
    Ok(())
}

/// Sets the requester in a certificate request. `system:masters` may request for others.
fn set_requester(call: &Call, object: &mut Value) {
    let is_for_other = text(object, "/spec/username").is_some();
    if let Some(caller) = call
        .caller
        .as_ref()
        .filter(|caller| !(caller.is_master() && is_for_other))
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        ["uid", "extra"]
            .iter()
            .for_each(|key| drop(spec.shift_remove(*key)));
        if let Value::Object(info) = caller.user_info() {
            spec.extend(info);
        }
    }
}

/// Sets the defaults of an object that replaces `current`, and the metadata that the server controls.
pub(crate) fn update(
    call: &Call,
    current: &Value,
    new: &mut Value,
    origin: Origin,
) -> Result<(), StatusError> {
    let kind = &call.target.kind;
    if kind.is(Builtin::PersistentVolume) {
        note_phase(current, new);
    }
    if kind.is(Builtin::CertificateSigningRequest) {
        date_conditions(new);
    }
    if kind.is(Builtin::Service) {
        service_allocator::carry(current, new);
    }
    check_limits(kind, &call.target.name, Some(current), new)?;
    defaults::fill(kind, new)?;
    object_size::check(new, Some(current))?;
    if kind.is(Builtin::DaemonSet) {
        defaults::workload::count_template(Some(current), new);
    }
    count_generation(kind, current, new);
    if kind.is(Builtin::CustomResourceDefinition) && call.target.part.is_none() {
        definition_status::follow(new);
    }
    admission::observe(kind, new);
    if origin == Origin::Update {
        patch::track_update(&target(kind), Some(current), new, &writer(call, &now()))?;
    }
    Ok(())
}

/// Notes when the conditions of a certificate request were written, unless the writer has done so.
fn date_conditions(request: &mut Value) {
    let conditions = request.pointer_mut("/status/conditions");
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Value::Object(condition) = condition {
            default_to(condition, "lastUpdateTime", now());
            default_to(condition, "lastTransitionTime", now());
        }
    }
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
