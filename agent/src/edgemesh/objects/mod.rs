//! From Services and EndpointSlices to a snapshot. Pure.
//!
//! Which objects are used, and how slices are joined, is as in kube-proxy (`pkg/proxy/{servicechangetracker,endpointslicecache}.go`).

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{self as core, LoadBalancerIngress},
    discovery::v1::{self as discovery, EndpointSlice},
};

use super::snapshot::{Endpoint, Kind, Port, Protocol, Service, Snapshot};
use crate::config::{EdgeMesh, Network, ServiceFilter};

/// The label by which a slice names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// A Service with this label is served by another proxy.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// A slice with this label belongs to a headless Service.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// EdgeMesh's own label with the same meaning.
const EDGEMESH_PROXY: &str = "service.edgemesh.kubeedge.io/service-proxy-name";
/// How long a client keeps its endpoint by default.
const DEFAULT_AFFINITY: Duration = Duration::from_secs(10_800);

/// Builds the snapshot of these objects.
pub(super) fn snapshot<'a>(
    services: impl IntoIterator<Item = &'a core::Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    settings: &EdgeMesh,
) -> Snapshot {
    let mut of_service: HashMap<(&str, &str), Vec<&EndpointSlice>> = HashMap::new();
    for slice in slices {
        let labels = slice.metadata.labels.as_ref();
        if let Some(name) = labels.and_then(|labels| labels.get(SERVICE_NAME)) {
            let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
            of_service.entry((namespace, name)).or_default().push(slice);
        }
    }
    let mut snapshot = Snapshot::default();
    for service in services {
        let (Some(namespace), Some(name)) = (&service.metadata.namespace, &service.metadata.name)
        else {
            continue;
        };
        if let Some(mut read) = read(service, settings) {
            let mut slices = of_service
                .remove(&(namespace.as_str(), name.as_str()))
                .unwrap_or_default();
            // lists have no stable order
            slices.sort_by_key(|slice| slice.metadata.name.as_deref());
            read.endpoints = endpoints(&slices, read.kind == Kind::Headless);
            snapshot
                .services
                .insert((namespace.clone(), name.clone()), read);
        }
    }
    snapshot
}

/// Reads a Service, without its endpoints; `None` if it has no `spec`.
fn read(service: &core::Service, settings: &EdgeMesh) -> Option<Service> {
    let spec = service.spec.as_ref()?;
    let has = |label: &str| {
        service
            .metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(label))
    };
    let is_filtered = match settings.filter {
        ServiceFilter::LeaveOut => has(EDGEMESH_PROXY),
        ServiceFilter::Only => !has(EDGEMESH_PROXY),
    };
    let kind = match (
        spec.type_.as_deref(),
        &spec.external_name,
        spec.cluster_ip.as_deref(),
    ) {
        (Some("ExternalName"), Some(name), _) => Kind::ExternalName(name.clone()),
        (_, _, Some("None")) => Kind::Headless,
        _ => Kind::Proxied,
    };
    let is_proxied = kind == Kind::Proxied;
    let first = spec.cluster_ip.as_ref().map(std::slice::from_ref);
    let addresses = spec
        .cluster_ips
        .as_deref()
        .filter(|all| !all.is_empty())
        .or(first);
    let mut external = parse_addresses(spec.external_ips.as_deref());
    let balancers = balancers(service).iter().filter_map(|ingress| {
        let is_proxy = ingress.ip_mode.as_deref() == Some("Proxy");
        parse(ingress.ip.as_ref().filter(|_| !is_proxy)?)
    });
    let mut balancers: Vec<_> = balancers.collect();
    for addresses in [&mut external, &mut balancers] {
        addresses.sort_unstable();
        addresses.dedup();
    }
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    let ports = spec.ports.iter().flatten().filter_map(port).collect();
    let affinity = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let config = spec
            .session_affinity_config
            .as_ref()
            .and_then(|config| config.client_ip.as_ref());
        let seconds = config
            .and_then(|config| config.timeout_seconds)
            .and_then(|all| u64::try_from(all).ok());
        seconds
            .filter(|seconds| (1..=86_400).contains(seconds))
            .map_or(DEFAULT_AFFINITY, Duration::from_secs)
    });
    Some(Service {
        cluster_ips: if is_proxied {
            parse_addresses(addresses)
        } else {
            Vec::new()
        },
        external_ips: if is_proxied { external } else { Vec::new() },
        balancer_ips: if is_proxied { balancers } else { Vec::new() },
        source_ranges: ranges
            .filter_map(|range| Network::parse(range.trim()))
            .collect(),
        ports,
        endpoints: Vec::new(),
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or_default(),
        affinity,
        internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
        external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
        balancing: settings.strategy,
        unserved: unserved_fields(spec),
        other_proxy: is_filtered || has(OTHER_PROXY),
        kind,
    })
}

