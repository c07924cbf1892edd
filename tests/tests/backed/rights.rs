//! The rules of cloudsim's roles say what is called, and nothing else. That nothing else is called is looked at by every scenario here,
//! when its cluster ends (`tests::Cluster`); here it is seen that each rule is needed.

use std::{collections::BTreeSet, fs, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use cloudsim::{
    RequiredRules, Right,
    pki::TokenRequest,
    streams::{ClientCa, KubeletOptions},
};
use futures::StreamExt;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Endpoints, Pod, Secret, Service, ServiceAccount},
        discovery::v1::EndpointSlice,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, WatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, device, device_model, pod, secret},
    uid,
};
use wire::{
    Change, ResourcePath, ResourceType, Upstream,
    enroll::{Csr, pem_certificate_request},
};

use crate::raw::Caller;

const POLICY: &str = "policy.kubeedge.io/v1alpha1";
const DEVICES: &str = "devices.kubeedge.io/v1beta1";

/// A client of the node's MetaServer.
async fn metaserver(world: &World) -> Client {
    let url = format!(
        "http://{}",
        world.nodes[0]
            .meta_server()
            .await
            .expect("MetaServer listens")
    );
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Gets, lists and watches; what comes of it does not matter.
async fn read<K>(api: Api<K>)
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let _ = api.get("none").await;
    let _ = api.list(&ListParams::default()).await;
    if let Ok(watch) = api.watch(&WatchParams::default().timeout(2), "0").await {
        let _ = watch.boxed().next().await;
    }
}

fn role(verbs: &[&str]) -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "robot", "namespace": "default"}, "rules": rules})
}

/// A pod with all that a pod can use.
fn user() -> Value {
    let mut pod = pod("web", Some("edge-1"));
    pod["spec"]["serviceAccountName"] = "robot".into();
    pod["spec"]["volumes"] = json!([
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "map", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "password"}},
    ]);
    pod
}

/// Pods, what they use, and what their accounts may do.
async fn pods(world: &World) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}});
    world.apply(&account).await;
    world.apply(&role(&["list"])).await;
    world
        .apply(
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "robot", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]}),
        )
        .await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    world.apply(&secret("password", json!({"p": "x"}))).await;
    world.run(&user()).await;
    let manifests = world.nodes[0].directory().join("manifests");
    let mut mirrored = pod("static", None);
    mirrored["metadata"]["namespace"].take();
    fs::write(manifests.join("static.yaml"), mirrored.to_string()).unwrap();
    world
        .pod("static-edge-1")
        .until("mirrored", tests::runs)
        .await;
    let access = world.object(POLICY, "ServiceAccountAccess", "robot");
    let of = |access: &Value| access["status"]["nodeList"] == json!(["edge-1"]);
    let first = access.until("the node's", of).await;
    world.apply(&role(&["list", "watch"])).await;
    access
        .until("changed", |access| access["spec"] != first["spec"])
        .await;
    through_metaserver(world).await;
    world
        .object("rbac.authorization.k8s.io/v1", "Role", "robot")
        .delete(None)
        .await;
    world.pod("web").delete(None).await;
    world.pod("web").until_gone().await;
    // nobody runs as the account any more; what all accounts may do would be there otherwise
    access.until_gone().await;
}

async fn through_metaserver(world: &World) {
    let client = metaserver(world).await;
    read(Api::<Service>::default_namespaced(client.clone())).await;
    read(Api::<Endpoints>::default_namespaced(client.clone())).await;
    read(Api::<EndpointSlice>::default_namespaced(client.clone())).await;
    read(Api::<CustomResourceDefinition>::all(client.clone())).await;
    let _ = Api::<ServiceAccount>::default_namespaced(client.clone())
        .get("robot")
        .await;
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"seen": "1"}}}));
    let _ = leases
        .patch("edge-1", &PatchParams::default(), &patch)
        .await;
    // nobody has granted it: that is asked of the cluster
    let _ = Api::<Pod>::default_namespaced(client.clone())
        .logs("none", &Default::default())
        .await;
    let _ = Api::<kube::core::DynamicObject>::default_namespaced_with(
        client.clone(),
        &kube::api::ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&()),
    )
    .list(&ListParams::default())
    .await;
    world.run(&pod("unwanted", Some("edge-1"))).await;
    eventually("it is evicted", async || {
        Api::<Pod>::default_namespaced(client.clone())
            .evict("unwanted", &EvictParams::default())
            .await
    })
    .await;
}

