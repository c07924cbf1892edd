//! Admission: plugins with rules that need other objects than the written one ([`Admission`]), policies and webhooks.

use serde_json::Value;

use crate::Server;
use crate::defaults;
use kubeapi::{
    cause::Cause,
    object::{as_map, assign, child, conversion::stored_form, default_to, metadata},
    registry::{Builtin, Conversion, Kind},
    request::{call::Call, duplicates::DuplicateFields, path::Target},
    status::StatusError,
    validate::{self, FieldValidation},
};

mod attributes;
mod authorizer;
mod conditions;
pub(crate) mod configuration;
mod load;
mod matching;
mod mutating;
mod namespace;
pub(crate) mod plugin;
mod pod_security;
mod policy;
mod rules;
#[cfg(test)]
mod tests;
mod variables;
pub(crate) mod webhook;

use attributes::{Attributes, Operation, name_of};
use namespace::namespace;
pub use plugin::{Admission, FieldError, Review};
pub(crate) use rules::check as check_rules;
pub use webhook::transport::{HttpsTransport, WebhookCall, WebhookTransport};

/// Runs the plugins; 422 for invalid fields. Subresources are not reviewed.
pub(crate) async fn check(
    api: &Server,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    let Some(admission) = api.admission().filter(|_| target.part.is_none()) else {
        return Ok(());
    };
    let kind = &target.kind;
    // whoever reviews knows the kinds of this program, whose versions no webhook converts
    if kind
        .defined
        .as_ref()
        .is_some_and(|defined| matches!(defined.conversion, Conversion::Webhook))
    {
        return Ok(());
    }
    // whoever reviews knows one version, that in which objects are stored
    let old = match old {
        Some(old) => Some(stored_form(api, kind, old).await?),
        None => None,
    };
    let new = stored_form(api, kind, new).await?;
    let review = Review {
        group: &kind.group,
        kind: &kind.kind,
        namespace: &target.namespace,
        old: old.as_deref(),
        new: &new,
        store: &**api.store(),
    };
    let objections = admission.review(review).await?;
    let causes: Vec<_> = objections
        .into_iter()
        .map(|it| Cause::invalid(it.field, &it.value, &it.why))
        .collect();
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(
        &kind.group,
        &kind.kind,
        &target.name,
        causes,
    ))
}

/// The metadata that webhooks cannot change.
const SERVERS: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// Reports whether policies and webhooks review a write on `target`.
fn is_reviewed(call: &Call, target: &Target) -> bool {
    call.is_reviewed && !is_exempt(&target.kind)
}

/// Reports whether objects of this kind are exempt: policies and webhooks themselves, which could not be repaired otherwise.
fn is_exempt(kind: &Kind) -> bool {
    kind.group == "admissionregistration.k8s.io"
}

/// Applies the mutating policies and calls the mutating webhooks on `new`, which replaces `old`, and returns the result.
pub(crate) async fn mutate(
    api: &Server,
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    new: Value,
) -> Result<Value, StatusError> {
    if !is_reviewed(call, target) {
        return Ok(new);
    }
    let configuration = load::current(api).await?;
    // a scale is not the object that it is of
    if (configuration.mutating.is_empty() && configuration.mutating_policies.is_empty())
        || target
            .part
            .is_some_and(|part| part.kind(&target.kind).is_some())
    {
        return Ok(new);
    }
    let operation = if old.is_some() {
        Operation::Update
    } else {
        Operation::Create
    };
    let mut asked = attributes(call, target, operation, old, Some(&new));
    let namespace = namespace(api, target).await?;
    let (policies, webhooks) = (&configuration.mutating_policies, &configuration.mutating);
    let mut invocations = mutating::Invocations::default();
    mutating::mutate(api, policies, (&mut invocations, &mut asked), &namespace).await?;
    let seen_last = webhook::mutate(api, call, webhooks, &mut asked, &namespace).await?;
    if *asked.object != new {
        // what changed later may concern earlier ones
        mutating::mutate(api, policies, (&mut invocations, &mut asked), &namespace).await?;
        webhook::mutate_again(api, call, webhooks, (seen_last, &mut asked), &namespace).await?;
    }
    let mut changed = (*asked.object).clone();
    if changed == new {
        return Ok(new);
    }
    as_map(&mut changed).insert("apiVersion".into(), target.kind.api_version().into());
    as_map(&mut changed).insert("kind".into(), target.kind.kind.as_str().into());
    for name in SERVERS {
        let value = new
            .pointer("/metadata")
            .and_then(|metadata| metadata.get(name))
            .cloned();
        assign(metadata(&mut changed), name, value);
    }
    validate::decode(
        &target.kind,
        &mut changed,
        DuplicateFields::Ignored,
        FieldValidation::Ignore,
    )?;
    defaults::fill(&target.kind, &mut changed)?;
    Ok(changed)
}