/// Lists what a Service sets and this node does not support.
fn unserved_fields(spec: &core::ServiceSpec) -> Vec<String> {
    let sctp = spec
        .ports
        .iter()
        .flatten()
        .filter(|port| port.protocol.as_deref() == Some("SCTP"));
    let mut all: Vec<_> = sctp
        .map(|port| {
            format!(
                "has the port {} of SCTP, which is not served on this node",
                port.port
            )
        })
        .collect();
    let health = spec.health_check_node_port.filter(|port| *port != 0);
    all.extend(health.map(|port| {
        format!("has the healthCheckNodePort {port}, which is not answered on this node: its load balancer does not see where endpoints are")
    }));
    all
}

fn balancers(service: &core::Service) -> &[LoadBalancerIngress] {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default()
}

fn parse_addresses(addresses: Option<&[String]>) -> Vec<IpAddr> {
    addresses
        .unwrap_or_default()
        .iter()
        .filter_map(|address| parse(address))
        .collect()
}

/// Parses an address. An IPv4 address that is mapped into IPv6 (`::ffff:192.0.2.1`) counts as IPv4, as everywhere in Kubernetes.
fn parse(address: &str) -> Option<IpAddr> {
    Some(address.parse::<IpAddr>().ok()?.to_canonical())
}

fn port(port: &core::ServicePort) -> Option<Port> {
    let number = |port: i32| u16::try_from(port).ok().filter(|port| *port != 0);
    Some(Port {
        name: port.name.clone().unwrap_or_default(),
        protocol: protocol(port.protocol.as_deref())?,
        port: number(port.port)?,
        node_port: port.node_port.and_then(number),
    })
}

/// Parses a protocol; `None` for those that are not proxied.
fn protocol(name: Option<&str>) -> Option<Protocol> {
    match name {
        None | Some("TCP" | "") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some(_) => None,
    }
}

/// Joins the endpoints of a Service's slices, in the order of their addresses.
fn endpoints(slices: &[&EndpointSlice], is_headless: bool) -> Vec<Endpoint> {
    let mut all: BTreeMap<IpAddr, Vec<Endpoint>> = BTreeMap::new();
    for slice in slices {
        let labels = slice.metadata.labels.as_ref();
        if !is_headless && labels.is_some_and(|labels| labels.contains_key(HEADLESS)) {
            continue;
        }
        let ports = ports(slice);
        for endpoint in &slice.endpoints {
            // only the first address has a meaning
            let Some(address) = endpoint
                .addresses
                .first()
                .and_then(|address| parse(address))
            else {
                continue;
            };
            if is_of(address, &slice.address_type) {
                add(
                    all.entry(address).or_default(),
                    one(address, endpoint, ports.clone()),
                );
            }
        }
    }
    all.into_values().flatten().collect()
}

fn is_of(address: IpAddr, address_type: &str) -> bool {
    match address_type {
        "IPv4" => address.is_ipv4(),
        "IPv6" => address.is_ipv6(),
        _ => false,
    }
}

/// Joins what two slices say about one address: the conditions of an endpoint that is not terminating win.
fn add(known: &mut Vec<Endpoint>, new: Endpoint) {
    let fits = |known: &&mut Endpoint| {
        // nodes may give their pods the same addresses
        let is_elsewhere = known.node.is_some() && new.node.is_some() && known.node != new.node;
        let is_same =
            |(name, port): (_, &u16)| known.ports.get(name).is_none_or(|other| other == port);
        !is_elsewhere && new.ports.iter().all(is_same)
    };
    let Some(same) = known.iter_mut().find(fits) else {
        // a port of the same name has another number there: both are served
        known.push(new);
        return;
    };
    if same.terminating && !new.terminating {
        let ports = std::mem::take(&mut same.ports);
        *same = new;
        same.ports.extend(ports);
    } else {
        same.ports.extend(new.ports);
    }
}

fn one(
    address: IpAddr,
    endpoint: &discovery::Endpoint,
    ports: BTreeMap<(String, Protocol), u16>,
) -> Endpoint {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let hints = endpoint.hints.clone().unwrap_or_default();
    Endpoint {
        address,
        hostname: endpoint.hostname.clone().filter(|name| !name.is_empty()),
        node: endpoint.node_name.clone().filter(|name| !name.is_empty()),
        ready: conditions.ready.unwrap_or(true),
        serving: conditions.serving.or(conditions.ready).unwrap_or(true),
        terminating: conditions.terminating.unwrap_or_default(),
        for_zones: hints
            .for_zones
            .into_iter()
            .flatten()
            .map(|zone| zone.name)
            .collect(),
        for_nodes: hints
            .for_nodes
            .into_iter()
            .flatten()
            .map(|node| node.name)
            .collect(),
        ports,
    }
}

/// Returns the ports of a slice that have a name and a number.
fn ports(slice: &EndpointSlice) -> BTreeMap<(String, Protocol), u16> {
    let ports = slice.ports.iter().flatten().filter_map(|port| {
        let number = port
            .port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0)?;
        Some((
            (port.name.clone()?, protocol(port.protocol.as_deref())?),
            number,
        ))
    });
    ports.collect()
}

#[cfg(test)]
mod tests;
