//! The rows of kube-proxy's documented behaviour that are about which endpoints take connections.

use std::net::IpAddr;

use super::*;
use crate::edgemesh::snapshot::Protocol;

/// An endpoint by its number: how it is, where it runs, and what hints give it to.
#[derive(Clone, Copy)]
struct Row {
    is: [bool; 3],
    node: &'static str,
    zones: &'static [&'static str],
    nodes: &'static [&'static str],
}

const READY: Row = Row {
    is: [true, true, false],
    node: "far",
    zones: &[],
    nodes: &[],
};
const HERE: Row = Row {
    node: "edge-1",
    ..READY
};
const UNREADY: Row = Row {
    is: [false, false, false],
    ..READY
};
const ENDING: Row = Row {
    is: [false, true, true],
    ..READY
};
const ENDED: Row = Row {
    is: [false, false, true],
    ..READY
};

fn zone(zones: &'static [&'static str]) -> Row {
    Row { zones, ..READY }
}

fn node(nodes: &'static [&'static str]) -> Row {
    Row { nodes, ..READY }
}

fn service(rows: &[Row]) -> Service {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let endpoint = |(number, row): (usize, &Row)| Endpoint {
        address: [10, 88, 0, u8::try_from(number).unwrap()].into(),
        hostname: None,
        node: Some(row.node.into()),
        ready: row.is[0],
        serving: row.is[1],
        terminating: row.is[2],
        for_zones: owned(row.zones),
        for_nodes: owned(row.nodes),
        ports: [((String::new(), Protocol::Tcp), 80)].into(),
    };
    Service {
        endpoints: rows.iter().enumerate().map(endpoint).collect(),
        ..Service::default()
    }
}

fn here() -> NodeTopology {
    NodeTopology {
        name: "edge-1".into(),
        zone: Some("z1".into()),
    }
}

const PORT: Port = Port {
    name: String::new(),
    protocol: Protocol::Tcp,
    port: 80,
    node_port: None,
};

/// The numbers of the endpoints.
fn numbers(all: &[EndpointAddress]) -> Vec<u8> {
    let number = |at: &EndpointAddress| match at.address.ip() {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(_) => 255,
    };
    all.iter().map(number).collect()
}

#[test]
fn a_cluster_policy() {
    for (row, rows, expected) in [
        (1, vec![READY, READY, READY], vec![0, 1, 2]),
        (2, vec![], vec![]),
        (2, vec![UNREADY, ENDED], vec![]),
        (
            33,
            vec![
                node(&["edge-1"]),
                node(&["edge-2"]),
                node(&["edge-1", "edge-2"]),
            ],
            vec![0, 2],
        ),
        (
            34,
            vec![zone(&["z1"]), zone(&["z2"]), zone(&["z2", "z1"])],
            vec![0, 2],
        ),
        (
            34,
            vec![
                Row {
                    nodes: &["edge-9"],
                    zones: &["z1"],
                    ..READY
                },
                Row {
                    nodes: &["edge-8"],
                    zones: &["z2"],
                    ..READY
                },
            ],
            vec![0],
        ),
        (35, vec![zone(&["z1"]), READY], vec![0, 1]),
        (35, vec![zone(&["z2"]), zone(&["z3"])], vec![0, 1]),
        (35, vec![node(&["edge-2"]), node(&["edge-3"])], vec![0, 1]),
        (
            36,
            vec![
                Row {
                    nodes: &["edge-1"],
                    zones: &["z2"],
                    ..READY
                },
                Row {
                    nodes: &["edge-2"],
                    zones: &["z1"],
                    ..READY
                },
            ],
            vec![0],
        ),
        (
            37,
            vec![
                Row {
                    zones: &["z1"],
                    ..HERE
                },
                zone(&["z1"]),
                zone(&["z2"]),
            ],
            vec![0, 1],
        ),
        (
            39,
            vec![
                Row {
                    zones: &["z1"],
                    ..UNREADY
                },
                zone(&["z2"]),
            ],
            vec![1],
        ),
        (41, vec![ENDING, ENDING, ENDED], vec![0, 1]),
        (42, vec![ENDING, READY, ENDING], vec![1]),
        (43, vec![ENDED], vec![]),
        (
            44,
            vec![Row {
                is: [true, false, true],
                ..READY
            }],
            vec![0],
        ),
    ] {
        let usable = usable(&service(&rows), &PORT, &here(), true);
        assert_eq!(numbers(&usable.internal), expected, "row {row}");
        assert_eq!(
            (&usable.internal, &usable.internal),
            (&usable.cluster, &usable.external),
            "row {row}"
        );
    }
}

