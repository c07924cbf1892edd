//! What the API adds to new claims, volumes and nodes.

use serde_json::{Value, json};

use super::world::World;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const NODES: &str = "/api/v1/nodes";

fn claim(name: &str, class: Value) -> Value {
    let mut claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    if !class.is_null() {
        claim["spec"]["storageClassName"] = class;
    }
    claim
}

fn class(name: &str, annotation: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {annotation: value}}, "provisioner": "example.com/disk"})
}

#[tokio::test]
async fn a_claim_without_a_class_gets_the_default_class() {
    let world = World::new().await;
    let made = world.create(CLAIMS, claim("early", Value::Null)).await;
    assert_eq!(made["spec"]["storageClassName"], Value::Null);
    const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    world
        .create(CLASSES, class("other", IS_DEFAULT, "false"))
        .await;
    world
        .create(CLASSES, class("standard", IS_DEFAULT, "true"))
        .await;
    let mut old_form = claim("old-form", Value::Null);
    old_form["metadata"]["annotations"] =
        json!({"volume.beta.kubernetes.io/storage-class": "other"});
    for (claim, expected) in [
        (claim("none-given", Value::Null), json!("standard")),
        (claim("given", json!("other")), json!("other")),
        (claim("no-class", json!("")), json!("")),
        (old_form, Value::Null),
    ] {
        let made = world.create(CLAIMS, claim).await;
        assert_eq!(
            made["spec"]["storageClassName"], expected,
            "{}",
            made["metadata"]["name"]
        );
        assert_eq!(
            made["metadata"]["finalizers"],
            json!(["kubernetes.io/pvc-protection"])
        );
    }
    // of several defaults created in one second the first by name
    world
        .create(
            CLASSES,
            class(
                "alpha",
                "storageclass.beta.kubernetes.io/is-default-class",
                "true",
            ),
        )
        .await;
    let made = world.create(CLAIMS, claim("several", Value::Null)).await;
    assert!(["alpha", "standard"].contains(&made["spec"]["storageClassName"].as_str().unwrap()));
}

#[tokio::test]
async fn a_volume_is_protected_and_notes_when_its_phase_changes() {
    let world = World::new().await;
    let volume = json!({"metadata": {"name": "v", "finalizers": ["example.com/x"]}, "spec": {"accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}});
    let made = world.create(VOLUMES, volume).await;
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["example.com/x", "kubernetes.io/pv-protection"])
    );
    assert!(made["status"]["lastPhaseTransitionTime"].is_string());
    let status = format!("MERGE {VOLUMES}/v/status");
    let given = json!({"status": {"phase": "Available", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}});
    world.expect(&status, given.clone(), 200, given).await;
    let same = json!({"status": {"phase": "Available", "message": "x"}});
    let kept = json!({"status": {"lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}});
    world.expect(&status, same, 200, kept).await;
    let bound = world
        .expect(
            &status,
            json!({"status": {"phase": "Bound"}}),
            200,
            json!({}),
        )
        .await;
    let since = bound["status"]["lastPhaseTransitionTime"].as_str().unwrap();
    assert!(since > "2024", "{since}");
}

#[tokio::test]
async fn a_new_node_is_not_ready_and_has_its_pod_ranges() {
    let world = World::new().await;
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let own = json!({"key": "gpu", "effect": "NoSchedule"});
    for (name, spec, expected) in [
        ("plain", json!({}), json!({"taints": [taint]})),
        (
            "tainted",
            json!({"taints": [own]}),
            json!({"taints": [own, taint]}),
        ),
        (
            "has-it",
            json!({"taints": [taint]}),
            json!({"taints": [taint]}),
        ),
        (
            "range",
            json!({"podCIDR": "10.1.0.0/24"}),
            json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
        ),
        (
            "ranges",
            json!({"podCIDRs": ["10.1.0.0/24"]}),
            json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
        ),
        (
            "both",
            json!({"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
            json!({"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}),
        ),
    ] {
        let made = world
            .create(NODES, json!({"metadata": {"name": name}, "spec": spec}))
            .await;
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(made["spec"][field], *value, "{name} {field}");
        }
    }
}
