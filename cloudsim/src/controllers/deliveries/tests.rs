//! What is sent for a live and an acknowledged object.

use wire::{Down, Downstream};

use super::*;

fn path() -> ObjectPath {
    ObjectPath::new(ObjectKind::Pod, "default", "p")
}

fn live(uid: &str, revision: &str) -> Value {
    json!({"metadata": {"name": "p", "namespace": "default", "uid": uid, "resourceVersion": revision}})
}

fn synced_state(uid: &str, revision: u64) -> Synced {
    [(uid.to_owned(), (path(), revision))].into_iter().collect()
}

fn describe(deliveries: Vec<Delivery>) -> Vec<String> {
    let words = deliveries.into_iter().map(|delivery| {
        match Down::from(Arc::unwrap_or_clone(delivery.message)).body {
            Downstream::Object { change, object, .. } => {
                format!(
                    "{change:?} {} at {:?}",
                    object["metadata"]["uid"].as_str().unwrap(),
                    delivery.revision
                )
            }
            other => format!("{other:?}"),
        }
    });
    words.collect()
}

#[test]
fn new_changed_current_and_gone() {
    assert_eq!(
        describe(difference(
            &path(),
            Some(live("u1", "5")),
            &Synced::default()
        )),
        ["Insert u1 at Some(5)"]
    );
    assert_eq!(
        describe(difference(
            &path(),
            Some(live("u1", "5")),
            &synced_state("u1", 4)
        )),
        ["Update u1 at Some(5)"]
    );
    assert!(difference(&path(), Some(live("u1", "5")), &synced_state("u1", 5)).is_empty());
    assert_eq!(
        describe(difference(&path(), None, &synced_state("u1", 5))),
        ["Delete u1 at None"]
    );
    // sent, and possibly received
    assert_eq!(
        describe(difference(
            &path(),
            Some(live("u1", "5")),
            &synced_state("u1", 0)
        )),
        ["Insert u1 at Some(5)"]
    );
    assert_eq!(
        describe(difference(&path(), None, &synced_state("u1", 0))),
        ["Delete u1 at None"]
    );
    assert!(difference(&path(), None, &Synced::default()).is_empty());
}

#[test]
fn an_object_made_anew_under_its_name_is_a_delete_and_an_insert() {
    let words = describe(difference(
        &path(),
        Some(live("u2", "9")),
        &synced_state("u1", 5),
    ));
    assert_eq!(words, ["Delete u1 at None", "Insert u2 at Some(9)"]);
}

#[test]
fn a_pod_first_seen_while_it_is_deleted_is_an_update() {
    let mut pod = live("u1", "5");
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        describe(difference(&path(), Some(pod), &Synced::default())),
        ["Update u1 at Some(5)"]
    );
}
