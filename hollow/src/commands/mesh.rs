//! `cloudsim mesh`: lists Services with their endpoints by node, and the paths between nodes.

use std::collections::BTreeMap;

use http::Method;
use k8s_openapi::api::{
    core::v1::Service,
    discovery::v1::{Endpoint, EndpointSlice},
};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use wire::relay;

use super::{
    listing::{Column, Listing, Row, Rows, show},
    objects,
    remote::Remote,
};
use crate::cli::{Access, ListArgs};
use cloudsim::relay::{RelayPair, RelayState};

/// The label in which an `EndpointSlice` names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// An endpoint of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    /// The node on which it runs; `None` if the slice does not say.
    node: Option<String>,
    address: String,
    /// The ports as in the slices: `8080/TCP`.
    ports: Vec<String>,
    ready: bool,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct MeshService {
    cluster_ip: String,
    endpoints: Vec<Place>,
}

/// The Services by namespace and name.
type Services = BTreeMap<(String, String), MeshService>;

/// The path from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Way {
    from: String,
    to: String,
    /// The path as the first node has found it; `None` if it has not reported any.
    path: Option<relay::Path>,
    /// Whether both nodes are connected to the relay.
    relay: bool,
    open: u64,
    connections: u64,
    sent: u64,
    received: u64,
}

const SERVICE_COLUMNS: [Column; 8] = [
    Column::new("NAMESPACE"),
    Column::new("SERVICE"),
    Column::new("CLUSTER-IP"),
    Column::new("NODE"),
    Column::new("ENDPOINT"),
    Column::new("PORTS"),
    Column::new("READY"),
    Column::new("AT RELAY"),
];

const PATH_COLUMNS: [Column; 8] = [
    Column::new("FROM"),
    Column::new("TO"),
    Column::new("PATH"),
    Column::new("RELAY"),
    Column::new("OPEN"),
    Column::new("RELAYED"),
    Column::wide("SENT"),
    Column::wide("RECEIVED"),
];

pub(super) async fn run(access: &Access, list: &ListArgs) -> anyhow::Result<()> {
    let cloud = Remote::of(access).await?;
    show(list, async || listing(&cloud).await).await
}

async fn listing(cloud: &Remote) -> anyhow::Result<Listing> {
    let mut warnings = Vec::new();
    let services = objects::list::<Service>(&cloud.client, &mut warnings).await?;
    let slices = objects::list::<EndpointSlice>(&cloud.client, &mut warnings).await?;
    let services = services_of(&services, &slices);
    // A cloud with a cluster has no admin API: only its metrics show what its relay knows.
    let state = match cloud.is_a_cluster().await? {
        true => None,
        false => Some(cloud.ask::<RelayState>(Method::GET, "mesh", &()).await?),
    };
    let mut tables = vec![services_table(&services, state.as_ref())];
    let mut notes = Vec::new();
    match &state {
        Some(state) => tables.push(ways_table(&ways(state))),
        None => notes.push("Paths between nodes are unknown in cluster mode.".to_owned()),
    }
    Ok(Listing {
        document: document(&services, state.as_ref()),
        tables,
        notes,
        warnings,
    })
}

fn services_of(services: &[Service], slices: &[EndpointSlice]) -> Services {
    let mut rows = Services::new();
    for service in services {
        let cluster_ip = service
            .spec
            .as_ref()
            .and_then(|spec| spec.cluster_ip.clone())
            .unwrap_or_default();
        let name = (service.namespace().unwrap_or_default(), service.name_any());
        rows.insert(
            name,
            MeshService {
                cluster_ip,
                endpoints: Vec::new(),
            },
        );
    }
    for slice in slices {
        let Some(service) = slice.labels().get(SERVICE_NAME) else {
            continue;
        };
        let name = (slice.namespace().unwrap_or_default(), service.clone());
        if let Some(row) = rows.get_mut(&name) {
            row.endpoints.extend(
                slice
                    .endpoints
                    .iter()
                    .filter_map(|endpoint| place(endpoint, slice)),
            );
        }
    }
    for row in rows.values_mut() {
        row.endpoints.sort();
        row.endpoints.dedup();
    }
    rows
}

