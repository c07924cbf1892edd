//! Records that a repair of the database has lost: placeholders keep their names closed until an administrator frees them. Pure.
//!
//! A record determines which certificates of a name are valid. Without it, a revoked certificate would be valid again, and a token would
//! give a name that a node has. If the CA's key is lost as well, no earlier certificate or token can be verified: the names are then
//! free, and earlier certificates stay invalid even if the key is restored.

use std::collections::BTreeSet;

use objectstore::{Key, LostObject, Object, RepairHook, Resource};
use serde_json::Value;
use tracing::warn;
use wire::enroll::is_node_name;

use super::{
    NodeCertificates, RecordError, UNKNOWN, key,
    record::{Record, object, read},
    resource,
};

/// What a repaired database must record of nodes' certificates.
#[derive(Clone, Debug)]
pub struct LostRecords {
    /// The store's key of the CA.
    pub authority: Key,
}

impl RepairHook for LostRecords {
    fn reads(&self) -> Vec<Resource> {
        vec![resource(), nodes(), self.authority.resource.clone()]
    }

    fn writes(&self, lost: &[LostObject], is_torn: bool, left: &[Object]) -> Vec<(Key, Value)> {
        let closed = left.iter().any(|object| object.key == self.authority);
        let kept: BTreeSet<&str> = left
            .iter()
            .filter(|kept| kept.key.resource == resource())
            .map(|kept| &*kept.key.name)
            .collect();
        let mut names = BTreeSet::new();
        let mut others = is_torn;
        for lost in lost {
            match name_of(lost) {
                RecordOwner::Nobody => {}
                // a duplicate had another name
                RecordOwner::Node(name) if !kept.contains(&*name) => drop(names.insert(name)),
                RecordOwner::Node(_) | RecordOwner::Unknown => others = true,
            }
        }
        if others || lost.iter().any(|lost| lost.key == key(UNKNOWN)) {
            names.insert(UNKNOWN.to_owned());
        }
        let withheld = names.into_iter().map(|name| (name, Record::lost(closed)));
        let without_node = left
            .iter()
            .filter_map(|kept| without_node(kept, lost, is_torn, left));
        withheld
            .chain(without_node)
            .map(|(name, record)| (key(&name), object(&name, &record)))
            .collect()
    }
}

/// The owner of a lost object.
enum RecordOwner {
    /// The object was not a record.
    Nobody,
    Node(String),
    /// It was a record, or may have been.
    Unknown,
}

/// Returns the owner of a damaged object. Its key may be what is damaged; its bytes contain the name as well, if they are intact.
fn name_of(lost: &LostObject) -> RecordOwner {
    let is_name = |name: &str| is_node_name(name) || name == UNKNOWN;
    let said: Option<Value> = serde_json::from_slice(&lost.bytes).ok();
    let said = said.filter(|said| said.get("record").is_some());
    let name = said
        .as_ref()
        .and_then(|said| said.pointer("/metadata/name")?.as_str());
    match (lost.key.resource == resource(), name) {
        (_, Some(name)) if is_name(name) => RecordOwner::Node(name.to_owned()),
        (true, _) if is_name(&lost.key.name) => RecordOwner::Node(lost.key.name.clone()),
        (true, _) => RecordOwner::Unknown,
        (false, _) => RecordOwner::Nobody,
    }
}

/// Returns the record of a node whose Node is not in the new file. A Node that was lost is created again by the node; if it may have been
/// deleted, it counts as deleted.
fn without_node(
    kept: &Object,
    lost: &[LostObject],
    is_torn: bool,
    left: &[Object],
) -> Option<(String, Record)> {
    if kept.key.resource != resource() {
        return None;
    }
    let name = &kept.key.name;
    let is_node = |key: &Key| key.resource == nodes() && key.name == *name;
    let record = kept.value().ok().and_then(|value| read(&value).ok())?;
    record.registered.as_ref()?;
    if left.iter().any(|object| is_node(&object.key)) {
        return None;
    }
    let was_lost = lost.iter().any(|lost| is_node(&lost.key));
    (was_lost || is_torn).then(|| {
        (
            name.clone(),
            Record {
                registered: None,
                withheld: !was_lost || record.withheld,
                ..record
            },
        )
    })
}

