//! Selects the requests that are not answered by the store alone. Pure.

use http::{Method, Uri};
use wire::ResourceType;

/// The namespace of node leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// A request that concerns the cloud.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RemoteRequest {
    /// Reads a ConfigMap or Secret: type, namespace, name.
    StoreFirst(ResourceType, String, String),
    /// Reads a persistent volume or claim, whose changes the cloud does not send: type, namespace, name.
    CloudFirst(ResourceType, String, String),
    /// Reads or writes a node's lease: its name, empty for a new one.
    Lease(String),
    /// Requests a token: namespace, service account.
    Token(String, String),
    /// Creates an event: namespace.
    Event(String),
    /// Patches an event that has happened again: namespace, name.
    PatchEvent(String, String),
    /// Reads a pod: namespace, name.
    Pod(String, String),
    /// Deletes a pod: namespace, name.
    DeletePod(String, String),
}

/// Returns how a request concerns the cloud; `None` if the store answers it.
pub(super) fn classify(method: &Method, uri: &Uri) -> Option<RemoteRequest> {
    let segments: Vec<&str> = uri
        .path()
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let (namespace, rest) = match segments.as_slice() {
        ["api", "v1", "namespaces", namespace, rest @ ..] => ((*namespace).to_owned(), rest),
        ["api", "v1", "persistentvolumes", name] if method == Method::GET => {
            return Some(RemoteRequest::CloudFirst(
                ResourceType::PersistentVolume,
                String::new(),
                (*name).to_owned(),
            ));
        }
        [
            "apis",
            "coordination.k8s.io",
            "v1",
            "namespaces",
            namespace,
            rest @ ..,
        ] if *namespace == LEASE_NAMESPACE => {
            return match (method.as_str(), rest) {
                ("POST", ["leases"]) => Some(RemoteRequest::Lease(String::new())),
                ("GET" | "PUT", ["leases", name]) => Some(RemoteRequest::Lease((*name).to_owned())),
                _ => None,
            };
        }
        _ => return None,
    };
    match (method.as_str(), rest) {
        ("GET", ["configmaps", name]) => Some(RemoteRequest::StoreFirst(
            ResourceType::ConfigMap,
            namespace,
            (*name).to_owned(),
        )),
        ("GET", ["secrets", name]) => Some(RemoteRequest::StoreFirst(
            ResourceType::Secret,
            namespace,
            (*name).to_owned(),
        )),
        ("GET", ["persistentvolumeclaims", name]) => Some(RemoteRequest::CloudFirst(
            ResourceType::PersistentVolumeClaim,
            namespace,
            (*name).to_owned(),
        )),
        ("POST", ["serviceaccounts", account, "token"]) => {
            Some(RemoteRequest::Token(namespace, (*account).to_owned()))
        }
        ("POST", ["events"]) => Some(RemoteRequest::Event(namespace)),
        ("PATCH", ["events", name]) => {
            Some(RemoteRequest::PatchEvent(namespace, (*name).to_owned()))
        }
        ("GET", ["pods", name]) => Some(RemoteRequest::Pod(namespace, (*name).to_owned())),
        ("DELETE", ["pods", name]) => Some(RemoteRequest::DeletePod(namespace, (*name).to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_the_cloud_are_classified() {
        let text = str::to_owned;
        let rows = [
            (
                "GET",
                "/api/v1/namespaces/ns/configmaps/c",
                Some(RemoteRequest::StoreFirst(
                    ResourceType::ConfigMap,
                    text("ns"),
                    text("c"),
                )),
            ),
            (
                "GET",
                "/api/v1/namespaces/ns/secrets/s?x=y",
                Some(RemoteRequest::StoreFirst(
                    ResourceType::Secret,
                    text("ns"),
                    text("s"),
                )),
            ),
            (
                "GET",
                "/api/v1/namespaces/ns/persistentvolumeclaims/c",
                Some(RemoteRequest::CloudFirst(
                    ResourceType::PersistentVolumeClaim,
                    text("ns"),
                    text("c"),
                )),
            ),
            (
                "GET",
                "/api/v1/persistentvolumes/v",
                Some(RemoteRequest::CloudFirst(
                    ResourceType::PersistentVolume,
                    text(""),
                    text("v"),
                )),
            ),
            ("DELETE", "/api/v1/persistentvolumes/v", None),
            ("GET", "/api/v1/persistentvolumes", None),
            ("GET", "/api/v1/namespaces/ns/configmaps", None),
            (
                "GET",
                "/api/v1/namespaces/ns/pods/p",
                Some(RemoteRequest::Pod(text("ns"), text("p"))),
            ),
            ("GET", "/api/v1/namespaces/ns/pods/p/log", None),
            ("GET", "/api/v1/namespaces/ns/pods", None),
            (
                "DELETE",
                "/api/v1/namespaces/ns/pods/p",
                Some(RemoteRequest::DeletePod(text("ns"), text("p"))),
            ),
            ("PATCH", "/api/v1/namespaces/ns/pods/p/status", None),
            (
                "POST",
                "/api/v1/namespaces/ns/serviceaccounts/a/token",
                Some(RemoteRequest::Token(text("ns"), text("a"))),
            ),
            (
                "POST",
                "/api/v1/namespaces/ns/events",
                Some(RemoteRequest::Event(text("ns"))),
            ),
            (
                "PATCH",
                "/api/v1/namespaces/ns/events/e",
                Some(RemoteRequest::PatchEvent(text("ns"), text("e"))),
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
                Some(RemoteRequest::Lease(text("n"))),
            ),
            (
                "POST",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                Some(RemoteRequest::Lease(text(""))),
            ),
            (
                "GET",
                "/apis/coordination.k8s.io/v1/namespaces/other/leases/n",
                None,
            ),
            ("POST", "/api/v1/nodes", None),
        ];
        for (method, uri, expected) in rows {
            let method: Method = method.parse().unwrap();
            assert_eq!(
                classify(&method, &uri.parse().unwrap()),
                expected,
                "{method} {uri}"
            );
        }
    }
}
