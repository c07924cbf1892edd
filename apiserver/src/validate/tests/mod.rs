//! Tests of [`super`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::defaults;
use kubeapi::{
    registry::Registry,
    request::duplicates::DuplicateFields,
    status::StatusError,
    validate::{FieldValidation, decode, metadata::name_faults},
};

use super::*;

mod addresses;
mod examples;
mod rules;
mod schedules;
mod workloads;

fn registry() -> Registry {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
                    "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "enum": ["red", "green"]}}}}}}}],
        },
    }))
    .unwrap();
    Registry::builtin().with_crds(&[definition])
}

fn decode_object(
    plural: &str,
    mut object: Value,
    fields: FieldValidation,
) -> (Result<Vec<String>, String>, Value) {
    let registry = registry();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    let result = decode(kind, &mut object, DuplicateFields::Ignored, fields);
    let result = result.map_err(|error| {
        let body = error.body();
        format!("{} {}", body["code"], body["message"].as_str().unwrap())
    });
    (result, object)
}

#[test]
fn bodies_that_cannot_be_read_are_refused_in_the_servers_words() {
    let cases = [
        ("pods", json!([])),
        ("pods", json!({"apiVersion": "apps/v1", "kind": "Pod"})),
        ("pods", json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        (
            "pods",
            json!({"spec": {"containers": [{"name": "a", "image": 5}]}}),
        ),
        ("pods", json!({"metadata": {"labels": {"a": true}}})),
        (
            "pods",
            json!({"spec": {"containers": [], "foo": 1}, "bar": 2}),
        ),
        ("secrets", json!({"data": {"a": "not base64!"}})),
        (
            "widgets",
            json!({"metadata": {"name": "w", "labels": {"a": 1}}, "spec": {"size": 1}}),
        ),
        (
            "widgets",
            json!({"metadata": {"name": "w", "foo": 1}, "spec": {"size": 1, "bar": 1}}),
        ),
    ];
    let texts = cases.into_iter().map(|(plural, object)| {
        let text = object.to_string();
        format!(
            "{text}\n    {}",
            decode_object(plural, object, FieldValidation::Strict)
                .0
                .unwrap_err()
        )
    });
    insta::assert_snapshot!(texts.collect::<Vec<_>>().join("\n"));
}

#[test]
fn unknown_fields_are_told_and_pruned() {
    let body = || json!({"metadata": {"name": "a", "x": 1}, "spec": {"size": 2, "foo": 1}});
    let (warnings, object) = decode_object("widgets", body(), FieldValidation::Warn);
    assert_eq!(
        warnings.unwrap(),
        ["unknown field \"spec.foo\"", "unknown field \"metadata.x\""]
    );
    let expected = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 2}});
    assert_eq!(object, expected);
    let (warnings, object) = decode_object("widgets", body(), FieldValidation::Ignore);
    assert_eq!((warnings.unwrap(), object), (Vec::new(), expected));
    let (warnings, object) = decode_object(
        "configmaps",
        json!({"foo": {"bar": 1}}),
        FieldValidation::Warn,
    );
    assert_eq!(warnings.unwrap(), ["unknown field \"foo\""]);
    assert_eq!(object, json!({"apiVersion": "v1", "kind": "ConfigMap"}));
}

#[test]
fn how_to_take_unknown_fields_is_read_from_the_query() {
    assert_eq!(FieldValidation::parse(None).unwrap(), FieldValidation::Warn);
    assert_eq!(
        FieldValidation::parse(Some("Strict")).unwrap(),
        FieldValidation::Strict
    );
    assert_eq!(
        FieldValidation::parse(Some("Ignore")).unwrap(),
        FieldValidation::Ignore
    );
    assert!(FieldValidation::parse(Some("strict")).is_err());
}

