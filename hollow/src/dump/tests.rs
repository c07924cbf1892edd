//! Tests of dumps: what becomes of their objects, and that a cloud starts from one.

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{Api, ResourceExt, api::ListParams};

use super::*;
use crate::{fleet::lay_over, testing::TestCloud};

fn dump(text: &str) -> Dump {
    Dump::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn nodes_become_machines() {
    let dump = dump(
        "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: big
    labels: {zone: north, kubernetes.io/hostname: big, kubernetes.io/arch: arm64}
  spec:
    unschedulable: true
    taints:
    - {key: dedicated, value: camera, effect: NoSchedule}
    - {key: node.kubernetes.io/unschedulable, effect: NoSchedule}
  status: {capacity: {cpu: '64', memory: 263856Mi, pods: '250'}}
---
apiVersion: v1
kind: Node
metadata: {name: plain}
",
    );
    let [big, plain] = dump.machines() else {
        panic!("{dump:?}");
    };
    assert_eq!(big.name, "big");
    let capacity = Capacity {
        cpus: Some(64),
        memory: Some(263_856 << 20),
    };
    assert_eq!(big.capacity, capacity);
    let taints = json!([{"key": "dedicated", "value": "camera", "effect": "NoSchedule"}]);
    let kubelet = json!({"registerWithTaints": taints, "maxPods": 250});
    let edged = json!({"nodeLabels": {"zone": "north"}, "tailoredKubeletConfig": kubelet});
    assert_eq!(big.edged, edged);
    assert_eq!(plain.capacity, Capacity::default());
    assert_eq!(dump.cordoned, ["big"]);
}

#[test]
fn what_another_cluster_makes_is_skipped() {
    let skipped = [
        ("v1", "Event", json!({})),
        ("coordination.k8s.io/v1", "Lease", json!({})),
        ("events.k8s.io/v1", "Event", json!({})),
        (
            "v1",
            "Secret",
            json!({"type": "kubernetes.io/service-account-token"}),
        ),
        (
            "v1",
            "Secret",
            json!({"metadata": {"namespace": "kubeedge"}}),
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"name": "kube-root-ca.crt"}}),
        ),
        (
            "operations.kubeedge.io/v1alpha2",
            "NodeUpgradeJob",
            json!({}),
        ),
        ("v1", "Pod", json!({"status": {"phase": "Succeeded"}})),
        ("v1", "Pod", json!({"spec": {"nodeName": "elsewhere"}})),
        (
            "v1",
            "Pod",
            json!({"metadata": {"ownerReferences": [{"kind": "Job", "controller": true}]}}),
        ),
        (
            "v1",
            "Pod",
            json!({"metadata": {"ownerReferences": [{"kind": "Node", "controller": true}]}}),
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ),
        (
            "batch/v1",
            "Job",
            json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        ),
        (
            "batch/v1",
            "Job",
            json!({"metadata": {"ownerReferences": [{"kind": "CronJob", "controller": true}]}}),
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}}),
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            json!({}),
        ),
    ];
    for (version, kind, fields) in skipped {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "it", "namespace": "shop"}});
        lay_over(&mut object, &fields);
        let dump = dump(&object.to_string());
        assert_eq!(dump.objects(), 0, "{object}");
        let text = dump.skipped.to_string();
        let namespace = object["metadata"]["namespace"].as_str().unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let start = format!("{kind} {namespace}/{name}: ");
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn what_is_not_valid_is_named() {
    let skipped = [
        (
            "{apiVersion: v1, kind: Node, metadata: {name: ../../etc}}",
            "Node ../../etc: its name is invalid",
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: edge-7}, status: {capacity: {cpu: many}}}",
            "Node edge-7: its status.capacity.cpu many is no quantity above 0",
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: edge-7}, status: {capacity: {memory: -1}}}",
            "Node edge-7: its status.capacity.memory -1 is no quantity above 0",
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: edge-7}, status: {capacity: {pods: []}}}",
            "Node edge-7: its status.capacity.pods [] is no quantity above 0",
        ),
    ];
    for (text, expected) in skipped {
        let dump = dump(text);
        assert_eq!(dump.machines(), [], "{text}");
        assert_eq!(dump.skipped.to_string(), expected);
    }
    let list = |items: &str| format!("{{apiVersion: v1, kind: List, items: [{items}]}}");
    let good = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}}";
    for (text, place) in [
        (
            list(&format!("{good}, {{apiVersion: v1, kind: Pod}}")),
            "document 1, item 2 (Pod)",
        ),
        (
            format!("{good}\n---\n{}", list("{apiVersion: v1, kind: Pod}")),
            "document 2, item 1 (Pod)",
        ),
        (format!("{good}\n---\n7"), "document 2"),
    ] {
        let refused = Dump::parse(&text).unwrap_err().to_string();
        let start = format!("{place} of the dump is no Kubernetes object: ");
        assert!(refused.starts_with(&start), "{text}: {refused}");
    }
}

