//! The cluster that tests ask about.

use std::collections::BTreeMap;

use super::*;
use crate::edgemesh::snapshot::{Endpoint, Kind, Port, Protocol, Service};

fn port(name: &str, protocol: Protocol, port: u16) -> Port {
    Port {
        name: name.into(),
        protocol,
        port,
        node_port: None,
    }
}

fn proxied_service(ips: &[&str], ports: Vec<Port>) -> Service {
    Service {
        cluster_ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        ports,
        ..Service::default()
    }
}

fn endpoint(address: &str, hostname: Option<&str>, ready: bool) -> Endpoint {
    Endpoint {
        address: address.parse().unwrap(),
        hostname: hostname.map(str::to_owned),
        node: None,
        ready,
        serving: ready,
        terminating: false,
        for_zones: Vec::new(),
        for_nodes: Vec::new(),
        ports: BTreeMap::from([(("pg".into(), Protocol::Tcp), 5432)]),
    }
}

fn headless(endpoints: Vec<Endpoint>) -> Service {
    let ports = vec![port("pg", Protocol::Tcp, 5432)];
    Service {
        kind: Kind::Headless,
        endpoints,
        ports,
        ..Service::default()
    }
}

fn external(name: &str) -> Service {
    Service {
        kind: Kind::ExternalName(name.into()),
        ..Service::default()
    }
}

/// Two namespaces with Services of all kinds.
pub(super) fn snapshot() -> Snapshot {
    let ports = || {
        vec![
            port("http", Protocol::Tcp, 80),
            port("metrics", Protocol::Tcp, 9090),
            port("dns", Protocol::Udp, 53),
        ]
    };
    let database = vec![
        endpoint("10.1.0.1", Some("db-0"), true),
        endpoint("10.1.0.2", Some("db-1"), false),
        endpoint("10.1.0.3", None, true),
        endpoint("fd00:1::3", None, true),
    ];
    let many = (0..200)
        .map(|number| endpoint(&format!("10.2.0.{number}"), None, true))
        .collect();
    let early = vec![endpoint("10.1.0.9", Some("e-0"), false)];
    let services = [
        ("shop", "web", proxied_service(&["10.96.0.10"], ports())),
        (
            "shop",
            "dual",
            proxied_service(
                &["10.96.0.11", "fd00:96::11"],
                vec![port("", Protocol::Tcp, 8080)],
            ),
        ),
        ("shop", "pending", proxied_service(&[], ports())),
        ("shop", "db", headless(database)),
        (
            "shop",
            "early",
            Service {
                publish_not_ready: true,
                ..headless(early)
            },
        ),
        ("shop", "empty", headless(Vec::new())),
        ("shop", "many", headless(many)),
        ("shop", "ext", external("www.example.com")),
        ("shop", "inner", external("web.shop.svc.cluster.local")),
        (
            "shop",
            "circle-a",
            external("circle-b.shop.svc.cluster.local"),
        ),
        (
            "shop",
            "circle-b",
            external("circle-a.shop.svc.cluster.local"),
        ),
        ("other", "web", proxied_service(&["10.96.0.20"], ports())),
    ];
    let services = services
        .into_iter()
        .map(|(namespace, name, service)| ((namespace.into(), name.into()), service))
        .collect();
    Snapshot {
        services,
        synced: true,
    }
}
