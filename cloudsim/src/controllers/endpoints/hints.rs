//! Topology hints: for which zones and nodes an endpoint is. Pure.
//!
//! Services ask for them by `trafficDistribution`, or by the annotation `service.kubernetes.io/topology-mode: Auto`, which wins.
//!
//! Source: <https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/>.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Node, Service},
    discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone},
};
use kube::ResourceExt;
use kubeapi::object::quantity;

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The annotations that ask for hints by the processors of the zones; the first is deprecated and wins.
const MODES: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];
/// Labels of nodes without pods of users.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// How much more than its share an endpoint may get.
const OVERLOAD: f64 = 0.2;

/// The zones of nodes, and their sizes.
pub(super) struct Topology<'a> {
    /// The node of this name.
    pub(super) node: &'a dyn Fn(&str) -> Option<std::sync::Arc<Node>>,
    /// Thousandths of a processor of the ready nodes of each zone; `None` if they are not known of every ready node.
    pub(super) cpu_by_zone: &'a dyn Fn() -> Option<BTreeMap<String, i64>>,
}

/// How a service wants its traffic distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distribution {
    Everywhere,
    SameZone,
    SameNode,
    /// In proportion to the processors of the zones.
    Auto,
}

impl Distribution {
    fn of(service: &Service) -> Self {
        let spec = service.spec.as_ref();
        match spec.and_then(|spec| spec.traffic_distribution.as_deref()) {
            _ if is_automatic(service) => Self::Auto,
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::Everywhere,
        }
    }
}

/// Reports whether the hints of a service depend on all nodes.
pub(super) fn is_automatic(service: &Service) -> bool {
    let annotations = service.annotations();
    let mode = MODES.iter().find_map(|name| annotations.get(*name));
    mode.is_some_and(|mode| matches!(mode.as_str(), "Auto" | "auto"))
}

/// Returns the zone of a node.
pub(super) fn zone(node: &Node) -> Option<&str> {
    let zone = node.labels().get(ZONE)?;
    Some(zone.as_str()).filter(|zone| !zone.is_empty())
}

/// Returns the processors of a node, if they count: the node is ready and has pods of users.
pub(super) fn processors(node: &Node) -> Option<i64> {
    let status = node.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let is_ready = conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status == "True");
    let is_excluded = CONTROL_PLANE
        .iter()
        .any(|label| node.labels().contains_key(*label));
    if !is_ready || is_excluded {
        return None;
    }
    let cpu = status.allocatable.as_ref().and_then(|all| all.get("cpu"));
    Some(cpu.and_then(quantity::milli).unwrap_or_default())
}

/// Returns the processors by zone; `None` if a ready node has no zone or no processors, or if there are fewer than two zones.
pub(super) fn cpu_by_zone<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Option<BTreeMap<String, i64>> {
    let mut zones = BTreeMap::new();
    for node in nodes {
        let Some(cpu) = processors(node) else {
            continue;
        };
        let zone = zone(node).filter(|_| cpu > 0)?;
        *zones.entry(zone.to_owned()).or_default() += cpu;
    }
    (zones.len() > 1).then_some(zones)
}

/// Sets the zones of the endpoints, and their hints.
pub(super) fn set(service: &Service, slices: &mut [EndpointSlice], topology: &Topology<'_>) {
    for endpoint in slices.iter_mut().flat_map(|slice| &mut slice.endpoints) {
        let node = endpoint.node_name.as_deref().and_then(topology.node);
        endpoint.zone = node.and_then(|node| zone(&node).map(str::to_owned));
    }
    let distribution = Distribution::of(service);
    match distribution {
        Distribution::Everywhere => {}
        Distribution::SameZone | Distribution::SameNode => {
            let for_node = distribution == Distribution::SameNode;
            let endpoints = slices.iter_mut().flat_map(|slice| &mut slice.endpoints);
            for endpoint in endpoints.filter(|endpoint| is_ready(endpoint)) {
                let zone = endpoint.zone.as_deref();
                let node = endpoint.node_name.as_deref().filter(|_| for_node);
                endpoint.hints = hints(zone, node);
            }
        }
        Distribution::Auto => {
            let Some(zones) = (topology.cpu_by_zone)() else {
                return;
            };
            for family in ["IPv4", "IPv6"] {
                let own = slices
                    .iter_mut()
                    .filter(|slice| slice.address_type == family);
                let ready = own
                    .flat_map(|slice| &mut slice.endpoints)
                    .filter(|endpoint| is_ready(endpoint));
                spread(&mut ready.collect::<Vec<_>>(), &zones);
            }
        }
    }
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint
        .conditions
        .as_ref()
        .and_then(|conditions| conditions.ready)
        == Some(true)
}

