//! Applies a new pod's runtime class. Source: Kubernetes' admission plugin `RuntimeClass`.

use serde_json::{Map, Value, json};

use crate::Server;
use kubeapi::{
    object::{as_map, child, default_to, items, text_or_empty},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
};
use objectstore::{Key, Store};

/// Sets a new pod's `spec.overhead` and where it may run by its runtime class. 403 for a class that is not there, and for a pod
/// that says something else than its class.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    pod: &mut Value,
) -> Result<(), StatusError> {
    let pod_name = text_or_empty(pod, "/metadata/name").to_owned();
    let refused = |why: String| Err(StatusError::forbidden(&target.kind, &pod_name, &why));
    let name = text_or_empty(pod, "/spec/runtimeClassName").to_owned();
    let own = pod
        .pointer("/spec/overhead")
        .and_then(Value::as_object)
        .filter(|map| !map.is_empty())
        .cloned();
    let class = if name.is_empty() {
        None
    } else {
        Some(find(api, &name).await?)
    };
    let class = match class {
        Some(None) => return refused(format!("pod rejected: RuntimeClass {name:?} not found")),
        class => class.flatten(),
    };
    let overhead = class
        .as_ref()
        .and_then(|class| class.pointer("/overhead/podFixed"))
        .cloned();
    match (own, overhead) {
        (Some(_), None) => {
            return refused(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".into(),
            );
        }
        (Some(own), Some(overhead)) if Value::Object(own.clone()) != overhead => {
            return refused(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into(),
            );
        }
        (_, Some(overhead)) => drop(child(as_map(pod), "spec").insert("overhead".into(), overhead)),
        (None, None) => {}
    }
    let Some(scheduling) = class.as_ref().and_then(|class| class.get("scheduling")) else {
        return Ok(());
    };
    let spec = child(as_map(pod), "spec");
    if let Err(why) = select_nodes(spec, scheduling) {
        return refused(why);
    }
    tolerate(spec, scheduling);
    Ok(())
}

/// Merges the class's node selector into the pod's; fails where they conflict.
fn select_nodes(spec: &mut Map<String, Value>, scheduling: &Value) -> Result<(), String> {
    let wanted = scheduling.get("nodeSelector").and_then(Value::as_object);
    for (label, value) in wanted.into_iter().flatten() {
        let selector = child(spec, "nodeSelector");
        match selector.get(label).filter(|own| *own != value) {
            Some(own) => {
                let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {}; pod.spec.nodeSelector[{label}] = {}",
                    shown(value),
                    shown(own)
                ));
            }
            None => drop(selector.insert(label.clone(), value.clone())),
        }
    }
    Ok(())
}

fn tolerate(spec: &mut Map<String, Value>, scheduling: &Value) {
    for toleration in items(scheduling, "/tolerations") {
        default_to(spec, "tolerations", json!([]));
        if let Some(Value::Array(own)) = spec.get_mut("tolerations")
            && !own.contains(toleration)
        {
            own.push(toleration.clone());
        }
    }
}

async fn find(api: &Server, name: &str) -> Result<Option<Value>, StatusError> {
    let Some(kind) = api.registry().of(Builtin::RuntimeClass).cloned() else {
        return Ok(None);
    };
    let found = Store::get(&**api.store(), &Key::new(kind.resource().clone(), "", name)).await?;
    Ok(found.map(|class| class.value()).transpose()?)
}
