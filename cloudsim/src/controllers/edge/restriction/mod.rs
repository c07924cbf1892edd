//! What a node may write to its own objects: Kubernetes' admission plugin `NodeRestriction`, for the requests that nodes have here. Pure.
//!
//! Stricter than Kubernetes in one point: a status patch changes only the status. What a kubelet's patches contain besides is accepted if
//! it changes nothing, as are the few fields that a kubelet updates when it registers.
//!
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction>.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value};

use super::{mirror::is_mirror, references::references};

/// The namespace of node leases.
pub(in crate::controllers) const LEASES: &str = "kube-node-lease";

/// The domain of labels that only administrators may set, including its subdomains.
pub(crate) const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Labels of Kubernetes' domains that a node may set when it registers.
const LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The role labels that KubeEdge's nodes set; the upstream plugin does not know them.
const EDGE_ROLES: [&str; 2] = [
    "node-role.kubernetes.io/edge",
    "node-role.kubernetes.io/agent",
];

/// The labels that a kubelet updates with a patch of its Node's status.
const KUBELETS_LABELS: [&str; 4] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const KUBELETS_ANNOTATION: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Checks whether the node may register with this Node.
pub(super) fn new_node(node: &Value) -> Result<(), String> {
    for (label, _) in map(node, "/metadata/labels") {
        if !may_label(label) {
            return Err(format!("is not allowed to set the label {label}"));
        }
    }
    if let Some((annotation, _)) =
        map(node, "/metadata/annotations").find(|(name, _)| is_restricted(name))
    {
        return Err(format!("is not allowed to set the annotation {annotation}"));
    }
    for field in ["ownerReferences", "finalizers"] {
        if !is_empty(node.pointer(&format!("/metadata/{field}"))) {
            return Err(format!("is not allowed to set metadata.{field}"));
        }
    }
    if !is_empty(node.pointer("/spec/configSource")) {
        return Err("is not allowed to set spec.configSource".to_owned());
    }
    Ok(())
}

/// Reports whether a Lease has no finalizers, and no owner but the Node of this name, which it does not hold up.
pub(super) fn is_plain_lease(node: &str, lease: &Value) -> bool {
    let is_node = |owner: &Value| {
        let is = |field: &str, value: &str| owner.get(field).and_then(Value::as_str) == Some(value);
        is("apiVersion", "v1")
            && is("kind", "Node")
            && is("name", node)
            && owner.get("blockOwnerDeletion") != Some(&Value::Bool(true))
    };
    let has_own = match lease.pointer("/metadata/ownerReferences") {
        Some(Value::Array(owners)) => owners.iter().all(is_node),
        owners => is_empty(owners),
    };
    has_own && is_empty(lease.pointer("/metadata/finalizers"))
}

/// Checks whether the node may write its Lease: finalizers and owners would hold up the deletion of the Lease and of other objects.
/// Those that the stored Lease has stay.
pub(super) fn lease(node: &str, lease: &Value, stored: Option<&Value>) -> Result<(), String> {
    if is_plain_lease(node, lease) {
        return Ok(());
    }
    for field in ["finalizers", "ownerReferences"] {
        let of = |object: &Value| object.pointer(&format!("/metadata/{field}")).cloned();
        let is_same = stored.is_some_and(|stored| of(stored) == of(lease));
        let only = Value::from_iter([("metadata", Value::from_iter([(field, of(lease))]))]);
        if !is_same && !is_plain_lease(node, &only) {
            return Err(format!("is not allowed to set metadata.{field}"));
        }
    }
    Ok(())
}

fn map<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

fn is_below(domain: &str, parent: &str) -> bool {
    domain == parent
        || domain
            .strip_suffix(parent)
            .is_some_and(|rest| rest.ends_with('.'))
}

fn is_restricted(key: &str) -> bool {
    is_below(
        key.split_once('/').map_or("", |(domain, _)| domain),
        RESTRICTED,
    )
}

/// Reports whether a node may register with this label.
fn may_label(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else {
        return true;
    };
    if is_below(domain, RESTRICTED) {
        return false;
    }
    let is_kubernetes = is_below(domain, "kubernetes.io") || is_below(domain, "k8s.io");
    !is_kubernetes
        || LABELS.contains(&label)
        || EDGE_ROLES.contains(&label)
        || is_below(domain, "kubelet.kubernetes.io")
        || is_below(domain, "node.kubernetes.io")
}