fn texts(causes: Vec<Cause>) -> Vec<String> {
    // The causes are as in the response.
    causes
        .into_iter()
        .map(|cause| {
            let body = StatusError::invalid("", "K", "n", vec![cause]).body();
            body["message"]
                .as_str()
                .unwrap()
                .strip_prefix("K \"n\" is invalid: ")
                .unwrap()
                .to_owned()
        })
        .collect()
}

/// Decodes, defaults and validates an object, as a creation does.
fn creation_causes(plural: &str, mut object: Value) -> Vec<String> {
    let registry = registry();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    decode(
        kind,
        &mut object,
        DuplicateFields::Ignored,
        FieldValidation::Strict,
    )
    .unwrap_or_else(|error| panic!("{}", error.body()));
    defaults::fill(kind, &mut object).unwrap();
    defaults::begin(kind, &mut object);
    texts(create(kind, &object))
}

fn update_causes(plural: &str, old: Value, new: Value) -> Vec<String> {
    let registry = registry();
    let kind = registry
        .kinds()
        .iter()
        .find(|kind| kind.plural == plural)
        .unwrap();
    let [old, new] = [old, new].map(|mut object| {
        decode(
            kind,
            &mut object,
            DuplicateFields::Ignored,
            FieldValidation::Strict,
        )
        .unwrap_or_else(|error| panic!("{}", error.body()));
        defaults::fill(kind, &mut object).unwrap();
        object
    });
    texts(update(kind, &old, &new, None))
}

