//! Every kind of message merged into every kind of stored state.

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn pod(uid: &str, image: &str, status: Value) -> Value {
    json!({
        "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": uid, "managedFields": [{}]},
        "spec": {"containers": [{"name": "c", "image": image}]}, "status": status,
    })
}

fn stored_entry(uid: &str, image: &str, revision: u64) -> DesiredEntry {
    let object = without_server_fields(&pod(uid, image, json!({"phase": "Running"})));
    let record = Record {
        reported: Some("f".into()),
        ..Record::of(uid, revision)
    };
    DesiredEntry {
        object: Some(object),
        record: Some(record),
        ..DesiredEntry::default()
    }
}

fn place(change: Change, object: &Value, at: (&str, u64), entry: &DesiredEntry) -> EntryChange {
    merge(
        change,
        object,
        CloudVersion {
            uid: at.0,
            revision: at.1,
        },
        entry,
        StatusWriter::NodeUntilEnded,
        now(),
    )
}

#[test]
fn a_new_pod_is_stored_without_managed_fields() {
    let placement = place(
        Change::Insert,
        &pod("u1", "a", json!({})),
        ("u1", 5),
        &DesiredEntry::default(),
    );
    assert_eq!(
        placement.object,
        StoreChange::Set(without_server_fields(&pod("u1", "a", json!({}))))
    );
    assert_eq!(placement.record, StoreChange::Set(Record::of("u1", 5)));
}

#[test]
fn a_repetition_changes_nothing() {
    for revision in [4, 5] {
        let placement = place(
            Change::Update,
            &pod("u1", "b", json!({})),
            ("u1", revision),
            &stored_entry("u1", "a", 5),
        );
        assert_eq!(placement, EntryChange::default());
    }
}

#[test]
fn a_change_keeps_the_status_of_this_node() {
    let placement = place(
        Change::Update,
        &pod("u1", "b", json!({"phase": "Running"})),
        ("u1", 6),
        &stored_entry("u1", "a", 5),
    );
    let StoreChange::Set(object) = placement.object else {
        panic!("{placement:?}")
    };
    assert_eq!(object["spec"]["containers"][0]["image"], "b");
    assert_eq!(object["status"], json!({"phase": "Running"}));
    let StoreChange::Set(record) = placement.record else {
        panic!()
    };
    assert_eq!(
        (record.revision, record.reported.as_deref()),
        (6, Some("f"))
    );
}

#[test]
fn a_message_without_news_is_recognized() {
    let (entry, running) = (stored_entry("u1", "a", 5), json!({"phase": "Running"}));
    let clouds = |uid: &str, image: &str, status: &Value| {
        let mut pod = pod(uid, image, status.clone());
        pod["metadata"]["resourceVersion"] = json!("9");
        pod
    };
    assert_eq!(
        unchanged_revision(&entry, &clouds("u1", "a", &running)),
        Some(9)
    );
    let gate = json!({"phase": "Running", "conditions": [{"type": "gate", "status": "True"}]});
    let mut with_conditions = entry.clone();
    with_conditions.object.as_mut().unwrap()["status"]["conditions"] = json!([]);
    for unknown in [
        clouds("u2", "a", &running),
        clouds("u1", "b", &running),
        clouds("u1", "a", &json!({"phase": "Pending"})),
        pod("u1", "a", running.clone()),
        Value::Null,
    ] {
        assert_eq!(unchanged_revision(&entry, &unknown), None, "{unknown}");
    }
    assert_eq!(
        unchanged_revision(&with_conditions, &clouds("u1", "a", &gate)),
        None,
        "others' words"
    );
    assert_eq!(
        unchanged_revision(&DesiredEntry::default(), &clouds("u1", "a", &running)),
        None
    );
}

