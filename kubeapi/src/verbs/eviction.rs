//! `pods/<name>/eviction`: a deletion that a disruption budget can refuse.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    delete::{Options, delete_one},
    get::find,
    options::{of_dry_run, refuse},
    scale::selector_text,
    write::{now, store},
};
use crate::{
    Api, Body, body,
    object::{as_map, child, is_deleting, text, text_or_empty},
    path::Target,
    registry::Builtin,
    selector::Selection,
    service::Call,
    status::StatusError,
    store::{Expect, Object, Page, Scope},
};

/// Deletes the request's pod unless its disruption budget is used up.
pub(crate) async fn evict(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let eviction = if call.body.is_empty() { json!({}) } else { body::parse(&call.headers, &call.body)? };
    let own = text_or_empty(&eviction, "/metadata/name");
    if !own.is_empty() && own != call.target.name {
        return Err(StatusError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let options = Options::read(options)?;
    let mut call = call.bodyless();
    for stage in options.dry_run.iter().flatten() {
        refuse("DeleteOptions", of_dry_run(Some(stage)).into_iter().collect())?;
        call.query.set("dryRun", stage);
    }
    call.target.part = None;
    let pod = find(api, &call.target).await?.value()?;
    // what does not run disturbs nobody by going
    let counts = !matches!(text(&pod, "/status/phase"), Some("Succeeded" | "Failed" | "Pending"));
    if counts && !is_deleting(&pod) {
        take_from_budget(api, &call, &pod).await?;
    }
    delete_one(api, &call, &options).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(body::answer(StatusCode::CREATED, Bytes::from(status.to_string()), &[]))
}

/// Counts the disruption in the budget that covers `pod`, if one does.
async fn take_from_budget(api: &Api, call: &Call, pod: &Value) -> Result<(), StatusError> {
    let registry = api.registry();
    let Some(kind) = registry.of(Builtin::PodDisruptionBudget) else { return Ok(()) };
    let namespace = call.target.namespace.clone();
    let scope = Scope { resource: kind.resource().clone(), namespace: Some(namespace.clone()) };
    let mut covering = Vec::new();
    for budget in api.store().list(&scope, &Page::default()).await?.items {
        let value = budget.value()?;
        if covers(kind, &value, pod)? {
            covering.push((budget, value));
        }
    }
    let (stored, budget) = match <[(Object, Value); 1]>::try_from(covering) {
        Ok([one]) => one,
        Err(none) if none.is_empty() => return Ok(()),
        Err(_) => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(StatusError::internal(why));
        }
    };
    let name = stored.key.name;
    let allowed = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or_default();
    if allowed <= 0 {
        return Err(StatusError::budget_used_up(&name));
    }
    if call.query.dry_run() {
        return Ok(());
    }
    let mut taken = budget;
    let status = child(as_map(&mut taken), "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    child(status, "disruptedPods").insert(call.target.name.clone(), now().into());
    let target = Target { kind: kind.clone(), namespace, name, part: None };
    store(api, &target, (Expect::Revision(stored.revision), None), Some(taken)).await.map(drop)
}

fn covers(kind: &crate::registry::Kind, budget: &Value, pod: &Value) -> Result<bool, StatusError> {
    let Some(selector) = budget.pointer("/spec/selector") else { return Ok(false) };
    Ok(Selection::parse(kind, Some(&selector_text(selector)), None)?.matches(pod))
}
