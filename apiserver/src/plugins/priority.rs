//! Resolves a new pod's priority class. Source: Kubernetes' admission plugin `Priority`.

use serde_json::{Value, json};

use crate::Server;
use kubeapi::{
    object::{as_map, text_or_empty},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
};
use objectstore::{Key, Page, Scope, Store};

/// Sets `spec.priority` and `spec.preemptionPolicy` of a new pod by its priority class or the cluster's default one. 403 for a
/// class that is not there, and for a pod that says something else than its class.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    pod: &mut Value,
) -> Result<(), StatusError> {
    let name = text_or_empty(pod, "/spec/priorityClassName").to_owned();
    let class = match name.as_str() {
        "" => default_class(api).await?,
        // these are always there
        "system-node-critical" => Some(json!({"value": 2_000_001_000})),
        "system-cluster-critical" => Some(json!({"value": 2_000_000_000})),
        name => {
            let found = read_class(api, name).await?;
            let missing = || {
                refusal(
                    target,
                    &format!("no PriorityClass with name {name} was found"),
                )
            };
            Some(found.ok_or_else(missing)?)
        }
    };
    let priority = class
        .as_ref()
        .and_then(|class| class.get("value"))
        .cloned()
        .unwrap_or_else(|| json!(0));
    let own_name = class
        .as_ref()
        .map(|class| text_or_empty(class, "/metadata/name").to_owned());
    let policy = class
        .as_ref()
        .map(|class| text_or_empty(class, "/preemptionPolicy"))
        .unwrap_or_default();
    let policy = if policy.is_empty() {
        "PreemptLowerPriority"
    } else {
        policy
    };
    let Some(spec) = as_map(pod).get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let computed = [
        ("priority", "integer value of priority", priority),
        (
            "preemptionPolicy",
            "string value of PreemptionPolicy",
            policy.into(),
        ),
    ];
    for (field, what, value) in computed {
        let shown = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        match spec
            .get(field)
            .filter(|given| !given.is_null() && **given != value)
        {
            Some(given) => {
                return Err(refusal(
                    target,
                    &format!(
                        "the {what} ({}) must not be provided in pod spec; priority admission controller computed {} from \
                         the given PriorityClass name",
                        shown(given),
                        shown(&value)
                    ),
                ));
            }
            None => drop(spec.insert(field.to_owned(), value)),
        }
    }
    if let (true, Some(own_name)) = (name.is_empty(), own_name) {
        spec.insert("priorityClassName".into(), own_name.into());
    }
    Ok(())
}

async fn read_class(api: &Server, name: &str) -> Result<Option<Value>, StatusError> {
    let Some(resource) = classes(api) else {
        return Ok(None);
    };
    let found = Store::get(&**api.store(), &Key::new(resource, "", name)).await?;
    Ok(found.map(|class| class.value()).transpose()?)
}

/// Returns the default class; of several the one with the lowest value.
async fn default_class(api: &Server) -> Result<Option<Value>, StatusError> {
    let Some(resource) = classes(api) else {
        return Ok(None);
    };
    let all = api
        .store()
        .list(
            &Scope {
                resource,
                namespace: None,
            },
            &Page::default(),
        )
        .await?;
    let mut lowest: Option<Value> = None;
    for class in all.items {
        let class = class.value()?;
        let value = |class: &Value| {
            class
                .get("value")
                .and_then(Value::as_i64)
                .unwrap_or_default()
        };
        let is_default = class
            .get("globalDefault")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        if is_default
            && lowest
                .as_ref()
                .is_none_or(|lowest| value(&class) < value(lowest))
        {
            lowest = Some(class);
        }
    }
    Ok(lowest)
}

fn classes(api: &Server) -> Option<objectstore::Resource> {
    api.registry()
        .of(Builtin::PriorityClass)
        .map(|kind| kind.resource().clone())
}

fn refusal(target: &Target, why: &str) -> StatusError {
    StatusError::forbidden(&target.kind, &target.name, why)
}
