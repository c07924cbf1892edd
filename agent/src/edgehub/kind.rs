//! The kinds of messages by which traffic is counted and ordered.

use wire::{Message, Operation, ResourceType, Source};

/// The subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Keepalives, which the cloud counts.
    Keepalive,
    /// Acknowledgements that a message is stored.
    Acknowledgement,
    /// The node's lease.
    Lease,
    /// The node itself and its status.
    Node,
    /// Pods and their status.
    Pod,
    /// ConfigMaps, Secrets, tokens, the cluster's CA.
    Configuration,
    /// Persistent volumes, claims, attachments.
    Storage,
    /// Events.
    Event,
    /// Devices and their twins.
    Device,
    /// Everything else.
    Other,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Keepalive,
        Self::Acknowledgement,
        Self::Lease,
        Self::Node,
        Self::Pod,
        Self::Configuration,
        Self::Storage,
        Self::Event,
        Self::Device,
        Self::Other,
    ];

    /// Returns the kind's name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keepalive => "keepalive",
            Self::Acknowledgement => "acknowledgement",
            Self::Lease => "lease",
            Self::Node => "node",
            Self::Pod => "pod",
            Self::Configuration => "configuration",
            Self::Storage => "storage",
            Self::Event => "event",
            Self::Device => "device",
            Self::Other => "other",
        }
    }

    /// Returns the kind of a message in either direction.
    pub(super) fn of(message: &Message) -> Self {
        let route = &message.route;
        match route.operation {
            Operation::Keepalive => return Self::Keepalive,
            Operation::Response if message.content.as_str() == Some("OK") => {
                return Self::Acknowledgement;
            }
            _ => {}
        }
        if matches!(route.source, Source::Twin | Source::DeviceController) {
            return Self::Device;
        }
        route
            .resource
            .as_object()
            .map_or(Self::Other, |object| Self::of_type(&object.kind))
    }

    fn of_type(kind: &ResourceType) -> Self {
        use ResourceType as Type;
        match kind {
            Type::Lease => Self::Lease,
            Type::Node | Type::NodePatch | Type::NodeStatus | Type::CertificateSigningRequest => {
                Self::Node
            }
            Type::Pod | Type::PodList | Type::PodPatch | Type::PodStatus => Self::Pod,
            Type::ConfigMap
            | Type::Secret
            | Type::ServiceAccountToken
            | Type::ServiceAccountAccess => Self::Configuration,
            Type::PersistentVolume
            | Type::PersistentVolumeClaim
            | Type::VolumeAttachment
            | Type::Volume => Self::Storage,
            Type::Event => Self::Event,
            Type::Device | Type::DeviceModel | Type::DeviceMapper => Self::Device,
            Type::RuleStatus | Type::Rule | Type::RuleEndpoint | Type::Other(_) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::{Change, Upstream};

    use super::*;

    #[test]
    fn messages_are_classified_by_their_subject() {
        let ack = Message::new(wire::Route::default(), Value::Null, 1).acknowledgement(1);
        assert_eq!(Kind::of(&ack), Kind::Acknowledgement);
        let put = |kind| Upstream::put(Change::Update, "ns", &kind, "x", json!({})).into_message(1);
        let query = |kind| Upstream::query("ns", &kind, "x").into_message(1);
        for (message, kind) in [
            (Upstream::keepalive().into_message(1), Kind::Keepalive),
            (put(ResourceType::Lease), Kind::Lease),
            (
                Upstream::node_patch("n", String::new()).into_message(1),
                Kind::Node,
            ),
            (
                Upstream::pod_patch("ns", "p", String::new()).into_message(1),
                Kind::Pod,
            ),
            (query(ResourceType::Secret), Kind::Configuration),
            (query(ResourceType::PersistentVolume), Kind::Storage),
            (put(ResourceType::Event), Kind::Event),
            (
                Upstream::MembershipDetail(json!("")).into_message(1),
                Kind::Device,
            ),
            (Upstream::RootCa(Value::Null).into_message(1), Kind::Other),
        ] {
            assert_eq!(Kind::of(&message), kind, "{message:?}");
        }
    }

    #[test]
    fn numbers_follow_the_list() {
        assert!(
            Kind::ALL
                .iter()
                .enumerate()
                .all(|(number, kind)| *kind as usize == number)
        );
    }
}
