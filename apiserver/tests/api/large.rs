//! Bodies as large as may be sent, each with many of one thing: what they cost grows with their size, and not with its square.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::world::{MAPS, PODS, WIDGETS, World, named_map, pod, widget};

/// What one of them may take, in a build without optimisation on a machine that does something else as well. With its square, each
/// takes minutes.
const LIMIT: Duration = Duration::from_secs(20);

/// So many values.
fn many(count: usize, value: impl Fn(usize) -> Value) -> Value {
    (0..count).map(value).collect()
}

/// A pod with this in the place of `field` of its spec.
fn pod_with(field: &str, value: Value) -> Value {
    let mut pod = pod("large");
    pod["spec"][field] = value;
    pod
}

/// A pod with this in the place of `field` of its container.
fn container_with(field: &str, value: Value) -> Value {
    let mut pod = pod("large");
    pod["spec"]["containers"][0][field] = value;
    pod
}

fn with_metadata(mut object: Value, field: &str, value: Value) -> Value {
    object["metadata"][field] = value;
    object
}

/// Requests, each with a body of up to three megabytes.
fn requests() -> Vec<(&'static str, String, Value)> {
    let name =
        |prefix: &'static str| move |number: usize| json!({"name": format!("{prefix}{number}")});
    let unknown: Map<_, _> = (0..100_000)
        .map(|number| (format!("unknown-{number}"), json!(1)))
        .collect();
    let create = format!("POST {PODS}");
    let volumes = many(
        20_000,
        |number| json!({"name": format!("v{number}"), "emptyDir": {}}),
    );
    let mounts = many(
        20_000,
        |number| json!({"name": format!("v{number}"), "mountPath": format!("/{number}")}),
    );
    let mut mounted = container_with("volumeMounts", mounts);
    mounted["spec"]["volumes"] = volumes.clone();
    let port = |number: usize| json!({"name": format!("p{number}"), "port": number % 60_000 + 1, "protocol": "TCP"});
    let container_port = |number: usize| json!({"name": format!("p{number}"), "containerPort": number % 60_000 + 1, "hostPort": number % 60_000 + 1});
    let owner = |number: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": number.to_string()});
    let toleration = |number: usize| json!({"key": format!("k{number}"), "operator": "Exists"});
    let taint = |number: usize| json!({"key": format!("k{number}"), "effect": "NoSchedule"});
    let mut node = named_map("large");
    node["spec"] = json!({"taints": many(40_000, taint)});
    let service = json!({
        "metadata": {"name": "large"},
        "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": many(30_000, port)},
    });
    let services = "/api/v1/namespaces/default/services".to_owned();
    let balancer = |ports: usize| {
        let port = |number: usize| json!({"name": format!("q{number}"), "port": number + 1, "protocol": "TCP"});
        let ports = many(ports, port);
        json!({"metadata": {"name": "balancer"}, "spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "selector": {"a": "b"}, "ports": ports,
        }})
    };
    let data: Map<_, _> = (0..80_000)
        .map(|number| (format!("k{number}"), json!("v")))
        .collect();
    let labels: Map<_, _> = (0..80_000)
        .map(|number| (format!("k{number}"), json!("v")))
        .collect();
    vec![
        ("volumes", create.clone(), pod_with("volumes", volumes)),
        ("mounts", create.clone(), mounted),
        (
            "containers",
            create.clone(),
            pod_with(
                "containers",
                many(20_000, |n| json!({"name": format!("c{n}"), "image": "a"})),
            ),
        ),
        (
            "ports",
            create.clone(),
            container_with("ports", many(20_000, container_port)),
        ),
        (
            "variables",
            create.clone(),
            container_with("env", many(60_000, name("E"))),
        ),
        (
            "tolerations",
            create.clone(),
            pod_with("tolerations", many(40_000, toleration)),
        ),
        (
            "pull secrets",
            create.clone(),
            pod_with("imagePullSecrets", many(80_000, name("s"))),
        ),
        ("unknown fields", create.clone(), {
            let mut pod = pod("large");
            pod["spec"].as_object_mut().unwrap().extend(unknown.clone());
            pod
        }),
        (
            "unknown fields of a custom resource",
            format!("POST {WIDGETS}"),
            {
                let mut widget = widget("large", 1);
                widget["spec"]
                    .as_object_mut()
                    .unwrap()
                    .extend(unknown.clone());
                widget
            },
        ),
        (
            "service ports",
            "POST /api/v1/namespaces/default/services".into(),
            service,
        ),
        ("taints", "POST /api/v1/nodes".into(), node),
        (
            "keys",
            format!("POST {MAPS}"),
            json!({"metadata": {"name": "large"}, "data": data.clone()}),
        ),
        (
            "labels",
            format!("POST {MAPS}"),
            with_metadata(named_map("large"), "labels", labels.into()),
        ),
        (
            "finalizers",
            format!("POST {MAPS}"),
            with_metadata(
                named_map("large"),
                "finalizers",
                many(60_000, |n| json!(format!("a.b/{n}"))),
            ),
        ),
        (
            "owners",
            format!("POST {MAPS}"),
            with_metadata(named_map("large"), "ownerReferences", many(30_000, owner)),
        ),
        (
            "applied keys",
            format!("APPLY {MAPS}/applied?fieldManager=a"),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data,
            }),
        ),
        (
            "applied finalizers",
            format!("APPLY {MAPS}/applied?fieldManager=b"),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "applied", "finalizers": many(40_000, |n| json!(format!("a.b/{n}")))},
            }),
        ),
        (
            "applied volumes",
            format!("APPLY {PODS}/applied?fieldManager=a"),
            {
                let mut pod = pod_with(
                    "volumes",
                    many(15_000, |n| json!({"name": format!("v{n}"), "emptyDir": {}})),
                );
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                pod["metadata"]["name"] = json!("applied");
                pod
            },
        ),
        (
            "merged finalizers",
            format!("STRATEGIC {MAPS}/there"),
            with_metadata(
                json!({}),
                "finalizers",
                many(60_000, |n| json!(format!("a.b/{n}"))),
            ),
        ),
        (
            "removed finalizers",
            format!("STRATEGIC {MAPS}/there"),
            with_metadata(
                json!({}),
                "$deleteFromPrimitiveList/finalizers",
                many(60_000, |n| json!(format!("a.b/{n}"))),
            ),
        ),
        (
            "changed tolerations",
            format!("STRATEGIC {PODS}/there"),
            json!({"spec": {"tolerations": many(40_000, toleration)}}),
        ),
        (
            "an unordered list",
            format!("STRATEGIC {PODS}/there"),
            json!({"spec": {"$setElementOrder/volumes": many(40_000, name("v"))}}),
        ),
        (
            "operations",
            format!("JSON {MAPS}/there"),
            many(
                10_000,
                |n| json!({"op": "add", "path": format!("/data/k{n}"), "value": "v"}),
            ),
        ),
        (
            "operations that shift a long list",
            format!("JSON {MAPS}/there"),
            {
                let list = json!({"op": "add", "path": "/list", "value": vec![0; 1_000_000]});
                let shift = |n: usize| {
                    if n == 0 {
                        list.clone()
                    } else {
                        json!({"op": "remove", "path": "/list/0"})
                    }
                };
                many(10_000, shift)
            },
        ),
        ("keys of texts and of bytes", format!("POST {MAPS}"), {
            let binary: Map<_, _> = (0..60_000)
                .map(|number| (format!("b{number}"), json!("")))
                .collect();
            let data: Map<_, _> = (0..60_000)
                .map(|number| (format!("d{number}"), json!("")))
                .collect();
            json!({"metadata": {"name": "both"}, "data": data, "binaryData": binary})
        }),
        ("settings of the kernel", create.clone(), {
            let sysctls = many(60_000, |n| json!({"name": format!("a.b{n}"), "value": "1"}));
            pod_with("securityContext", json!({"sysctls": sysctls}))
        }),
        (
            "ports of a balancer",
            format!("POST {services}"),
            balancer(1_000),
        ),
        (
            "the same ports again",
            format!("MERGE {services}/balancer"),
            balancer(1_000),
        ),
        (
            "a selector",
            format!(
                "GET {MAPS}?labelSelector={}",
                (0..8_000)
                    .map(|n| format!("k{n}"))
                    .collect::<Vec<_>>()
                    .join(",")
            ),
            Value::Null,
        ),
    ]
}

#[tokio::test]
async fn what_a_large_body_costs_grows_with_its_size() {
    let world = World::new().await;
    world
        .create(
            MAPS,
            json!({"metadata": {"name": "there"}, "data": {"a": "b"}}),
        )
        .await;
    world.create(PODS, pod("there")).await;
    let mut slow = Vec::new();
    for (what, request, body) in requests() {
        assert!(
            body.to_string().len() < 3 << 20,
            "{what}: {}",
            body.to_string().len()
        );
        let begun = Instant::now();
        let answer = world.send(&request, body).await;
        let took = begun.elapsed();
        println!("{what}: {} in {took:?}", answer.code);
        assert!(
            answer.code != 400 && answer.code != 404,
            "{what}: {}",
            answer.body
        );
        let head: usize = answer
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        assert!(head < 16 * 1024, "{what}: {head} bytes of headers");
        if took > LIMIT {
            slow.push(format!("{what}: {took:?}"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}