fn place(endpoint: &Endpoint, slice: &EndpointSlice) -> Option<Place> {
    let port = |port: &k8s_openapi::api::discovery::v1::EndpointPort| {
        Some(format!(
            "{}/{}",
            port.port?,
            port.protocol.as_deref().unwrap_or("TCP")
        ))
    };
    Some(Place {
        node: endpoint.node_name.clone(),
        address: endpoint.addresses.first()?.clone(),
        ports: slice.ports.iter().flatten().filter_map(port).collect(),
        ready: endpoint
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.ready)
            .unwrap_or(true),
    })
}

/// Returns the paths that nodes have found, and those that the relay has carried.
fn ways(state: &RelayState) -> Vec<Way> {
    let is_there = |node: &str| state.nodes.iter().any(|there| there.node == node);
    let new = |from: &str, to: &str| Way {
        from: from.to_owned(),
        to: to.to_owned(),
        path: None,
        relay: is_there(from) && is_there(to),
        open: 0,
        connections: 0,
        sent: 0,
        received: 0,
    };
    let mut ways = BTreeMap::new();
    for node in &state.nodes {
        for (to, path) in &node.paths {
            ways.insert(
                (&node.node, to),
                Way {
                    path: Some(*path),
                    ..new(&node.node, to)
                },
            );
        }
    }
    for RelayPair {
        from,
        to,
        open,
        connections,
        sent,
        received,
    } in &state.joined
    {
        let way = ways.entry((from, to)).or_insert_with(|| new(from, to));
        (way.open, way.connections, way.sent, way.received) =
            (*open, *connections, *sent, *received);
    }
    ways.into_values().collect()
}

/// Returns the document for programs.
fn document(services: &Services, state: Option<&RelayState>) -> Value {
    json!({
        "services": services.iter().map(|(name, service)| service_document(name, service)).collect::<Vec<_>>(),
        "nodes": state.map(|state| &state.nodes),
        "paths": state.map(ways),
    })
}

fn service_document((namespace, name): &(String, String), service: &MeshService) -> Value {
    json!({
        "namespace": namespace, "name": name, "clusterIP": service.cluster_ip, "endpoints": service.endpoints,
    })
}

fn services_table(services: &Services, state: Option<&RelayState>) -> Rows {
    let mut rows = Vec::new();
    for (key, service) in services {
        let (namespace, name) = key;
        let row = |endpoint: [String; 5]| Row {
            name: format!("service/{name}"),
            id: format!("{namespace}/{name}/{}/{}", endpoint[0], endpoint[1]),
            document: service_document(key, service),
            cells: [namespace, name, &service.cluster_ip]
                .into_iter()
                .cloned()
                .chain(endpoint)
                .collect(),
        };
        if service.endpoints.is_empty() {
            rows.push(row(["-"; 5].map(str::to_owned)));
        }
        for Place {
            node,
            address,
            ports,
            ready,
        } in &service.endpoints
        {
            let is_there = state.and_then(|state| {
                let node = node.as_ref()?;
                Some(yes(state.nodes.iter().any(|there| there.node == *node)))
            });
            let cells = [
                node.as_deref().unwrap_or("-"),
                address,
                &ports.join(","),
                yes(*ready),
                is_there.unwrap_or("-"),
            ];
            rows.push(row(cells.map(str::to_owned)));
        }
    }
    Rows {
        columns: &SERVICE_COLUMNS,
        rows,
        if_empty: "no Services",
    }
}

