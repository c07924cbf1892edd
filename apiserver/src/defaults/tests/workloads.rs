//! Tests of [`super`].

use serde_json::{Value, json};

use super::{begin_object, fill_object};

fn spec(plural: &str, spec: Value) -> Value {
    let mut object = fill_object(plural, json!({"metadata": {"name": "a"}, "spec": spec}));
    // the template has its own test
    for pointer in ["/spec", "/spec/jobTemplate/spec"] {
        if let Some(Value::Object(spec)) = object.pointer_mut(pointer) {
            spec.remove("template");
        }
    }
    object["spec"].take()
}

#[test]
fn a_template_has_the_defaults_of_its_pods_but_not_what_admission_adds() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "nginx", "resources": {"limits": {"cpu": "1"}}}]}});
    let deployment = fill_object("deployments", json!({"spec": {"template": template}}));
    insta::assert_json_snapshot!(deployment["spec"]["template"]);
}

#[test]
fn workloads() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let all = [
        spec("deployments", json!({})),
        spec(
            "deployments",
            json!({"replicas": 0, "strategy": {"type": "Recreate"}}),
        ),
        spec(
            "deployments",
            json!({"strategy": {"rollingUpdate": {"maxSurge": 2}}}),
        ),
        spec("replicasets", json!({})),
        spec("daemonsets", json!({})),
        spec("statefulsets", json!({"volumeClaimTemplates": claims})),
    ];
    insta::assert_json_snapshot!(all);
}

#[test]
fn jobs() {
    let all = [
        spec("jobs", json!({})),
        spec("jobs", json!({"parallelism": 2})),
        spec(
            "jobs",
            json!({"completions": 3, "podFailurePolicy": {"rules": [{"onPodConditions": [{"type": "X"}]}]}}),
        ),
        spec("cronjobs", json!({"schedule": "@daily"})),
    ];
    insta::assert_json_snapshot!(all);
}

#[test]
fn pod_with_the_autonomy_label_stays_on_an_unreachable_node() {
    let tolerations = |label: &str| {
        let pod = json!({
            "metadata": {"name": "a", "labels": {"app-offline.kubeedge.io": label}},
            "spec": {"containers": [], "tolerations": [
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                {"key": "other", "operator": "Exists"},
            ]},
        });
        let pod = begin_object("pods", fill_object("pods", pod));
        let all = pod["spec"]["tolerations"].as_array().cloned();
        let all = all.unwrap_or_default().into_iter();
        all.map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or("any").to_owned();
            let seconds = one["tolerationSeconds"].as_i64();
            format!("{} {} {seconds:?}", text("key"), text("effect"))
        })
        .collect::<Vec<_>>()
    };
    let not_ready = "node.kubernetes.io/not-ready NoExecute Some(300)";
    assert_eq!(
        tolerations("autonomy"),
        [
            "other any None",
            not_ready,
            "node.kubernetes.io/unreachable any None"
        ]
    );
    assert_eq!(
        tolerations("else"),
        [
            "node.kubernetes.io/unreachable NoExecute Some(5)",
            "other any None",
            not_ready
        ]
    );
}

#[test]
fn a_job_selects_its_own_pods() {
    let job = begin_object(
        "jobs",
        json!({"metadata": {"name": "a", "uid": "u"}, "spec": {}}),
    );
    let labels = json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "a",
        "controller-uid": "u", "job-name": "a"});
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(job["metadata"]["labels"], labels);
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    let manual = json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}});
    let manual = begin_object(
        "jobs",
        json!({"metadata": {"name": "a", "uid": "u"}, "spec": manual}),
    );
    assert_eq!(
        manual["spec"]["selector"],
        json!({"matchLabels": {"a": "b"}})
    );
}

#[test]
fn what_is_only_stored_has_few() {
    let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]);
    let all = [
        fill_object(
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}),
        ),
        fill_object(
            "persistentvolumes",
            json!({"spec": {"hostPath": {"path": "/x"}}}),
        ),
        fill_object("persistentvolumeclaims", json!({"spec": {}})),
        fill_object("storageclasses", json!({"provisioner": "p"})),
        fill_object(
            "networkpolicies",
            json!({"spec": {"egress": [{"ports": [{"port": 53}]}]}}),
        ),
        fill_object(
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 3}}),
        ),
        fill_object("priorityclasses", json!({"value": 1})),
        fill_object("namespaces", json!({"metadata": {"name": "n"}})),
    ];
    insta::assert_json_snapshot!(all);
}
