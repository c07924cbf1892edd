//! The desired endpoints of a service. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{
            EndpointAddress, EndpointPort as CorePort, EndpointSubset, Endpoints, ObjectReference,
            Pod, Service,
        },
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{ResourceExt, api::ObjectMeta};
use kubeapi::endpoint_address;

use crate::controllers::{
    edge::mirror::is_mirror,
    informers::Change,
    workloads::pods::{controller_reference, is_finished, is_ready},
};

/// The label of a slice with its service's name.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of Endpoints that this controller writes, and its value.
const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS_MANAGER: &str = "endpoint-controller";
/// The label of a slice with its manager.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// The most endpoints in one slice.
const IN_A_SLICE: usize = 100;

/// Reports whether this controller writes the Endpoints, according to their label.
pub(super) fn is_managed(endpoints: &Endpoints) -> bool {
    endpoints
        .labels()
        .get(ENDPOINTS_MANAGED_BY)
        .is_some_and(|manager| manager == ENDPOINTS_MANAGER)
}

/// Reports whether a change of a pod may change endpoints.
pub(super) fn matters(change: &Change<Pod>) -> bool {
    let view = |pod: &Pod| {
        let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let ending = pod.metadata.deletion_timestamp.is_some();
        (
            addresses(pod),
            is_ready(pod),
            is_finished(pod),
            ending,
            pod.labels().clone(),
            hostname,
            node,
        )
    };
    change.gone
        || change.before.as_ref().is_none_or(|before| {
            Arc::ptr_eq(before, &change.object) || view(before) != view(&change.object)
        })
}

/// Reports whether the service selects the pod. Mirror pods are never selected: a node determines their labels and addresses, and could
/// attract traffic of others.
pub(super) fn selects(service: &Service, pod: &Pod) -> bool {
    if is_mirror(pod) {
        return false;
    }
    let Some(selector) = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref())
    else {
        return false;
    };
    !selector.is_empty()
        && selector
            .iter()
            .all(|(key, value)| pod.labels().get(key) == Some(value))
}

/// Returns the pod's addresses that an endpoint may have. A node reports them: loopback addresses and the like would be refused by the
/// API, together with the other pods of the service.
fn addresses(pod: &Pod) -> Vec<String> {
    let status = pod.status.clone().unwrap_or_default();
    let all: Vec<_> = status
        .pod_ips
        .into_iter()
        .flatten()
        .map(|address| address.ip)
        .collect();
    let mut all = if all.is_empty() {
        Vec::from_iter(status.pod_ip)
    } else {
        all
    };
    all.retain(|address| endpoint_address(address).is_some());
    all
}

/// Endpoints with the same ports.
type Group = (Vec<EndpointPort>, Vec<Endpoint>);

/// Returns the slices of a service with these pods.
pub(super) fn slices(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    let mut groups: BTreeMap<(&str, String), Group> = BTreeMap::new();
    for family in families(service) {
        for pod in pods.iter().filter(|pod| !is_finished(pod)) {
            let Some(address) = addresses(pod)
                .into_iter()
                .find(|address| family_of(address) == family)
            else {
                continue;
            };
            let ports = ports(service, pod);
            let group = groups
                .entry((family, key(&ports)))
                .or_insert_with(|| (ports, Vec::new()));
            group.1.push(endpoint(service, pod, address));
        }
    }
    let mut slices = Vec::new();
    for family in families(service) {
        let full: Vec<_> = groups
            .iter()
            .filter(|((own, _), (_, endpoints))| *own == family && !endpoints.is_empty())
            .collect();
        if full.is_empty() {
            // clients that wait for the first pod watch this slice
            slices.push(slice(service, family, &[], Vec::new()));
        }
        for (_, (ports, endpoints)) in full {
            let chunks = endpoints.chunks(IN_A_SLICE);
            slices.extend(chunks.map(|chunk| slice(service, family, ports, chunk.to_vec())));
        }
    }
    slices
}

fn key(ports: &[EndpointPort]) -> String {
    serde_json::to_string(ports).unwrap_or_default()
}

fn families(service: &Service) -> Vec<&'static str> {
    let families = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ip_families.clone())
        .unwrap_or_default();
    let families: Vec<_> = families
        .iter()
        .map(|family| if family == "IPv6" { "IPv6" } else { "IPv4" })
        .collect();
    if families.is_empty() {
        vec!["IPv4"]
    } else {
        families
    }
}

