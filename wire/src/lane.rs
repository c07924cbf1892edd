//! Which messages of the cloud are acknowledged: KubeEdge's rules, its substring searches included.
//!
//! Source: CloudHub's message dispatcher.

use serde_json::Value;

use crate::{Group, Message, Operation, ResourceType, Source};

/// Text anywhere in the resource that takes a message off the acknowledged lane (object names count, as in KubeEdge).
const UNACKNOWLEDGED: [&str; 5] =
    ["podlist", "membership", "twin/cloud_updated", "serviceaccounttoken", "k8s/ca.crt"];

/// Whether CloudCore sends this message (from cloud to edge) on the lane that waits for an acknowledgement.
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
    if route.group == Group::User || matches!(route.source, Source::TaskManager | Source::NodeUpgradeJobController) {
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
    let Some(object) = message.route.resource.as_object() else { return true };
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