/// Returns one line for each object, then its faults.
fn report(plural: &str, objects: Vec<Value>) -> String {
    let lines = objects.into_iter().map(|object| {
        let text = object.to_string();
        let causes = creation_causes(plural, object);
        format!(
            "{text}\n    {}",
            if causes.is_empty() {
                "-".to_owned()
            } else {
                causes.join("\n    ")
            }
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn metadata_has_rules() {
    let metadata = |metadata: Value| json!({"metadata": metadata});
    let report = report(
        "configmaps",
        vec![
            metadata(
                json!({"name": "a.b-1", "labels": {"example.com/a": "b", "c": ""}, "annotations": {"Upper.COM/x": "any thing"}}),
            ),
            metadata(json!({})),
            metadata(json!({"name": "Upper"})),
            metadata(json!({"name": "a", "labels": {"a b": "-x"}})),
            metadata(json!({"name": "a", "annotations": {"/x": ""}})),
            metadata(json!({"name": "a", "finalizers": ["ok", "not ok"]})),
            metadata(json!({"name": "a", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "", "controller": true}]})),
        ],
    );
    insta::assert_snapshot!(report);
    let large = json!({"metadata": {"name": "a", "annotations": {"a": "x".repeat(256 * 1024)}}});
    assert_eq!(
        creation_causes("configmaps", large),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    let long = json!({"metadata": {"name": "a", "labels": {"a": "x".repeat(64)}}});
    assert!(creation_causes("configmaps", long)[0].ends_with("must be no more than 63 bytes"));
}

#[test]
fn names_have_the_rules_of_their_kind() {
    let registry = registry();
    let check = |plural: &str, name: &str| {
        let kind = registry
            .kinds()
            .iter()
            .find(|kind| kind.plural == plural)
            .unwrap();
        name_faults(kind, &json!({}), name).is_empty()
    };
    let cases = [
        ("pods", "a.b", true),
        ("pods", "1-a", true),
        ("pods", "a_b", false),
        ("namespaces", "a-b", true),
        ("namespaces", "a.b", false),
        ("services", "a1", true),
        ("services", "1a", true),
        ("services", "a.b", false),
        ("poddisruptionbudgets", "A_b", true),
        ("poddisruptionbudgets", "a/b", false),
        ("widgets", "a.b", true),
        ("widgets", ".a", false),
    ];
    for (plural, name, expected) in cases {
        assert_eq!(check(plural, name), expected, "{plural} {name}");
    }
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn container(container: Value) -> Value {
    let mut whole = json!({"name": "a", "image": "i"});
    whole
        .as_object_mut()
        .unwrap()
        .extend(container.as_object().unwrap().clone());
    pod(json!({"containers": [whole], "volumes": [{"name": "v"}]}))
}

#[test]
fn pods_have_rules() {
    let one = json!([{"name": "a", "image": "i"}]);
    let report = report(
        "pods",
        vec![
            pod(json!({"containers": one})),
            json!({"metadata": {"name": "p"}}),
            pod(json!({"containers": []})),
            pod(json!({"containers": [{}]})),
            pod(json!({"containers": [{"name": "A", "image": " i"}]})),
            pod(
                json!({"containers": one, "initContainers": [{"name": "a", "image": "i", "restartPolicy": "Never"}]}),
            ),
            pod(json!({"containers": one, "restartPolicy": "Sometimes", "dnsPolicy": "X"})),
            pod(
                json!({"containers": one, "terminationGracePeriodSeconds": -1, "activeDeadlineSeconds": 0}),
            ),
            pod(json!({"containers": one, "nodeName": "A_B", "hostname": "a.b"})),
            pod(json!({"containers": one, "nodeSelector": {"a b": "c"}})),
            pod(
                json!({"containers": one, "volumes": [{"name": "v"}, {"name": "v"}, {"name": ""}]}),
            ),
            pod(
                json!({"containers": one, "volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]}),
            ),
            pod(json!({"containers": one, "volumes": [
                {"name": "a", "hostPath": {"path": "/../x"}}, {"name": "b", "secret": {}}, {"name": "c", "configMap": {}}]})),
            pod(json!({"containers": one, "tolerations": [
                {"key": "", "operator": "Equal"}, {"key": "a", "operator": "Exists", "value": "b"},
                {"key": "a", "operator": "Like"}, {"key": "a", "effect": "None"}, {"key": "a", "tolerationSeconds": 3}]})),
            pod(json!({"containers": one, "ephemeralContainers": [{"name": "e"}]})),
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn containers_have_rules() {
    let report = report(
        "pods",
        vec![
            container(
                json!({"ports": [{"containerPort": 80, "name": "web"}], "env": [{"name": "A", "value": "b"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}], "livenessProbe": {"tcpSocket": {"port": 80}}}),
            ),
            container(json!({"imagePullPolicy": "Often", "terminationMessagePolicy": "Paper"})),
            container(
                json!({"ports": [{}, {"containerPort": 70000, "protocol": "IP"}, {"containerPort": 1, "name": "-UP-"}]}),
            ),
            container(
                json!({"ports": [{"containerPort": 1, "name": "a", "hostPort": 5}, {"containerPort": 2, "name": "a", "hostPort": 5}]}),
            ),
            container(
                json!({"env": [{"name": ""}, {"name": "a=b"}, {"name": "A", "valueFrom": {}},
                {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}, "configMapKeyRef": {"name": "c", "key": "k"}}}]}),
            ),
            container(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}, {"name": "v"}]}),
            ),
            container(json!({"volumeMounts": [
                {"name": "v", "mountPath": "/a", "subPath": "/x"}, {"name": "v", "mountPath": "/b", "subPath": "x/../y"}]})),
            container(
                json!({"resources": {"requests": {"cpu": "2", "memory": "-1"}, "limits": {"cpu": "1500m"}}}),
            ),
            container(
                json!({"livenessProbe": {}, "readinessProbe": {"exec": {}, "tcpSocket": {"port": 1}, "periodSeconds": -1}}),
            ),
        ],
    );
    insta::assert_snapshot!(report);
    let mut host = container(json!({"ports": [{"containerPort": 80, "hostPort": 81}]}));
    host["spec"]["hostNetwork"] = true.into();
    let why = "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true";
    assert_eq!(creation_causes("pods", host), [why]);
}

#[test]
fn little_of_a_pod_may_change() {
    let old = || {
        pod(json!({
            "containers": [{"name": "a", "image": "i:1", "env": []}], "activeDeadlineSeconds": 9,
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
        }))
    };
    let changed = |change: fn(&mut Value)| {
        let mut new = old();
        change(&mut new);
        update_causes("pods", old(), new)
    };
    let allowed: [fn(&mut Value); 5] = [
        |_| {},
        |pod| pod["spec"]["containers"][0]["image"] = "i:2".into(),
        |pod| pod["spec"]["activeDeadlineSeconds"] = 8.into(),
        |pod| pod["spec"]["tolerations"][0]["tolerationSeconds"] = 4.into(),
        |pod| pod["metadata"]["labels"] = json!({"a": "b"}),
    ];
    for change in allowed {
        assert_eq!(changed(change), Vec::<String>::new());
    }
    let refused: [fn(&mut Value); 8] = [
        |pod| pod["spec"]["nodeName"] = "edge-1".into(),
        |pod| pod["spec"]["containers"] = json!([]),
        |pod| pod["spec"]["containers"][0]["image"] = "".into(),
        |pod| pod["spec"]["containers"][0]["env"] = json!([{"name": "A"}]),
        |pod| pod["spec"]["activeDeadlineSeconds"] = 10.into(),
        |pod| pod["spec"]["activeDeadlineSeconds"] = Value::Null,
        |pod| pod["spec"]["tolerations"] = json!([]),
        |pod| pod["metadata"]["name"] = "other".into(),
    ];
    let texts: Vec<_> = refused
        .into_iter()
        .map(|change| changed(change).join("\n"))
        .collect();
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn gates_of_scheduling_only_go_and_the_selector_of_a_gated_pod_only_grows() {
    let gated = |gates: &[&str], selector: Value| {
        let gates: Vec<_> = gates.iter().map(|gate| json!({"name": gate})).collect();
        let containers = json!([{"name": "a", "image": "i"}]);
        pod(json!({"containers": containers, "schedulingGates": gates, "nodeSelector": selector}))
    };
    let changed =
        |new: Value| update_causes("pods", gated(&["x/a", "x/b"], json!({"disk": "fast"})), new);
    let none = Vec::<String>::new();
    assert_eq!(changed(gated(&["x/b"], json!({"disk": "fast"}))), none);
    assert_eq!(
        changed(gated(&[], json!({"disk": "fast", "zone": "a"}))),
        none
    );
    let new = "spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'x/c'";
    assert_eq!(
        changed(gated(&["x/a", "x/c"], json!({"disk": "fast"}))),
        [new]
    );
    let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    let slow = changed(gated(&["x/a"], json!({"disk": "slow"})));
    assert_eq!(
        slow,
        [format!(
            "spec.nodeSelector: Invalid value: {{\"disk\":\"slow\"}}: {why}"
        )]
    );
    let free = update_causes(
        "pods",
        gated(&[], json!({})),
        gated(&[], json!({"disk": "fast"})),
    );
    assert!(
        free.iter()
            .any(|cause| cause.starts_with("spec: Forbidden")),
        "{free:?}"
    );
}

#[test]
fn an_object_that_goes_takes_no_new_finalizers() {
    let old = json!({"metadata": {"name": "a", "deletionTimestamp": "2025-01-01T00:00:00Z", "finalizers": ["a"]}});
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["x/b"]);
    let why = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
               finalizers []string{\"x/b\"}";
    assert_eq!(update_causes("configmaps", old.clone(), new.clone()), [why]);
    new["metadata"]["finalizers"] = json!([]);
    assert!(update_causes("configmaps", old, new).is_empty());
}

#[test]
fn config_maps_and_secrets_have_rules() {
    let named = |mut object: Value| {
        object["metadata"] = json!({"name": "a"});
        object
    };
    let maps = vec![
        named(json!({"data": {"a.b_C-1": "x"}, "binaryData": {"c": "QQ=="}})),
        named(
            json!({"data": {"a b": "", "..": "", "..x": "", "c": ""}, "binaryData": {"c": "QQ=="}}),
        ),
    ];
    let secrets = vec![
        named(json!({"stringData": {"a": "b"}})),
        named(json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}})),
        named(json!({"type": "kubernetes.io/dockerconfigjson"})),
        named(json!({"type": "kubernetes.io/basic-auth", "data": {"password": ""}})),
        named(json!({"type": "kubernetes.io/service-account-token"})),
    ];
    insta::assert_snapshot!([report("configmaps", maps), report("secrets", secrets)].join("\n\n"));
    let large = named(json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}));
    assert_eq!(
        creation_causes("configmaps", large),
        [": Too long: may not be more than 1048576 bytes"]
    );

    let old = named(json!({"immutable": true, "data": {"a": "QQ==", "b": ""}}));
    let reordered = named(json!({"immutable": true, "data": {"b": "", "a": "QQ=="}}));
    assert!(update_causes("secrets", old.clone(), reordered).is_empty());
    let new = named(json!({"data": {"a": "Qg=="}, "type": "other"}));
    assert_eq!(
        update_causes("secrets", old, new),
        [
            "type: Invalid value: \"other\": field is immutable",
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
        ]
    );
}

