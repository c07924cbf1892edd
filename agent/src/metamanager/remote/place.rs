//! Selects the requests that are not answered by the store alone. Pure.

use http::{Method, Uri};
use wire::ResourceType;

/// The namespace of node leases.
const LEASES: &str = "kube-node-lease";

/// A request that concerns the cloud.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Reads a ConfigMap or Secret: type, namespace, name.
    Lookup(ResourceType, String, String),
    /// Reads a persistent volume or claim, whose changes the cloud does not send: type, namespace, name.
    Fresh(ResourceType, String, String),
    /// Reads or writes a node's lease: its name, empty for a new one.
    Lease(String),
    /// Requests a token: namespace, service account.
    Token(String, String),
    /// Creates an event: namespace.
    Event(String),
    /// Patches an event that has happened again: namespace, name.
    EventAgain(String, String),
    /// Reads a pod: namespace, name.
    Pod(String, String),
    /// Deletes a pod: namespace, name.
    PodEnd(String, String),
}

/// Returns how a request concerns the cloud; `None` if the store answers it.
pub(super) fn place(method: &Method, uri: &Uri) -> Option<Place> {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let (namespace, rest) = match segments.as_slice() {
        ["api", "v1", "namespaces", namespace, rest @ ..] => ((*namespace).to_owned(), rest),
        ["api", "v1", "persistentvolumes", name] if method == Method::GET => {
            return Some(Place::Fresh(ResourceType::PersistentVolume, String::new(), (*name).to_owned()));
        }
        ["apis", "coordination.k8s.io", "v1", "namespaces", namespace, rest @ ..] if *namespace == LEASES => {
            return match (method.as_str(), rest) {
                ("POST", ["leases"]) => Some(Place::Lease(String::new())),
                ("GET" | "PUT", ["leases", name]) => Some(Place::Lease((*name).to_owned())),
                _ => None,
            };
        }
        _ => return None,
    };
    match (method.as_str(), rest) {
        ("GET", ["configmaps", name]) => {
            Some(Place::Lookup(ResourceType::ConfigMap, namespace, (*name).to_owned()))
        }
        ("GET", ["secrets", name]) => {
            Some(Place::Lookup(ResourceType::Secret, namespace, (*name).to_owned()))
        }
        ("GET", ["persistentvolumeclaims", name]) => {
            Some(Place::Fresh(ResourceType::PersistentVolumeClaim, namespace, (*name).to_owned()))
        }
        ("POST", ["serviceaccounts", account, "token"]) => {
            Some(Place::Token(namespace, (*account).to_owned()))
        }
        ("POST", ["events"]) => Some(Place::Event(namespace)),
        ("PATCH", ["events", name]) => Some(Place::EventAgain(namespace, (*name).to_owned())),
        ("GET", ["pods", name]) => Some(Place::Pod(namespace, (*name).to_owned())),
        ("DELETE", ["pods", name]) => Some(Place::PodEnd(namespace, (*name).to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_the_cloud_is_told_from_what_does_not() {
        let text = str::to_owned;
        let rows = [
            (
                "GET",
                "/api/v1/namespaces/ns/configmaps/c",
                Some(Place::Lookup(ResourceType::ConfigMap, text("ns"), text("c"))),
            ),
            (
                "GET",
                "/api/v1/namespaces/ns/secrets/s?x=y",
                Some(Place::Lookup(ResourceType::Secret, text("ns"), text("s"))),
            ),
            (
                "GET",
                "/api/v1/namespaces/ns/persistentvolumeclaims/c",
                Some(Place::Fresh(ResourceType::PersistentVolumeClaim, text("ns"), text("c"))),
            ),
            (
                "GET",
                "/api/v1/persistentvolumes/v",
                Some(Place::Fresh(ResourceType::PersistentVolume, text(""), text("v"))),
            ),
            ("DELETE", "/api/v1/persistentvolumes/v", None),
            ("GET", "/api/v1/persistentvolumes", None),
            ("GET", "/api/v1/namespaces/ns/configmaps", None),
            ("GET", "/api/v1/namespaces/ns/pods/p", Some(Place::Pod(text("ns"), text("p")))),
            ("GET", "/api/v1/namespaces/ns/pods/p/log", None),
            ("GET", "/api/v1/namespaces/ns/pods", None),
            ("DELETE", "/api/v1/namespaces/ns/pods/p", Some(Place::PodEnd(text("ns"), text("p")))),
            ("PATCH", "/api/v1/namespaces/ns/pods/p/status", None),
            (
                "POST",
                "/api/v1/namespaces/ns/serviceaccounts/a/token",
                Some(Place::Token(text("ns"), text("a"))),
            ),
            ("POST", "/api/v1/namespaces/ns/events", Some(Place::Event(text("ns")))),
            ("PATCH", "/api/v1/namespaces/ns/events/e", Some(Place::EventAgain(text("ns"), text("e")))),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
                Some(Place::Lease(text("n"))),
            ),
            (
                "POST",
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                Some(Place::Lease(text(""))),
            ),
            ("GET", "/apis/coordination.k8s.io/v1/namespaces/other/leases/n", None),
            ("POST", "/api/v1/nodes", None),
        ];
        for (method, uri, expected) in rows {
            let method: Method = method.parse().unwrap();
            assert_eq!(place(&method, &uri.parse().unwrap()), expected, "{method} {uri}");
        }
    }
}
