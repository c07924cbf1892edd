//! What is listened to, and what is refused.

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::config::Network;
use crate::edgemesh::proxy::{plan::LocalAddresses, usable::NodeTopology};
use crate::edgemesh::snapshot::Endpoint;

fn config() -> PlanConfig {
    let own =
        ["127.0.0.1", "192.0.2.5", "::1", "fe80::1", "2001:db8::5"].map(|own| own.parse().unwrap());
    let local = LocalAddresses {
        addresses: own.into(),
        pod_networks: vec![Network::parse("10.88.0.0/16").unwrap()],
        ..LocalAddresses::default()
    };
    PlanConfig {
        node: NodeTopology {
            name: "edge-1".into(),
            zone: None,
        },
        local: Arc::new(local),
        node_port_networks: Vec::new(),
        serves_api: false,
        external_networks: vec![
            Network::parse("0.0.0.0/0").unwrap(),
            Network::parse("::/0").unwrap(),
        ],
        max_listeners: 100,
    }
}

fn service(cluster_ips: &[&str]) -> Service {
    let endpoint = |address: &str| Endpoint {
        address: address.parse().unwrap(),
        hostname: None,
        node: Some("far".into()),
        ready: true,
        serving: true,
        terminating: false,
        for_zones: Vec::new(),
        for_nodes: Vec::new(),
        ports: [((String::new(), Protocol::Tcp), 8080)].into(),
    };
    Service {
        cluster_ips: cluster_ips
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        ports: vec![Port {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: None,
        }],
        endpoints: vec![endpoint("10.88.0.2"), endpoint("fd00::2")],
        ..Service::default()
    }
}

fn plan_of(services: &[(&str, Service)], config: &PlanConfig) -> Plan {
    let named = |(name, service): &(&str, Service)| {
        (("shop".to_owned(), (*name).to_owned()), service.clone())
    };
    plan(
        &Snapshot {
            services: services.iter().map(named).collect(),
            synced: true,
        },
        config,
    )
}

fn places(plan: &Plan) -> Vec<String> {
    plan.targets
        .iter()
        .map(|(place, target)| format!("{place} {}", target.service))
        .collect()
}

#[test]
fn an_address_is_had_and_its_ports_are_listened_to() {
    let plan = plan_of(&[("web", service(&["10.96.0.10", "fd00::a"]))], &config());
    assert_eq!(
        places(&plan),
        ["TCP 10.96.0.10:80 shop/web", "TCP [fd00::a]:80 shop/web"]
    );
    assert_eq!(plan.addresses.len(), 2);
    let endpoints: Vec<_> = plan
        .targets
        .values()
        .map(|target| target.for_local[0].to_string())
        .collect();
    assert_eq!(
        endpoints,
        ["10.88.0.2:8080 on far", "[fd00::2]:8080 on far"],
        "row 60"
    );
    assert!(plan.unserved.is_empty());
}

#[test]
fn without_endpoints_nobody_listens_and_the_kernel_refuses() {
    let mut none = service(&["10.96.0.10"]);
    none.endpoints.clear();
    let plan = plan_of(&[("web", none)], &config());
    assert!(plan.targets.is_empty(), "row 2");
    assert_eq!(
        plan.addresses.len(),
        1,
        "the address is this machine's, so that it answers at once"
    );
}

#[test]
fn what_is_not_proxied() {
    let mut headless = service(&[]);
    headless.kind = Kind::Headless;
    let mut elsewhere = service(&["10.96.0.11"]);
    elsewhere.other_proxy = true;
    let plan = plan_of(
        &[("headless", headless), ("elsewhere", elsewhere)],
        &config(),
    );
    assert_eq!(plan, Plan::default(), "rows 8, 10");
}

#[test]
fn addresses_that_no_service_may_have() {
    for address in [
        "192.0.2.5",
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "224.0.0.1",
        "169.254.169.254",
        "::1",
        "fe80::9",
    ] {
        let mut claims = service(&[]);
        claims.external_ips = vec![address.parse().unwrap()];
        let plan = plan_of(&[("web", claims)], &config());
        assert!(
            plan.addresses.is_empty() && plan.targets.is_empty(),
            "{address}"
        );
        let said = plan.unserved.first().unwrap();
        assert!(
            said.starts_with(&format!("Service shop/web claims {address}, which ")),
            "{said}"
        );
    }
}

