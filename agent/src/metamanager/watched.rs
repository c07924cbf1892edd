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
pub(super) enum Own {
    /// It is.
    Yes,
    /// It is if the node has stored an object of this name already.
    IfStored,
    /// It is not.
    No,
}

/// Decides whether the object is this node's own. A deletion says little here: the object may only have left the selection of a
/// watch. The controller that serves the node itself sends deletions whatever was acknowledged before.
pub(super) fn own(node: &str, change: Change, kind: &ResourceType, object: &Value) -> Own {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_ours = match kind {
        ResourceType::Pod | ResourceType::Device if text("/spec/nodeName") == node => Own::Yes,
        ResourceType::Node if text("/metadata/name") == node => Own::Yes,
        ResourceType::ConfigMap
        | ResourceType::Secret
        | ResourceType::PersistentVolume
        | ResourceType::PersistentVolumeClaim => Own::IfStored,
        // each is sent to a node once, when its first device or account needs it
        ResourceType::DeviceModel | ResourceType::ServiceAccountAccess => Own::Yes,
        _ => Own::No,
    };
    // other groups may have kinds of the same name
    let group = match kind {
        ResourceType::Device | ResourceType::DeviceModel => "devices.kubeedge.io/",
        ResourceType::ServiceAccountAccess => "policy.kubeedge.io/",
        _ => "v1",
    };
    let is_of_group = text("/apiVersion").starts_with(group);
    if change == Change::Delete || !is_of_group { Own::No } else { is_ours }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_takes_its_own_of_what_is_watched_on_it() {
        let core = |spec: Value| json!({"apiVersion": "v1", "metadata": {"name": "edge-1"}, "spec": spec});
        let of =
            |group: &str, spec: Value| json!({"apiVersion": group, "metadata": {"name": "a"}, "spec": spec});
        let (here, there) = (json!({"nodeName": "edge-1"}), json!({"nodeName": "edge-2"}));
        let devices = "devices.kubeedge.io/v1beta1";
        let rows = [
            (ResourceType::Pod, core(here.clone()), Own::Yes),
            (ResourceType::Pod, core(there.clone()), Own::No),
            (ResourceType::Pod, core(json!({})), Own::No),
            (ResourceType::Pod, of("example.com/v1", here.clone()), Own::No),
            (ResourceType::Node, core(json!({})), Own::Yes),
            (ResourceType::Node, of("v1", json!({})), Own::No),
            (ResourceType::ConfigMap, core(json!({})), Own::IfStored),
            (ResourceType::Secret, core(json!({})), Own::IfStored),
            (ResourceType::Secret, of("example.com/v1", json!({})), Own::No),
            (ResourceType::PersistentVolumeClaim, core(json!({})), Own::IfStored),
            (ResourceType::Device, of(devices, here.clone()), Own::Yes),
            (ResourceType::Device, of(devices, there), Own::No),
            (ResourceType::DeviceModel, of(devices, json!({})), Own::Yes),
            (ResourceType::DeviceModel, core(json!({})), Own::No),
            (ResourceType::ServiceAccountAccess, of("policy.kubeedge.io/v1alpha1", json!({})), Own::Yes),
            (ResourceType::from("service".to_owned()), core(json!({})), Own::No),
        ];
        for (kind, object, expected) in rows {
            assert_eq!(own("edge-1", Change::Update, &kind, &object), expected, "{kind} {object}");
            assert_eq!(own("edge-1", Change::Delete, &kind, &object), Own::No, "{kind} {object}");
        }
    }
}
