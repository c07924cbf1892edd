//! Tables of the stored object, the patch and the expected object. Most cases are those of the Kubernetes documentation on patching.

use serde_json::json;

use super::*;
use crate::patch::target::Target;

fn merge(kind: &str, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let group = if kind == "Deployment" { "apps" } else { "" };
    apply(
        current,
        patch,
        MergeSchema::of(&Target {
            group,
            version: "v1",
            kind,
            schema: None,
        }),
    )
}

fn pod(spec: Value) -> Value {
    json!({ "spec": spec })
}

/// Checks cases of (description, current spec, patch of the spec, expected spec).
fn check_pods(cases: impl IntoIterator<Item = (&'static str, Value, Value, Value)>) {
    for (what, current, patch, expected) in cases {
        let result = merge("Pod", &pod(current), &pod(patch));
        assert_eq!(
            result.map(|v| v.to_string()),
            Ok(pod(expected).to_string()),
            "{what}"
        );
    }
}

#[test]
fn lists_with_keys_are_merged_by_them() {
    check_pods([
        (
            "a container is added before those that stand",
            json!({"containers": [{"name": "nginx", "image": "nginx"}]}),
            json!({"containers": [{"name": "redis", "image": "redis"}]}),
            json!({"containers": [{"name": "redis", "image": "redis"}, {"name": "nginx", "image": "nginx"}]}),
        ),
        (
            "a container is changed",
            json!({"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "3", "tty": null}]}),
            json!({"containers": [{"name": "a", "image": "3"}, {"name": "b", "image": "2"}]}),
        ),
        (
            "inside of a merged item",
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "args": ["1", "2"],
                "ports": [{"containerPort": 80}], "volumeMounts": [{"mountPath": "/m", "name": "v"}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}], "args": ["3"],
                "ports": [{"containerPort": 80, "name": "http"}], "volumeMounts": [{"mountPath": "/m", "readOnly": true}]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}], "args": ["3"],
                "ports": [{"containerPort": 80, "name": "http"}],
                "volumeMounts": [{"mountPath": "/m", "name": "v", "readOnly": true}]}]}),
        ),
        (
            "tolerations have no key",
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({"tolerations": [{"key": "b", "operator": "Exists"}]}),
            json!({"tolerations": [{"key": "b", "operator": "Exists"}]}),
        ),
        (
            "a list that does not stand yet, with a null and directives in it",
            json!({}),
            json!({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": null}, {"name": "b", "$patch": "delete"}],
                "$setElementOrder/volumes": [{"name": "a"}]}),
            json!({"volumes": [{"name": "a", "emptyDir": {}}]}),
        ),
    ]);
}

#[test]
fn directives_say_what_a_merge_cannot() {
    let two = || json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]});
    check_pods([
        (
            "delete an item",
            two(),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b", "image": "2"}]}),
        ),
        (
            "replace a list",
            two(),
            json!({"containers": [{"name": "c", "image": "3"}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "c", "image": "3"}]}),
        ),
        (
            "replace a list by items with the same key",
            two(),
            json!({"containers": [{"name": "c", "image": "3"}, {"name": "c", "image": "4"}, {"$patch": "replace"}]}),
            json!({"containers": [{"name": "c", "image": "3"}, {"name": "c", "image": "4"}]}),
        ),
        (
            "replace an object",
            json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}}),
            json!({"securityContext": {"$patch": "replace", "runAsUser": 3}}),
            json!({"securityContext": {"runAsUser": 3}}),
        ),
        (
            "delete what is in an object",
            json!({"securityContext": {"runAsUser": 1}}),
            json!({"securityContext": {"$patch": "delete"}}),
            json!({"securityContext": {}}),
        ),
        (
            "order a list",
            two(),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "3"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "3"}]}),
        ),
        (
            "order a list without changing it",
            two(),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]}),
        ),
        (
            "items that the order does not name keep their neighbours",
            json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}, {"name": "y"}]}),
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "c"}, {"name": "b"}], "containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "a"}, {"name": "c"}, {"name": "x"}, {"name": "b"}, {"name": "y"}]}),
        ),
        (
            "retain keys: a volume changes its source",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
        ),
    ]);
}

#[test]
fn lists_of_values_are_sets() {
    let metadata = |list: Value| json!({"metadata": {"finalizers": list}});
    for (patch, expected) in [
        (json!({"finalizers": ["c", "a"]}), json!(["c", "a", "b"])),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!(["b"]),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}),
            json!(["c", "b"]),
        ),
        (json!({"finalizers": null}), json!(null)),
    ] {
        let result = merge(
            "Pod",
            &metadata(json!(["a", "b"])),
            &json!({ "metadata": patch }),
        )
        .unwrap();
        assert_eq!(result["metadata"]["finalizers"], expected, "{patch}");
    }
}

#[test]
fn other_kinds_have_keys_too() {
    for (kind, current, patch, expected) in [
        (
            "Deployment",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1"}]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "tty": true}]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1", "tty": true}]}}}}),
        ),
        (
            "Deployment",
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            "Node",
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "False"}]}}),
        ),
        (
            "Node",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            json!({"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}),
            json!({"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}),
        ),
        (
            "Service",
            json!({"spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"a": "1"}}}),
            json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}], "selector": {"b": "2"}}}),
            json!({"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}], "selector": {"a": "1", "b": "2"}}}),
        ),
        (
            "ConfigMap",
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"a": null, "c": "3"}}),
            json!({"data": {"b": "2", "c": "3"}}),
        ),
    ] {
        assert_eq!(
            merge(kind, &current, &patch),
            Ok(expected),
            "{kind} {patch}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let current =
        pod(json!({"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v"}]}));
    let patches = [
        json!([]),
        pod(json!({"containers": [{"image": "1"}]})),
        pod(json!({"containers": [{"image": "1", "$patch": "delete"}]})),
        pod(json!({"containers": [{"name": "a", "$patch": "merge"}]})),
        pod(json!({"containers": [{"name": "a", "$patch": 1}]})),
        pod(json!({"containers": [["a"]]})),
        pod(json!({"securityContext": {}, "$patch": "explode"})),
        pod(json!({"$setElementOrder/containers": {}})),
        pod(json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]})),
        pod(json!({"$deleteFromPrimitiveList/containers": 1})),
        pod(json!({"volumes": [{"name": "v", "$retainKeys": 1}]})),
        pod(json!({"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}]})),
    ];
    let refusals = patches.map(|patch| match merge("Pod", &current, &patch) {
        Err(PatchError::BadRequest(why)) => why,
        other => panic!("{patch}: {other:?}"),
    });
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    invalid JSON document
    map: {"image":"1"} does not contain declared merge key: name
    map: {"image":"1","$patch":"delete"} does not contain declared merge key: name
    merging lists cannot yet be specified in the patch
    unknown patch type: 1 in map: {"name":"a","$patch":1}
    lists of lists are not supported
    unknown patch type: "explode" in map: {"securityContext":{},"$patch":"explode"}
    invalid patch format of setElementOrder list
    The order in patch list:
    ["a"]
     doesn't match $setElementOrder list:
    ["b"]

    invalid patch format of primitive list
    invalid patch format of retainKeys
    patch content doesn't match retainKeys list
    "#);
}