#[test]
fn who_claims_what_another_has_does_not_get_it() {
    let mut claims = service(&["10.96.0.1"]);
    claims.external_ips = vec![[10, 96, 0, 10].into()];
    let plan = plan_of(
        &[("a", claims), ("web", service(&["10.96.0.10"]))],
        &config(),
    );
    assert_eq!(
        places(&plan),
        ["TCP 10.96.0.1:80 shop/a", "TCP 10.96.0.10:80 shop/web"]
    );
    let said = [
        "Service shop/a cannot listen on TCP 10.96.0.10:80, which Service shop/web uses".to_owned(),
    ];
    assert_eq!(plan.unserved, said.into());
}

#[test]
fn the_api_is_served_by_others_at_the_address_of_its_service() {
    let mut claims = service(&["10.96.0.10"]);
    claims.external_ips = vec![[10, 96, 0, 1].into()];
    let named =
        |namespace: &str, name: &str, service| ((namespace.to_owned(), name.to_owned()), service);
    let api = |namespace: &str| named(namespace, "kubernetes", service(&["10.96.0.1"]));
    let on = PlanConfig {
        serves_api: true,
        ..config()
    };
    let planned = |services: [_; 2], config: &PlanConfig| {
        plan(
            &Snapshot {
                services: services.into(),
                synced: true,
            },
            config,
        )
    };
    let with_api = planned([api("default"), named("shop", "a", claims.clone())], &on);
    assert_eq!(with_api.api, ["10.96.0.1:80".parse().unwrap()].into());
    assert_eq!(with_api.addresses.len(), 2);
    assert_eq!(places(&with_api), ["TCP 10.96.0.10:80 shop/a"]);
    let said = [
        "Service shop/a cannot listen on TCP 10.96.0.1:80, which Service default/kubernetes uses"
            .to_owned(),
    ];
    assert_eq!(with_api.unserved, said.into());
    for (namespace, config) in [("default", config()), ("shop", on)] {
        let without = planned(
            [api(namespace), named("shop", "a", claims.clone())],
            &config,
        );
        assert!(
            without.api.is_empty() && without.targets.len() == 2,
            "{namespace}"
        );
    }
}

#[test]
fn node_ports() {
    let mut web = service(&["10.96.0.10"]);
    web.ports[0].node_port = Some(30080);
    let mut config = config();
    let all = plan_of(&[("web", web.clone())], &config);
    let expected = [
        "TCP 10.96.0.10:80 shop/web",
        "TCP 127.0.0.1:30080 shop/web",
        "TCP 192.0.2.5:30080 shop/web",
    ];
    assert_eq!(
        places(&all),
        expected,
        "row 18, and of the Service's family only"
    );
    web.cluster_ips.push("fd00::a".parse().unwrap());
    let dual = plan_of(&[("web", web.clone())], &config);
    let dual = places(&dual);
    assert!(
        dual.contains(&"TCP [2001:db8::5]:30080 shop/web".to_owned()),
        "{dual:?}"
    );
    assert_eq!(
        dual.iter().filter(|place| place.contains("30080")).count(),
        3,
        "row 20: not at ::1: {dual:?}"
    );
    config.node_port_networks = vec![Network::parse("192.0.2.0/24").unwrap()];
    let few = places(&plan_of(&[("web", web)], &config));
    assert_eq!(
        few.iter().filter(|place| place.contains("30080")).count(),
        1,
        "row 19: {few:?}"
    );
}

#[test]
fn who_is_inside_gets_past_a_local_policy() {
    let mut web = service(&["10.96.0.10"]);
    (web.external_local, web.ports[0].node_port) = (true, Some(30080));
    web.external_ips = vec![[198, 51, 100, 7].into()];
    let plan = plan_of(&[("web", web)], &config());
    for place in ["192.0.2.5:30080", "198.51.100.7:80"] {
        let place = ListenAddress {
            protocol: Protocol::Tcp,
            address: place.parse().unwrap(),
        };
        let target = &plan.targets[&place];
        for (row, client, count) in [
            (27, [10, 88, 0, 9], 1),
            (28, [192, 0, 2, 5], 1),
            (28, [127, 0, 0, 1], 1),
            // of the machine itself the kernel gives the address that it asks
            (
                28,
                if place.address.ip() == IpAddr::from([198, 51, 100, 7]) {
                    [198, 51, 100, 7]
                } else {
                    [192, 0, 2, 5]
                },
                1,
            ),
            (4, [203, 0, 113, 9], 0),
        ] {
            assert_eq!(target.endpoints(client.into()).len(), count, "row {row}");
        }
    }
}