fn hints(zone: Option<&str>, node: Option<&str>) -> Option<EndpointHints> {
    let hints = EndpointHints {
        for_zones: zone.map(|name| vec![ForZone { name: name.into() }]),
        for_nodes: node.map(|name| vec![ForNode { name: name.into() }]),
    };
    (zone.is_some() || node.is_some()).then_some(hints)
}

/// Gives each zone endpoints in proportion to its processors, its own ones first. There are no hints if a zone would get too few.
fn spread(endpoints: &mut [&mut Endpoint], zones: &BTreeMap<String, i64>) {
    let (count, total) = (endpoints.len(), zones.values().sum::<i64>());
    let is_placed = endpoints.iter().all(|endpoint| endpoint.zone.is_some());
    if count < zones.len() || !is_placed {
        return;
    }
    let mut wanted = BTreeMap::new();
    let mut least = 0.0;
    for (zone, cpu) in zones {
        let share = *cpu as f64 / total as f64 * count as f64;
        let minimum = (share / (1.0 + OVERLOAD)).ceil();
        least += minimum;
        wanted.insert(zone.as_str(), share.max(minimum));
    }
    if least > count as f64 {
        return;
    }
    for endpoint in endpoints.iter() {
        let zone = endpoint.zone.as_deref().unwrap_or_default();
        if let Some(wanted) = wanted.get_mut(zone) {
            *wanted -= 1.0;
        }
    }
    // what a zone has too much is below 0
    let mut moves = moves(&mut wanted);
    for endpoint in endpoints.iter_mut() {
        let own = endpoint.zone.clone().unwrap_or_default();
        let to = moves
            .iter()
            .position(|(from, _)| *from == own)
            .map(|at| moves.remove(at).1);
        endpoint.hints = hints(Some(to.as_deref().unwrap_or(&own)), None);
    }
}