#[test]
fn a_node_without_a_zone() {
    let here = NodeTopology {
        zone: None,
        ..here()
    };
    let usable = usable(
        &service(&[zone(&["z1"]), zone(&["z2"])]),
        &PORT,
        &here,
        true,
    );
    assert_eq!(numbers(&usable.cluster), [0, 1], "row 38");
}

#[test]
fn a_local_policy() {
    let hinted = Row {
        zones: &["z2"],
        nodes: &["edge-2"],
        ..HERE
    };
    for (row, rows, local, cluster) in [
        (3, vec![READY, READY], vec![], vec![0, 1]),
        (26, vec![READY, HERE], vec![1], vec![0, 1]),
        (
            40,
            vec![
                Row {
                    zones: &["z1"],
                    ..READY
                },
                hinted,
            ],
            vec![1],
            vec![0],
        ),
        (
            41,
            vec![
                Row {
                    node: "edge-1",
                    ..ENDING
                },
                READY,
            ],
            vec![0],
            vec![1],
        ),
        (
            42,
            vec![
                Row {
                    node: "edge-1",
                    ..ENDING
                },
                HERE,
            ],
            vec![1],
            vec![1],
        ),
    ] {
        let mut service = service(&rows);
        service.internal_local = true;
        let usable_of = |service: &Service| usable(service, &PORT, &here(), true);
        let internal = usable_of(&service);
        assert_eq!(numbers(&internal.internal), local, "row {row}");
        // row 29: each path has its own policy
        assert_eq!(numbers(&internal.external), cluster, "row 29, as row {row}");
        (service.internal_local, service.external_local) = (false, true);
        let external = usable_of(&service);
        // row 32: at the Service's own address it does not count; rows 27, 28: nor for this node's pods and programs
        assert_eq!(numbers(&external.internal), cluster, "row 32, as row {row}");
        assert_eq!(numbers(&external.cluster), cluster, "row 27, as row {row}");
        assert_eq!(numbers(&external.external), local, "row 4, as row {row}");
    }
}

#[test]
fn a_port_and_a_family_of_its_own() {
    let mut service = service(&[READY, READY]);
    service.endpoints[1].address = "fd00::1".parse().unwrap();
    assert_eq!(
        usable(&service, &PORT, &here(), true)
            .cluster
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["10.88.0.0:80 on far"],
        "row 60"
    );
    assert_eq!(
        usable(&service, &PORT, &here(), false)
            .cluster
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["[fd00::1]:80 on far"],
        "row 60"
    );
    let other = Port {
        name: "other".into(),
        ..PORT
    };
    assert_eq!(
        usable(&service, &other, &here(), true),
        Usable::default(),
        "row 54"
    );
    let udp = Port {
        protocol: Protocol::Udp,
        ..PORT
    };
    assert_eq!(
        usable(&service, &udp, &here(), true),
        Usable::default(),
        "row 54"
    );
}

#[test]
fn those_that_serve_keep_their_clients() {
    let usable = usable(
        &service(&[READY, ENDING, ENDED, UNREADY]),
        &PORT,
        &here(),
        true,
    );
    assert_eq!(numbers(&usable.serving), [0, 1], "rows 46, 48");
}
