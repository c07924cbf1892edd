//! Plans the messages about devices that a node lacks, from the live and the acknowledged objects. Pure, except for times and ids.

use serde_json::{Value, json};
use wire::{Downstream, Message};

use super::index::{Index, member};
use crate::{
    controllers::{
        deliveries::{delete, deletion_stub, put},
        sync::Synced,
    },
    delivery::Reply,
    mailbox::{ObjectKind, ObjectPath},
};

/// The messages that a node lacks about one device or model.
#[derive(Debug, Default)]
pub struct DeviceUpdate {
    /// The messages, in order.
    pub replies: Vec<Reply>,
    /// Whether more messages follow once these are acknowledged.
    pub again: bool,
}

/// The input of the planning.
pub(super) struct UpdatePlanner<'a> {
    pub(super) node: &'a str,
    pub(super) path: &'a ObjectPath,
    pub(super) synced: &'a Synced,
    pub(super) index: &'a Index,
    /// Milliseconds since the Unix epoch.
    pub(super) now: i64,
}

/// A live device with its model.
pub(super) struct LiveDevice {
    pub(super) device: Value,
    pub(super) model: Option<Value>,
}

impl UpdatePlanner<'_> {
    /// Plans for a device: first the membership, then the model, then the device; on removal the model is last. `live` is `None` if no
    /// device of this name is bound to the node.
    pub(super) fn device(&self, live: Option<LiveDevice>) -> DeviceUpdate {
        let live_uid = live
            .as_ref()
            .map(|live| uid(&live.device))
            .unwrap_or_default();
        let gone = self
            .acknowledged_uids()
            .filter(|known| known.as_str() != live_uid);
        let mut update = DeviceUpdate::default();
        for gone in gone {
            update
                .replies
                .push(Reply::Direct(self.membership("removed_devices")));
            let words = self
                .index
                .deleted_object(self.path, gone)
                .unwrap_or_else(|| deletion_stub(self.path, gone));
            update
                .replies
                .push(Reply::Acknowledged(delete(self.path, gone, words)));
        }
        if !update.replies.is_empty() {
            // its successor of the same name follows when the node has acknowledged the deletion
            update.again = live.is_some();
            update.replies.extend(self.delete_unused_models());
        } else if let Some(live) = live {
            update.replies = self.arrival(live);
        }
        update
    }

    fn arrival(&self, LiveDevice { device, model }: LiveDevice) -> Vec<Reply> {
        let namespace = &self.path.namespace;
        let reference = device
            .pointer("/spec/deviceModelRef/name")
            .and_then(Value::as_str);
        let reference = reference.filter(|name| !name.is_empty()).map(str::to_owned);
        // an unacknowledged message may never have arrived
        let is_new = self
            .synced
            .get(&uid(&device))
            .is_none_or(|(_, acknowledged)| *acknowledged == 0);
        if is_new && reference.is_some() && model.is_none() {
            // a device is of no use without its model, whose creation leads here again
            return Vec::new();
        }
        let mut replies = Vec::new();
        if is_new {
            replies.push(Reply::Direct(self.membership("added_devices")));
        }
        if let (Some(name), Some(model)) = (reference, model) {
            let path = ObjectPath::new(ObjectKind::DeviceModel, namespace, name);
            let delivery = put(&path, uid(&model), model, self.synced);
            replies.extend(delivery.map(Reply::Acknowledged));
        }
        let delivery = put(self.path, uid(&device), device, self.synced);
        replies.extend(delivery.map(Reply::Acknowledged));
        replies
    }

    /// Plans for a model alone: updates or deletes what the node has. A model that the node does not have yet is sent with the first of
    /// its devices.
    pub(super) fn model(&self, live: Option<Value>) -> DeviceUpdate {
        let live_uid = live.as_ref().map(uid).unwrap_or_default();
        let mut replies = Vec::new();
        if self
            .index
            .needs(self.node, &self.path.namespace, &self.path.name)
        {
            let is_known = self.acknowledged_uids().next().is_some();
            if let Some(live) = live.filter(|_| is_known) {
                replies
                    .extend(put(self.path, uid(&live), live, self.synced).map(Reply::Acknowledged));
                let old = self
                    .acknowledged_uids()
                    .filter(|known| known.as_str() != live_uid);
                let old = old.map(|old| delete(self.path, old, deletion_stub(self.path, old)));
                replies.splice(0..0, old.map(Reply::Acknowledged));
            }
        } else if !self.awaits_device_deletion() {
            replies = self.delete_unused_models();
        }
        DeviceUpdate {
            replies,
            again: false,
        }
    }

    /// Returns the UIDs that the node has acknowledged at this path.
    fn acknowledged_uids(&self) -> impl Iterator<Item = &String> {
        self.synced
            .iter()
            .filter(|(_, (path, _))| path == self.path)
            .map(|(uid, _)| uid)
    }

    /// Reports whether the node has a device that is no longer its own; models are deleted after it.
    fn awaits_device_deletion(&self) -> bool {
        self.synced.iter().any(|(uid, (path, _))| {
            let place = self.index.on(self.node, &path.namespace, &path.name);
            path.kind == ObjectKind::Device && place.is_none_or(|place| place.uid != *uid)
        })
    }

    /// Plans the deletion of models without devices on the node.
    fn delete_unused_models(&self) -> Vec<Reply> {
        let models = self
            .synced
            .iter()
            .filter(|(_, (path, _))| path.kind == ObjectKind::DeviceModel);
        let idle = models
            .filter(|(_, (path, _))| !self.index.needs(self.node, &path.namespace, &path.name));
        idle.map(|(uid, (path, _))| {
            Reply::Acknowledged(delete(path, uid, deletion_stub(path, uid)))
        })
        .collect()
    }

    fn membership(&self, what: &str) -> Message {
        let ObjectPath {
            namespace, name, ..
        } = self.path;
        let place = self.index.on(self.node, namespace, name);
        let description = place
            .map(|place| place.description.as_str())
            .unwrap_or_default();
        let mut content = json!({
            "event_id": clock::uuid().to_string(),
            "timestamp": self.now,
            "added_devices": null,
            "removed_devices": null,
        });
        content[what] = json!([member(namespace, name, description)]);
        Downstream::Membership(content).into_message(self.now)
    }
}

fn uid(object: &Value) -> String {
    object
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests;
