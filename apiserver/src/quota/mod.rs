//! Resource quotas: limits new objects, and maintains the usage in the quotas' status. Source: Kubernetes' admission plugin and
//! controller `ResourceQuota`.
//!
//! Usage is counted from the objects each time, so there is no state to keep consistent.

use serde_json::{Map, Value, json};

use crate::Server;
use kubeapi::{
    object::{as_map, quantity::Quantity, text_or_empty},
    registry::{Builtin, Kind},
    request::{path::Target, subresource::Subresource},
    status::StatusError,
    strategy::QuotaLock,
};
use objectstore::{Expect, Object, Page, Scope, Store, StoreError, Write};

mod usage;

use usage::Usage;

/// How often the write of a status is retried after a conflict.
const ATTEMPTS: usize = 8;

/// Refuses with 403 a new object that exceeds a quota of its namespace.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    object: &Value,
) -> Result<QuotaLock, StatusError> {
    if !target.kind.namespaced || target.kind.is(Builtin::ResourceQuota) {
        return Ok(None);
    }
    if quotas(api, &target.namespace).await?.is_empty() {
        return Ok(None);
    }
    let turn = api.lock_quota().await;
    let wanted = usage::of(&target.kind, object);
    for quota in quotas(api, &target.namespace).await? {
        let quota = quota.value()?;
        if !usage::concerns(&quota, &target.kind, object) {
            continue;
        }
        let hard = usage::amounts(&quota, "/spec/hard");
        if let Some(why) = refusal(api, target, &quota, object, &hard, &wanted).await? {
            return Err(StatusError::forbidden(
                &target.kind,
                text_or_empty(object, "/metadata/name"),
                &why,
            ));
        }
    }
    Ok(Some(turn))
}

/// Refuses with 403 a change by which a service, a claim or a resized pod exceeds a quota of its namespace.
pub(crate) async fn admit_change(
    api: &Server,
    target: &Target,
    old: &Value,
    new: &Value,
) -> Result<QuotaLock, StatusError> {
    let counts = match target.part {
        None => target.kind.is(Builtin::Service) || target.kind.is(Builtin::PersistentVolumeClaim),
        Some(part) => part == Subresource::Resize,
    };
    if !counts {
        return Ok(None);
    }
    let more = usage::more(&usage::of(&target.kind, old), &usage::of(&target.kind, new));
    if more.is_empty() || quotas(api, &target.namespace).await?.is_empty() {
        return Ok(None);
    }
    let turn = api.lock_quota().await;
    for quota in quotas(api, &target.namespace).await? {
        let quota = quota.value()?;
        if !usage::concerns(&quota, &target.kind, new) {
            continue;
        }
        let hard = usage::amounts(&quota, "/spec/hard");
        if let Some(why) = refusal(api, target, &quota, new, &hard, &more).await? {
            return Err(StatusError::forbidden(
                &target.kind,
                text_or_empty(new, "/metadata/name"),
                &why,
            ));
        }
    }
    Ok(Some(turn))
}

/// Returns why a quota refuses an object, if it does.
async fn refusal(
    api: &Server,
    target: &Target,
    quota: &Value,
    object: &Value,
    hard: &Usage,
    wanted: &Usage,
) -> Result<Option<String>, StatusError> {
    let name = text_or_empty(quota, "/metadata/name");
    if target.kind.is(Builtin::Pod) {
        let silent = hard
            .keys()
            .map(|resource| (resource, usage::containers_without(object, resource)));
        let silent: Vec<_> = silent
            .filter(|(_, containers)| !containers.is_empty())
            .map(|(resource, containers)| format!("{resource} for: {}", containers.join(",")))
            .collect();
        if !silent.is_empty() {
            return Ok(Some(format!(
                "failed quota: {name}: must specify {}",
                silent.join("; ")
            )));
        }
    }
    let limited: Vec<_> = wanted
        .iter()
        .filter(|(name, amount)| hard.contains_key(*name) && amount.is_positive())
        .collect();
    if limited.is_empty() {
        return Ok(None);
    }
    let used = count_usage(api, &target.namespace, quota, hard).await?;
    let over: Vec<_> = limited
        .into_iter()
        .filter_map(|(name, more)| {
            let (hard, used) = (
                hard.get(name)?,
                used.get(name).copied().unwrap_or(Quantity::ZERO),
            );
            (used.plus(*more) > *hard).then_some((name, *more, used, *hard))
        })
        .collect();
    if over.is_empty() {
        return Ok(None);
    }
    let limits = quota.pointer("/spec/hard").and_then(Value::as_object);
    let listed = |amount: fn(&(&String, Quantity, Quantity, Quantity)) -> Quantity| {
        let texts = over.iter().map(|entry| {
            let limit = limits
                .and_then(|limits| limits.get(entry.0))
                .and_then(Value::as_str);
            format!(
                "{}={}",
                entry.0,
                amount(entry).written_like(limit.unwrap_or_default())
            )
        });
        texts.collect::<Vec<_>>().join(",")
    };
    Ok(Some(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        listed(|entry| entry.1),
        listed(|entry| entry.2),
        listed(|entry| entry.3)
    )))
}

