//! Tests addresses that would lead a node to itself, to its link or around a check. The messages are Kubernetes'.

use serde_json::{Value, json};

use super::{creation_causes, update_causes};

const LOOPBACK: &str = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
const LINK_LOCAL: &str = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
const MULTICAST: &str = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";
const ZEROS: &str = "must not have leading 0s";
const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// Addresses with their faults; an empty text means that the address is accepted.
const CASES: [(&str, &str); 22] = [
    ("10.0.0.1", ""),
    ("8.8.8.8", ""),
    ("fd00::1", ""),
    // Kubernetes makes this mistake too.
    ("224.0.1.1", ""),
    ("ff05::1", ""),
    ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
    ("::", "may not be unspecified (::)"),
    (
        "0:0:0:0:0:0:0:0",
        "may not be unspecified (0:0:0:0:0:0:0:0)",
    ),
    ("127.0.0.1", LOOPBACK),
    ("127.9.9.9", LOOPBACK),
    ("::1", LOOPBACK),
    ("169.254.169.254", LINK_LOCAL),
    ("fe80::1", LINK_LOCAL),
    ("224.0.0.1", MULTICAST),
    ("ff02::1", MULTICAST),
    ("::ffff:127.0.0.1", MAPPED),
    ("::ffff:7f00:1", MAPPED),
    ("::ffff:10.0.0.1", MAPPED),
    ("127.0.0.01", ZEROS),
    ("banana", NO_ADDRESS),
    ("", NO_ADDRESS),
    ("fe80::1%eth0", NO_ADDRESS),
];

fn expected_causes(field: &str, address: &str, why: &str) -> Vec<String> {
    if why.is_empty() {
        Vec::new()
    } else {
        vec![format!("{field}: Invalid value: {address:?}: {why}")]
    }
}

fn endpoints(list: &str, address: &str) -> Value {
    json!({"metadata": {"name": "a"}, "subsets": [{list: [{"ip": address}]}]})
}

fn slice(kind: &str, address: &str) -> Value {
    json!({"metadata": {"name": "a"}, "addressType": kind, "endpoints": [{"addresses": [address]}]})
}

fn service(addresses: &[&str]) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "externalIPs": addresses}})
}

#[test]
fn no_address_leads_a_node_to_itself() {
    for (address, why) in CASES {
        for list in ["addresses", "notReadyAddresses"] {
            let field = format!("subsets[0].{list}[0].ip");
            assert_eq!(
                creation_causes("endpoints", endpoints(list, address)),
                expected_causes(&field, address, why)
            );
        }
        let kind = if address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        let field = "endpoints[0].addresses[0]";
        assert_eq!(
            creation_causes("endpointslices", slice(kind, address)),
            expected_causes(field, address, why)
        );
        let field = "spec.externalIPs[0]";
        assert_eq!(
            creation_causes("services", service(&[address])),
            expected_causes(field, address, why)
        );
    }
}

#[test]
fn an_address_is_of_the_family_of_its_slice() {
    let field = "endpoints[0].addresses[0]";
    for (kind, address, why) in [
        ("IPv4", "fd00::1", "must be an IPv4 address"),
        ("IPv6", "10.0.0.1", "must be an IPv6 address"),
        ("FQDN", "example.com", ""),
        ("FQDN", "example.com.", ""),
        (
            "FQDN",
            "localhost",
            "should be a domain with at least two segments separated by dots",
        ),
    ] {
        assert_eq!(
            creation_causes("endpointslices", slice(kind, address)),
            expected_causes(field, address, why)
        );
    }
    let both = creation_causes("endpointslices", slice("IPv4", "::1"));
    let texts = ["must be an IPv4 address", LOOPBACK];
    assert_eq!(
        both,
        texts.map(|why| format!("{field}: Invalid value: \"::1\": {why}"))
    );
    assert_eq!(
        creation_causes("endpointslices", slice("FQDN", "")),
        [format!("{field}: Required value")]
    );
    let why = "a lowercase RFC 1123 subdomain must consist of";
    assert!(creation_causes("endpointslices", slice("FQDN", "a_b.c"))[0].contains(why));
    let long = format!("{}.example.com", "a".repeat(64));
    assert!(
        creation_causes("endpointslices", slice("FQDN", &long))[0]
            .contains("must be no more than 63 bytes")
    );
}

#[test]
fn a_slice_has_a_bound() {
    let many = |count: usize| json!(vec![json!({"addresses": ["10.0.0.1"]}); count]);
    let of = |endpoints: Value| {
        creation_causes(
            "endpointslices",
            json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": endpoints}),
        )
    };
    assert!(of(many(1000)).is_empty());
    assert_eq!(
        of(many(1001)),
        ["endpoints: Too many: 1001: must have at most 1000 items"]
    );
    let addresses = json!([{"addresses": vec!["10.0.0.1"; 101]}]);
    assert_eq!(
        of(addresses),
        ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]
    );
}

/// Objects that were stored before can still be written: only new addresses are checked.
#[test]
fn what_was_stored_before_may_stay() {
    let labelled = |mut object: Value| {
        object["metadata"]["labels"] = json!({"a": "b"});
        object
    };
    let none = Vec::<String>::new();
    let bad = endpoints("addresses", "127.0.0.1");
    assert_eq!(
        update_causes("endpoints", bad.clone(), labelled(bad.clone())),
        none
    );
    assert_eq!(
        update_causes("endpoints", bad, endpoints("addresses", "::1")).len(),
        1
    );
    let bad = slice("IPv4", "127.0.0.1");
    assert_eq!(
        update_causes("endpointslices", bad.clone(), labelled(bad.clone())),
        none
    );
    assert_eq!(
        update_causes("endpointslices", bad, slice("IPv4", "127.0.0.2")).len(),
        1
    );
    let changed =
        |addresses: &[&str]| update_causes("services", service(&["127.0.0.1"]), service(addresses));
    assert_eq!(changed(&["192.0.2.1", "127.0.0.1"]), none);
    assert_eq!(
        changed(&["127.0.0.1", "::1"]),
        expected_causes("spec.externalIPs[1]", "::1", LOOPBACK)
    );
}

#[test]
fn a_load_balancers_addresses_are_addresses() {
    let with = |ingress: Value| {
        let mut service = service(&[]);
        service["spec"]["type"] = "LoadBalancer".into();
        service["status"] = json!({"loadBalancer": {"ingress": [ingress]}});
        service
    };
    let changed = |ingress: Value| update_causes("services", service(&[]), with(ingress));
    let field = |name: &str| format!("status.loadBalancer.ingress[0].{name}");
    for (ip, why) in [
        ("192.0.2.1", ""),
        ("::ffff:127.0.0.1", MAPPED),
        ("banana", NO_ADDRESS),
        ("", ""),
    ] {
        assert_eq!(
            changed(json!({"ip": ip})),
            expected_causes(&field("ip"), ip, why)
        );
    }
    let why = "must be a DNS name, not an IP address";
    for (name, why) in [
        ("example.com", ""),
        ("192.0.2.1", why),
        ("::ffff:192.0.2.1", why),
    ] {
        assert_eq!(
            changed(json!({"hostname": name})),
            expected_causes(&field("hostname"), name, why)
        );
    }
    let bad = with(json!({"ip": "banana"}));
    assert_eq!(
        update_causes("services", bad.clone(), bad),
        Vec::<String>::new()
    );
}
