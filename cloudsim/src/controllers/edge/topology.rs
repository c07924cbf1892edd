//! The service topology `range-nodegroup`: of a Service with this annotation, a node receives only the endpoints on nodes of its own node
//! group. Nodes without a group count as one group.
//!
//! What a node receives then depends on more than the object itself: on the group of nodes, and on the annotation. The revision of a
//! filtered object is therefore that of the newest of these, so that a node replaces what it has when any of them changes. Kubernetes'
//! revisions grow over all kinds.
//!
//! Source: KubeEdge's `endpointslice` and `endpoints` filters of CloudCore. Differences: EndpointSlices are filtered, endpoints without a
//! node stay, and a change of a group is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use clock::HashMap;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;
use wire::application::Target;

use crate::controllers::node_groups::GROUP_LABEL;

/// The annotation of a Service.
pub(crate) const TOPOLOGY: &str = "apps.kubeedge.io/service-topology";
/// Its value for endpoints of the same node group.
pub(crate) const RANGE_NODE_GROUP: &str = "range-nodegroup";
/// The label of an EndpointSlice that names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// A value, and the revision at which it was seen first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Since<T> {
    value: T,
    revision: u64,
}

/// The groups of nodes and the Services with the topology. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: RwLock<Known>,
    /// Whether the nodes, and the Services, have been listed.
    listed: watch::Sender<[bool; 2]>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// The group of each node; empty if it has none.
    groups: HashMap<String, Since<String>>,
    /// Whether each Service has the topology, by namespace and name.
    services: HashMap<(String, String), Since<bool>>,
    /// The Services that have, or have had, the topology.
    ranged: BTreeSet<(String, String)>,
}

/// The kinds of objects that the topology filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filtered {
    /// `endpoints`
    Endpoints,
    /// `endpointslices.discovery.k8s.io`
    Slices,
}

impl Filtered {
    /// Returns the kind of the objects of a call; `None` if they are never filtered.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        match (target.group.as_str(), target.plural.as_str()) {
            ("", "endpoints") => Some(Self::Endpoints),
            ("discovery.k8s.io", "endpointslices") => Some(Self::Slices),
            _ => None,
        }
    }
}

impl Topology {
    /// Sets the labels of a node.
    pub(super) fn apply_node(&self, name: &str, labels: &BTreeMap<String, String>, revision: u64) {
        let group = labels.get(GROUP_LABEL).cloned().unwrap_or_default();
        let mut known = self.0.known.write();
        if set(&mut known.groups, name.to_owned(), group, revision) && !known.ranged.is_empty() {
            self.0.changed.send_replace(());
        }
    }

    /// Sets the annotations of a Service.
    pub(super) fn apply_service(
        &self,
        name: (String, String),
        annotations: &BTreeMap<String, String>,
        revision: u64,
    ) {
        let is_ranged = annotations
            .get(TOPOLOGY)
            .is_some_and(|value| value == RANGE_NODE_GROUP);
        let mut known = self.0.known.write();
        let was_ranged = known.ranged.contains(&name);
        if is_ranged {
            known.ranged.insert(name.clone());
        }
        if set(&mut known.services, name, is_ranged, revision) && (is_ranged || was_ranged) {
            self.0.changed.send_replace(());
        }
    }

    pub(super) fn remove_service(&self, name: &(String, String)) {
        let mut known = self.0.known.write();
        known.services.remove(name);
        known.ranged.remove(name);
    }

    /// Declares that the nodes (0), or the Services (1), have been listed.
    pub(super) fn mark_listed(&self, number: usize) {
        self.0.listed.send_modify(|listed| listed[number] = true);
    }

    /// Waits until it is known which objects are filtered.
    pub(crate) async fn wait_listed(&self) {
        let mut listed = self.0.listed.subscribe();
        // fails only when the sender is gone, which `self` has
        let _ = listed.wait_for(|listed| *listed == [true; 2]).await;
    }

