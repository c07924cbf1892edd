//! The rows of kube-proxy's documented behaviour that are about which objects count, each by what comes of it.

use serde_json::{Value, json};

use super::*;

/// A Service `shop/web` of type ClusterIP with one port, changed as `more` says.
fn service(more: Value) -> core::Service {
    let mut service = json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ports": [{"port": 80, "targetPort": 8080}]},
    });
    merge(&mut service, more);
    serde_json::from_value(service).unwrap()
}

/// A slice of it with one endpoint, changed as `more` says.
fn slice(name: &str, more: Value) -> EndpointSlice {
    let mut slice = json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {SERVICE_NAME: "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.88.0.2"]}],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    });
    merge(&mut slice, more);
    serde_json::from_value(slice).unwrap()
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter()
                .for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, more) => *into = more,
    }
}

fn web(services: &[core::Service], slices: &[EndpointSlice]) -> Service {
    let snapshot = snapshot(services, slices, &EdgeMesh::default());
    snapshot.services[&("shop".to_owned(), "web".to_owned())].clone()
}

/// The addresses and ports of all endpoints for the port of this name.
fn reachable(service: &Service, port: &str) -> Vec<String> {
    let name = (port.to_owned(), Protocol::Tcp);
    let of = |endpoint: &Endpoint| {
        endpoint
            .ports
            .get(&name)
            .map(|port| format!("{}:{port}", endpoint.address))
    };
    service.endpoints.iter().filter_map(of).collect()
}

#[test]
fn which_services_are_proxied() {
    let labelled = |label: &str| json!({"metadata": {"labels": {label: ""}}});
    for (row, more, kind, elsewhere) in [
        (1, json!({}), Kind::Proxied, false),
        (
            8,
            json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            Kind::Headless,
            false,
        ),
        (
            9,
            json!({"spec": {"type": "ExternalName", "externalName": "db.example"}}),
            Kind::ExternalName("db.example".into()),
            false,
        ),
        (10, labelled(OTHER_PROXY), Kind::Proxied, true),
        (10, labelled(EDGEMESH_PROXY), Kind::Proxied, true),
    ] {
        let is_proxied = kind == Kind::Proxied;
        let read = web(&[service(more)], &[]);
        assert_eq!(
            (read.kind, read.other_proxy),
            (kind, elsewhere),
            "row {row}"
        );
        assert_eq!(read.cluster_ips.is_empty(), !is_proxied, "row {row}");
    }
    let only = EdgeMesh {
        filter: ServiceFilter::Only,
        ..EdgeMesh::default()
    };
    let elsewhere = |more| {
        let services = [service(more)];
        snapshot(&services, &[], &only)
            .services
            .into_values()
            .next()
            .unwrap()
            .other_proxy
    };
    assert!(elsewhere(json!({})) && !elsewhere(labelled(EDGEMESH_PROXY)));
}

