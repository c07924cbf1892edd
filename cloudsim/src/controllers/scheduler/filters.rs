//! The scheduler's filters, in its order and with its messages. The first filter that rejects a node gives its reason. Pure.
//!
//! Source: kube-scheduler's default profile.

use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use kube::ResourceExt;

use super::{
    cycle_state::CycleState,
    node_state::{EDGE_LABEL, is_ready},
    nodes::NodeInfo,
    status::Status,
};
use crate::controllers::workloads::affinity;

/// Returns why the pod does not fit on the node; `None` if it does.
pub(super) fn filter(cycle: &CycleState<'_>, node: &Node, node_info: &NodeInfo) -> Option<Status> {
    of_edge(node)
        .or_else(|| of_spec(cycle, node))
        .or_else(|| ports(cycle, node, node_info))
        .or_else(|| resources(cycle, node, node_info))
        .or_else(|| cycle.volumes.filter(node))
        .or_else(|| cycle.spread.filter(node))
        .or_else(|| cycle.neighbours.filter(node))
}

/// This scheduler's own filter: it binds to edge nodes only.
fn of_edge(node: &Node) -> Option<Status> {
    if !node.labels().contains_key(EDGE_LABEL) {
        return Some(Status::unresolvable(format!(
            "node(s) didn't have the label {EDGE_LABEL}"
        )));
    }
    None
}

fn of_spec(cycle: &CycleState<'_>, node: &Node) -> Option<Status> {
    let spec = cycle.view.spec;
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    if node
        .spec
        .as_ref()
        .is_some_and(|spec| spec.unschedulable == Some(true))
        && !tolerates_cordon(tolerations)
    {
        return Some(Status::unresolvable("node(s) were unschedulable"));
    }
    if !is_ready(node) {
        return Some(Status::unresolvable("node(s) were not ready"));
    }
    if let Some(taint) =
        affinity::untolerated_taints(tolerations, node, &["NoSchedule", "NoExecute"]).next()
    {
        let value = taint.value.as_deref().unwrap_or_default();
        return Some(Status::unresolvable(format!(
            "node(s) had untolerated taint {{{}: {value}}}",
            taint.key
        )));
    }
    (!affinity::matches_node(spec, node))
        .then(|| Status::unresolvable("node(s) didn't match Pod's node affinity/selector"))
}

fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    let taint = k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    tolerations
        .iter()
        .any(|toleration| affinity::tolerates(toleration, &taint))
}

/// A host port of a pod: protocol, number, address.
type Port<'a> = (&'a str, i32, &'a str);

fn ports_of(pod: &Pod) -> impl Iterator<Item = Port<'_>> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| {
        let sidecars = spec.init_containers.iter().flatten();
        spec.containers
            .iter()
            .chain(sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always")))
    });
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let address = port
                .host_ip
                .as_deref()
                .filter(|address| !address.is_empty())
                .unwrap_or("0.0.0.0");
            Some((port.protocol.as_deref().unwrap_or("TCP"), number, address))
        })
}

fn ports(cycle: &CycleState<'_>, node: &Node, node_info: &NodeInfo) -> Option<Status> {
    let wanted: Vec<_> = ports_of(cycle.view.pod).collect();
    let meets = |other: Port<'_>| {
        wanted.iter().any(|one| {
            let same_address = one.2 == other.2 || one.2 == "0.0.0.0" || other.2 == "0.0.0.0";
            (one.0, one.1) == (other.0, other.1) && same_address
        })
    };
    let is_taken = !wanted.is_empty()
        && cycle
            .view
            .pods_on(node, node_info)
            .any(|pod| ports_of(pod).any(meets));
    is_taken.then(|| {
        Status::unschedulable("node(s) didn't have free ports for the requested pod ports")
    })
}

/// A node that does not report its resources counts as having enough.
fn resources(cycle: &CycleState<'_>, node: &Node, node_info: &NodeInfo) -> Option<Status> {
    let allocatable = node_info.allocatable.as_ref()?;
    let (used, count) = cycle.view.used_amounts(node, node_info);
    let (mut reasons, mut is_resolvable) = (Vec::new(), true);
    let is_full = |most: &i64| i64::try_from(count).unwrap_or(i64::MAX) >= *most;
    if allocatable.get("pods").is_some_and(is_full) {
        reasons.push("Too many pods".to_owned());
    }
    let native = ["cpu", "memory", "ephemeral-storage"];
    let first = native
        .iter()
        .filter_map(|name| cycle.requests.get_key_value(*name));
    let rest = cycle
        .requests
        .iter()
        .filter(|(name, _)| !native.contains(&name.as_str()));
    for (name, wanted) in first.chain(rest).filter(|(_, wanted)| **wanted > 0) {
        let has = allocatable.get(name).copied().unwrap_or_default();
        if *wanted > has.saturating_sub(used.get(name).copied().unwrap_or_default()) {
            reasons.push(format!("Insufficient {name}"));
            is_resolvable &= *wanted <= has;
        }
    }
    (!reasons.is_empty()).then_some(Status {
        reasons,
        is_resolvable,
    })
}
