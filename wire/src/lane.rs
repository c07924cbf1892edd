//! Decides which messages of the cloud are acknowledged, by KubeEdge's rules, including its substring searches.
//!
//! Source: CloudHub's message dispatcher.

use std::time::Duration;

use serde_json::Value;

use crate::{Group, Message, Operation, ResourceType, Source};

/// The time after which the cloud sends an unacknowledged message again, with the same id. Only one message waits for each node.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// How often the cloud sends a message before it lets others pass.
pub const ATTEMPTS: u32 = 5;

/// Texts which, anywhere in the resource, exempt a message from acknowledgement. Object names count, as in KubeEdge.
const UNACKNOWLEDGED: [&str; 5] = [
    "podlist",
    "membership",
    "twin/cloud_updated",
    "serviceaccounttoken",
    "k8s/ca.crt",
];

/// Reports whether `CloudCore` waits for an acknowledgement of this message from cloud to edge.
pub fn needs_ack(message: &Message) -> bool {
    let route = &message.route;
    let resource = route.resource.as_str();
    if UNACKNOWLEDGED.iter().any(|text| resource.contains(text)) {
        return false;
    }
    match route.operation {
        Operation::CreateVolume
        | Operation::DeleteVolume
        | Operation::ControllerPublishVolume
        | Operation::ControllerUnpublishVolume
        | Operation::ApplicationResponse => return false,
        _ => {}
    }
    if route.group == Group::User
        || matches!(
            route.source,
            Source::TaskManager | Source::NodeUpgradeJobController
        )
    {
        return false;
    }
    if route.operation == Operation::Response && is_ok_or_error(&message.content) {
        return false;
    }
    route.source != Source::EdgeController || edge_controller_waits(message)
}

fn is_ok_or_error(content: &Value) -> bool {
    content.as_str() == Some("OK") || content.get("ErrStatus").is_some()
}

fn edge_controller_waits(message: &Message) -> bool {
    let operation = &message.route.operation;
    let Some(object) = message.route.resource.as_object() else {
        return true;
    };
    match object.kind {
        ResourceType::Lease
        | ResourceType::NodePatch
        | ResourceType::PodPatch
        | ResourceType::PodStatus
        | ResourceType::CertificateSigningRequest => false,
        ResourceType::Node => *operation == Operation::Update,
        ResourceType::Pod => *operation != Operation::Response,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Route;

    fn waits(source: &str, group: &str, operation: &str, resource: &str, content: Value) -> bool {
        let route = Route {
            source: source.to_owned().into(),
            destination: String::new(),
            group: group.to_owned().into(),
            operation: operation.to_owned().into(),
            resource: resource.into(),
        };
        needs_ack(&Message::new(route, content, 1))
    }

    #[test]
    fn objects_of_the_edge_controller() {
        for (operation, resource, expected) in [
            ("insert", "ns/pod/p", true),
            ("delete", "ns/pod/p", true),
            ("response", "ns/pod/p", false),
            ("update", "null/node/n", true),
            ("insert", "null/node/n", false),
            ("response", "ns/configmap/c", true),
            ("response", "ns/podpatch/p", false),
            ("response", "kube-node-lease/lease/n", false),
            ("response", "ns/serviceaccounttoken/a", false),
            // the object's name counts, as in KubeEdge
            ("insert", "ns/pod/membership-7", false),
        ] {
            assert_eq!(
                waits("edgecontroller", "resource", operation, resource, json!({})),
                expected,
                "{operation} {resource}"
            );
        }
    }

    #[test]
    fn answers_that_say_ok_or_what_failed_are_not_waited_for() {
        for content in [json!("OK"), json!({"ErrStatus": {}})] {
            assert!(!waits(
                "edgecontroller",
                "resource",
                "response",
                "ns/configmap/c",
                content
            ));
        }
    }

    #[test]
    fn messages_of_the_other_controllers() {
        for (source, group, operation, resource, expected) in [
            ("devicecontroller", "twin", "insert", "ns/device/d", true),
            (
                "devicecontroller",
                "twin",
                "update",
                "membership/detail",
                false,
            ),
            (
                "devicecontroller",
                "twin",
                "update",
                "device/d/twin/cloud_updated",
                false,
            ),
            (
                "dynamiccontroller",
                "resource",
                "insert",
                "ns/service/s",
                true,
            ),
            (
                "dynamiccontroller",
                "resource",
                "applicationResponse",
                "ignore/Application/ignore",
                false,
            ),
            ("router_eventbus", "user", "publish", "topic", false),
            (
                "taskmanager",
                "taskmanager",
                "Upgrade",
                "a/b/c/d/node/n",
                false,
            ),
            ("cloudhub", "resource", "createvolume", "ns/volume/v", false),
        ] {
            assert_eq!(
                waits(source, group, operation, resource, json!({})),
                expected,
                "{source} {operation} {resource}"
            );
        }
    }
}