#[test]
fn what_a_service_says_of_itself() {
    let plain = web(&[service(json!({}))], &[]);
    assert_eq!(plain.cluster_ips, [IpAddr::from([10, 96, 0, 10])]);
    assert_eq!(
        plain.ports,
        [Port {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: None
        }]
    );
    // rows 30, 31, 49: what counts where nothing is said
    assert_eq!(
        (plain.affinity, plain.internal_local, plain.external_local),
        (None, false, false)
    );
    let affine = |config: Value| {
        web(
            &[service(
                json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}}),
            )],
            &[],
        )
        .affinity
    };
    // row 50
    assert_eq!(affine(Value::Null), Some(Duration::from_secs(10_800)));
    assert_eq!(
        affine(json!({"clientIP": {"timeoutSeconds": 7}})),
        Some(Duration::from_secs(7))
    );
    assert_eq!(
        affine(json!({"clientIP": {"timeoutSeconds": 86_401}})),
        Some(DEFAULT_AFFINITY)
    );
    let full = web(
        &[service(json!({
            "spec": {
                "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local", "externalIPs": ["198.51.100.7"],
                "clusterIPs": ["10.96.0.10", "fd00::a"], "healthCheckNodePort": 32000,
                "loadBalancerSourceRanges": ["203.0.113.0/24", " ::/0 "],
                "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}, {"name": "s", "port": 9, "protocol": "SCTP"}],
            },
            // rows 23, 24
            "status": {"loadBalancer": {"ingress": [
                {"ip": "203.0.113.1"}, {"ip": "203.0.113.2", "ipMode": "VIP"}, {"ip": "203.0.113.3", "ipMode": "Proxy"}, {"hostname": "lb.example"}
            ]}},
        }))],
        &[],
    );
    assert!(full.internal_local && full.external_local);
    assert_eq!(full.cluster_ips.len(), 2);
    assert_eq!(full.external_ips, [IpAddr::from([198, 51, 100, 7])]);
    assert_eq!(
        full.balancer_ips,
        [[203, 0, 113, 1], [203, 0, 113, 2]].map(IpAddr::from)
    );
    assert_eq!(
        full.source_ranges,
        ["203.0.113.0/24", "::/0"].map(|range| Network::parse(range).unwrap())
    );
    // rows 62, 67
    let unserved = [
        "has the port 9 of SCTP",
        "has the healthCheckNodePort 32000",
    ];
    assert_eq!(full.unserved.len(), unserved.len());
    for (said, wanted) in full.unserved.iter().zip(unserved) {
        assert!(said.starts_with(wanted), "{said}");
    }
    let dns = Port {
        name: "dns".into(),
        protocol: Protocol::Udp,
        port: 53,
        node_port: Some(30053),
    };
    assert_eq!(full.ports, [dns]);
}

#[test]
fn which_slices_count() {
    let dual = |name: &str| {
        slice(
            name,
            json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::2"]}]}),
        )
    };
    for (row, more, expected) in [
        (59, json!({}), vec!["10.88.0.2:8080"]),
        (11, json!({"metadata": {"labels": {HEADLESS: ""}}}), vec![]),
        (
            54,
            json!({"ports": [{"name": "http", "port": 8080}]}),
            vec![],
        ),
        (56, json!({"ports": [{"port": 8080}]}), vec![]),
        (
            56,
            json!({"ports": [{"name": "", "port": 0}, {"name": ""}]}),
            vec![],
        ),
        (
            58,
            json!({"endpoints": [{"addresses": ["10.88.0.2", "10.88.0.3"]}]}),
            vec!["10.88.0.2:8080"],
        ),
        (
            60,
            json!({"endpoints": [{"addresses": ["fd00::2"]}]}),
            vec![],
        ),
        (
            60,
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["db.example"]}]}),
            vec![],
        ),
        (54, json!({"metadata": {"namespace": "other"}}), vec![]),
        (
            54,
            json!({"metadata": {"labels": {SERVICE_NAME: "other"}}}),
            vec![],
        ),
    ] {
        let read = web(&[service(json!({}))], &[slice("a", more)]);
        assert_eq!(reachable(&read, ""), expected, "row {row}");
    }
    let both = web(&[service(json!({}))], &[slice("a", json!({})), dual("b")]);
    assert_eq!(
        reachable(&both, ""),
        ["10.88.0.2:8080", "fd00::2:8080"],
        "row 60"
    );
    let headless = service(json!({"spec": {"clusterIP": "None"}}));
    let read = web(
        &[headless],
        &[slice("a", json!({"metadata": {"labels": {HEADLESS: ""}}}))],
    );
    assert_eq!(read.endpoints.len(), 1, "DNS names them");
}

