//! A node's request about one object.

use serde_json::Value;
use wire::{
    Change, Operation, ResourcePath, ResourceType,
    names::{is_dns_label, is_path_segment},
};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Create the object.
    Insert,
    /// Replace the object.
    Update,
    /// Delete the object at once.
    Delete,
    /// Patch the object.
    Patch,
    /// Read the object.
    Query,
}

impl From<Change> for Verb {
    fn from(change: Change) -> Self {
        match change {
            Change::Insert => Self::Insert,
            Change::Update => Self::Update,
            Change::Delete => Self::Delete,
        }
    }
}

impl From<Verb> for Operation {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Insert => Self::Insert,
            Verb::Update => Self::Update,
            Verb::Delete => Self::Delete,
            Verb::Patch => Self::Patch,
            Verb::Query => Self::Query,
        }
    }
}

/// A request about one object, with its path parsed and checked.
///
/// Namespace and name become parts of URLs of the API, and nothing on the way encodes them: with `?`, `%` or `/` in them a node would
/// choose another URL. [`Request::new`] is therefore the only way to a request, and lets only names through that Kubernetes could have.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) kind: ResourceType,
    pub(super) verb: Verb,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The object, DeleteOptions, the patch, or the parameters of a query.
    pub(super) content: &'a Value,
}

impl<'a> Request<'a> {
    /// Creates a request; `None` if `path` does not name one object, or with a name or in a namespace that no object can have.
    pub(super) fn new(verb: Verb, path: &'a ResourcePath, content: &'a Value) -> Option<Self> {
        let object = path.as_object()?;
        // the kubelet lets the API generate names for these
        let may_be_nameless =
            object.kind == ResourceType::CertificateSigningRequest && verb == Verb::Insert;
        let is_named = object.name.map_or(may_be_nameless, is_path_segment);
        let is_placed = object
            .namespace
            .map_or(!is_namespaced(&object.kind), is_dns_label);
        let is_sound = is_named && is_placed && is_path_segment(object.kind.as_str());
        is_sound.then(|| Self {
            kind: object.kind,
            verb,
            namespace: object.namespace.unwrap_or_default(),
            name: object.name.unwrap_or_default(),
            content,
        })
    }
}

/// Reports whether an object of this type, about which nodes have requests, is in a namespace.
fn is_namespaced(kind: &ResourceType) -> bool {
    use ResourceType as T;
    match kind {
        T::Pod
        | T::PodPatch
        | T::PodStatus
        | T::ConfigMap
        | T::Secret
        | T::ServiceAccountToken
        | T::Lease
        | T::Event
        | T::PersistentVolumeClaim => true,
        T::Node
        | T::NodePatch
        | T::NodeStatus
        | T::CertificateSigningRequest
        | T::PersistentVolume
        | T::VolumeAttachment => false,
        // never allowed
        T::PodList
        | T::ServiceAccountAccess
        | T::Volume
        | T::Device
        | T::DeviceModel
        | T::DeviceMapper
        | T::RuleStatus
        | T::Rule
        | T::RuleEndpoint
        | T::Other(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_request(verb: Verb, path: &str) -> bool {
        let path = ResourcePath::from(path);
        Request::new(verb, &path, &Value::Null).is_some()
    }

    #[test]
    fn what_edgecore_asks_for_is_a_request() {
        for path in [
            "null/node/edge-1.example.com",
            "default/node/edge-1",
            "kube-node-lease/lease/edge-1",
            "default/pod/p1",
            "default/podpatch/p1",
            "default/event/edge-1.17a3b2c1d0e9f8a7",
            "default/configmap/kube-root-ca.crt",
            "default/volumeattachment/csi-0a1b",
            "null/persistentvolume/pvc-0a1b",
            "default/certificatesigningrequest/csr-abc12",
            "default/serviceaccounttoken/app",
        ] {
            assert!(is_request(Verb::Query, path), "{path}");
        }
        assert!(is_request(
            Verb::Insert,
            "default/certificatesigningrequest/"
        ));
    }

    /// Each of these would be another URL of the API, or a line of its own in a log.
    #[test]
    fn a_name_that_would_change_a_url_is_no_request() {
        let long = "n".repeat(254);
        for evil in [
            "?x=",
            "?watch=true",
            "a?b",
            "a#b",
            "default%2Fpods?x=",
            "..",
            ".",
            "a b",
            "a\nb",
            "ä",
            &long,
        ] {
            for kind in [
                "event",
                "pod",
                "persistentvolume",
                "volumeattachment",
                "certificatesigningrequest",
                "x",
            ] {
                for path in [
                    format!("{evil}/{kind}/name"),
                    format!("default/{kind}/{evil}"),
                    format!("null/{kind}/{evil}"),
                ] {
                    for verb in [Verb::Insert, Verb::Query, Verb::Patch, Verb::Delete] {
                        assert!(!is_request(verb, &path), "{path}");
                    }
                }
            }
        }
        for path in [
            "default/a b/name",
            "null/pod/p",
            "null/event/e",
            "Default/pod/p",
            "default/pod/",
            "default/certificatesigningrequest/",
        ] {
            assert!(!is_request(Verb::Query, path), "{path}");
        }
    }
}