/// Returns which zones give an endpoint to which others, from the numbers that each lacks.
fn moves(lacks: &mut BTreeMap<&str, f64>) -> Vec<(String, String)> {
    let mut moves = Vec::new();
    loop {
        let mut order: Vec<_> = lacks.iter().map(|(zone, lack)| (*zone, *lack)).collect();
        order.sort_by(|one, two| one.1.total_cmp(&two.1));
        let (Some((from, surplus)), Some((to, lack))) = (
            order.first().map(|(zone, lack)| (*zone, -lack)),
            order.last().copied(),
        ) else {
            return moves;
        };
        if surplus < 0.5 || lack < 0.5 || (surplus < 1.0 && lack < 1.0) {
            return moves;
        }
        moves.push((from.to_owned(), to.to_owned()));
        *lacks.entry(from).or_default() += 1.0;
        *lacks.entry(to).or_default() -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn service(distribution: Option<&str>, mode: Option<&str>) -> Service {
        let annotations = mode.map(|mode| json!({MODES[1]: mode}));
        serde_json::from_value(
            json!({"metadata": {"name": "web", "annotations": annotations},
            "spec": {"trafficDistribution": distribution}}),
        )
        .unwrap()
    }

    fn node(name: &str, zone: Option<&str>, cpu: &str, ready: bool) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": zone.map(|zone| json!({ZONE: zone}))},
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}))
        .unwrap()
    }

    /// The hints for endpoints on these nodes; those on `!…` are not ready.
    fn hints_on(service: &Service, nodes: &[Node], places: &[&str]) -> Vec<String> {
        let endpoint = |place: &&str| -> Value {
            let (name, ready) = (place.trim_start_matches('!'), !place.starts_with('!'));
            json!({"addresses": ["10.0.0.1"], "nodeName": name, "conditions": {"ready": ready}})
        };
        let endpoints: Vec<_> = places.iter().map(endpoint).collect();
        let slice = json!({"addressType": "IPv4", "endpoints": endpoints});
        let mut slices: Vec<EndpointSlice> = vec![serde_json::from_value(slice).unwrap()];
        let topology = Topology {
            node: &|name| {
                let found = nodes.iter().find(|node| node.name_any() == name);
                found.cloned().map(Arc::new)
            },
            cpu_by_zone: &|| cpu_by_zone(nodes),
        };
        set(service, &mut slices, &topology);
        let text = |endpoint: &Endpoint| match &endpoint.hints {
            None => "-".to_owned(),
            Some(hints) => {
                let zones = hints
                    .for_zones
                    .iter()
                    .flatten()
                    .map(|zone| zone.name.clone());
                let nodes = hints
                    .for_nodes
                    .iter()
                    .flatten()
                    .map(|node| node.name.clone());
                zones.chain(nodes).collect::<Vec<_>>().join("+")
            }
        };
        slices[0].endpoints.iter().map(text).collect()
    }

    #[test]
    fn close_endpoints_have_their_own_zone_or_node_as_hint() {
        let nodes = [
            node("a", Some("north"), "1", true),
            node("b", None, "1", true),
        ];
        let places = ["a", "!a", "b", "unknown"];
        let rows = [
            (None, None, ["-", "-", "-", "-"]),
            (Some("PreferClose"), None, ["north", "-", "-", "-"]),
            (Some("PreferSameZone"), None, ["north", "-", "-", "-"]),
            (
                Some("PreferSameNode"),
                None,
                ["north+a", "-", "b", "unknown"],
            ),
            (Some("Else"), None, ["-", "-", "-", "-"]),
            // a node without a zone: there are no proportions
            (Some("PreferClose"), Some("Auto"), ["-", "-", "-", "-"]),
            (
                Some("PreferClose"),
                Some("Disabled"),
                ["north", "-", "-", "-"],
            ),
        ];
        for (distribution, mode, expected) in rows {
            let service = service(distribution, mode);
            assert_eq!(
                hints_on(&service, &nodes, &places),
                expected,
                "{distribution:?} {mode:?}"
            );
        }
    }

    #[test]
    fn automatic_hints_follow_the_processors_of_the_zones() {
        let service = service(None, Some("auto"));
        let nodes = |south: &str| {
            [
                node("a", Some("north"), "4", true),
                node("b", Some("south"), south, true),
                node("c", None, "9", false),
            ]
        };
        let rows: [(&str, &[&str], &[&str]); 6] = [
            (
                "4",
                &["a", "a", "b", "b"],
                &["north", "north", "south", "south"],
            ),
            (
                "4",
                &["a", "a", "a", "b"],
                &["south", "north", "north", "south"],
            ),
            (
                "4",
                &["a", "a", "a", "!b", "a"],
                &["south", "south", "north", "-", "north"],
            ),
            (
                "12",
                &["a", "a", "b", "b"],
                &["south", "north", "south", "south"],
            ),
            // fewer endpoints than zones, or too few for the large zone
            ("4", &["a"], &["-"]),
            ("4", &["a", "a", "b"], &["-", "-", "-"]),
        ];
        for (south, places, expected) in rows {
            assert_eq!(
                hints_on(&service, &nodes(south), places),
                expected,
                "{south} {places:?}"
            );
        }
    }
}