impl NodeCertificates {
    /// Logs the names that are closed.
    pub async fn warn_of_lost(&self) -> Result<(), RecordError> {
        let lost = self.lost_names().await?;
        if lost.is_empty() {
            return Ok(());
        }
        let names = lost.iter().map(|name| {
            if name == UNKNOWN {
                "every name without a record"
            } else {
                name
            }
        });
        warn!(
            names = names.collect::<Vec<_>>().join(", "),
            "certificate records lost with a damaged database; certificates of these nodes are invalid until \
             `cloudsim node reset NAME`, or `cloudsim node reset --lost` for all of them; then join the machines again"
        );
        Ok(())
    }
}

fn nodes() -> Resource {
    Resource::new("", "nodes")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn lost_object(resource: Resource, name: &str, bytes: &Value) -> LostObject {
        let bytes = if bytes.is_null() {
            b"\x01{".to_vec()
        } else {
            bytes.to_string().into_bytes()
        };
        LostObject {
            key: Key::new(resource, "", name),
            why: String::new(),
            bytes,
        }
    }

    fn remaining_object(key: Key, value: &Value) -> Object {
        Object::new(key, 1, Bytes::from(value.to_string()))
    }

    fn authority() -> Key {
        Key::new(Resource::new("", "secrets"), "kubeedge", "casecret")
    }

    /// The names that are written, each with whether it is withheld and whether it has a Node.
    fn name_rows(lost: &[LostObject], is_torn: bool, left: &[Object]) -> Vec<(String, bool, bool)> {
        let writes = LostRecords {
            authority: authority(),
        }
        .writes(lost, is_torn, left);
        let told = |(key, value): (Key, Value)| {
            let record = read(&value).unwrap();
            assert_eq!(
                (key.resource, value["metadata"]["name"] == *key.name),
                (resource(), true)
            );
            (key.name, record.withheld, record.registered.is_some())
        };
        writes.into_iter().map(told).collect()
    }

    #[test]
    fn names_whose_records_are_lost_are_closed() {
        let ca = remaining_object(authority(), &json!({}));
        let closed = |name: &str| (name.to_owned(), true, false);
        let said = |name: &str| object(name, &Record::default());
        assert!(
            name_rows(
                &[lost_object(nodes(), "a", &Value::Null)],
                false,
                std::slice::from_ref(&ca)
            )
            .is_empty()
        );
        let one = [
            lost_object(resource(), "a", &Value::Null),
            lost_object(resource(), "b", &said("b")),
        ];
        assert_eq!(
            name_rows(&one, false, std::slice::from_ref(&ca)),
            [closed("a"), closed("b")]
        );
        // its place is what is damaged
        let elsewhere = [lost_object(
            Resource::new("cloudsim", "nodecertificatet"),
            "b",
            &said("a"),
        )];
        assert_eq!(
            name_rows(&elsewhere, false, std::slice::from_ref(&ca)),
            [closed("a")]
        );
        let renamed = [lost_object(resource(), "b\u{fffd}", &Value::Null)];
        assert_eq!(
            name_rows(&renamed, false, std::slice::from_ref(&ca)),
            [closed("*")]
        );
        let twice = [ca.clone(), remaining_object(key("b"), &said("b"))];
        assert_eq!(
            name_rows(&[lost_object(resource(), "b", &Value::Null)], false, &twice),
            [closed("*")]
        );
        assert_eq!(name_rows(&[], true, &[ca]), [closed("*")]);
        // a cloud with another authority knows neither certificates nor tokens of before
        assert_eq!(
            name_rows(&one[..1], true, &[]),
            [
                ("*".to_owned(), false, false),
                ("a".to_owned(), false, false)
            ]
        );
    }

    #[test]
    fn a_node_whose_node_is_lost_goes_on_unless_it_may_have_been_deleted() {
        let record = Record {
            registered: Some("uid".to_owned()),
            ..Record::default()
        };
        let all = [
            remaining_object(authority(), &json!({})),
            remaining_object(key("a"), &object("a", &record)),
        ];
        assert!(
            name_rows(&[], false, &all).is_empty(),
            "it was deleted: its controller sees to it"
        );
        let node = [lost_object(nodes(), "a", &Value::Null)];
        for is_torn in [false, true] {
            assert!(name_rows(&node, is_torn, &all).contains(&("a".to_owned(), false, false)));
        }
        assert!(name_rows(&[], true, &all).contains(&("a".to_owned(), true, false)));
        let there = [
            all.clone(),
            [
                remaining_object(Key::new(nodes(), "", "a"), &json!({})),
                all[0].clone(),
            ],
        ]
        .concat();
        assert_eq!(
            name_rows(&[], true, &there),
            [("*".to_owned(), true, false)]
        );
    }
}
