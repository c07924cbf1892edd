//! Addresses and ports that the server gives to services.

use std::{collections::BTreeSet, net::Ipv4Addr};

use objectstore::SqliteStore;
use serde_json::{Value, json};

use super::world::{World, refusal};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, mut spec: Value) -> Value {
    if spec.get("ports").is_none() && spec["type"] != "ExternalName" {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn web(mut spec: Value) -> Value {
    spec["selector"] = json!({"app": "web"});
    spec
}

fn address(service: &Value) -> Ipv4Addr {
    service["spec"]["clusterIP"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn node_port(service: &Value) -> i64 {
    service["spec"]["ports"][0]["nodePort"]
        .as_i64()
        .unwrap_or_default()
}

#[tokio::test]
async fn each_service_gets_an_address_of_its_own() {
    let world = World::new().await;
    let made = world.create(SERVICES, service("a", web(json!({})))).await;
    let ip = address(&made);
    assert_eq!(ip.octets()[..2], [10, 96]);
    let expected = json!({
        "clusterIPs": [ip.to_string()], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
    });
    world
        .expect(
            &format!("GET {SERVICES}/a"),
            Value::Null,
            200,
            json!({"spec": expected}),
        )
        .await;
    let rows = [
        (
            "none",
            web(json!({"clusterIP": "None"})),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "SingleStack"}),
        ),
        (
            "free",
            json!({"clusterIP": "None"}),
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
        ),
        (
            "name",
            json!({"type": "ExternalName", "externalName": "a.example"}),
            json!({"clusterIP": null, "clusterIPs": null, "ipFamilies": null}),
        ),
        (
            "mine",
            json!({"clusterIP": "10.96.0.10"}),
            json!({"clusterIPs": ["10.96.0.10"]}),
        ),
        (
            "mine-too",
            json!({"clusterIPs": ["10.96.0.11"]}),
            json!({"clusterIP": "10.96.0.11"}),
        ),
    ];
    for (name, spec, expected) in rows {
        world
            .expect(
                &format!("POST {SERVICES}"),
                service(name, spec),
                201,
                json!({"spec": expected}),
            )
            .await;
    }
    let taken = "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: failed to allocate IP 10.96.0.10: provided IP is already allocated";
    let outside = "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"192.168.1.1\"]: failed to allocate IP 192.168.1.1: the provided IP (192.168.1.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16";
    let create = format!("POST {SERVICES}");
    for (ip, message) in [("10.96.0.10", taken), ("192.168.1.1", outside)] {
        let wanted = service("b", json!({"clusterIP": ip}));
        world
            .expect(&create, wanted.clone(), 422, refusal("Invalid", message))
            .await;
        world
            .expect(&format!("{create}?dryRun=All"), wanted, 422, json!({}))
            .await;
    }
}

#[tokio::test]
async fn an_address_is_free_again_when_its_service_is_gone() {
    let world = World::new().await;
    let create = format!("POST {SERVICES}");
    let mine = |name: &str| {
        service(
            name,
            json!({"clusterIP": "10.96.0.10", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30_001}]}),
        )
    };
    // what was only tried is nobody's
    world
        .expect(
            &format!("{create}?dryRun=All"),
            mine("tried"),
            201,
            json!({}),
        )
        .await;
    world.create(SERVICES, mine("a")).await;
    world.expect(&create, mine("b"), 422, json!({})).await;
    world
        .expect(
            &format!("DELETE {SERVICES}/a?dryRun=All"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    world.expect(&create, mine("b"), 422, json!({})).await;
    world
        .expect(&format!("DELETE {SERVICES}/a"), Value::Null, 200, json!({}))
        .await;
    world.create(SERVICES, mine("b")).await;
    // also of one that waits for a finalizer, but not before that is gone
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    world
        .expect(
            &format!("MERGE {SERVICES}/b"),
            finalizers(json!(["example.com/f"])),
            200,
            json!({}),
        )
        .await;
    world
        .expect(&format!("DELETE {SERVICES}/b"), Value::Null, 200, json!({}))
        .await;
    world.expect(&create, mine("c"), 422, json!({})).await;
    world
        .expect(
            &format!("MERGE {SERVICES}/b"),
            finalizers(json!([])),
            200,
            json!({}),
        )
        .await;
    world.create(SERVICES, mine("c")).await;
}

#[tokio::test]
async fn updates_keep_what_was_given_unless_the_type_changes() {
    let world = World::new().await;
    let made = world.create(SERVICES, service("a", json!({}))).await;
    let (ip, path) = (address(&made).to_string(), format!("{SERVICES}/a"));
    world
        .expect(
            &format!("PUT {path}"),
            service("a", json!({"type": "NodePort"})),
            200,
            json!({"spec": {"clusterIP": ip}}),
        )
        .await;
    let given = node_port(&world.get(&path).await);
    assert!((30_000..=32_767).contains(&given));
    world
        .expect(
            &format!("PUT {path}"),
            service("a", json!({"type": "NodePort"})),
            200,
            json!({"spec": {"ports": [{"nodePort": given}]}}),
        )
        .await;
    let message = "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.96.0.77\"]: may not change once set";
    world
        .expect(
            &format!("MERGE {path}"),
            json!({"spec": {"clusterIP": "10.96.0.77"}}),
            422,
            refusal("Invalid", message),
        )
        .await;
    world
        .expect(
            &format!("MERGE {path}"),
            json!({"spec": {"type": "ClusterIP"}}),
            200,
            json!({"spec": {"ports": [{"nodePort": null}]}}),
        )
        .await;
    // its port is another's now
    let other = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": given}]});
    world.create(SERVICES, service("b", other)).await;
    let named = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    world
        .expect(
            &format!("MERGE {path}"),
            named,
            200,
            json!({"spec": {"clusterIP": null, "clusterIPs": null}}),
        )
        .await;
    world
        .create(SERVICES, service("c", json!({"clusterIP": ip})))
        .await;
    world
        .expect(
            &format!("MERGE {path}"),
            json!({"spec": {"type": "ClusterIP", "externalName": null}}),
            200,
            json!({}),
        )
        .await;
    assert_ne!(address(&world.get(&path).await).to_string(), ip);
}

#[tokio::test]
async fn ports_of_nodes_are_given_once() {
    let world = World::new().await;
    let spec = json!({"type": "LoadBalancer", "ports": [
        {"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53}, {"name": "c", "port": 80, "nodePort": 30_080},
    ]});
    let made = world.create(SERVICES, service("a", spec)).await;
    let ports = made["spec"]["ports"].as_array().unwrap();
    assert_eq!(
        ports[0]["nodePort"], ports[1]["nodePort"],
        "one number for both protocols"
    );
    assert_eq!(ports[2]["nodePort"], 30_080);
    let none = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    assert_eq!(
        node_port(&world.create(SERVICES, service("none", none)).await),
        0
    );
    let rows = [
        (30_080, "provided port is already allocated"),
        (
            80,
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
    ];
    for (port, why) in rows {
        let message = format!(
            "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {why}"
        );
        let wanted = service(
            "b",
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}),
        );
        world
            .expect(
                &format!("POST {SERVICES}"),
                wanted,
                422,
                refusal("Invalid", &message),
            )
            .await;
    }
    let inside = service("b", json!({"ports": [{"port": 80, "nodePort": 30_099}]}));
    let message = "Service \"b\" is invalid: spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'";
    world
        .expect(
            &format!("POST {SERVICES}"),
            inside,
            422,
            refusal("Invalid", message),
        )
        .await;
}

#[tokio::test]
async fn what_was_given_is_remembered_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let open = async || SqliteStore::open(&path).await.unwrap();
    let first = World::over(open().await).await;
    first
        .create(SERVICES, service("a", json!({"clusterIP": "10.96.0.10"})))
        .await;
    drop(first);
    let api = apiserver::builder(open().await).build();
    let second = World::around(api);
    let wanted = service("b", json!({"clusterIP": "10.96.0.10"}));
    second
        .expect(&format!("POST {SERVICES}"), wanted.clone(), 422, json!({}))
        .await;
    second
        .expect(&format!("DELETE {SERVICES}/a"), Value::Null, 200, json!({}))
        .await;
    second.create(SERVICES, wanted).await;
}

#[tokio::test]
async fn many_at_the_same_time_get_different_ones() {
    let world = World::new().await;
    let made = (0..200).map(|number| {
        let world = &world;
        async move {
            world
                .create(
                    SERVICES,
                    service(&format!("s{number}"), json!({"type": "NodePort"})),
                )
                .await
        }
    });
    let made = futures::future::join_all(made).await;
    let addresses: BTreeSet<_> = made.iter().map(address).collect();
    let ports: BTreeSet<_> = made.iter().map(node_port).collect();
    assert_eq!((addresses.len(), ports.len()), (200, 200));
    // of those who ask for the same, one has it
    let asking = (0..20).map(|number| {
        let (world, create) = (&world, format!("POST {SERVICES}"));
        async move {
            world
                .send(
                    &create,
                    service(&format!("t{number}"), json!({"clusterIP": "10.96.0.10"})),
                )
                .await
        }
    });
    let answers = futures::future::join_all(asking).await;
    assert_eq!(
        answers.iter().filter(|answer| answer.code == 201).count(),
        1
    );
    assert_eq!(
        answers.iter().filter(|answer| answer.code == 422).count(),
        19
    );
}

#[tokio::test]
async fn a_cache_gives_nothing() {
    let world = World::relay();
    let made = world
        .create(SERVICES, service("a", json!({"type": "NodePort"})))
        .await;
    assert_eq!(
        (&made["spec"]["clusterIP"], node_port(&made)),
        (&Value::Null, 0)
    );
}