#[test]
fn what_has_the_address_of_an_own_pod_is_not_dialled_for_another_node() {
    let mut config = config();
    let near = ["10.99.0.0/24", "10.98.0.7/32"].map(|network| Network::parse(network).unwrap());
    config.local = Arc::new(LocalAddresses {
        interface_networks: near.into(),
        ..(*config.local).clone()
    });
    let mut service = service(&["10.96.0.10"]);
    let first = service.endpoints[0].clone();
    let with = |address: &str, node: &str| Endpoint {
        address: address.parse().unwrap(),
        node: Some(node.into()),
        ..first.clone()
    };
    service.endpoints = [
        "10.88.0.2",
        "10.99.0.2",
        "10.98.0.7",
        "10.98.0.8",
        "192.0.2.5",
        "192.0.2.6",
    ]
    .iter()
    .flat_map(|address| [with(address, "far"), with(address, "edge-1")])
    .collect();
    let plan = plan_of(&[("web", service)], &config);
    let target = plan.targets.values().next().unwrap();
    let direct: Vec<_> = target
        .for_local
        .iter()
        .filter(|at| target.destination(at).is_direct)
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        direct,
        [
            "10.88.0.2:8080",
            "10.99.0.2:8080",
            "10.98.0.7:8080",
            "10.98.0.8:8080 on far",
            "10.98.0.8:8080",
            "192.0.2.5:8080",
            "192.0.2.6:8080 on far",
            "192.0.2.6:8080",
        ]
    );
    assert_eq!(
        target.for_local.len(),
        12,
        "one address on two nodes is two endpoints"
    );
}

#[test]
fn a_load_balancers_source_ranges_are_kept() {
    let mut web = service(&["10.96.0.10"]);
    web.balancer_ips = vec![[198, 51, 100, 7].into()];
    web.external_ips = vec![[198, 51, 100, 8].into()];
    web.ports[0].node_port = Some(30080);
    web.source_ranges = vec![Network::parse("203.0.113.0/24").unwrap()];
    let count = |web: &Service, place: &str, client: [u8; 4]| {
        let plan = plan_of(&[("web", web.clone())], &config());
        let place = ListenAddress {
            protocol: Protocol::Tcp,
            address: place.parse().unwrap(),
        };
        plan.targets[&place].endpoints(client.into()).len()
    };
    assert_eq!(
        count(&web, "198.51.100.7:80", [203, 0, 113, 9]),
        1,
        "row 25"
    );
    for (place, other) in [
        ("198.51.100.7:80", 0),
        ("198.51.100.8:80", 1),
        ("192.0.2.5:30080", 1),
        ("10.96.0.10:80", 1),
    ] {
        for client in [[203, 0, 114, 9], [10, 88, 0, 9]] {
            assert_eq!(count(&web, place, client), other, "rows 21, 25: {place}");
        }
    }
    // the machine's own programs are asked for by the machine's addresses
    assert_eq!(count(&web, "198.51.100.7:80", [198, 51, 100, 7]), 0);
    web.source_ranges
        .push(Network::parse("192.0.2.0/24").unwrap());
    assert_eq!(count(&web, "198.51.100.7:80", [198, 51, 100, 7]), 1);
    web.source_ranges.push(Network::parse("0.0.0.0/0").unwrap());
    assert_eq!(
        count(&web, "198.51.100.7:80", [10, 88, 0, 9]),
        1,
        "row 25: everybody"
    );
}

#[test]
fn what_is_set_and_not_followed_is_told_by_name() {
    let mut web = service(&["10.96.0.10"]);
    web.unserved = vec!["has the port 9 of SCTP, which is not served on this node".into()];
    let plan = plan_of(&[("web", web)], &config());
    let said =
        ["Service shop/web has the port 9 of SCTP, which is not served on this node".to_owned()];
    assert_eq!(plan.unserved, said.into());
}

#[test]
fn external_addresses_are_served_where_that_is_configured_and_while_there_are_endpoints() {
    let mut claims = service(&[]);
    claims.external_ips = vec![[198, 51, 100, 7].into()];
    let mut config = config();
    config.external_networks = vec![Network::parse("198.51.100.0/24").unwrap()];
    let plan = plan_of(&[("web", claims.clone())], &config);
    assert_eq!(places(&plan), ["TCP 198.51.100.7:80 shop/web"], "row 17");
    let mut idle = claims.clone();
    idle.endpoints.clear();
    assert_eq!(
        plan_of(&[("web", idle)], &config),
        Plan::default(),
        "it is left to whom it belongs"
    );
    config.external_networks.clear();
    let plan = plan_of(&[("web", claims)], &config);
    assert!(plan.addresses.is_empty() && plan.targets.is_empty());
    let said = plan.unserved.first().unwrap();
    assert!(
        said.contains("shop/web claims 198.51.100.7") && said.contains("externalAddresses"),
        "{said}"
    );
}

