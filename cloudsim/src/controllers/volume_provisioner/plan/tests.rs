//! Tests of [`super`].

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{super::helper, *};

fn read<K: DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn merge(mut base: Value, change: &Value) -> Value {
    base.as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    base
}

/// Returns the steps for a claim whose spec is changed, that is selected for a node, in a class that is changed.
fn for_one(claim: &Value, selected: Option<&str>, class: &Value) -> Vec<Step> {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": "standard"});
    let annotations = selected.map(|node| json!({SELECTED_NODE: node}));
    let claim = json!({"metadata": {"name": "data", "namespace": "shop", "uid": "1-2", "annotations": annotations},
        "spec": merge(spec, claim), "status": {"phase": "Pending"}});
    let class = merge(
        json!({"metadata": {"name": "standard"}, "provisioner": PROVISIONER, "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer"}),
        class,
    );
    let node = |name: &str, directory: Option<&str>| {
        let annotations = directory.map(|directory| json!({DIRECTORY_ANNOTATION: directory}));
        read(
            json!({"metadata": {"name": name, "labels": {HOSTNAME: format!("{name}.local")}, "annotations": annotations}}),
        )
    };
    steps(&StorageObjects {
        claims: &[read(claim)],
        volumes: &[],
        classes: &[read(class)],
        nodes: &[
            node("edge-1", None),
            node("edge-2", Some("/tmp/edge-2/volumes")),
            node("edge-3", Some("../x")),
        ],
        pods: &[],
    })
}

#[test]
fn a_volume_is_a_directory_on_the_selected_node() {
    for (node, directory) in [
        ("edge-1", "/var/lib/kubeedge/volumes"),
        ("edge-2", "/tmp/edge-2/volumes"),
    ] {
        let steps = for_one(&json!({}), Some(node), &json!({}));
        let [Step::Create(_, volume)] = steps.as_slice() else {
            panic!("{steps:?}")
        };
        let spec = volume.spec.clone().unwrap();
        let source = spec.host_path.unwrap();
        assert_eq!(source.path, format!("{directory}/pvc-1-2_shop_data"));
        assert_eq!(source.type_.as_deref(), Some("DirectoryOrCreate"));
        let affinity = json!(spec.node_affinity.unwrap().required.unwrap());
        let wanted = affinity.pointer("/nodeSelectorTerms/0/matchExpressions/0/values/0");
        assert_eq!(wanted.unwrap(), &json!(format!("{node}.local")));
        assert_eq!(spec.capacity.unwrap()["storage"].0, "2Gi");
        assert_eq!(spec.claim_ref.unwrap().uid.as_deref(), Some("1-2"));
    }
    let steps = for_one(
        &json!({}),
        Some("edge-1"),
        &json!({"parameters": {"path": "/data"}}),
    );
    assert!(
        matches!(&steps[..], [Step::Create(_, volume)] if json!(volume).to_string().contains("/data/pvc-1-2"))
    );
    assert!(
        for_one(&json!({}), None, &json!({})).is_empty(),
        "no node is selected"
    );
    assert!(for_one(&json!({}), Some("edge-1"), &json!({"provisioner": "other"})).is_empty());
    assert!(matches!(
        &for_one(&json!({}), Some("gone"), &json!({}))[..],
        [Step::Reselect(_)]
    ));
}