#[test]
fn of_objects_with_one_name_the_last_is_taken() {
    let pod = |uid: &str, image: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: shop{uid}}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}\n---\n"
        )
    };
    let told = "Pod shop/a: the dump contains another object with its name";
    for (text, expected) in [
        (pod("", "one") + &pod("", "one"), ""),
        (pod(", uid: '1'", "two") + &pod(", uid: '1'", "one"), ""),
        (pod("", "two") + &pod("", "one"), told),
        (pod(", uid: '1'", "two") + &pod(", uid: '2'", "one"), told),
    ] {
        let dump = dump(&text);
        assert_eq!(dump.skipped.to_string(), expected);
        let [pod] = dump.objects.as_slice() else {
            panic!("{dump:?}")
        };
        assert_eq!(pod["spec"]["containers"][0]["image"], "one");
    }
}

#[tokio::test]
async fn unknown_fields_are_told() {
    let dump = dump(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, colour: red}",
    );
    let cloud = TestCloud::builder().nodes(0).start().await.unwrap();
    let told = dump.load(&cloud.client()).await.unwrap().to_string();
    assert_eq!(
        told,
        "ConfigMap default/settings: created, but the API warns: unknown field \"colour\""
    );
    cloud.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_of_a_dump_has_a_name_of_its_own() {
    let dump = dump("{apiVersion: v1, kind: Node, metadata: {name: edge-1}}");
    let started = TestCloud::builder().nodes(1).dump(dump).start().await;
    let Err(crate::testing::Error::Node(error)) = started else {
        panic!("{started:?}")
    };
    assert!(
        error
            .to_string()
            .starts_with("two nodes are named edge-1; "),
        "{error}"
    );
}

#[test]
fn fields_of_another_cluster_are_removed() {
    let of_server = json!({"uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [],
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true}]});
    let cases = [
        (
            json!({"kind": "Pod", "spec": {"priority": 0, "hostNetwork": true}}),
            json!({"hostNetwork": true}),
        ),
        (
            json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}}),
            json!({}),
        ),
        (
            json!({"kind": "Service", "spec": {"clusterIP": "None"}}),
            json!({"clusterIP": "None"}),
        ),
        (
            json!({"kind": "PersistentVolume", "spec": {"claimRef": {"name": "data", "uid": "3"}}}),
            json!({"claimRef": {"name": "data"}}),
        ),
    ];
    for (mut object, spec) in cases {
        object["apiVersion"] = "v1".into();
        object["status"] = json!({"phase": "Running"});
        object["metadata"] = of_server.clone();
        object["metadata"]["name"] = "it".into();
        let dump = dump(&object.to_string());
        let created = dump.objects.first().unwrap_or_else(|| panic!("{object}"));
        assert_eq!(created["metadata"], json!({"name": "it"}), "{object}");
        assert_eq!(created["spec"], spec, "{object}");
        assert!(created.get("status").is_none(), "{object}");
    }
}

