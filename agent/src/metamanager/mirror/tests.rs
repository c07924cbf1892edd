//! Every kind of message about a mirror merged into every kind of stored state.

use super::*;

fn static_pod(hash: &str) -> Value {
    json!({
        "metadata": {
            "name": "web-edge-1", "namespace": "ns", "uid": hash, "resourceVersion": "7", "labels": {"app": "web"},
            "annotations": {CONFIG_SOURCE_ANNOTATION: "file", CONFIG_HASH_ANNOTATION: hash},
        },
        "spec": {"nodeName": "edge-1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    })
}

fn stored_entry(hash: &str, record: Option<Record>) -> DesiredEntry {
    DesiredEntry::of(Some(static_pod(hash)), record)
}

fn mirror(hash: &str) -> Value {
    let mut mirror = build(&static_pod(hash), "edge-1", "n1");
    mirror["status"] = json!({"phase": "Running"});
    mirror
}

fn record_of(placement: Option<EntryChange>) -> Record {
    match placement {
        Some(EntryChange {
            object: StoreChange::Keep,
            record: StoreChange::Set(record),
        }) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mirror_is_the_pod_with_its_hash_and_the_node_as_owner() {
    let mirror = build(&static_pod("h1"), "edge-1", "n1");
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "edge-1", "uid": "n1", "controller": true});
    assert_eq!(
        mirror,
        json!({
            "metadata": {
                "name": "web-edge-1", "namespace": "ns", "labels": {"app": "web"}, "ownerReferences": [owner],
                "annotations": {CONFIG_SOURCE_ANNOTATION: "file", CONFIG_HASH_ANNOTATION: "h1", CONFIG_MIRROR_ANNOTATION: "h1"},
            },
            "spec": {"nodeName": "edge-1", "containers": [{"name": "c"}]},
        })
    );
    assert!(is_static(&static_pod("h1")) && !is_static(&mirror));
}

#[test]
fn the_echo_of_a_mirror_is_noted_and_leaves_the_pod_alone() {
    for change in [Change::Insert, Change::Update] {
        let record = record_of(merge(
            change,
            &mirror("h1"),
            CloudVersion {
                uid: "m1",
                revision: 5,
            },
            &stored_entry("h1", None),
        ));
        assert_eq!(record, Record::of("m1", 5));
    }
    let known = stored_entry("h1", Some(Record::of("m1", 5)));
    assert_eq!(
        merge(
            Change::Update,
            &mirror("h1"),
            CloudVersion {
                uid: "m1",
                revision: 5
            },
            &known
        ),
        Some(EntryChange::default())
    );
    let mut pending = mirror("h1");
    pending["status"]["phase"] = "Pending".into();
    let reported = Record {
        reported: Some("f".into()),
        ..Record::of("m1", 5)
    };
    let record = record_of(merge(
        Change::Update,
        &pending,
        CloudVersion {
            uid: "m1",
            revision: 6,
        },
        &stored_entry("h1", Some(reported)),
    ));
    assert_eq!(
        (
            record.revision,
            record.reported,
            record.conflicting_statuses
        ),
        (6, None, 1)
    );
}

#[test]
fn a_deleted_or_old_mirror_is_removed_and_the_pod_stays() {
    let mut deleted = mirror("h1");
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for wrong in [deleted, mirror("h0")] {
        assert!(
            record_of(merge(
                Change::Update,
                &wrong,
                CloudVersion {
                    uid: "m1",
                    revision: 6
                },
                &stored_entry("h1", None)
            ))
            .terminated_here
        );
    }
    let known = stored_entry("h1", Some(Record::of("m1", 5)));
    let gone = Some(EntryChange {
        object: StoreChange::Keep,
        record: StoreChange::Remove,
    });
    assert_eq!(
        merge(
            Change::Delete,
            &mirror("h1"),
            CloudVersion {
                uid: "m1",
                revision: 6
            },
            &known
        ),
        gone
    );
    assert_eq!(
        merge(
            Change::Delete,
            &Value::Null,
            CloudVersion {
                uid: "",
                revision: 0
            },
            &known
        ),
        gone
    );
    let kept = Some(EntryChange::default());
    assert_eq!(
        merge(
            Change::Delete,
            &mirror("h1"),
            CloudVersion {
                uid: "m0",
                revision: 4
            },
            &known
        ),
        kept,
        "an older one of its name"
    );
}

#[test]
fn a_mirror_without_a_pod_is_to_be_deleted_in_the_cloud() {
    let placement = merge(
        Change::Insert,
        &mirror("h1"),
        CloudVersion {
            uid: "m1",
            revision: 5,
        },
        &DesiredEntry::default(),
    );
    let Some(EntryChange {
        object: StoreChange::Remove,
        record: StoreChange::Set(record),
    }) = placement
    else {
        panic!("{placement:?}")
    };
    assert!(record.terminated_here);
    assert_eq!(record.uid, "m1");
    let last_words = Record {
        terminated_here: true,
        last_status: Some(json!({})),
        ..Record::of("m1", 5)
    };
    let ended = DesiredEntry::of(None, Some(last_words.clone()));
    let placement = merge(
        Change::Update,
        &mirror("h1"),
        CloudVersion {
            uid: "m1",
            revision: 6,
        },
        &ended,
    );
    let expected = Record {
        revision: 6,
        ..last_words
    };
    assert_eq!(
        placement,
        Some(EntryChange {
            object: StoreChange::Remove,
            record: StoreChange::Set(expected)
        })
    );
}

#[test]
fn pods_of_the_cloud_are_no_concern_but_for_the_name_of_a_static_one() {
    let cloud = json!({"metadata": {"name": "web-edge-1"}, "spec": {}});
    assert_eq!(
        merge(
            Change::Insert,
            &cloud,
            CloudVersion {
                uid: "u1",
                revision: 5
            },
            &DesiredEntry::default()
        ),
        None
    );
    assert_eq!(
        merge(
            Change::Insert,
            &cloud,
            CloudVersion {
                uid: "u1",
                revision: 5
            },
            &stored_entry("h1", None)
        ),
        Some(EntryChange::default())
    );
}