/// Updates the status of each quota of a namespace, after a write in it.
pub(crate) async fn refresh(api: &Server, target: &Target) -> Result<(), StatusError> {
    if target.namespace.is_empty() {
        return Ok(());
    }
    for quota in quotas(api, &target.namespace).await? {
        let mut standing = Some(quota);
        let mut attempts = ATTEMPTS;
        while let Some(quota) = standing.take().filter(|_| attempts > 0) {
            attempts -= 1;
            standing = write_status(api, quota).await?;
        }
    }
    Ok(())
}

/// Updates one status if it has changed; returns the current quota after a conflict.
async fn write_status(api: &Server, quota: Object) -> Result<Option<Object>, StatusError> {
    let mut value = quota.value()?;
    let hard = usage::amounts(&value, "/spec/hard");
    let used = count_usage(api, &quota.key.namespace, &value, &hard).await?;
    let limits = value
        .pointer("/spec/hard")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let used: Map<_, _> = hard
        .keys()
        .map(|name| {
            let amount = used.get(name).copied().unwrap_or(Quantity::ZERO);
            let limit = limits.get(name).and_then(Value::as_str).unwrap_or_default();
            (name.clone(), amount.written_like(limit).into())
        })
        .collect();
    let status = json!({"hard": limits, "used": used});
    if value.get("status") == Some(&status) {
        return Ok(None);
    }
    as_map(&mut value).insert("status".into(), status);
    let key = quota.key.clone();
    let write = Write {
        key: key.clone(),
        expect: Expect::Revision(quota.revision),
        value: Some(value),
    };
    match api.store().commit(vec![write]).await {
        Ok(_) | Err(StoreError::Missing(_)) => Ok(None),
        Err(StoreError::Conflict { .. }) => Ok(Store::get(&**api.store(), &key).await?),
        Err(error) => Err(error.into()),
    }
}

/// Counts the usage in a namespace of the resources that a quota limits.
async fn count_usage(
    api: &Server,
    namespace: &str,
    quota: &Value,
    hard: &Usage,
) -> Result<Usage, StatusError> {
    let mut sum = Usage::new();
    let registry = api.registry();
    let mut counted = Vec::new();
    for kind in registry
        .kinds()
        .iter()
        .filter(|kind| kind.namespaced && is_limited(kind, hard))
    {
        if counted.contains(kind.resource()) {
            continue;
        }
        counted.push(kind.resource().clone());
        let scope = Scope {
            resource: kind.resource().clone(),
            namespace: Some(namespace.to_owned()),
        };
        for object in api.store().list(&scope, &Page::default()).await?.items {
            let object = object.value()?;
            if usage::concerns(quota, kind, &object) {
                usage::add(&mut sum, &usage::of(kind, &object));
            }
        }
    }
    Ok(sum)
}

/// Reports whether a quota limits a resource that objects of `kind` use.
fn is_limited(kind: &Kind, hard: &Usage) -> bool {
    let counted = usage::of(kind, &Value::Null);
    hard.keys().any(|name| {
        counted.contains_key(name)
            || match kind.builtin {
                Some(Builtin::Pod) => is_of_pods(name),
                Some(Builtin::PersistentVolumeClaim) => {
                    name.ends_with("requests.storage") || name.ends_with("persistentvolumeclaims")
                }
                Some(Builtin::Service) => name.starts_with("services."),
                _ => false,
            }
    })
}

fn is_of_pods(name: &str) -> bool {
    let of_containers = name.starts_with("requests.") || name.starts_with("limits.");
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || of_containers && !name.ends_with("requests.storage")
}

async fn quotas(api: &Server, namespace: &str) -> Result<Vec<Object>, StatusError> {
    let Some(kind) = api.registry().of(Builtin::ResourceQuota).cloned() else {
        return Ok(Vec::new());
    };
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace: Some(namespace.to_owned()),
    };
    Ok(api.store().list(&scope, &Page::default()).await?.items)
}