#[test]
fn slices_of_one_service_are_joined() {
    let with_port = |name: &str, address: &str, port: u16| {
        let more =
            json!({"endpoints": [{"addresses": [address]}], "ports": [{"name": "", "port": port}]});
        slice(name, more)
    };
    let named = web(
        &[service(json!({}))],
        &[
            with_port("a", "10.88.0.2", 8080),
            with_port("b", "10.88.0.3", 9090),
        ],
    );
    assert_eq!(
        reachable(&named, ""),
        ["10.88.0.2:8080", "10.88.0.3:9090"],
        "row 55"
    );
    let twice = web(
        &[service(json!({}))],
        &[
            with_port("a", "10.88.0.2", 8080),
            with_port("b", "10.88.0.2", 9090),
        ],
    );
    assert_eq!(
        reachable(&twice, ""),
        ["10.88.0.2:8080", "10.88.0.2:9090"],
        "one name, two numbers"
    );
    let ending = json!({"endpoints": [{"addresses": ["10.88.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}}]});
    for order in [["a", "b"], ["b", "a"]] {
        let slices = [slice(order[0], ending.clone()), slice(order[1], json!({}))];
        let read = web(&[service(json!({}))], &slices);
        assert_eq!(read.endpoints.len(), 1, "row 57");
        assert!(
            read.endpoints[0].ready && !read.endpoints[0].terminating,
            "row 57: {order:?}"
        );
    }
}

#[test]
fn how_endpoints_are() {
    for (row, conditions, expected) in [
        (43, json!(null), (true, true, false)),
        (43, json!({"ready": false}), (false, false, false)),
        (
            41,
            json!({"ready": false, "serving": true, "terminating": true}),
            (false, true, true),
        ),
        (
            44,
            json!({"ready": true, "serving": false, "terminating": true}),
            (true, false, true),
        ),
    ] {
        let more = json!({"endpoints": [{"addresses": ["10.88.0.2"], "conditions": conditions, "nodeName": "edge-1", "hostname": "",
            "hints": {"forZones": [{"name": "z1"}], "forNodes": [{"name": "edge-1"}]}}]});
        let read = web(&[service(json!({}))], &[slice("a", more)])
            .endpoints
            .remove(0);
        assert_eq!(
            (read.ready, read.serving, read.terminating),
            expected,
            "row {row}"
        );
        assert_eq!(
            (read.node.as_deref(), read.hostname),
            (Some("edge-1"), None)
        );
        assert_eq!(
            (read.for_zones, read.for_nodes),
            (vec!["z1".into()], vec!["edge-1".into()])
        );
    }
}

#[test]
fn one_address_on_two_nodes_is_two_endpoints() {
    let on = |nodes: &[Option<&str>]| {
        let of = |node: &Option<&str>| json!({"addresses": ["10.88.0.2"], "nodeName": node});
        let slice = slice(
            "a",
            json!({"endpoints": nodes.iter().map(of).collect::<Vec<_>>()}),
        );
        let web = web(&[service(json!({}))], &[slice]);
        web.endpoints
            .into_iter()
            .map(|endpoint| endpoint.node)
            .collect::<Vec<_>>()
    };
    let (one, two) = (Some("edge-1"), Some("edge-2"));
    assert_eq!(
        on(&[one, two]),
        [one.map(str::to_owned), two.map(str::to_owned)]
    );
    assert_eq!(on(&[one, one, None]), [one.map(str::to_owned)]);
}

#[test]
fn an_address_is_the_same_however_it_is_written() {
    let mapped =
        json!({"spec": {"externalIPs": ["::ffff:127.0.0.1", "::ffff:192.0.2.5", "banana"]}});
    let read = web(&[service(mapped)], &[]);
    assert_eq!(
        read.external_ips,
        [[127, 0, 0, 1], [192, 0, 2, 5]].map(IpAddr::from)
    );
    let six = json!({"addressType": "IPv6", "endpoints": [{"addresses": ["::ffff:10.88.0.2"]}]});
    assert!(
        web(&[service(json!({}))], &[slice("six", six)])
            .endpoints
            .is_empty(),
        "it is no address of IPv6"
    );
}