#[test]
fn services_endpoints_leases_and_nodes_have_rules() {
    let named = |field: &str, value: Value| json!({"metadata": {"name": "a"}, field: value});
    let services = vec![
        named("spec", json!({"ports": [{"port": 80}]})),
        named("spec", json!({"clusterIP": "None"})),
        json!({"metadata": {"name": "1a"}}),
        named("spec", json!({"type": "ExternalName"})),
        named(
            "spec",
            json!({"type": "Other", "sessionAffinity": "Some", "clusterIP": "x", "selector": {"a": "-"}, "ports": [{"port": 1}]}),
        ),
        named(
            "spec",
            json!({"ports": [{"port": 80, "name": "a"}, {"port": 80}, {"port": 70000, "name": "a", "targetPort": 0},
            {"port": 1, "name": "b", "targetPort": "-"}, {"port": 2, "name": "c", "protocol": "IP", "targetPort": 70000}]}),
        ),
    ];
    let endpoints = vec![
        named(
            "subsets",
            json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]),
        ),
        named(
            "subsets",
            json!([{}, {"addresses": [{"ip": "x"}], "ports": [{"port": 0}, {"port": 1, "name": "a"}]}]),
        ),
    ];
    let slices = vec![
        json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        json!({"metadata": {"name": "a"}, "addressType": "IPv5", "endpoints": [{"addresses": ["x"]}, {"addresses": []}]}),
    ];
    let leases = vec![
        named(
            "spec",
            json!({"holderIdentity": "a", "leaseDurationSeconds": 40}),
        ),
        named(
            "spec",
            json!({"holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": -1}),
        ),
    ];
    let nodes = vec![
        named(
            "spec",
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        ),
        named(
            "spec",
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}, {"key": "", "effect": "x"}]}),
        ),
    ];
    let all = [
        report("services", services),
        report("endpoints", endpoints),
        report("endpointslices", slices),
        report("leases", leases),
        report("nodes", nodes),
    ];
    insta::assert_snapshot!(all.join("\n\n"));
    let service = |ip: &str| named("spec", json!({"clusterIP": ip, "ports": [{"port": 80}]}));
    let why = "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set";
    assert_eq!(
        update_causes("services", service("10.0.0.1"), service("10.0.0.2")),
        [why]
    );
}

#[test]
fn an_event_stands_where_its_object_does() {
    let event = |own: &str, involved: &str| json!({"metadata": {"name": "e", "namespace": own}, "involvedObject": {"namespace": involved}});
    assert!(creation_causes("events", event("ns", "ns")).is_empty());
    assert!(creation_causes("events", event("default", "")).is_empty());
    let why = "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace";
    assert_eq!(creation_causes("events", event("ns", "other")), [why]);
}