#[test]
fn a_claim_that_cannot_be_a_directory_is_refused_by_name() {
    for (claim, node, class, named) in [
        (
            json!({"volumeMode": "Block"}),
            "edge-1",
            json!({}),
            "Filesystem",
        ),
        (
            json!({"accessModes": ["ReadWriteMany"]}),
            "edge-1",
            json!({}),
            "ReadWriteOncePod",
        ),
        (json!({"selector": {}}), "edge-1", json!({}), "selector"),
        (
            json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}),
            "edge-1",
            json!({}),
            "dataSource",
        ),
        (
            json!({}),
            "edge-1",
            json!({"parameters": {"type": "ssd"}}),
            "\"type\"",
        ),
        (
            json!({}),
            "edge-1",
            json!({"volumeBindingMode": "Immediate"}),
            "WaitForFirstConsumer",
        ),
        (
            json!({}),
            "edge-1",
            json!({"parameters": {"path": "/"}}),
            "\"/\"",
        ),
        (json!({}), "edge-3", json!({}), "\"../x\""),
    ] {
        let steps = for_one(&claim, Some(node), &class);
        assert!(
            matches!(&steps[..], [Step::Refuse(_, why)] if why.contains(named)),
            "{named}: {steps:?}"
        );
    }
}

fn released_volume(change: impl FnOnce(&mut Value)) -> Arc<PersistentVolume> {
    let mut volume = json!({
        "metadata": {"name": "pvc-1-2", "finalizers": [FINALIZER],
            "annotations": {PROVISIONED_BY: PROVISIONER, NODE: "edge-1"}},
        "spec": {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/data/pvc-1-2_shop_data"}},
        "status": {"phase": "Released"},
    });
    change(&mut volume);
    read(volume)
}

#[test]
fn only_a_released_volume_with_the_policy_delete_is_removed() {
    let step = |change: fn(&mut Value)| match for_volume(&released_volume(change)) {
        None => "stays",
        Some(Step::Remove(_)) => "removed",
        Some(Step::Release(_)) => "released",
        Some(step) => panic!("{step:?}"),
    };
    assert_eq!(step(|_| ()), "removed");
    assert_eq!(
        step(|volume| volume["status"]["phase"] = json!("Bound")),
        "stays"
    );
    assert_eq!(
        step(|volume| volume["metadata"]["annotations"] = json!({})),
        "stays"
    );
    let deleting = |volume: &mut Value| {
        volume["metadata"]["deletionTimestamp"] = json!("2025-06-01T00:00:00Z")
    };
    assert_eq!(step(deleting), "removed");
    let retain =
        |volume: &mut Value| volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    assert_eq!(step(retain), "stays");
    assert_eq!(
        step(|volume| {
            volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
            volume["metadata"]["deletionTimestamp"] = json!("2025-06-01T00:00:00Z");
        }),
        "released"
    );
}

#[test]
fn a_helper_pod_removes_a_directory_of_the_provisioner_alone() {
    let pod = helper::pod(&released_volume(|_| ()), None).unwrap();
    let spec = json!(pod.spec.unwrap());
    assert_eq!(
        spec["containers"][0]["command"],
        json!(["rm", "-rf", "/volumes/pvc-1-2_shop_data"])
    );
    assert_eq!(spec["volumes"][0]["hostPath"]["path"], json!("/data"));
    assert_eq!(spec["nodeName"], json!("edge-1"));
    for path in [
        "/etc",
        "/pvc-1-2_x",
        "/data/..",
        "/data/../pvc-1-2",
        "data/pvc-1-2",
        "",
    ] {
        let volume = released_volume(|volume| volume["spec"]["hostPath"]["path"] = json!(path));
        assert!(helper::pod(&volume, None).is_err(), "{path}");
    }
}

#[test]
fn a_helper_pod_that_has_ended_goes_with_its_volume() {
    let volume = released_volume(|_| ());
    for (phase, volumes, goes) in [
        ("Succeeded", vec![], true),
        ("Failed", vec![], true),
        ("Running", vec![], false),
        ("Succeeded", vec![Arc::clone(&volume)], false),
    ] {
        let mut pod = helper::pod(&volume, None).unwrap();
        pod.status = Some(serde_json::from_value(json!({"phase": phase})).unwrap());
        let pods = [Arc::new(pod)];
        assert_eq!(
            helper::leftover(&pods, &volumes).len(),
            usize::from(goes),
            "{phase}"
        );
    }
}
