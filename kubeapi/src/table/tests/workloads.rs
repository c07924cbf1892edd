//! Tests of [`super`].

use serde_json::{Value, json};

use super::print;

fn object(name: &str, spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": name, "creationTimestamp": "2025-06-01T11:55:00Z"}, "spec": spec, "status": status})
}

fn workload() -> Value {
    json!({"replicas": 3, "selector": {"matchLabels": {"app": "a"}, "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["c", "d"]}, {"key": "e", "operator": "DoesNotExist"}]},
        "template": {"spec": {"nodeSelector": {"zone": "x"}, "containers": [
            {"name": "one", "image": "i:1"}, {"name": "two", "image": "i:2"}]}}})
}

#[test]
fn workloads() {
    let ready =
        json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2});
    let daemons = json!({"desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberReady": 2,
        "updatedNumberScheduled": 1, "numberAvailable": 2});
    let mut revision = object("r", Value::Null, Value::Null);
    revision["revision"] = json!(7);
    revision["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]);
    let tables = [
        print(
            "deployments",
            &[
                object("new", workload(), json!({})),
                object("half", workload(), ready.clone()),
            ],
        ),
        print("replicasets", &[object("half", workload(), ready.clone())]),
        print("statefulsets", &[object("half", workload(), ready)]),
        print("daemonsets", &[object("half", workload(), daemons)]),
        print("controllerrevisions", &[revision]),
    ];
    insta::assert_snapshot!(tables.join("\n\n"));
}

#[test]
fn jobs() {
    let spec = |extra: Value| {
        let mut spec = workload();
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    };
    let ended = |type_: &str| {
        json!({"succeeded": 1, "startTime": "2025-06-01T11:55:00Z", "completionTime": "2025-06-01T11:55:42Z",
            "conditions": [{"type": "FailureTarget", "status": "True"}, {"type": type_, "status": "True"}]})
    };
    let table = print(
        "jobs",
        &[
            object("new", spec(json!({"completions": 1})), json!({})),
            object(
                "runs",
                spec(json!({"parallelism": 3})),
                json!({"startTime": "2025-06-01T11:59:00Z"}),
            ),
            object("well", spec(json!({"completions": 1})), ended("Complete")),
            object("ill", spec(json!({"completions": 5})), ended("Failed")),
        ],
    );
    let cron = |extra: Value, status: Value| {
        let mut spec = json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": workload()}});
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        object("cron", spec, status)
    };
    let crons = [
        cron(json!({}), json!({})),
        cron(
            json!({"suspend": true, "timeZone": "Etc/UTC"}),
            json!({"active": [{}], "lastScheduleTime": "2025-06-01T11:58:00Z"}),
        ),
    ];
    insta::assert_snapshot!([table, print("cronjobs", &crons)].join("\n\n"));
}

#[test]
fn volumes_policies_and_access() {
    let role = json!({"metadata": {"name": "b", "creationTimestamp": "2025-06-01T11:55:00Z"},
        "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]});
    let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"}, "volumeMode": "Filesystem"});
    let claim = json!({"volumeName": "v", "volumeMode": "Filesystem"});
    let bound =
        json!({"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}});
    let mut class = object("fast", Value::Null, Value::Null);
    class["provisioner"] = json!("example.com/fast");
    class["metadata"]["annotations"] =
        json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let quota = json!({"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}});
    let ingress = json!({"rules": [{"host": "a.example.com"}, {}], "tls": [{}]});
    let tables = [
        print(
            "persistentvolumes",
            &[object("v", volume, json!({"phase": "Bound"}))],
        ),
        print(
            "persistentvolumeclaims",
            &[
                object("new", json!({}), json!({"phase": "Pending"})),
                object("c", claim, bound),
            ],
        ),
        print("storageclasses", &[class]),
        print("resourcequotas", &[object("q", json!({}), quota)]),
        print(
            "poddisruptionbudgets",
            &[object(
                "p",
                json!({"minAvailable": "50%"}),
                json!({"disruptionsAllowed": 1}),
            )],
        ),
        print("rolebindings", &[role]),
        print("ingresses", &[object("i", ingress, json!({}))]),
        print(
            "networkpolicies",
            &[object(
                "n",
                json!({"podSelector": {"matchLabels": {"app": "a"}}}),
                Value::Null,
            )],
        ),
    ];
    insta::assert_snapshot!(tables.join("\n\n"));
}
