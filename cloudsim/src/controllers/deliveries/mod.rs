//! The messages that bring a node from the acknowledged to the newest state of an object. Pure, except for their times and ids.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::{Change, Downstream, ResourcePath, ResourceType, Source};

use super::sync::Synced;
use crate::{
    delivery::{Delivery, DeliveryKey, ObjectRef},
    mailbox::{ObjectKind, ObjectPath},
};

/// Returns what to send, given the live object and what was acknowledged.
pub(super) fn difference(path: &ObjectPath, live: Option<Value>, synced: &Synced) -> Vec<Delivery> {
    let uid = live
        .as_ref()
        .and_then(|object| object["metadata"]["uid"].as_str())
        .unwrap_or_default()
        .to_owned();
    let mut gone: Vec<(u64, &String)> = synced
        .iter()
        .filter(|(known, (place, _))| place == path && **known != uid)
        .map(|(gone, (_, revision))| (*revision, gone))
        .collect();
    // the oldest first
    gone.sort();
    let mut deliveries: Vec<Delivery> = gone
        .into_iter()
        .map(|(_, gone)| delete(path, gone, deletion_stub(path, gone)))
        .collect();
    if let Some(object) = live {
        deliveries.extend(put(path, uid, object, synced));
    }
    deliveries
}

/// Builds the object for a deletion of which nothing else is known, as CloudCore's sync controller does.
pub(super) fn deletion_stub(path: &ObjectPath, uid: &str) -> Value {
    json!({"metadata": {"name": path.name, "namespace": path.namespace, "uid": uid}})
}

/// Builds the deletion of an object, with as much of it as is known.
pub(super) fn delete(path: &ObjectPath, uid: &str, object: Value) -> Delivery {
    let body = delivery_message(path, Change::Delete, object);
    Delivery {
        key: DeliveryKey::Object(uid.to_owned()),
        object: Some(ObjectRef {
            path: path.clone(),
            uid: uid.to_owned(),
        }),
        revision: None,
        message: Arc::new(body.into_message(clock::unix_millis())),
    }
}

/// Builds the object's state, if it is newer than what was acknowledged.
pub(super) fn put(
    path: &ObjectPath,
    uid: String,
    object: Value,
    synced: &Synced,
) -> Option<Delivery> {
    let text = object["metadata"]["resourceVersion"].as_str()?.to_owned();
    let revision: u64 = text.parse().ok()?;
    let known = synced.get(&uid).map(|(_, revision)| *revision);
    if known.is_some_and(|known| known >= revision) {
        return None;
    }
    // an unacknowledged message may never have arrived
    let first = known.is_none_or(|known| known == 0);
    let change = match path.kind {
        // as CloudCore: nodes and secrets are always updates, and so is a pod that is first seen while it is being deleted
        ObjectKind::Node | ObjectKind::Secret => Change::Update,
        ObjectKind::Pod if object["metadata"]["deletionTimestamp"].is_string() => Change::Update,
        _ if first => Change::Insert,
        _ => Change::Update,
    };
    let body = delivery_message(path, change, object);
    Some(Delivery {
        key: DeliveryKey::Object(uid.clone()),
        object: Some(ObjectRef {
            path: path.clone(),
            uid,
        }),
        revision: Some(revision),
        message: Arc::new(body.into_message(clock::unix_millis()).at_revision(&text)),
    })
}

fn delivery_message(path: &ObjectPath, change: Change, object: Value) -> Downstream {
    let origin = match path.kind {
        ObjectKind::Node | ObjectKind::ConfigMap | ObjectKind::Secret | ObjectKind::Pod => {
            Source::EdgeController
        }
        ObjectKind::Access => Source::PolicyController,
        ObjectKind::DeviceModel | ObjectKind::Device => Source::DeviceController,
    };
    let place = ResourcePath::object(&path.namespace, &token(path.kind), &path.name);
    Downstream::Object {
        origin,
        change,
        path: place,
        object,
    }
}

fn token(kind: ObjectKind) -> ResourceType {
    match kind {
        ObjectKind::Node => ResourceType::Node,
        ObjectKind::ConfigMap => ResourceType::ConfigMap,
        ObjectKind::Secret => ResourceType::Secret,
        ObjectKind::Access => ResourceType::ServiceAccountAccess,
        ObjectKind::Pod => ResourceType::Pod,
        ObjectKind::DeviceModel => ResourceType::DeviceModel,
        ObjectKind::Device => ResourceType::Device,
    }
}

#[cfg(test)]
mod tests;
