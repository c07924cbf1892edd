//! Tests of [`super`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::*;
use kubeapi::registry::Registry;

mod workloads;

fn fill_object(plural: &str, mut object: Value) -> Value {
    let registry = Registry::builtin();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    fill(kind, &mut object).unwrap();
    let mut again = object.clone();
    fill(kind, &mut again).unwrap();
    assert_eq!(object, again, "defaults filled in twice");
    object
}

fn begin_object(plural: &str, mut object: Value) -> Value {
    let registry = Registry::builtin();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    begin(kind, &mut object);
    object
}

#[test]
fn a_small_pod() {
    insta::assert_json_snapshot!(fill_object(
        "pods",
        json!({"spec": {"containers": [{"name": "a", "image": "nginx"}]}})
    ));
}

#[test]
fn a_pod_of_many_parts() {
    let pod = json!({"spec": {
        "hostNetwork": true,
        "serviceAccount": "old",
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        "initContainers": [{"name": "i", "image": "nginx:1", "imagePullPolicy": "Never"}],
        "containers": [{
            "name": "a", "image": "nginx:1",
            "ports": [{"containerPort": 80}, {"containerPort": 53, "hostPort": 54, "protocol": "UDP"}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 90}, "periodSeconds": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        }],
        "volumes": [
            {"name": "empty"},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
            {"name": "host", "hostPath": {"path": "/x"}},
            {"name": "all", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]}},
        ],
    }});
    insta::assert_json_snapshot!(fill_object("pods", pod));
}

#[test]
fn services_and_endpoints() {
    let service = |spec| fill_object("services", json!({"spec": spec}));
    let objects = [
        service(
            json!({"ports": [{"port": 80}, {"port": 81, "targetPort": "web", "protocol": "UDP"}]}),
        ),
        service(json!({"clusterIP": "None"})),
        service(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"})),
        service(json!({"type": "ExternalName", "externalName": "example.com"})),
        fill_object("endpoints", json!({"subsets": [{"ports": [{"port": 80}]}]})),
        fill_object(
            "endpointslices",
            json!({"ports": [{"port": 80}, {"name": "x", "protocol": "UDP"}]}),
        ),
    ];
    insta::assert_json_snapshot!(objects);
}

#[test]
fn texts_of_a_secret_become_data() {
    let secret = fill_object(
        "secrets",
        json!({"data": {"a": "QQ==", "b": "Qg=="}, "stringData": {"b": "C", "c": ""}}),
    );
    assert_eq!(
        secret,
        json!({"data": {"a": "QQ==", "b": "Qw==", "c": ""}, "type": "Opaque"})
    );
    assert_eq!(
        fill_object("configmaps", json!({"data": {}})),
        json!({"data": {}})
    );
}

#[test]
fn a_node_gives_what_it_has() {
    let node = fill_object("nodes", json!({"status": {"capacity": {"cpu": "4"}}}));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "");
}

#[test]
fn kinds_from_definitions_have_the_defaults_of_their_schema() {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema":
                {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 3}}}}}}}],
        },
    }))
    .unwrap();
    let registry = Registry::builtin().with_crds(&[definition]);
    let kind = registry.find("example.com", "v1", "widgets").unwrap();
    let mut object = json!({"spec": {}, "status": {"seen": true}});
    fill(kind, &mut object).unwrap();
    begin(kind, &mut object);
    assert_eq!(
        object,
        json!({"spec": {"size": 3}, "metadata": {"generation": 1}})
    );
}

#[test]
fn new_objects_begin_with_their_status() {
    let claimed = json!({"status": {"phase": "Running"}});
    let namespace = begin_object("namespaces", claimed.clone());
    assert_eq!(
        namespace,
        json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
    );
    let pod = begin_object("pods", claimed);
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert_eq!(pod["metadata"]["generation"], 1);
    let gated = begin_object(
        "pods",
        json!({"spec": {"schedulingGates": [{"name": "x"}]}}),
    );
    assert_eq!(
        gated["status"]["conditions"][0]["reason"],
        "SchedulingGated"
    );
    let node = json!({"status": {"capacity": {"cpu": "4"}}});
    assert_eq!(
        begin_object("nodes", node.clone()),
        node,
        "nodes are registered with a status"
    );
    assert_eq!(
        begin_object("services", json!({}))["status"],
        json!({"loadBalancer": {}})
    );
}

#[test]
fn the_quality_of_service_follows_from_the_resources() {
    let pod = |resources: &[Value]| {
        let containers: Vec<_> = resources
            .iter()
            .map(|resources| json!({"resources": resources}))
            .collect();
        json!({"spec": {"containers": containers}})
    };
    let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
    let cases = [
        (pod(&[json!({})]), "BestEffort"),
        (
            pod(&[json!({"limits": {"example.com/gpu": "1"}})]),
            "BestEffort",
        ),
        (pod(&[json!({"requests": {"cpu": "0"}})]), "BestEffort"),
        (pod(&[json!({"requests": {"cpu": "1m"}})]), "Burstable"),
        (pod(&[json!({"limits": {"cpu": "1"}})]), "Burstable"),
        (
            pod(&[json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1m"}})]),
            "Burstable",
        ),
        (pod(&[full.clone(), json!({})]), "Burstable"),
        (
            pod(&[json!({"limits": {"cpu": "1", "memory": "1Gi"}})]),
            "Guaranteed",
        ),
        (pod(&[full.clone(), full]), "Guaranteed"),
    ];
    for (pod, expected) in cases {
        assert_eq!(qos::class(&pod), expected, "{pod}");
    }
}

/// As kube-apiserver: a client that only changes the affinity need not change its configuration as well.
#[test]
fn the_affinity_of_a_service_decides_its_configuration() {
    let usual = json!({"clientIP": {"timeoutSeconds": 10_800}});
    let own = json!({"clientIP": {"timeoutSeconds": 5}});
    for (affinity, given, expected) in [
        ("None", own.clone(), Value::Null),
        ("None", Value::Null, Value::Null),
        ("ClientIP", own.clone(), own),
        ("ClientIP", Value::Null, usual.clone()),
        ("ClientIP", json!({}), usual.clone()),
        (
            "ClientIP",
            json!({"clientIP": {"timeoutSeconds": null}}),
            usual,
        ),
    ] {
        let spec = json!({"sessionAffinity": affinity, "sessionAffinityConfig": given});
        let filled = fill_object("services", json!({"spec": spec}));
        assert_eq!(
            filled["spec"]["sessionAffinityConfig"], expected,
            "{affinity} {given}"
        );
    }
}
