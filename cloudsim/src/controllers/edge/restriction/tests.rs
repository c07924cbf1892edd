//! Tests of [`super`].

use serde_json::json;

use super::*;

#[test]
fn a_node_registers_with_labels_that_are_its_own_to_give() {
    let node = |labels: Value| json!({"metadata": {"name": "edge-1", "labels": labels}, "spec": {"taints": [{"key": "k"}]}});
    for good in [
        json!({"kubernetes.io/hostname": "edge-1", "kubernetes.io/os": "linux", "zone": "a"}),
        json!({"kubelet.kubernetes.io/x": "", "a.node.kubernetes.io/x": "", "example.com/y": ""}),
        json!({"node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": ""}),
        json!({"notkubernetes.io/x": "", "failure-domain.beta.kubernetes.io/region": "r"}),
    ] {
        assert_eq!(new_node(&node(good.clone())), Ok(()), "{good}");
    }
    for bad in [
        "node-restriction.kubernetes.io/x",
        "a.node-restriction.kubernetes.io/x",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.io/other",
        "k8s.io/x",
        "a.k8s.io/x",
    ] {
        assert!(
            new_node(&node(json!({bad: ""}))).unwrap_err().contains(bad),
            "{bad}"
        );
    }
    for (field, value) in [
        (
            "annotations",
            json!({"node-restriction.kubernetes.io/addresses": "10.96.0.1"}),
        ),
        (
            "annotations",
            json!({"node-restriction.kubernetes.io/rule-namespaces": "tenant"}),
        ),
        ("finalizers", json!(["a/b"])),
        ("ownerReferences", json!([{}])),
    ] {
        let mut node = node(json!({}));
        node["metadata"][field] = value;
        assert!(new_node(&node).is_err(), "{field}");
    }
}

#[test]
fn a_node_makes_mirror_pods_of_its_own_that_name_nothing() {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "edge-1", "uid": "u", "controller": true});
    let pod = json!({
        "metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "c"}], "volumes": [
            {"name": "a", "hostPath": {"path": "/a"}}, {"name": "b", "emptyDir": {}},
            {"name": "c", "downwardAPI": {}}, {"name": "d", "projected": {"sources": [{"downwardAPI": {}}]}}]},
    });
    assert_eq!(new_pod("edge-1", Some("u"), &pod), Ok(()));
    assert!(
        new_pod("edge-1", None, &pod).is_err(),
        "the node has no Node"
    );
    let mut two = owner.clone();
    two["uid"] = "v".into();
    let wrong: Vec<(&str, Value)> = vec![
        ("/metadata/annotations", json!({})),
        ("/metadata/ownerReferences", json!([])),
        ("/metadata/ownerReferences", json!([owner, two])),
        ("/metadata/ownerReferences/0/uid", json!("v")),
        ("/metadata/ownerReferences/0/name", json!("edge-2")),
        ("/metadata/ownerReferences/0/kind", json!("Pod")),
        ("/metadata/ownerReferences/0/controller", json!(false)),
        ("/spec/nodeName", json!("edge-2")),
        ("/spec/nodeName", json!(7)),
        (
            "/spec/volumes/0",
            json!({"name": "v", "secret": {"secretName": "s"}}),
        ),
        (
            "/spec/volumes/0",
            json!({"name": "v", "configMap": {"name": "s"}}),
        ),
        (
            "/spec/volumes/0",
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "s"}}),
        ),
        ("/spec/volumes/0", json!({"name": "v", "ephemeral": {}})),
        (
            "/spec/volumes/0",
            json!({"name": "v", "csi": {"driver": "d"}}),
        ),
        (
            "/spec/volumes/0",
            json!({"name": "v", "azureFile": {"secretName": "s", "shareName": "x"}}),
        ),
        (
            "/spec/volumes/0",
            json!({"name": "v", "glusterfs": {"endpoints": "e", "path": "p"}}),
        ),
        (
            "/spec/volumes/0",
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
        ),
        (
            "/spec/containers/0",
            json!({"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}),
        ),
    ];
    for (pointer, value) in wrong {
        let mut pod = pod.clone();
        *pod.pointer_mut(pointer).unwrap() = value.clone();
        assert!(
            new_pod("edge-1", Some("u"), &pod).is_err(),
            "{pointer} {value}"
        );
    }
    for (field, value) in [
        ("serviceAccountName", json!("default")),
        ("serviceAccount", json!("default")),
        ("imagePullSecrets", json!([{"name": "s"}])),
    ] {
        let mut pod = pod.clone();
        pod["spec"][field] = value;
        assert!(new_pod("edge-1", Some("u"), &pod).is_err(), "{field}");
    }
    let mut kept = pod;
    kept["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into();
    assert!(new_pod("edge-1", Some("u"), &kept).is_err());
}

#[test]
fn a_patch_of_the_status_changes_the_status_alone() {
    let stored = json!({"metadata": {"name": "x", "uid": "u", "finalizers": ["f"],
        "labels": {"a": "1"}, "annotations": {"b": "2"}}, "status": {}});
    for good in [
        json!({"status": {"phase": "Running"}}),
        json!({"metadata": {"uid": "u"}, "status": {"$setElementOrder/conditions": []}}),
        json!({"metadata": {"name": "x", "creationTimestamp": null, "labels": {"a": "1"}, "annotations": {"b": "2", "c": null}}}),
        json!({"spec": {}}),
    ] {
        assert_eq!(status_patch(&good, &stored, false), Ok(()), "{good}");
    }
    let kubelets = json!({"metadata": {"labels": {"kubernetes.io/os": "linux"},
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}});
    assert_eq!(status_patch(&kubelets, &stored, true), Ok(()));
    for bad in [
        kubelets,
        json!([]),
        json!({"spec": {"unschedulable": false}}),
        json!({"$patch": "replace", "status": {}}),
        json!({"metadata": {"$patch": "replace"}}),
        json!({"metadata": {"finalizers": []}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["f"]}}),
        json!({"metadata": {"ownerReferences": [{}]}}),
        json!({"metadata": {"name": "y"}}),
        json!({"metadata": {"labels": {"a": "2"}}}),
        json!({"metadata": {"labels": {"a": null}}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
        json!({"metadata": {"labels": {"kubernetes.io/hostname": "edge-2"}}}),
        json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}}),
        json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": null, "b": null}}}),
        json!({"metadata": {"annotations": {"c": "3"}}}),
        json!({"status": {"resourceClaimStatuses": [{"name": "c"}]}}),
    ] {
        assert!(status_patch(&bad, &stored, false).is_err(), "{bad}");
    }
    for (label, value) in [
        ("kubernetes.io/hostname", json!("edge-2")),
        ("kubernetes.io/os", Value::Null),
    ] {
        let patch = json!({"metadata": {"labels": {label: value}}});
        let expected = value.is_null();
        assert_eq!(
            status_patch(&patch, &stored, true).is_ok(),
            expected,
            "{label}"
        );
    }
}