/// A device whose status is another one's at first.
async fn devices(world: &World) {
    world.apply(&device_model()).await;
    // an owner that is there, or the cluster would collect it
    let owner = world.apply(&device("t0", "edge-1", None)).await.get().await;
    let other = json!({"apiVersion": DEVICES, "kind": "DeviceStatus", "spec": {}, "metadata": {"name": "t1", "namespace": "default",
        "ownerReferences": [{"apiVersion": DEVICES, "kind": "Device", "name": "t0", "uid": uid(&owner)}]}});
    let other = world.apply(&other).await.get().await;
    world.apply(&device("t1", "edge-1", Some("21.5"))).await;
    let status = world.object(DEVICES, "DeviceStatus", "t1");
    status
        .until("the device's", |status| uid(status) != uid(&other))
        .await;
}

/// Jobs of all kinds, which the node reports.
async fn jobs(world: &World) {
    const JOBS: &str = "operations.kubeedge.io/v1alpha2";
    let image = json!({"imagePrePullTemplate": {"nodeNames": ["edge-1"], "images": ["a/b:1"]}});
    let key = json!({"nodeNames": ["edge-1"], "updateFields": {"modules.edgeHub.heartbeat": "20"}});
    let version = json!({"nodeNames": ["edge-1"], "version": "v1.23.0"});
    for (kind, spec, phase) in [
        ("ImagePrePullJob", image, "Completed"),
        // the node has neither a configuration nor a program of its own
        ("ConfigUpdateJob", key, "Failure"),
        ("NodeUpgradeJob", version, "Failure"),
    ] {
        let job =
            json!({"apiVersion": JOBS, "kind": kind, "metadata": {"name": "job"}, "spec": spec});
        world.apply(&job).await;
        let job = world.object_of_cluster(JOBS, kind, "job");
        let ended = job
            .until("ended", |job| job["status"]["conditions"].is_array())
            .await;
        assert_eq!(ended["status"]["phase"], phase, "{ended}");
    }
}

/// A node group, and an application in it that shrinks and is deleted.
async fn node_groups(world: &World) {
    const APPS: &str = "apps.kubeedge.io/v1alpha1";
    let named = |kind: &str, name: &str, namespace: Option<&str>| {
        json!({"apiVersion": APPS, "kind": kind,
        "metadata": {"name": name, "namespace": namespace}})
    };
    let mut group = named("NodeGroup", "berlin", None);
    group["spec"] = json!({"nodes": ["edge-1"]});
    world.apply(&group).await;
    world
        .node("edge-1")
        .until("it is in the group", |node| {
            node["metadata"]["labels"]["apps.kubeedge.io/belonging-to"] == "berlin"
        })
        .await;
    let plain = |api_version: &str, kind: &str, spec: Value| {
        json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": "shop"}, "spec": spec})
    };
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "shop"}}, "template": {
        "metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}});
    let manifests = [
        plain("apps/v1", "Deployment", spec),
        plain("v1", "Service", json!({"ports": [{"port": 80}]})),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}}),
    ];
    let mut application = named("EdgeApplication", "shop", Some("default"));
    for manifests in [&manifests[..], &[]] {
        application["spec"] = json!({"workloadTemplate": {"manifests": manifests},
            "workloadScope": {"targetNodeGroups": [{"name": "berlin"}]}});
        world.apply(&application).await;
        world
            .object(APPS, "EdgeApplication", "shop")
            .until("its objects are as many", |application| {
                let status = &application["status"]["workloadStatus"];
                status.as_array().map_or(0, Vec::len) == manifests.len()
            })
            .await;
    }
}

