//! `metrics.k8s.io` behind the API server of a cluster, as its aggregator calls it.

use std::time::SystemTime;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tests::{Setup, World, eventually, manifests::pod};
use wire::enroll::{Ca, pem_certificate};

use crate::raw::Caller;

const NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
const ALICE: &str = "X-Remote-User: alice\r\nX-Remote-Group: system:authenticated\r\n";

/// Publishes the CA and the names of the front proxy, as an API server does.
async fn publish(world: &World, data: Value) {
    let maps = Api::<ConfigMap>::namespaced(world.client(), "kube-system");
    let patch = Patch::Merge(json!({ "data": data }));
    let name = "extension-apiserver-authentication";
    let patched = maps.patch(name, &PatchParams::default(), &patch).await;
    patched.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_nodes_and_pods_are_measured_for_users_whom_the_front_proxy_names() {
    let mut world = World::with(Setup {
        nodes: 0,
        ..Setup::default()
    })
    .await;
    world.stop_cloud().await;
    let (ca, now) = (Ca::generate(SystemTime::now()).unwrap(), SystemTime::now());
    let text = pem_certificate(ca.cert_der());
    let names = "requestheader-allowed-names";
    publish(
        &world,
        json!({"requestheader-client-ca-file": text, names: "[\"kubernetes-admin\"]"}),
    )
    .await;
    if let Some(cluster) = &mut world.options_mut().cluster {
        cluster.metrics_api_port = Some(0);
    }
    world.start_cloud().await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.run(&pod("web", Some("edge-1"))).await;
    let address = world.cloud().addresses().metrics_api.unwrap();
    let proxy = Caller::with(&world, ca.sign_admin(now).unwrap()).await;
    let get = async |path: &str, headers: &str| {
        let answer = proxy.https(address, path, headers, b"").await;
        let (status, body) = answer.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    // as the API server checks whether it is available
    let masters = "X-Remote-User: system:kube-aggregator\r\nX-Remote-Group: system:masters\r\n";
    let (status, kinds) = get("/apis/metrics.k8s.io/v1beta1", masters).await;
    assert!(status == 200 && kinds.contains("NodeMetrics"), "{kinds}");
    for (path, headers, expected) in [
        (NODES, ALICE, 403),
        (NODES, "", 401),
        ("/api/v1/secrets", masters, 404),
        ("/apis/metrics.k8s.io/v1beta1/secrets", masters, 404),
    ] {
        assert_eq!(get(path, headers).await.0, expected, "{path} {headers}");
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "top"},
        "rules": [{"apiGroups": ["metrics.k8s.io"], "resources": ["nodes", "pods"], "verbs": ["list"]}]});
    world.apply(&role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "top"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "top"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    world.apply(&binding).await;
    for (path, name) in [(NODES, "edge-1"), (PODS, "web")] {
        eventually(path, async || {
            let (status, body) = get(path, ALICE).await;
            let list: Value = serde_json::from_str(&body).unwrap();
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let found: Vec<_> = items.iter().map(|item| &item["metadata"]["name"]).collect();
            if status == 200 && found == [name] {
                Ok(())
            } else {
                Err((status, body))
            }
        })
        .await;
    }
    // nobody else is a front proxy: neither by the CA of nodes, nor without a certificate, nor by another name
    for caller in [Caller::admin(&world).await, Caller::anonymous(&world).await] {
        caller
            .https(address, NODES, masters, b"")
            .await
            .unwrap_err();
    }
    publish(&world, json!({names: "[\"front-proxy-client\"]"})).await;
    eventually("the names are in force", async || {
        match get(NODES, masters).await {
            (403, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}