/// Returns the address family.
pub(super) fn family_of(address: &str) -> &'static str {
    if address.contains(':') {
        "IPv6"
    } else {
        "IPv4"
    }
}

fn is_headless(service: &Service) -> bool {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.as_deref())
        == Some("None")
}

fn publishes_all(service: &Service) -> bool {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.publish_not_ready_addresses)
        == Some(true)
}

fn slice(
    service: &Service,
    family: &str,
    ports: &[EndpointPort],
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE_NAME.into(), service.name_any());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.name_any())),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints,
        ports: (!ports.is_empty()).then(|| ports.to_vec()),
    }
}

/// Reports whether `old` has all labels of `new`.
pub(super) fn has_labels(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    new.labels()
        .iter()
        .all(|(key, value)| old.labels().get(key) == Some(value))
}

fn endpoint(service: &Service, pod: &Pod, address: String) -> Endpoint {
    let spec = pod.spec.clone().unwrap_or_default();
    let (serving, terminating) = (is_ready(pod), pod.metadata.deletion_timestamp.is_some());
    // only pods with the service's name as subdomain have DNS names in it
    let hostname = spec
        .hostname
        .filter(|_| spec.subdomain == service.metadata.name);
    Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all(service) || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname,
        node_name: spec.node_name,
        target_ref: Some(reference(pod)),
        ..Endpoint::default()
    }
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: pod.namespace(),
        name: pod.metadata.name.clone(),
        uid: pod.uid(),
        ..ObjectReference::default()
    }
}

/// Returns the service's ports for this pod: a named port may have another number in each pod.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let spec = service.spec.clone().unwrap_or_default();
    let port = |port: k8s_openapi::api::core::v1::ServicePort| {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
        let number = match &port.target_port {
            None => port.port,
            Some(IntOrString::Int(0)) => port.port,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(name)) => named_port(pod, name, &protocol)?,
        };
        Some(EndpointPort {
            name: Some(port.name.unwrap_or_default()),
            port: Some(number),
            protocol: Some(protocol),
            app_protocol: port.app_protocol,
        })
    };
    spec.ports.into_iter().flatten().filter_map(port).collect()
}

fn named_port(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|own| own.restart_policy.as_deref() == Some("Always"));
    let mut ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten());
    let same = |own: &str| own == protocol;
    let found = ports.find(|port| {
        port.name.as_deref() == Some(name) && same(port.protocol.as_deref().unwrap_or("TCP"))
    });
    found.map(|port| port.container_port)
}

/// Returns the same as an Endpoints object.
pub(super) fn endpoints(service: &Service, pods: &[Arc<Pod>]) -> Endpoints {
    let family = families(service).first().copied().unwrap_or("IPv4");
    let mut subsets: BTreeMap<String, EndpointSubset> = BTreeMap::new();
    for pod in pods
        .iter()
        .filter(|pod| !is_finished(pod) && pod.metadata.deletion_timestamp.is_none())
    {
        let Some(ip) = addresses(pod)
            .into_iter()
            .find(|address| family_of(address) == family)
        else {
            continue;
        };
        let ports = ports(service, pod);
        let subset = subsets
            .entry(key(&ports))
            .or_insert_with(|| EndpointSubset {
                ports: (!ports.is_empty()).then(|| ports.into_iter().map(core_port).collect()),
                ..EndpointSubset::default()
            });
        let made = endpoint(service, pod, ip.clone());
        let address = EndpointAddress {
            ip,
            hostname: made.hostname,
            node_name: made.node_name,
            target_ref: made.target_ref,
        };
        let ready = made.conditions.and_then(|conditions| conditions.ready) == Some(true);
        let list = if ready {
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.get_or_insert_default().push(address);
    }
    let mut labels = service.labels().clone();
    labels.insert(ENDPOINTS_MANAGED_BY.into(), ENDPOINTS_MANAGER.into());
    if is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    let subsets: Vec<_> = subsets.into_values().collect();
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.namespace(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        subsets: (!subsets.is_empty()).then_some(subsets),
    }
}

fn core_port(port: EndpointPort) -> CorePort {
    CorePort {
        name: port.name.filter(|name| !name.is_empty()),
        port: port.port.unwrap_or_default(),
        protocol: port.protocol,
        app_protocol: port.app_protocol,
    }
}

#[cfg(test)]
mod tests;