    /// Returns a receiver that changes when nodes may need other endpoints.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// Returns the label selector of the EndpointSlices that are, or have been, filtered; `None` if there are none.
    pub(crate) fn slice_selector(&self) -> Option<String> {
        let known = self.0.known.read();
        let names: Vec<&str> = known.ranged.iter().map(|(_, name)| name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{SERVICE_LABEL} in ({})", names.join(",")))
    }

    /// Removes what the node does not receive, and sets the revision of what it does.
    pub(crate) fn apply(&self, node: &str, kind: Filtered, object: &mut Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let service = match kind {
            Filtered::Endpoints => text("/metadata/name"),
            Filtered::Slices => text("/metadata/labels/kubernetes.io~1service-name"),
        };
        let namespace = text("/metadata/namespace").unwrap_or_default();
        let service = (namespace.to_owned(), service.unwrap_or_default().to_owned());
        let known = self.0.known.read();
        let Some(topology) = known.services.get(&service) else {
            return;
        };
        let mut revision = topology.revision;
        if topology.value {
            let none = Since::default();
            let own = known.groups.get(node).unwrap_or(&none);
            revision = revision.max(own.revision);
            let mut is_near = |endpoint: &mut Value| {
                let Some(other) = endpoint.get("nodeName").and_then(Value::as_str) else {
                    return true;
                };
                let group = known.groups.get(other).unwrap_or(&none);
                revision = revision.max(group.revision);
                other == node || group.value == own.value
            };
            match kind {
                Filtered::Slices => retain(object, "endpoints", &mut is_near),
                Filtered::Endpoints => retain(object, "subsets", |subset| {
                    retain(subset, "addresses", &mut is_near);
                    retain(subset, "notReadyAddresses", &mut is_near);
                    ["addresses", "notReadyAddresses"]
                        .iter()
                        .any(|list| subset.get(list).is_some())
                }),
            }
        }
        let own = object
            .pointer("/metadata/resourceVersion")
            .and_then(|revision| revision.as_str()?.parse().ok());
        if own.is_some_and(|own: u64| own < revision) {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
        }
    }
}

/// Sets a value that has changed; returns whether it has.
fn set<K: Eq + std::hash::Hash, T: PartialEq>(
    all: &mut HashMap<K, Since<T>>,
    key: K,
    value: T,
    revision: u64,
) -> bool {
    let has = all.get(&key).is_some_and(|known| known.value == value);
    if !has {
        all.insert(key, Since { value, revision });
    }
    !has
}

/// Keeps the items of a list; `addresses` of a subset that become empty are removed, as the API omits them.
fn retain(object: &mut Value, list: &str, mut keep: impl FnMut(&mut Value) -> bool) {
    let Some(items) = object.get_mut(list).and_then(Value::as_array_mut) else {
        return;
    };
    items.retain_mut(|item| keep(item));
    if items.is_empty() && list != "endpoints" {
        object.as_object_mut().map(|object| object.remove(list));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(group: &str) -> BTreeMap<String, String> {
        let label = (GROUP_LABEL.to_owned(), group.to_owned());
        (!group.is_empty()).then_some(label).into_iter().collect()
    }

    fn annotations() -> BTreeMap<String, String> {
        [(TOPOLOGY.to_owned(), RANGE_NODE_GROUP.to_owned())].into()
    }

    fn service(name: &str) -> (String, String) {
        ("ns".to_owned(), name.to_owned())
    }

    /// A slice and an Endpoints of a Service, with an endpoint on each node and one elsewhere.
    fn objects(name: &str, nodes: &[&str]) -> [(Filtered, Value); 2] {
        let endpoint =
            |node: &&str| json!({"addresses": ["10.0.0.1"], "ip": "10.0.0.1", "nodeName": node});
        let mut all: Vec<Value> = nodes.iter().map(endpoint).collect();
        all.push(json!({"addresses": ["192.0.2.1"], "ip": "192.0.2.1"}));
        let slice = json!({"metadata": {"name": format!("{name}-abc"), "namespace": "ns", "resourceVersion": "5",
            "labels": {SERVICE_LABEL: name}}, "endpoints": all});
        let endpoints = json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": "5"},
            "subsets": [{"addresses": all, "ports": [{"port": 80}]}, {"notReadyAddresses": [endpoint(&"far")], "ports": []}]});
        [(Filtered::Slices, slice), (Filtered::Endpoints, endpoints)]
    }