#[test]
fn the_echo_of_an_own_report_moves_the_revision_and_nothing_else() {
    let placement = place(
        Change::Update,
        &pod("u1", "a", json!({"phase": "Running"})),
        ("u1", 6),
        &stored_entry("u1", "a", 5),
    );
    assert_eq!(placement.object, StoreChange::Keep);
}

#[test]
fn a_status_that_the_cloud_has_otherwise_is_reported_again() {
    let placement = place(
        Change::Update,
        &pod("u1", "a", json!({"phase": "Pending"})),
        ("u1", 6),
        &stored_entry("u1", "a", 5),
    );
    let StoreChange::Set(record) = placement.record else {
        panic!()
    };
    assert_eq!(record.reported, None);
}

#[test]
fn another_uid_is_another_pod() {
    let placement = place(
        Change::Insert,
        &pod("u2", "a", json!({})),
        ("u2", 1),
        &stored_entry("u1", "a", 5),
    );
    assert!(matches!(placement.object, StoreChange::Replace(_)));
    assert_eq!(placement.record, StoreChange::Set(Record::of("u2", 1)));
}

#[test]
fn a_pod_deleted_by_the_cloud_stays_until_it_has_ended() {
    let stub = json!({"metadata": {"name": "p", "uid": "u1"}});
    let placement = place(
        Change::Delete,
        &stub,
        ("u1", 0),
        &stored_entry("u1", "a", 5),
    );
    let StoreChange::Set(object) = placement.object else {
        panic!()
    };
    assert_eq!(
        object["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(matches!(
        placement.record,
        StoreChange::Set(Record {
            deleted_in_cloud: true,
            ..
        })
    ));
}

#[test]
fn the_delete_of_an_older_pod_leaves_the_newer_one_alone() {
    let stub = json!({"metadata": {"name": "p", "uid": "u0"}});
    assert_eq!(
        place(
            Change::Delete,
            &stub,
            ("u0", 0),
            &stored_entry("u1", "a", 5)
        ),
        EntryChange::default()
    );
}

#[test]
fn a_pod_that_has_ended_here_does_not_come_back() {
    let entry = DesiredEntry {
        record: Some(Record {
            terminated_here: true,
            ..Record::of("u1", 5)
        }),
        ..DesiredEntry::default()
    };
    let placement = place(
        Change::Update,
        &pod("u1", "a", json!({})),
        ("u1", 6),
        &entry,
    );
    assert_eq!(placement.object, StoreChange::Keep);
    assert!(matches!(
        placement.record,
        StoreChange::Set(Record {
            terminated_here: true,
            revision: 6,
            ..
        })
    ));
    let stub = json!({"metadata": {"name": "p", "uid": "u1"}});
    let placement = place(Change::Delete, &stub, ("u1", 0), &entry);
    assert_eq!(
        placement,
        EntryChange {
            object: StoreChange::Remove,
            record: StoreChange::Remove
        }
    );
}

#[test]
fn other_kinds_are_replaced_and_removed_as_they_come() {
    let map = |value: &str| json!({"metadata": {"name": "m", "uid": "u1"}, "data": {"k": value}});
    let entry = DesiredEntry {
        object: Some(map("a")),
        record: Some(Record::of("u1", 5)),
        ..DesiredEntry::default()
    };
    let placement = merge(
        Change::Update,
        &map("b"),
        CloudVersion {
            uid: "u1",
            revision: 6,
        },
        &entry,
        StatusWriter::Cloud,
        now(),
    );
    assert_eq!(placement.object, StoreChange::Set(map("b")));
    for content in [json!({"metadata": {"uid": "u1"}}), Value::Null] {
        let uid = content
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let placement = merge(
            Change::Delete,
            &content,
            CloudVersion {
                uid: &uid,
                revision: 0,
            },
            &entry,
            StatusWriter::Cloud,
            now(),
        );
        assert_eq!(
            placement,
            EntryChange {
                object: StoreChange::Remove,
                record: StoreChange::Remove
            }
        );
    }
}