/// What nodes ask for as a session only.
async fn raw(world: &World) {
    let caller = Caller::node(world, "edge-2").await;
    let mut session = caller.session(world, "edge-2").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-2"}});
    let path = ResourcePath::object("default", &ResourceType::Node, "edge-2");
    session
        .ask(Upstream::Object {
            path,
            change: Change::Insert,
            object: node,
        })
        .await;
    let claimed = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claimed", "namespace": "default"},
        "spec": {"nodeName": "edge-2", "containers": [{"name": "main", "image": "a:1"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    world.apply(&claimed).await;
    use ResourceType::{
        Lease as NodeLease, PersistentVolume, PersistentVolumeClaim, VolumeAttachment,
    };
    for (kind, namespace, name) in [
        (PersistentVolume, "default", "none"),
        (VolumeAttachment, "default", "none"),
        (NodeLease, "kube-node-lease", "edge-2"),
    ] {
        session.ask(Upstream::query(namespace, &kind, name)).await;
    }
    eventually("the claim is asked for", async || {
        session
            .ask(Upstream::query("default", &PersistentVolumeClaim, "data"))
            .await;
        let asked = world
            .cluster()
            .calls()
            .into_iter()
            .any(|call| call.resource == "persistentvolumeclaims");
        if asked { Ok(()) } else { Err("not yet") }
    })
    .await;
    let csr = Csr::for_server("edge-2", &["127.0.0.1".parse().unwrap()]).unwrap();
    let csr = json!({"metadata": {"name": "csr-1"}, "spec": {
        "request": STANDARD.encode(pem_certificate_request(csr.der())), "signerName": "kubernetes.io/kubelet-serving",
        "usages": ["digital signature", "server auth"]}});
    let kind = ResourceType::CertificateSigningRequest;
    session
        .ask(Upstream::put(
            Change::Insert,
            "default",
            &kind,
            "csr-1",
            csr,
        ))
        .await;
    session
        .ask(Upstream::query("default", &kind, "csr-1"))
        .await;
    world.apply(&device("t2", "edge-2", None)).await;
    let status = world.object(DEVICES, "DeviceStatus", "t2");
    status.until("made", |_| true).await;
    let update = json!({"event_id": "e", "timestamp": 5, "twin": {"temperature": {
        "actual": {"value": "20", "metadata": {"timestamp": 4}}, "metadata": {"type": "float"}}}});
    // repeated, as nodes do: it is refused until this cloud knows the device, whose DeviceStatus the other one may have made
    eventually("the device's value is written", async || {
        let path = "device/default/t2/twin/edge_updated".into();
        session
            .ask(Upstream::Device {
                path,
                update: update.clone(),
            })
            .await;
        let status = status.get().await;
        if status["status"]["twins"][0]["reported"]["value"] == "20" {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    let event = json!({"metadata": {"name": "edge-2.1", "namespace": "default"}, "reason": "Test", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Node", "name": "edge-2", "uid": "edge-2"}, "source": {"component": "edged", "host": "edge-2"}});
    let path = ResourcePath::object("default", &ResourceType::Event, "edge-2.1");
    let insert = Upstream::Object {
        path: path.clone(),
        change: Change::Insert,
        object: event.clone(),
    };
    session
        .say(wire::json::encode(&insert.into_message(0)))
        .await;
    let again = json!({"event": event, "patchData": json!({"count": 2}).to_string()});
    let patch = Upstream::Patch { path, patch: again };
    session
        .say(wire::json::encode(&patch.into_message(0)))
        .await;
    let counted = world.object("v1", "Event", "edge-2.1");
    counted.until("counted", |event| event["count"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_is_for_a_call_that_is_made() {
    let mut world = World::with(Setup {
        meta_server: true,
        lease: Duration::from_secs(4),
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    pods(&world).await;
    devices(&world).await;
    jobs(&world).await;
    node_groups(&world).await;
    raw(&world).await;
    let request = TokenRequest {
        uses: Some(1),
        seconds: Some(1),
        ..TokenRequest::default()
    };
    world.cloud().join_token(&request).await.unwrap();
    for (namespace, resource, verb) in [
        ("kube-node-lease", "leases", "update"),
        ("", "clusterobjectsyncs/status", "patch"),
    ] {
        eventually(resource, async || {
            let is_made = |call: &Right| {
                (&*call.resource, &*call.verb) == (resource, verb)
                    && (namespace.is_empty() || call.namespace == namespace)
            };
            if world.cluster().calls().iter().any(is_made) {
                Ok(())
            } else {
                Err("not called yet")
            }
        })
        .await;
    }
    world.node("edge-1").delete(None).await;
    world.until_connected(0, false).await;
    // other names: its servers' certificate is written over; and a token that somebody has deleted is made anew
    world.stop_cloud().await;
    Api::<Secret>::namespaced(world.client(), "kubeedge")
        .delete("tokensecret", &DeleteParams::default())
        .await
        .unwrap();
    let mut options = world.options().clone();
    options.names.push("cloud.example".to_owned());
    // and the kubelets of all nodes for the cluster's API server
    options.kubelets = Some(KubeletOptions {
        port: 0,
        client_ca: ClientCa::Cluster,
        client_names: Vec::new(),
        service: None,
    });
    let cloud = cloudsim::Cloud::start(options).await.unwrap();
    let unknown = "Authorization: Bearer none\r\n";
    let kubelets = cloud.addresses().kubelets.unwrap();
    let anonymous = Caller::anonymous(&world).await;
    let scraped = anonymous.https(kubelets, "/nodes/edge-1/metrics", unknown, b"");
    assert_eq!(scraped.await.unwrap().0, 401);
    cloud.stop().await.unwrap();

    let calls = world.cluster().calls();
    let is_made = |right: &Right| {
        // whose signature may be approved is asked for by the API server itself
        let resource = if right.resource == "signers" {
            "certificatesigningrequests/approval"
        } else {
            &right.resource
        };
        let verb = if right.resource == "signers" {
            "patch"
        } else {
            &right.verb
        };
        calls.iter().any(|call| {
            let is_there = right.namespace.is_empty() || right.namespace == call.namespace;
            is_there
                && (&*call.group, &*call.resource, &*call.verb) == (&*right.group, resource, verb)
        })
    };
    // definitions are in this cluster from the beginning
    let rights = RequiredRules::of_this_version()
        .unwrap()
        .rights(false, true);
    // what is done by whoever is first, for the cluster of this test is a cloudsim itself: statuses of rules, and DeviceStatuses of others
    let is_for_either = |right: &Right| {
        let of_rules = (right.group == "rules.kubeedge.io"
            && ["get", "patch"].contains(&&*right.verb))
            || (right.resource == "devicestatuses" && ["create", "delete"].contains(&&*right.verb));
        // only an API server with OwnerReferencesPermissionEnforcement asks for it
        let is_owner = right.resource == "edgeapplications/finalizers";
        // an object that does not exist is created by a patch, for which the API server asks for both
        let is_applied =
            ["deployments", "services"].contains(&&*right.resource) && right.verb == "create";
        // a node that hears of its end before its session ends has its record deleted
        of_rules
            || is_owner
            || is_applied
            || (right.resource == "clusterobjectsyncs" && right.verb == "delete")
    };
    let useless: BTreeSet<_> = rights
        .iter()
        .filter(|right| !is_made(right) && !is_for_either(right))
        .map(ToString::to_string)
        .collect();
    assert!(useless.is_empty(), "rules that nothing needs: {useless:#?}");
}