    /// The nodes of the endpoints that a node receives, and the revision.
    fn endpoints_of(topology: &Topology, node: &str, name: &str) -> (Vec<String>, String) {
        let [slices, endpoints] =
            objects(name, &["a1", "a2", "b1", "n1", "n2"]).map(|(kind, mut object)| {
                topology.apply(node, kind, &mut object);
                let all = match kind {
                    Filtered::Slices => object["endpoints"].clone(),
                    Filtered::Endpoints => object["subsets"][0]["addresses"].clone(),
                };
                let node =
                    |endpoint: &Value| endpoint["nodeName"].as_str().unwrap_or("-").to_owned();
                let nodes: Vec<String> = all.as_array().unwrap().iter().map(node).collect();
                (
                    nodes,
                    object["metadata"]["resourceVersion"]
                        .as_str()
                        .unwrap()
                        .to_owned(),
                )
            });
        assert_eq!(slices.0, endpoints.0, "{node}");
        slices
    }

    #[test]
    fn nodes_receive_endpoints_of_their_own_group_at_the_newest_revision() {
        let topology = Topology::default();
        for (node, group, revision) in [
            ("a1", "a", 1),
            ("a2", "a", 2),
            ("b1", "b", 3),
            ("n1", "", 4),
            ("far", "z", 1),
        ] {
            topology.apply_node(node, &labels(group), revision);
        }
        topology.apply_service(service("web"), &annotations(), 4);
        topology.apply_service(service("all"), &BTreeMap::new(), 4);
        let rows = [
            ("a1", "web", "a1 a2 -", "5"),
            ("b1", "web", "b1 -", "5"),
            // nodes without a group, known or not
            ("n1", "web", "n1 n2 -", "5"),
            ("unknown", "web", "n1 n2 -", "5"),
            ("a1", "all", "a1 a2 b1 n1 n2 -", "5"),
            ("a1", "no-such-service", "a1 a2 b1 n1 n2 -", "5"),
        ];
        for (node, name, nodes, revision) in rows {
            let nodes: Vec<String> = nodes.split(' ').map(str::to_owned).collect();
            assert_eq!(
                endpoints_of(&topology, node, name),
                (nodes, revision.to_owned()),
                "{node} {name}"
            );
        }
        let changes = topology.subscribe();
        let is_changed = |changes: &mut watch::Receiver<()>| {
            let is_changed = changes.has_changed().unwrap();
            changes.mark_unchanged();
            is_changed
        };
        let mut changes = changes;
        // a heartbeat changes nothing
        topology.apply_node("a2", &labels("a"), 9);
        assert!(!is_changed(&mut changes));
        topology.apply_node("a2", &labels("b"), 10);
        assert!(is_changed(&mut changes));
        let nodes = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        assert_eq!(
            endpoints_of(&topology, "a1", "web"),
            (nodes("a1 -"), "10".into())
        );
        assert_eq!(
            endpoints_of(&topology, "a2", "web"),
            (nodes("a2 b1 -"), "10".into())
        );
        // the Service loses its annotation, and is deleted
        topology.apply_service(service("web"), &BTreeMap::new(), 12);
        assert!(is_changed(&mut changes));
        assert_eq!(
            topology.slice_selector().as_deref(),
            Some("kubernetes.io/service-name in (web)")
        );
        assert_eq!(
            endpoints_of(&topology, "a1", "web"),
            (nodes("a1 a2 b1 n1 n2 -"), "12".into())
        );
        topology.remove_service(&service("web"));
        assert_eq!(topology.slice_selector(), None);
        assert_eq!(endpoints_of(&topology, "a1", "web").1, "5");
    }

    #[test]
    fn subsets_without_addresses_are_removed() {
        let topology = Topology::default();
        topology.apply_node("far", &labels("z"), 1);
        topology.apply_service(service("web"), &annotations(), 1);
        let [_, (kind, mut endpoints)] = objects("web", &[]);
        topology.apply("n1", kind, &mut endpoints);
        assert_eq!(endpoints["subsets"].as_array().unwrap().len(), 1);
        endpoints["subsets"] = json!([]);
        topology.apply("n1", kind, &mut endpoints);
    }
}
