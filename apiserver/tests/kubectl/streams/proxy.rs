//! HTTP to nodes, pods and services.

use kube::api::PostParams;
use serde_json::json;

use super::{pod, world};

const NAMESPACE: &str = "/api/v1/namespaces/default";

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_services_are_reached_by_their_ports() {
    let (world, node) = world().await;
    pod(&world, "away", "edge-2", &["c"]).await;
    let core = |kind: &str, spec: serde_json::Value| {
        let object =
            json!({"kind": kind, "apiVersion": "v1", "metadata": {"name": "s"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    };
    let ports = json!({"ports": [{"name": "web", "port": 8000, "targetPort": 80}, {"name": "idle", "port": 1}]});
    let services =
        kube::Api::<k8s_openapi::api::core::v1::Service>::default_namespaced(world.client.clone());
    services
        .create(&PostParams::default(), &core("Service", ports))
        .await
        .unwrap();
    let endpoint = |name: &str, ready: bool| json!({"addresses": ["192.0.2.1"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": name}});
    let slice = json!({
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
        "ports": [{"name": "web", "port": 80}], "endpoints": [endpoint("p", true), endpoint("away", false)],
    });
    let slice = serde_json::from_value(slice).unwrap();
    let slices = kube::Api::<k8s_openapi::api::discovery::v1::EndpointSlice>::default_namespaced(
        world.client.clone(),
    );
    slices.create(&PostParams::default(), &slice).await.unwrap();
    for path in [
        "pods/p/proxy",
        "pods/http:p:80/proxy",
        "services/s:web/proxy",
        "services/s:8000/proxy",
        "pods/https:p:443/proxy",
    ] {
        let said = world
            .kubectl(&format!("get --raw {NAMESPACE}/{path}/a%20b/?c=d%26e"))
            .await;
        assert!(said.starts_with("GET /a%20b/?c=d%26e\n"), "{path}: {said}");
        assert!(
            said.contains(&format!("x-forwarded-uri: {NAMESPACE}/{path}/a%20b/\n")),
            "{said}"
        );
        assert!(!said.contains("authorization"), "{said}");
    }
    // the answer of a pod is the pod's
    let json = format!("get --raw {NAMESPACE}/pods/p/proxy/json?pretty=true");
    assert_eq!(world.kubectl(&json).await.trim_end(), "{\"a\":1}");
    assert!(
        node.requests()
            .iter()
            .all(|asked| asked == "edge-1 POST /portForward/default/p"),
        "{:?}",
        node.requests()
    );
    for (path, expected) in [
        (
            "pods/p:81/proxy/",
            "error trying to reach service: connection refused",
        ),
        ("pods/away/proxy/", "node \"edge-2\" has no stream tunnel"),
        ("pods/none/proxy/", "pods \"none\" not found"),
        (
            "services/s:idle/proxy/",
            "no endpoints available for service \"s\"",
        ),
        (
            "services/s:9/proxy/",
            "no service port 9 found for service \"s\"",
        ),
        ("services/none/proxy/", "services \"none\" not found"),
        (
            "pods/https:p:81/proxy/",
            "error trying to reach service: connection refused",
        ),
        (
            "pods/https:p:80/proxy/",
            "error trying to reach service: TLS: ",
        ),
    ] {
        let refused = world
            .fail(&format!("get --raw {NAMESPACE}/{path}"), "")
            .await;
        assert!(refused.contains(expected), "{path}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_show_their_pages() {
    let (world, node) = world().await;
    let object = serde_json::from_value(json!({"metadata": {"name": "edge-1"}})).unwrap();
    let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
    nodes.create(&PostParams::default(), &object).await.unwrap();
    for path in [
        "edge-1/proxy/stats/summary?only_cpu_and_memory=true",
        "edge-1:10250/proxy/stats/summary",
    ] {
        assert_eq!(
            world
                .kubectl(&format!("get --raw /api/v1/nodes/{path}"))
                .await,
            "{\"node\":{}}"
        );
    }
    assert_eq!(
        node.requests(),
        [
            "edge-1 GET /stats/summary?only_cpu_and_memory=true",
            "edge-1 GET /stats/summary"
        ]
    );
    for (path, expected) in [
        (
            "edge-1/proxy/none",
            "the server could not find the requested resource",
        ),
        (
            "edge-1:22/proxy/stats/summary",
            "only the kubelet of a node can be reached",
        ),
        ("edge-3/proxy/stats/summary", "nodes \"edge-3\" not found"),
    ] {
        let refused = world
            .fail(&format!("get --raw /api/v1/nodes/{path}"), "")
            .await;
        assert!(refused.contains(expected), "{path}: {refused}");
    }
}