/// Checks whether `node`, whose Node has this uid, may create the pod: it must be a mirror pod of its own, owned by its Node, without
/// references to API objects.
pub(super) fn new_pod(node: &str, uid: Option<&str>, object: &Value) -> Result<(), String> {
    let refused = |why: &str| Err(format!("can only create mirror pods of its own: {why}"));
    let Ok(pod) = serde_json::from_value::<Pod>(object.clone()) else {
        return refused("this is no pod");
    };
    if !is_mirror(&pod) {
        return refused("the annotation kubernetes.io/config.mirror is missing");
    }
    let Some(spec) = &pod.spec else {
        return refused("spec is missing");
    };
    if spec.node_name.as_deref() != Some(node) {
        return refused("spec.nodeName is not the node");
    }
    let [owner] = pod.metadata.owner_references.as_deref().unwrap_or_default() else {
        return refused("it needs exactly one owner, the Node");
    };
    let is_node = owner.api_version == "v1" && owner.kind == "Node" && owner.name == node;
    if !is_node || uid.is_none_or(|uid| uid.is_empty() || owner.uid != uid) {
        return refused("its owner is not the node's Node as it is now");
    }
    if owner.controller != Some(true) || owner.block_owner_deletion == Some(true) {
        return refused("its owner must be its controller, without blockOwnerDeletion");
    }
    let account = spec
        .service_account_name
        .as_deref()
        .or(spec.service_account.as_deref());
    if account.is_some_and(|account| !account.is_empty()) {
        return refused("it names a service account");
    }
    if !references(&pod).is_empty() {
        return refused("it names a Secret or a ConfigMap");
    }
    // raw volumes: an unknown type is refused
    let volumes = object
        .pointer("/spec/volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut sources = volumes.flat_map(|volume| volume.as_object().into_iter().flatten());
    if let Some(strange) = sources.find_map(|(kind, source)| strange(kind, source)) {
        return refused(&format!("it has a volume of the kind {strange}"));
    }
    Ok(())
}

/// Returns the kind of a volume that references API objects or is unknown.
fn strange(kind: &str, source: &Value) -> Option<String> {
    match kind {
        "name" | "hostPath" | "emptyDir" | "downwardAPI" | "nfs" | "gitRepo" | "image" => None,
        "projected" => {
            let sources = source
                .get("sources")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let other = sources.flat_map(|source| source.as_object().into_iter().flatten());
            let mut other = other.filter(|(kind, _)| *kind != "downwardAPI");
            other.next().map(|(kind, _)| format!("projected {kind}"))
        }
        other => Some(other.to_owned()),
    }
}

/// Checks that a status patch changes only the status. `stored` is the object; `is_node` if it is the node's own Node.
pub(super) fn status_patch(patch: &Value, stored: &Value, is_node: bool) -> Result<(), String> {
    let Some(fields) = patch.as_object() else {
        return Err("its patch is no object".to_owned());
    };
    for (field, value) in fields {
        match field.as_str() {
            "status" => status_fields(value, stored)?,
            "metadata" => metadata(
                value,
                stored.get("metadata").unwrap_or(&Value::Null),
                is_node,
            )?,
            // a subresource ignores metadata, and a kubelet sends it empty
            "kind" | "apiVersion" if stored.get(field) == Some(value) => {}
            other if is_empty(Some(value)) && !other.starts_with('$') => {}
            other => return Err(only_the_status(other)),
        }
    }
    Ok(())
}

fn only_the_status(field: &str) -> String {
    format!("may change nothing but the status with a patch of the status, and not {field}")
}

/// Checks the fields of the status that the cloud's controllers own.
fn status_fields(status: &Value, stored: &Value) -> Result<(), String> {
    for field in ["resourceClaimStatuses", "extendedResourceClaimStatus"] {
        let (new, old) = (
            status.get(field),
            stored.pointer(&format!("/status/{field}")),
        );
        if new.is_some() && new != old {
            return Err(format!("is not allowed to change status.{field}"));
        }
    }
    Ok(())
}

fn metadata(patch: &Value, stored: &Value, is_node: bool) -> Result<(), String> {
    let none = Map::new();
    for (field, value) in patch.as_object().unwrap_or(&none) {
        let is_map = matches!(field.as_str(), "labels" | "annotations");
        if stored.get(field) == Some(value) || (value.is_null() && stored.get(field).is_none()) {
            continue;
        }
        match field.as_str() {
            // preconditions: the patch fails if they do not hold
            "uid" | "resourceVersion" => {}
            "creationTimestamp" if value.is_null() => {}
            _ if is_map && value.is_object() => {
                for (key, value) in value.as_object().unwrap_or(&none) {
                    let same = match stored.get(field).and_then(|all| all.get(key)) {
                        Some(before) => before == value,
                        None => value.is_null(),
                    };
                    let is_kubelets = is_node
                        && value.is_string()
                        && match field.as_str() {
                            "labels" => KUBELETS_LABELS.contains(&key.as_str()),
                            _ => key == KUBELETS_ANNOTATION,
                        };
                    if key.starts_with('$') || !(same || is_kubelets) {
                        return Err(only_the_status(&format!("metadata.{field}[{key}]")));
                    }
                }
            }
            other => return Err(only_the_status(&format!("metadata.{other}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