#[test]
fn what_is_no_dump_is_an_error() {
    let cases = [
        ("a: [", "the dump is no YAML or JSON: "),
        ("{\"a\": ", "the dump is no YAML or JSON: "),
        ("a: b\n", "document 1 of the dump is no Kubernetes object"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: Pod\n",
            "document 2 (Pod) of the dump is no Kubernetes object",
        ),
    ];
    for (text, start) in cases {
        let error = Dump::parse(text).map(drop).expect_err(text).to_string();
        assert!(error.starts_with(start), "{text}: {error}");
    }
    assert_eq!(dump("").objects(), 0);
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = Dump::read(file.path()).unwrap_err().to_string();
    assert!(
        refused.contains("contains no Kubernetes objects"),
        "{refused}"
    );
}

const SHOP: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: logs, namespace: shop}
spec:
  selector: {matchLabels: {app: logs}}
  template:
    metadata: {labels: {app: logs}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: nginx}]}
";

/// Returns names and nodes of the pods that run, and of their owners.
async fn placement(cloud: &TestCloud) -> Vec<[String; 3]> {
    let pods: Api<Pod> = Api::namespaced(cloud.client(), "shop");
    let pods = pods.list(&ListParams::default()).await.unwrap();
    let of = |pod: &Pod| {
        let status = pod.status.as_ref()?;
        let conditions = status.conditions.as_ref()?;
        let ready = conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")?;
        let node = pod.spec.as_ref()?.node_name.clone()?;
        let owner = pod.owner_references().first()?.name.clone();
        (ready.status == "True").then(|| [pod.name_any(), node, owner])
    };
    let mut all: Vec<_> = pods.iter().filter_map(of).collect();
    all.sort();
    all
}

/// Waits until `count` pods run, and returns them.
async fn running(cloud: &TestCloud, count: usize) -> Vec<[String; 3]> {
    testkit::eventually("all pods run", async || {
        let found = placement(cloud).await;
        match found.len() == count {
            true => Ok(found),
            false => Err(found),
        }
    })
    .await
}

#[tokio::test]
async fn a_cloud_starts_from_a_dump_with_its_pods_where_they_were() {
    let first = TestCloud::builder().nodes(3).start().await.unwrap();
    first.apply(SHOP).await.unwrap();
    let pods = running(&first, 8).await;
    let text = dump_of(&first).await;
    first.stop().await.unwrap();

    let dump = dump(&text);
    assert_eq!(dump.machines().len(), 3);
    let builder = TestCloud::builder().nodes(0).dump(dump);
    let second = builder.start().await.unwrap();
    let again = running(&second, 8).await;
    assert_eq!(again, pods);
    let sets: Api<ReplicaSet> = Api::namespaced(second.client(), "shop");
    let sets = sets.list(&ListParams::default()).await.unwrap();
    let owners: Vec<_> = sets
        .iter()
        .map(|set| set.owner_references().len())
        .collect();
    assert_eq!(owners, [1], "the Deployment has adopted its ReplicaSet");
    second.stop().await.unwrap();
}

/// Returns what `kubectl get all,nodes,namespaces,… -A -o json` prints.
async fn dump_of(cloud: &TestCloud) -> String {
    let client = cloud.client();
    let mut items = Vec::new();
    for path in [
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/api/v1/serviceaccounts",
        "/api/v1/configmaps",
        "/api/v1/services",
        "/api/v1/events",
        "/api/v1/pods",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/daemonsets",
        "/apis/apps/v1/statefulsets",
        "/apis/discovery.k8s.io/v1/endpointslices",
    ] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let mut list: Value = client.request(request).await.unwrap();
        let kind = list["kind"]
            .as_str()
            .unwrap()
            .trim_end_matches("List")
            .to_owned();
        let version = list["apiVersion"].clone();
        for item in list["items"].as_array_mut().unwrap() {
            item["kind"] = kind.as_str().into();
            item["apiVersion"] = version.clone();
            items.push(item.take());
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