#[test]
fn endpoints_that_no_pod_has() {
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        let mut web = service(&["10.96.0.10"]);
        web.endpoints[0].address = address.parse().unwrap();
        let plan = plan_of(&[("web", web)], &config());
        assert!(plan.targets.is_empty(), "{address}");
        let said = plan.unserved.first().unwrap();
        assert!(
            said.starts_with(&format!(
                "Service shop/web has the endpoint {address}:8080 on far, whose address no pod"
            )),
            "{said}"
        );
    }
}

#[test]
fn services_that_lead_to_services_have_no_such_endpoints() {
    let to = |own: &str, endpoint: &str, port: u16| {
        let mut service = service(&[own]);
        service.endpoints[0].address = endpoint.parse().unwrap();
        service.endpoints[0].ports = [((String::new(), Protocol::Tcp), port)].into();
        service
    };
    let mut node_port = to("10.96.0.4", "192.0.2.5", 30080);
    node_port.ports[0].node_port = Some(30080);
    let services = [
        ("itself", to("10.96.0.1", "10.96.0.1", 80)),
        ("there", to("10.96.0.2", "10.96.0.3", 80)),
        ("back", to("10.96.0.3", "10.96.0.2", 9)),
        ("node", node_port),
        ("host", to("10.96.0.5", "192.0.2.5", 8080)),
    ];
    let plan = plan_of(&services, &config());
    assert_eq!(
        places(&plan),
        ["TCP 10.96.0.5:80 shop/host"],
        "{:?}",
        plan.unserved
    );
    assert_eq!(plan.unserved.len(), 4, "{:?}", plan.unserved);
}

/// Follows a connection of `client` to a NodePort from agent to agent, whichever endpoint each chooses. The next agent sees the address
/// of this one, or its own where the connection comes over the relay.
fn follow(plans: &BTreeMap<IpAddr, Plan>, client: IpAddr, address: SocketAddr, agents: usize) {
    let Some(plan) = plans.get(&address.ip()) else {
        return;
    };
    let Some(target) = plan.targets.get(&ListenAddress {
        protocol: Protocol::Tcp,
        address,
    }) else {
        return;
    };
    let agents = agents + 1;
    assert!(
        agents <= 2,
        "a connection goes from agent to agent, the next is at {address}"
    );
    for endpoint in target.endpoints(client) {
        for seen in [address.ip(), endpoint.address.ip()] {
            follow(plans, seen, endpoint.address, agents);
        }
    }
}

#[test]
fn node_ports_of_nodes_that_lead_to_each_other_do_not_go_round() {
    let nodes: Vec<IpAddr> = ["192.0.2.5", "192.0.2.6", "192.0.2.7"]
        .map(|at| at.parse().unwrap())
        .into();
    let (stranger, pod) = (
        IpAddr::from([203, 0, 113, 9]),
        "10.88.0.2:30080".parse::<SocketAddr>().unwrap(),
    );
    let leads = |number: u16, to: &[(IpAddr, u16)]| {
        let mut service = service(&["10.96.0.10"]);
        service.ports[0].node_port = Some(number);
        let first = service.endpoints[0].clone();
        let to = to.iter().map(|(address, number)| Endpoint {
            address: *address,
            ports: [((String::new(), Protocol::Tcp), *number)].into(),
            ..first.clone()
        });
        service.endpoints = to.collect();
        service
    };
    let all: Vec<_> = nodes
        .iter()
        .map(|node| (*node, 30080))
        .chain([(pod.ip(), pod.port())])
        .collect();
    let ring = [
        ("a", leads(30081, &[(nodes[1], 30082)])),
        ("b", leads(30082, &[(nodes[2], 30083)])),
        ("c", leads(30083, &[(nodes[0], 30081)])),
    ];
    for services in [&[("all", leads(30080, &all))][..], &ring] {
        let plan_of = |node: &IpAddr| {
            let local = LocalAddresses {
                addresses: [*node].into(),
                ..(*config().local).clone()
            };
            (
                *node,
                plan_of(
                    services,
                    &PlanConfig {
                        local: Arc::new(local),
                        ..config()
                    },
                ),
            )
        };
        let plans: BTreeMap<_, _> = nodes.iter().map(plan_of).collect();
        for (node, number) in nodes
            .iter()
            .flat_map(|node| (30080..30084).map(move |number| (*node, number)))
        {
            follow(&plans, stranger, (node, number).into(), 0);
        }
        // an endpoint that only has the number of a NodePort goes on to be reached
        let listen = ListenAddress {
            protocol: Protocol::Tcp,
            address: (nodes[0], 30080).into(),
        };
        let target = plans[&nodes[0]].targets.get(&listen);
        let reached = |client| {
            target.map(|target| target.endpoints(client).iter().any(|at| at.address == pod))
        };
        assert!(reached(stranger) != Some(false));
    }
}