/// Reviews `new`, which replaces `old`, by Pod Security, policies and validating webhooks.
pub(crate) async fn review(
    api: &Server,
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    if is_reviewed(call, target) {
        pod_security::review(api, call, target, old, new).await?;
    }
    let operation = if old.is_some() {
        Operation::Update
    } else {
        Operation::Create
    };
    judge(api, call, target, operation, old, Some(new)).await
}

/// Reviews the deletion of `old`, also by policies and webhooks.
pub(crate) async fn review_deletion(
    api: &Server,
    call: &Call,
    target: &Target,
    old: &Value,
) -> Result<(), StatusError> {
    namespace::check_deletion(target)?;
    if !is_reviewed(call, target) {
        return Ok(());
    }
    let configuration = load::current(api).await?;
    if !configuration.mutating.is_empty() {
        let mut asked = attributes(call, target, Operation::Delete, Some(old), None);
        let namespace = namespace(api, target).await?;
        webhook::mutate(api, call, &configuration.mutating, &mut asked, &namespace).await?;
    }
    judge(api, call, target, Operation::Delete, Some(old), None).await
}

/// Reviews the opening of a stream or proxy by policies and webhooks; `options` are its parameters, which cannot be changed.
pub(crate) async fn connect(api: &Server, call: &Call, options: &Value) -> Result<(), StatusError> {
    let target = &call.target;
    let configuration = load::current(api).await?;
    if !configuration.mutating.is_empty() {
        let mut asked = Attributes::of(call, target, Operation::Connect, None, Some(options));
        let namespace = namespace(api, target).await?;
        webhook::mutate(api, call, &configuration.mutating, &mut asked, &namespace).await?;
    }
    judge(api, call, target, Operation::Connect, None, Some(options)).await
}

async fn judge(
    api: &Server,
    call: &Call,
    target: &Target,
    operation: Operation,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<(), StatusError> {
    if !is_reviewed(call, target) {
        return Ok(());
    }
    let configuration = load::current(api).await?;
    if configuration.policies.is_empty() && configuration.validating.is_empty() {
        return Ok(());
    }
    let attributes = attributes(call, target, operation, old, new);
    let namespace = namespace(api, target).await?;
    policy::review(api, call, &configuration.policies, &attributes, &namespace).await?;
    webhook::validate(
        api,
        call,
        &configuration.validating,
        &attributes,
        &namespace,
    )
    .await
}

fn attributes(
    call: &Call,
    target: &Target,
    operation: Operation,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Attributes {
    let mut attributes = Attributes::of(call, target, operation, old, new);
    if let Some(new) = new {
        attributes.name = name_of(target, new);
    }
    attributes
}

/// Drops the cached configuration after a write of a policy or webhook.
pub(crate) fn refresh(api: &Server, target: &Target) {
    if is_exempt(&target.kind) {
        api.admission_configuration().forget();
    }
}

/// Sets `observedGeneration` in the status of a policy: an invalid policy is refused when it is written.
pub(crate) fn observe(kind: &Kind, policy: &mut Value) {
    if kind.is(Builtin::ValidatingAdmissionPolicy) {
        let generation = policy.pointer("/metadata/generation").cloned();
        let status = child(as_map(policy), "status");
        assign(status, "observedGeneration", generation);
        default_to(status, "typeChecking", serde_json::json!({}));
    }
}
