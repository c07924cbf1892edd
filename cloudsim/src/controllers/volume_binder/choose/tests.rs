//! Tests of [`super`].

use serde_json::{Value, json};

use super::*;

#[derive(Default)]
struct World {
    claims: Vec<Arc<PersistentVolumeClaim>>,
    volumes: Vec<Arc<PersistentVolume>>,
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    classes: Vec<Arc<StorageClass>>,
}

fn merge(mut base: Value, change: Value) -> Value {
    base.as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    base
}

impl World {
    fn claim(&mut self, name: &str, change: Value) {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let claim = json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": merge(spec, change),
            "status": {"phase": "Pending"}});
        self.claims
            .push(Arc::new(serde_json::from_value(claim).unwrap()));
    }

    fn volume(&mut self, name: &str, size: &str, change: Value) {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "local": {"path": "/x"}});
        let volume = json!({"metadata": {"name": name}, "spec": merge(spec, change), "status": {"phase": "Available"}});
        self.volumes
            .push(Arc::new(serde_json::from_value(volume).unwrap()));
    }

    fn class(&mut self, name: &str, provisioner: &str, mode: &str, is_default: bool) {
        let annotations =
            json!({"storageclass.kubernetes.io/is-default-class": is_default.to_string()});
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": provisioner,
            "volumeBindingMode": mode});
        self.classes
            .push(Arc::new(serde_json::from_value(class).unwrap()));
    }

    fn describe(&self) -> Vec<String> {
        let known = VolumeState {
            claims: &self.claims,
            volumes: &self.volumes,
            pods: &self.pods,
            nodes: &self.nodes,
            classes: &self.classes,
        };
        let words = steps(&known).into_iter().map(|step| match step {
            Step::Phase(volume, phase) => format!("{} {phase}", volume.name_any()),
            Step::Lost(claim) => format!("{} lost", claim.name_any()),
            Step::Bind(claim, volume) => format!("{}={}", claim.name_any(), volume.name_any()),
            Step::SetClass(claim, class) => format!("{}: class {class}", claim.name_any()),
            Step::Announce(claim, provisioner) => format!("{}: by {provisioner}", claim.name_any()),
        });
        words.collect()
    }
}

#[test]
fn the_smallest_volume_that_does_is_taken_once() {
    let mut world = World::default();
    world.claim("a", json!({}));
    world.claim("b", json!({}));
    world.claim("c", json!({}));
    world.volume("small", "900Mi", json!({}));
    world.volume("large", "10Gi", json!({}));
    world.volume("right", "1Gi", json!({}));
    world.volume("fast", "1Gi", json!({"storageClassName": "fast"}));
    world.volume("read", "1Gi", json!({"accessModes": ["ReadOnlyMany"]}));
    world.volume("raw", "1Gi", json!({"volumeMode": "Block"}));
    assert_eq!(world.describe(), ["a=right", "b=large"]);
}

#[test]
fn what_is_named_by_hand_counts() {
    let mut world = World::default();
    world.volume(
        "pre",
        "9Gi",
        json!({"claimRef": {"namespace": "n", "name": "a"}}),
    );
    world.volume(
        "other",
        "1Gi",
        json!({"claimRef": {"namespace": "m", "name": "a"}}),
    );
    world.volume(
        "old",
        "1Gi",
        json!({"claimRef": {"namespace": "n", "name": "a", "uid": "before"}}),
    );
    world.volume("free", "1Gi", json!({}));
    world.volume("wanted", "5Gi", json!({}));
    world.claim("a", json!({}));
    world.claim("b", json!({"volumeName": "wanted"}));
    assert_eq!(world.describe(), ["old Released", "a=pre", "b=wanted"]);
}

#[test]
fn a_late_claim_waits_for_its_pods_node() {
    let mut world = World::default();
    world.class(
        "local",
        "kubernetes.io/no-provisioner",
        "WaitForFirstConsumer",
        false,
    );
    let on = |host: &str| {
        json!({"storageClassName": "local", "nodeAffinity": {"required": {"nodeSelectorTerms":
            [{"matchExpressions": [{"key": "host", "operator": "In", "values": [host]}]}]}}})
    };
    world.volume("first", "1Gi", on("e1"));
    world.volume("second", "2Gi", on("e2"));
    world.claim("a", json!({"storageClassName": "local"}));
    assert!(world.describe().is_empty());
    for host in ["e1", "e2"] {
        let node = json!({"metadata": {"name": host, "labels": {"host": host}}});
        world
            .nodes
            .push(Arc::new(serde_json::from_value(node).unwrap()));
    }
    let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [], "nodeName": "e2",
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]}});
    world
        .pods
        .push(Arc::new(serde_json::from_value(pod).unwrap()));
    assert_eq!(world.describe(), ["a=second"]);
}

#[test]
fn a_claim_that_was_bound_can_lose_its_volume() {
    let mut world = World::default();
    let claim = json!({"metadata": {"name": "a", "namespace": "n", "uid": "a", "annotations": {COMPLETED: "yes"}},
        "spec": {"volumeName": "gone"}, "status": {"phase": "Bound"}});
    world
        .claims
        .push(Arc::new(serde_json::from_value(claim).unwrap()));
    assert_eq!(world.describe(), ["a lost"]);
}

#[test]
fn a_volume_that_was_provisioned_for_a_late_claim_is_bound_at_once() {
    let mut world = World::default();
    world.class(
        "standard",
        "outrigger.dev/local-path",
        "WaitForFirstConsumer",
        true,
    );
    world.claim("a", json!({"storageClassName": "standard"}));
    world.volume("free", "1Gi", json!({"storageClassName": "standard"}));
    assert!(world.describe().is_empty());
    let owner = json!({"namespace": "n", "name": "a", "uid": "a"});
    world.volume(
        "pvc-a",
        "1Gi",
        json!({"storageClassName": "standard", "claimRef": owner}),
    );
    assert_eq!(world.describe(), ["pvc-a Bound", "a=pvc-a"]);
}

#[test]
fn a_claim_gets_the_default_class_and_learns_its_provisioner() {
    let mut world = World::default();
    world.claim("a", json!({}));
    world.claim("none", json!({"storageClassName": ""}));
    assert!(world.describe().is_empty());
    world.class("disk", "disk.example", "Immediate", true);
    assert_eq!(world.describe(), ["a: class disk"]);
    let mut world = World {
        classes: world.classes,
        ..World::default()
    };
    world.class("late", "disk.example", "WaitForFirstConsumer", false);
    world.class(
        "in-tree",
        "kubernetes.io/no-provisioner",
        "Immediate",
        false,
    );
    for class in ["disk", "late", "in-tree"] {
        world.claim(class, json!({"storageClassName": class}));
    }
    assert_eq!(world.describe(), ["disk: by disk.example"]);
}
