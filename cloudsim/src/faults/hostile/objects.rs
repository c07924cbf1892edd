//! Objects that are invalid, or belong to another node. Pure.

use serde_json::{Value, json};
use wire::Message;

use super::{RawMessage, message};

/// Returns every known message with this content.
#[expect(clippy::too_many_lines, reason = "one table or one story")]
pub(super) fn known_messages(node: &str, content: &Value) -> Vec<Message> {
    let mut all = Vec::new();
    for kind in [
        "pod",
        "configmap",
        "secret",
        "serviceaccounttoken",
        "persistentvolumeclaim",
        "unicorn",
    ] {
        for operation in ["insert", "update", "delete", "response"] {
            let resource = format!("default/{kind}/hostile");
            all.push(message(
                "edgecontroller",
                "resource",
                operation,
                &resource,
                content.clone(),
            ));
        }
    }
    let others = [
        (
            "edgecontroller",
            "resource",
            "update",
            format!("null/node/{node}"),
        ),
        (
            "devicecontroller",
            "resource",
            "insert",
            "default/device/hostile".to_owned(),
        ),
        (
            "devicecontroller",
            "resource",
            "update",
            "default/devicemodel/hostile".to_owned(),
        ),
        (
            "devicecontroller",
            "twin",
            "update",
            "membership".to_owned(),
        ),
        (
            "devicecontroller",
            "twin",
            "update",
            "membership/detail".to_owned(),
        ),
        (
            "devicecontroller",
            "twin",
            "update",
            "device/default/hostile/twin/cloud_updated".to_owned(),
        ),
        ("devicecontroller", "twin", "response", "twin".to_owned()),
        (
            "dynamiccontroller",
            "resource",
            "update",
            "default/configmaps/hostile".to_owned(),
        ),
        (
            "dynamiccontroller",
            "resource",
            "applicationResponse",
            "ignore/Application/ignore".to_owned(),
        ),
        (
            "dynamiccontroller",
            "resource",
            "applicationResponse",
            "watchapp/sync".to_owned(),
        ),
        ("cloudhub", "resource", "response", "k8s/ca.crt".to_owned()),
        (
            "cloudhub",
            "resource",
            "createvolume",
            "default/volume/hostile".to_owned(),
        ),
        (
            "router_eventbus",
            "user",
            "subscribe",
            "default/topic".to_owned(),
        ),
        ("router_eventbus", "user", "publish", "any/topic".to_owned()),
        (
            "router_servicebus",
            "user",
            "start",
            "http://127.0.0.1:1/x".to_owned(),
        ),
        ("router_servicebus", "user", "GET", "1:/x".to_owned()),
        (
            "taskmanager",
            "taskmanager",
            "Upgrade",
            format!("operations.kubeedge.io/v1alpha2/nodeupgradejob/j/node/{node}"),
        ),
        (
            "policycontroller",
            "resource",
            "update",
            "default/serviceaccountaccess/hostile".to_owned(),
        ),
    ];
    all.extend(others.into_iter().map(|(source, group, operation, path)| {
        message(source, group, operation, &path, content.clone())
    }));
    all
}

/// Returns objects whose fields have the wrong types.
pub(super) fn wrong_types(node: &str) -> Vec<Message> {
    let metadata = json!({"name": "hostile", "namespace": "default", "uid": "hostile-uid", "resourceVersion": "1"});
    let bodies = [
        json!(7),
        json!([]),
        json!(""),
        json!({"metadata": []}),
        json!({"metadata": {"name": 7, "uid": [], "resourceVersion": {}}}),
        json!({"metadata": metadata, "spec": 7, "status": "x", "data": []}),
        json!({"metadata": metadata, "spec": {"containers": {}, "volumes": 7, "nodeName": []}}),
        json!({"metadata": metadata, "spec": {"nodeName": node, "containers": [null, 7, {"name": {}, "image": 1, "env": "x", "ports": 9}]}}),
        json!({"metadata": metadata, "data": {"key": {"deep": [1, 2]}}, "binaryData": {"k": "%%%"}}),
    ];
    bodies
        .iter()
        .flat_map(|body| known_messages(node, body))
        .collect()
}

