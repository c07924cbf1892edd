//! Decides which objects that the cloud's dynamic controller sends for watches are this node's own. Pure.
//!
//! CloudCore remembers which revision of an object a node has acknowledged, by the object's UID, whichever of its controllers
//! sent it. What was sent for a watch of MetaServer is therefore not sent again by the controller that serves the node itself,
//! so it has to be stored for both. EdgeCore stores every such object; such a node would run pods and read Secrets of others.
//!
//! Source: `enqueueAckMessage` of KubeEdge's CloudHub.

use serde_json::Value;
use wire::{Change, ResourceType};

/// Whether an object is this node's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// It is.
    Yes,
    /// It is if the node has stored an object of this name already.
    IfStored,
    /// It is not.
    No,
}

/// Decides whether the object is this node's own. A deletion says little here: the object may only have left the selection of a
/// watch. The controller that serves the node itself sends deletions whatever was acknowledged before.
pub(super) fn ownership(
    node: &str,
    change: Change,
    kind: &ResourceType,
    object: &Value,
) -> Ownership {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let is_ours = match kind {
        ResourceType::Pod | ResourceType::Device if text("/spec/nodeName") == node => {
            Ownership::Yes
        }
        ResourceType::Node if text("/metadata/name") == node => Ownership::Yes,
        ResourceType::ConfigMap
        | ResourceType::Secret
        | ResourceType::PersistentVolume
        | ResourceType::PersistentVolumeClaim => Ownership::IfStored,
        // each is sent to a node once, when its first device or account needs it
        ResourceType::DeviceModel | ResourceType::ServiceAccountAccess => Ownership::Yes,
        _ => Ownership::No,
    };
    // other groups may have kinds of the same name
    let group = match kind {
        ResourceType::Device | ResourceType::DeviceModel => "devices.kubeedge.io/",
        ResourceType::ServiceAccountAccess => "policy.kubeedge.io/",
        _ => "v1",
    };
    let is_of_group = text("/apiVersion").starts_with(group);
    if change == Change::Delete || !is_of_group {
        Ownership::No
    } else {
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn watched_objects_of_the_node_itself_are_stored() {
        let core =
            |spec: Value| json!({"apiVersion": "v1", "metadata": {"name": "edge-1"}, "spec": spec});
        let of = |group: &str, spec: Value| json!({"apiVersion": group, "metadata": {"name": "a"}, "spec": spec});
        let (here, there) = (json!({"nodeName": "edge-1"}), json!({"nodeName": "edge-2"}));
        let devices = "devices.kubeedge.io/v1beta1";
        let rows = [
            (ResourceType::Pod, core(here.clone()), Ownership::Yes),
            (ResourceType::Pod, core(there.clone()), Ownership::No),
            (ResourceType::Pod, core(json!({})), Ownership::No),
            (
                ResourceType::Pod,
                of("example.com/v1", here.clone()),
                Ownership::No,
            ),
            (ResourceType::Node, core(json!({})), Ownership::Yes),
            (ResourceType::Node, of("v1", json!({})), Ownership::No),
            (
                ResourceType::ConfigMap,
                core(json!({})),
                Ownership::IfStored,
            ),
            (ResourceType::Secret, core(json!({})), Ownership::IfStored),
            (
                ResourceType::Secret,
                of("example.com/v1", json!({})),
                Ownership::No,
            ),
            (
                ResourceType::PersistentVolumeClaim,
                core(json!({})),
                Ownership::IfStored,
            ),
            (
                ResourceType::Device,
                of(devices, here.clone()),
                Ownership::Yes,
            ),
            (ResourceType::Device, of(devices, there), Ownership::No),
            (
                ResourceType::DeviceModel,
                of(devices, json!({})),
                Ownership::Yes,
            ),
            (ResourceType::DeviceModel, core(json!({})), Ownership::No),
            (
                ResourceType::ServiceAccountAccess,
                of("policy.kubeedge.io/v1alpha1", json!({})),
                Ownership::Yes,
            ),
            (
                ResourceType::from("service".to_owned()),
                core(json!({})),
                Ownership::No,
            ),
        ];
        for (kind, object, expected) in rows {
            assert_eq!(
                ownership("edge-1", Change::Update, &kind, &object),
                expected,
                "{kind} {object}"
            );
            assert_eq!(
                ownership("edge-1", Change::Delete, &kind, &object),
                Ownership::No,
                "{kind} {object}"
            );
        }
    }
}