fn ways_table(ways: &[Way]) -> Rows {
    let row = |way: &Way| {
        let path = match way.path {
            Some(relay::Path::Direct) => "direct",
            Some(relay::Path::Relayed) => "relayed",
            Some(relay::Path::Unreached) => "unreached",
            None => "-",
        };
        Row {
            name: format!("path/{}:{}", way.from, way.to),
            id: format!("{}:{}", way.from, way.to),
            document: json!(way),
            cells: vec![
                way.from.clone(),
                way.to.clone(),
                path.to_owned(),
                if way.relay { "up" } else { "offline" }.to_owned(),
                way.open.to_string(),
                way.connections.to_string(),
                way.sent.to_string(),
                way.received.to_string(),
            ],
        }
    };
    Rows {
        columns: &PATH_COLUMNS,
        rows: ways.iter().map(row).collect(),
        if_empty: "no connections between nodes",
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloudsim::relay::RelayNode;

    fn state() -> RelayState {
        let node = |name: &str, paths: &[(&str, relay::Path)]| RelayNode {
            node: name.to_owned(),
            since: "2025-06-01T11:57:00Z".parse().unwrap(),
            address: ([192, 0, 2, 7], 4711).into(),
            paths: paths
                .iter()
                .map(|(to, path)| ((*to).to_owned(), *path))
                .collect(),
        };
        let joined = |from: &str, to: &str| RelayPair {
            from: from.to_owned(),
            to: to.to_owned(),
            open: 1,
            connections: 7,
            sent: 1000,
            received: 2000,
        };
        RelayState {
            nodes: vec![
                node(
                    "edge-1",
                    &[
                        ("edge-2", relay::Path::Relayed),
                        ("edge-3", relay::Path::Direct),
                    ],
                ),
                node("edge-2", &[]),
            ],
            joined: vec![joined("edge-1", "edge-2"), joined("edge-9", "edge-1")],
        }
    }

    #[test]
    fn services_and_ways_have_lines() {
        let services = serde_json::from_value(json!([
            {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"clusterIP": "10.96.0.10"}},
            {"metadata": {"namespace": "shop", "name": "none"}, "spec": {"clusterIP": "None"}},
        ]));
        let slices = serde_json::from_value(json!([
            {"metadata": {"namespace": "shop", "name": "web-1", "labels": {SERVICE_NAME: "web"}}, "addressType": "IPv4",
             "ports": [{"name": "http", "port": 8080}],
             "endpoints": [{"addresses": ["10.88.0.5"], "nodeName": "edge-2"},
                           {"addresses": ["10.88.0.5"], "nodeName": "edge-3", "conditions": {"ready": false}}]},
            {"metadata": {"namespace": "shop", "name": "lost", "labels": {SERVICE_NAME: "gone"}}, "addressType": "IPv4",
             "endpoints": [{"addresses": ["10.88.0.6"]}]},
        ]));
        let (services, slices): (Vec<Service>, Vec<EndpointSlice>) =
            (services.unwrap(), slices.unwrap());
        let (rows, state) = (services_of(&services, &slices), state());
        let lines = |table: Rows| -> Vec<String> {
            let cells = table.rows.iter().map(|row| row.cells.join(" "));
            cells.collect()
        };
        assert_eq!(
            lines(services_table(&rows, Some(&state))),
            [
                "shop none None - - - - -",
                "shop web 10.96.0.10 edge-2 10.88.0.5 8080/TCP yes yes",
                "shop web 10.96.0.10 edge-3 10.88.0.5 8080/TCP no no",
            ]
        );
        assert_eq!(
            lines(ways_table(&ways(&state))),
            [
                "edge-1 edge-2 relayed up 1 7 1000 2000",
                "edge-1 edge-3 direct offline 0 0 0 0",
                "edge-9 edge-1 - offline 1 7 1000 2000",
            ]
        );
        let told = document(&rows, Some(&state));
        assert_eq!(told["paths"][0]["path"], "relayed");
        assert_eq!(told["services"][1]["endpoints"][0]["node"], "edge-2");
        assert_eq!(document(&rows, None)["paths"], Value::Null);
    }
}
