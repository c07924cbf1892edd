//! Tests of [`super`]: the fields. What is given out is tested through the API.

use serde_json::json;

use super::{
    fields::{carry, families, held_claims},
    ranges::{Claim, addresses, ports, refuses_address, refuses_port},
};

#[test]
fn everything_in_the_ranges_can_be_given_out_and_nothing_else() {
    assert_eq!(addresses().count(), 65_534);
    assert_eq!(ports().count(), 2_768);
    assert_eq!(
        addresses().next(),
        Some(Claim::Address([10, 96, 1, 0].into()))
    );
    assert_eq!(ports().next(), Some(Claim::Port(30_086)));
    let can = |text: &str| refuses_address(text).is_none();
    assert!(can("10.96.0.1") && can("10.96.255.254"));
    assert!(
        !can("10.96.0.0")
            && !can("10.96.255.255")
            && !can("10.95.255.255")
            && !can("10.97.0.1")
            && !can("::1")
    );
    assert!(refuses_port(30_000).is_none() && refuses_port(32_767).is_none());
    assert!(
        refuses_port(29_999).is_some()
            && refuses_port(32_768).is_some()
            && refuses_port(-1).is_some()
    );
}

#[test]
fn an_update_keeps_what_was_given_and_drops_what_the_new_type_has_no_use_for() {
    let old = json!({"spec": {
        "type": "NodePort", "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster",
        "ports": [{"name": "a", "port": 80, "protocol": "TCP", "nodePort": 30_100}],
    }});
    let mut new = json!({"spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]}});
    carry(&old, &mut new);
    assert_eq!(new["spec"]["clusterIP"], "10.96.1.1");
    assert_eq!(
        new["spec"]["ports"],
        json!([{"port": 80, "nodePort": 30_100}, {"port": 81}])
    );
    let mut new = old.clone();
    new["spec"]["type"] = json!("ClusterIP");
    carry(&old, &mut new);
    assert_eq!(held_claims(&new).len(), 1);
    assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(new["spec"].get("externalTrafficPolicy"), None);
    let mut new = old.clone();
    new["spec"]["type"] = json!("ExternalName");
    carry(&old, &mut new);
    assert!(held_claims(&new).is_empty());
    assert_eq!(new["spec"].get("clusterIP"), None);
}

#[test]
fn a_service_has_the_families_of_the_cluster() {
    let after = |mut spec: serde_json::Value| {
        let causes = families(spec.as_object_mut().unwrap());
        (
            causes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            spec,
        )
    };
    let (causes, spec) = after(json!({"selector": {"a": "b"}}));
    assert!(causes.is_empty());
    assert_eq!(
        (&spec["ipFamilies"], &spec["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );
    let (_, spec) = after(json!({"clusterIP": "None"}));
    assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(
        after(json!({"type": "ExternalName"})).1,
        json!({"type": "ExternalName"})
    );
    let (causes, _) = after(json!({"ipFamilies": ["IPv6"]}));
    assert_eq!(
        causes,
        ["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"]
    );
    let (causes, _) = after(json!({"ipFamilyPolicy": "RequireDualStack"}));
    assert!(
        causes[0].contains("this cluster is not configured for dual-stack services"),
        "{causes:?}"
    );
}
