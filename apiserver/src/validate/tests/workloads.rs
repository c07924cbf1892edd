//! Tests of [`super`].

use serde_json::{Value, json};

use super::{creation_causes, report, update_causes};

fn workload(change: Value) -> Value {
    let mut object = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {
        "selector": {"matchLabels": {"app": "a"}}, "serviceName": "a",
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}}});
    for (pointer, value) in change.as_object().unwrap() {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    object
}

fn job(change: Value) -> Value {
    let mut job = workload(change);
    let spec = job["spec"].as_object_mut().unwrap();
    spec.remove("serviceName");
    spec.remove("selector");
    if spec["template"]["spec"].get("restartPolicy").is_none() {
        spec["template"]["spec"]["restartPolicy"] = json!("Never");
    }
    job
}

#[test]
fn workloads_have_rules() {
    for plural in ["deployments", "replicasets", "daemonsets", "statefulsets"] {
        let good = workload(json!({}));
        let good = if plural == "statefulsets" {
            good
        } else {
            without_service(good)
        };
        assert_eq!(
            creation_causes(plural, good),
            Vec::<String>::new(),
            "{plural}"
        );
    }
    let texts = report(
        "deployments",
        [
            json!({"/spec/replicas": -1}),
            json!({"/spec/selector": null}),
            json!({"/spec/selector": {}}),
            json!({"/spec/selector": {"matchLabels": {"app": "b"}}}),
            json!({"/spec/template/spec/restartPolicy": "Never"}),
            json!({"/spec/template/spec/containers": []}),
            json!({"/spec/strategy": {"type": "Recreate", "rollingUpdate": {}}}),
            json!({"/spec/strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}),
            json!({"/spec/strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}}}),
            json!({"/spec/progressDeadlineSeconds": 5, "/spec/minReadySeconds": 5}),
        ]
        .map(|change| without_service(workload(change)))
        .to_vec(),
    );
    insta::assert_snapshot!(texts);
}

fn without_service(mut object: Value) -> Value {
    object["spec"]
        .as_object_mut()
        .unwrap()
        .remove("serviceName");
    object
}

#[test]
fn what_pods_are_found_by_stays() {
    let other = json!({"/spec/selector": {"matchLabels": {"app": "b"}}, "/spec/template/metadata": {"labels": {"app": "b"}}});
    let texts = update_causes(
        "deployments",
        without_service(workload(json!({}))),
        without_service(workload(other)),
    );
    assert_eq!(texts.len(), 1);
    insta::assert_snapshot!(texts[0], @r#"spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable"#);
    let texts = update_causes(
        "statefulsets",
        workload(json!({})),
        workload(json!({"/spec/serviceName": "b"})),
    );
    assert!(
        texts[0].starts_with("spec: Forbidden: updates to statefulset spec"),
        "{texts:?}"
    );
    assert!(
        update_causes(
            "statefulsets",
            workload(json!({})),
            workload(json!({"/spec/replicas": 3}))
        )
        .is_empty()
    );
}

#[test]
fn jobs_have_rules() {
    assert_eq!(
        creation_causes("jobs", job(json!({}))),
        Vec::<String>::new()
    );
    let jobs = report(
        "jobs",
        [
            json!({"/spec/template/spec/restartPolicy": "Always"}),
            json!({"/spec/completions": -1}),
            json!({"/spec/completionMode": "Indexed", "/spec/parallelism": 2}),
            json!({"/spec/template/spec/restartPolicy": "OnFailure", "/spec/podFailurePolicy": {"rules": []}}),
        ]
        .map(job)
        .to_vec(),
    );
    let cron = |schedule: &str, name: &str, zone: Value| {
        let spec = json!({"schedule": schedule, "timeZone": zone, "jobTemplate": {"spec": job(json!({}))["spec"]}});
        json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec})
    };
    assert_eq!(
        creation_causes("cronjobs", cron("*/5 * * * *", "c", Value::Null)),
        Vec::<String>::new()
    );
    let crons = report(
        "cronjobs",
        vec![
            cron("", "c", Value::Null),
            cron("* * *", "c", Value::Null),
            cron("@daily", "c", json!("Nowhere/Land")),
            cron("@daily", &"c".repeat(53), Value::Null),
        ],
    );
    insta::assert_snapshot!([jobs, crons].join("\n"));
}

#[test]
fn what_a_job_does_stays() {
    let image = json!({"/spec/template/spec/containers": [{"name": "a", "image": "j"}]});
    assert_eq!(
        update_causes("jobs", job(json!({})), job(image.clone())).len(),
        1
    );
    let mut suspended = job(json!({}));
    suspended["spec"]["suspend"] = json!(true);
    // nothing was made of it yet, so that a queue may still choose its nodes
    let nodes = job(json!({"/spec/template/spec/nodeSelector": {"zone": "a"}}));
    assert_eq!(
        update_causes("jobs", suspended.clone(), nodes),
        Vec::<String>::new()
    );
    assert_eq!(update_causes("jobs", suspended, job(image)).len(), 1);
    assert_eq!(
        update_causes(
            "jobs",
            job(json!({"/spec/completions": 1})),
            job(json!({"/spec/completions": 2}))
        )
        .len(),
        1
    );
}

#[test]
fn service_account_of_a_binding_needs_a_namespace_only_in_the_cluster() {
    for (plural, namespace, own, faults) in [
        ("rolebindings", Some("n"), None, 0),
        ("rolebindings", Some("n"), Some("other"), 0),
        ("clusterrolebindings", None, None, 1),
        ("clusterrolebindings", None, Some("n"), 0),
    ] {
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
        let subject = json!({"kind": "ServiceAccount", "name": "a", "namespace": own});
        let metadata = json!({"name": "b", "namespace": namespace});
        let found = creation_causes(
            plural,
            json!({"metadata": metadata, "roleRef": role, "subjects": [subject]}),
        );
        assert_eq!(found.len(), faults, "{plural} {own:?}: {found:?}");
        assert!(
            found
                .iter()
                .all(|fault| fault.contains("subjects[0].namespace")),
            "{found:?}"
        );
    }
}

#[test]
fn bindings_and_budgets_have_rules() {
    let binding = |role: &str| {
        json!({"metadata": {"name": "a:b", "namespace": "n"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
    };
    assert!(creation_causes("rolebindings", binding("r")).is_empty());
    assert_eq!(
        update_causes("rolebindings", binding("r"), binding("s")).len(),
        1
    );
    let both = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
    assert_eq!(creation_causes("poddisruptionbudgets", both).len(), 1);
}