/// Returns names, keys and paths with dots and slashes.
pub(super) fn path_traversal(node: &str) -> Vec<Message> {
    let up = "../../../../../../../../tmp/outrigger-was-here";
    let meta = |name: &str, uid: &str| json!({"name": name, "namespace": "default", "uid": uid, "resourceVersion": "1"});
    let spec = json!({
        "nodeName": node,
        "volumes": [
            {"name": "v", "configMap": {"name": "hostile", "items": [{"key": up, "path": up}]}},
            {"name": up, "emptyDir": {}},
        ],
        "containers": [{
            "name": up, "image": "registry.example/app:1", "terminationMessagePath": up,
            "volumeMounts": [{"name": "v", "mountPath": up, "subPath": up}, {"name": up, "mountPath": "/x"}],
        }],
    });
    let files = json!({"metadata": meta("hostile", "hostile-cm"), "data": {up: "was here", "..": "x", "a/b": "x", "": "x"}});
    let mut all = vec![
        message(
            "edgecontroller",
            "resource",
            "insert",
            "default/configmap/hostile",
            files,
        ),
        message(
            "edgecontroller",
            "resource",
            "insert",
            "default/pod/hostile-paths",
            json!({"metadata": meta("hostile-paths", up), "spec": spec}),
        ),
        message(
            "edgecontroller",
            "resource",
            "insert",
            &format!("{up}/pod/{up}"),
            json!({"metadata": meta(up, "hostile-up"), "spec": spec}),
        ),
    ];
    for resource in [
        "../pod/..",
        "default/../pod",
        "default/pod/..",
        "default/pod/.",
        "default/pod/a\0b",
        "..//..",
    ] {
        let object = json!({"metadata": meta("..", "hostile-dots"), "spec": spec});
        all.push(message(
            "edgecontroller",
            "resource",
            "insert",
            resource,
            object,
        ));
    }
    // and deleted again: what was stored of it must not stay
    all.push(message(
        "edgecontroller",
        "resource",
        "delete",
        "default/pod/hostile-paths",
        json!({"metadata": {"name": "hostile-paths", "namespace": "default", "uid": up}}),
    ));
    all.push(message(
        "edgecontroller",
        "resource",
        "delete",
        "default/configmap/hostile",
        json!({"metadata": {"name": "hostile", "namespace": "default", "uid": "hostile-cm"}}),
    ));
    all
}

/// Returns numbers that no type can hold, in fields that are read as numbers.
pub(super) fn wild_numbers(node: &str) -> Vec<RawMessage> {
    let mut all: Vec<RawMessage> = ["99999999999999999999", "-1", "1e9", "NaN", "0x10", "", "१"]
        .into_iter()
        .map(|revision| {
            let object = json!({"metadata": {"name": "wild", "namespace": "default", "uid": "wild-uid",
                "resourceVersion": revision, "generation": -1, "deletionGracePeriodSeconds": i64::MIN,
                "creationTimestamp": "9999999-99-99T99:99:99Z"}, "data": {"k": revision}});
            let path = "default/configmap/wild";
            RawMessage::Message(Box::new(
                message("edgecontroller", "resource", "update", path, object).at_revision(revision),
            ))
        })
        .collect();
    let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": i64::MIN, "activeDeadlineSeconds": i64::MAX,
        "priority": i64::MAX, "containers": [{"name": "c", "image": "registry.example/app:1",
            "resources": {"limits": {"cpu": "1e999999999", "memory": "-9223372036854775809Ki"}}}]});
    let pod = json!({"metadata": {"name": "wild", "namespace": "default", "uid": "wild-pod", "resourceVersion": "2"}, "spec": spec});
    all.push(RawMessage::Message(Box::new(message(
        "edgecontroller",
        "resource",
        "insert",
        "default/pod/wild",
        pod,
    ))));
    let gone = json!({"metadata": {"name": "wild", "namespace": "default", "uid": "wild-pod"}});
    all.push(RawMessage::Message(Box::new(message(
        "edgecontroller",
        "resource",
        "delete",
        "default/pod/wild",
        gone,
    ))));
    // no program of the cloud writes such a timestamp
    all.push(RawMessage::Text(
        r#"{"header":{"msg_id":"t","timestamp":1e999},"route":{},"content":99999999999999999999999999}"#
            .to_owned(),
    ));
    all
}

/// Returns objects of other nodes, and objects that contradict their path.
pub(super) fn foreign(node: &str) -> Vec<Message> {
    let meta = |name: &str| json!({"name": name, "namespace": "default", "uid": format!("{name}-uid"), "resourceVersion": "1"});
    let pod = |name: &str, node: &str| {
        json!({"metadata": meta(name), "spec": {"nodeName": node,
        "containers": [{"name": "c", "image": "registry.example/app:1"}]}})
    };
    let other = format!("{node}-of-another-house");
    vec![
        message(
            "edgecontroller",
            "resource",
            "insert",
            "default/pod/foreign",
            pod("foreign", &other),
        ),
        message(
            "edgecontroller",
            "resource",
            "insert",
            "default/pod/named",
            pod("otherwise", node),
        ),
        message(
            "edgecontroller",
            "resource",
            "update",
            &format!("null/node/{other}"),
            json!({"metadata": {"name": other, "uid": "n"}}),
        ),
        message(
            "edgecontroller",
            "resource",
            "delete",
            "default/pod/never-was",
            json!({"metadata": {"name": "never-was", "uid": "never"}}),
        ),
        message(
            "edgecontroller",
            "resource",
            "delete",
            &format!("null/node/{other}"),
            json!({"metadata": {"name": other, "uid": "n"}}),
        ),
        message(
            "edged",
            "resource",
            "insert",
            "default/pod/masked",
            pod("masked", &other),
        ),
        message(
            "edgecontroller",
            "resource",
            "delete",
            "default/pod/foreign",
            json!({"metadata": meta("foreign")}),
        ),
        message(
            "edged",
            "resource",
            "delete",
            "default/pod/masked",
            json!({"metadata": meta("masked")}),
        ),
    ]
}
