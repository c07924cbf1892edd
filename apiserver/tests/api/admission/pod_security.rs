//! Pod Security: what the labels of a namespace do to the pods that are written in it.

use http::StatusCode;
use serde_json::{Value, json};

use crate::world::{Answer, World};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/guarded/pods";

/// A world with the namespace `guarded`, which has these labels.
async fn guarded_world(labels: Value) -> World {
    let world = World::new().await;
    let answer = world
        .send(&format!("POST {NAMESPACES}"), namespace(&labels))
        .await;
    assert_eq!(answer.code, StatusCode::CREATED, "{answer:?}");
    world
}

fn namespace(labels: &Value) -> Value {
    let labels: serde_json::Map<_, _> = labels
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone()))
        .collect();
    json!({"metadata": {"name": "guarded", "labels": labels}})
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "x", "image": "i"}]}});
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

fn warnings(answer: &Answer) -> Vec<String> {
    let texts = answer.headers.get_all("warning").iter();
    // `299 - "…"`, with quotes escaped
    texts
        .map(|text| {
            let text = text.to_str().unwrap();
            let text = text
                .strip_prefix("299 - \"")
                .and_then(|text| text.strip_suffix('"'))
                .unwrap();
            text.replace("\\\"", "\"").replace("\\\\", "\\")
        })
        .collect()
}

fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_is_enforced_refuses_pods_and_warns_of_workloads() {
    let world = guarded_world(json!({"enforce": "baseline"})).await;
    let violation = r#"violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)"#;
    let bad = pod("bad", json!({"hostNetwork": true}));
    let refused = world.send(&format!("POST {PODS}"), bad.clone()).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    assert_eq!(
        message(&refused),
        format!(r#"pods "bad" is forbidden: {violation}"#)
    );
    assert_eq!(refused.body["reason"], "Forbidden");
    assert_eq!(warnings(&refused), [""; 0]);
    world.create(PODS, pod("good", json!({}))).await;

    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": bad["spec"]});
    let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let workload = |spec: &Value| json!({"metadata": {"name": "w"}, "spec": spec});
    let told = format!("would {}", violation.replace("violates", "violate"));
    for path in [
        "apps/v1/namespaces/guarded/deployments",
        "apps/v1/namespaces/guarded/daemonsets",
    ] {
        let taken = world
            .send(&format!("POST /apis/{path}"), workload(&spec))
            .await;
        assert_eq!(taken.code, StatusCode::CREATED, "{taken:?}");
        assert_eq!(warnings(&taken), [told.as_str()], "{path}");
    }
    spec["template"]["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"template": spec["template"]});
    let taken = world
        .send(
            "POST /apis/batch/v1/namespaces/guarded/jobs",
            workload(&job),
        )
        .await;
    assert_eq!(warnings(&taken), [told.as_str()]);
    let cron = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}});
    let taken = world
        .send(
            "POST /apis/batch/v1/namespaces/guarded/cronjobs",
            workload(&cron),
        )
        .await;
    assert_eq!(warnings(&taken), [told.as_str()]);
}

#[tokio::test]
async fn a_warning_alone_refuses_nothing() {
    let world =
        guarded_world(json!({"warn": "restricted", "warn-version": "v1.30", "audit": "baseline"}))
            .await;
    let taken = world
        .send(&format!("POST {PODS}"), pod("p", json!({})))
        .await;
    assert_eq!(taken.code, StatusCode::CREATED);
    let told = warnings(&taken);
    let [warning] = &told[..] else {
        panic!("{taken:?}")
    };
    let expected = r#"would violate PodSecurity "restricted:v1.30": allowPrivilegeEscalation != false (container "x" must set securityContext.allowPrivilegeEscalation=false), "#;
    assert!(warning.starts_with(expected), "{warning}");
}

#[tokio::test]
async fn containers_that_are_added_are_judged_and_other_changes_are_not() {
    let world = guarded_world(json!({})).await;
    let mut old = pod("old", json!({"hostNetwork": true}));
    world.create(PODS, old.clone()).await;
    let strict =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let labelled = world
        .send(&format!("MERGE {NAMESPACES}/guarded"), strict)
        .await;
    assert_eq!(
        warnings(&labelled),
        [
            r#"existing pods in namespace "guarded" violate the new PodSecurity enforce level "baseline:latest""#,
            "old: host namespaces",
        ]
    );
    // it stays, and may be changed where nothing of this depends on it
    let more = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        world.send(&format!("MERGE {PODS}/old"), more).await.code,
        StatusCode::OK
    );
    let image = json!({"spec": {"containers": [{"name": "x", "image": "other"}]}});
    let refused = world.send(&format!("STRATEGIC {PODS}/old"), image).await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN, "{refused:?}");

    world.create(PODS, pod("good", json!({}))).await;
    old["spec"] = json!({"ephemeralContainers": [{"name": "debug", "image": "i", "securityContext": {"privileged": true}}]});
    let added = world
        .send(
            &format!("STRATEGIC {PODS}/good/ephemeralcontainers"),
            json!({"spec": old["spec"]}),
        )
        .await;
    assert_eq!(
        message(&added),
        r#"pods "good" is forbidden: violates PodSecurity "baseline:latest": privileged (container "debug" must not set securityContext.privileged=true)"#
    );
}

#[tokio::test]
async fn labels_that_mean_nothing_are_refused_unless_they_stand_already() {
    let world = World::new().await;
    let bad = namespace(&json!({"enforce": "strict", "warn-version": "1.30"}));
    let refused = world.send(&format!("POST {NAMESPACES}"), bad).await;
    assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        message(&refused),
        "Namespace \"guarded\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of \
         privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.30\": must be \
         \"latest\" or \"v1.x\"]"
    );
    let world = guarded_world(json!({"enforce": "restricted"})).await;
    let relaxed =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    let answer = world
        .send(&format!("MERGE {NAMESPACES}/guarded"), relaxed)
        .await;
    assert_eq!(
        (answer.code, warnings(&answer)),
        (StatusCode::OK, Vec::new())
    );
}
