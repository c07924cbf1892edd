//! `pods/<name>/eviction`: a deletion that a disruption budget can refuse.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    delete::{Options, check, delete_one},
    get::find,
    write::{Change, modify, store},
};
use crate::{
    Api, Body,
    object::{
        as_map, child, deletion::Next, is_deleting, scale::selector_text, text, text_or_empty,
        timestamp::now,
    },
    registry::{Builtin, Kind},
    request::{body, call::Call, path::Target, request_type},
    selector::Selection,
    status::StatusError,
    validate::decode_body,
};
use objectstore::{Expect, Object, Page, Scope};

mod budget;

/// How often a write of a budget is retried after a conflict.
const ATTEMPTS: usize = 20;

/// Deletes the request's pod unless its disruption budget is used up.
pub(crate) async fn evict(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let (eviction, warnings) = decode_body(
        &request_type::EVICTION,
        &call.headers,
        &call.body,
        &call.query,
    )?;
    if text_or_empty(&eviction, "/metadata/name") != call.target.name {
        return Err(StatusError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = eviction
        .get("deleteOptions")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let options = Options::read(options)?;
    let mut call = call.bodyless();
    options.take_dry_run(&mut call)?;
    call.target.part = None;
    loop {
        let pod = find(api, &call.target).await?.value()?;
        let counted = counts(&pod);
        if counted {
            take_from_budget(api, &call, &pod).await?;
        }
        if set_disruption_target(api, &call, &options, counted).await? {
            break;
        }
    }
    delete_one(api, &call, &options.without_resource_version()).await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(body::answer(
        StatusCode::CREATED,
        Bytes::from(status.to_string()),
        &warnings,
    ))
}

/// Reports whether the pod counts in a disruption budget: a pod that does not run yet or any more disrupts nobody.
fn counts(pod: &Value) -> bool {
    !matches!(
        text(pod, "/status/phase"),
        Some("Succeeded" | "Failed" | "Pending")
    ) && !is_deleting(pod)
}

/// Sets the pod's condition `DisruptionTarget`, whatever its phase: a Job's failure policy reads it. `counted` says that the budget was
/// asked. Returns false without a write if it was not, and the pod has begun to run since.
async fn set_disruption_target(
    api: &Api,
    call: &Call,
    options: &Options,
    counted: bool,
) -> Result<bool, StatusError> {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        "lastProbeTime": null, "lastTransitionTime": now(),
    });
    let mut is_set = true;
    modify(api, call, Change::Note, |pod| {
        check(call, options, pod)?;
        is_set = counted || !counts(pod);
        if !is_set {
            return Ok(Next::Same);
        }
        let mut noted = pod.clone();
        let conditions = child(as_map(&mut noted), "status")
            .entry("conditions")
            .or_insert_with(|| json!([]));
        if let Value::Array(conditions) = conditions {
            conditions.retain(|condition| text(condition, "/type") != Some("DisruptionTarget"));
            let mut condition = condition.clone();
            if let Some(generation) = pod.pointer("/metadata/generation") {
                condition["observedGeneration"] = generation.clone();
            }
            conditions.push(condition);
        }
        Ok(Next::Replace(noted))
    })
    .await?;
    Ok(is_set)
}

/// Counts the disruption in the budget that covers `pod`, if there is one.
async fn take_from_budget(api: &Api, call: &Call, pod: &Value) -> Result<(), StatusError> {
    let registry = api.registry();
    let Some(kind) = registry.of(Builtin::PodDisruptionBudget) else {
        return Ok(());
    };
    let namespace = call.target.namespace.clone();
    let mut attempts = ATTEMPTS;
    loop {
        let Some((stored, budget)) = covering(api, kind, &namespace, pod).await? else {
            return Ok(());
        };
        let name = stored.key.name;
        if !budget::counts(&name, &budget, pod)? || call.query.dry_run() {
            return Ok(());
        }
        let taken = budget::add_disrupted(budget, &call.target.name, &now());
        let target = Target {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            part: None,
        };
        attempts -= 1;
        match store(
            api,
            &target,
            Expect::Revision(stored.revision),
            None,
            Some(taken),
        )
        .await
        {
            // the controller or another eviction was faster
            Err(error) if error.is_conflict() && attempts > 0 => {}
            Err(error) if error.is_conflict() => return Err(StatusError::budget_conflict(&name)),
            written => return written.map(drop),
        }
    }
}

/// Returns the budget that covers the pod; more than one is an error.
async fn covering(
    api: &Api,
    kind: &Kind,
    namespace: &str,
    pod: &Value,
) -> Result<Option<(Object, Value)>, StatusError> {
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace: Some(namespace.to_owned()),
    };
    let mut covering = Vec::new();
    for budget in api.store().list(&scope, &Page::default()).await?.items {
        let value = budget.value()?;
        if covers(kind, &value, pod)? {
            covering.push((budget, value));
        }
    }
    if covering.len() > 1 {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(StatusError::internal(why));
    }
    Ok(covering.pop())
}

fn covers(kind: &Kind, budget: &Value, pod: &Value) -> Result<bool, StatusError> {
    let Some(selector) = budget.pointer("/spec/selector") else {
        return Ok(false);
    };
    Ok(Selection::parse(kind, Some(&selector_text(selector)), None)?.matches(pod))
}
