//! Devices that are bound to a Node which does not exist: an event of the device says so, once for each node that it is bound to, and again
//! when a Node that was there is deleted. Nothing else would: what such devices want waits for a node that may be mistyped.

use std::{collections::BTreeMap, pin::pin};

use crds::devices::Device;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    core::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta, PartialObjectMetaExt},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::controllers::{
    events::{Component, NewEvent, Recorder},
    informers::{Change, Informer},
    workloads::cluster,
};

/// Namespace and name.
type Key = (String, String);

cluster!(Cluster { nodes: Node });

/// Runs until `stop`.
pub(crate) async fn run(Cluster { shared, nodes }: Cluster, stop: CancellationToken) {
    let changes = nodes.listen();
    let bound = BoundDevices {
        nodes,
        events: shared.events,
        devices: BTreeMap::new(),
    };
    let _: Option<()> = stop
        .run_until_cancelled(watch(shared.client, changes, bound))
        .await;
}

async fn watch(client: Client, mut changes: mpsc::Receiver<Change<Node>>, mut bound: BoundDevices) {
    // as raw JSON: an invalid object must not end the watch of all others
    let devices = Api::<DynamicObject>::all_with(client, &ApiResource::erase::<Device>(&()));
    let mut events = pin!(watcher::watcher(devices, watcher::Config::default()).default_backoff());
    loop {
        // cancel-safe: what is not taken stays in the stream and in the channel
        clock::select! {
            Some(event) = events.next() => bound.observe(event),
            Some(change) = changes.recv() => {
                if change.before.is_none() || change.gone {
                    bound.node_changed(&change.object.name_any());
                }
            }
            else => return,
        }
    }
}

/// A device that is bound to a node.
struct BoundDevice {
    device: PartialObjectMeta<Device>,
    node: String,
    /// Whether the event `NodeMissing` was recorded, and the node has not been there since.
    recorded: bool,
    /// Whether the device is in the list that is being read after the watch restarted.
    listed: bool,
}

/// The devices that are bound to nodes.
struct BoundDevices {
    nodes: Informer<Node>,
    events: Recorder,
    devices: BTreeMap<Key, BoundDevice>,
}

impl BoundDevices {
    fn observe(&mut self, event: watcher::Result<Event<DynamicObject>>) {
        match event {
            Ok(Event::Init) => self
                .devices
                .values_mut()
                .for_each(|bound| bound.listed = false),
            Ok(Event::InitApply(device) | Event::Apply(device)) => self.apply(&device),
            Ok(Event::InitDone) => self.devices.retain(|_, bound| bound.listed),
            Ok(Event::Delete(device)) => drop(self.devices.remove(&key(&device))),
            Err(error) => debug!(
                error = &error as &dyn std::error::Error,
                "watch of devices interrupted; restarting"
            ),
        }
    }

    fn apply(&mut self, device: &DynamicObject) {
        let node = device
            .data
            .pointer("/spec/nodeName")
            .and_then(|node| node.as_str())
            .unwrap_or_default();
        if node.is_empty() || device.metadata.deletion_timestamp.is_some() {
            self.devices.remove(&key(device));
            return;
        }
        let metadata = ObjectMeta {
            namespace: device.namespace(),
            name: Some(device.name_any()),
            uid: device.uid(),
            ..ObjectMeta::default()
        };
        let known = self.devices.get(&key(device));
        let is_same =
            |known: &BoundDevice| known.node == node && known.device.metadata.uid == metadata.uid;
        let recorded = known.is_some_and(|known| known.recorded && is_same(known));
        let mut bound = BoundDevice {
            device: metadata.into_response_partial(),
            node: node.to_owned(),
            recorded,
            listed: true,
        };
        bound.check(&self.nodes, &self.events);
        self.devices.insert(key(device), bound);
    }

    /// Handles a Node of this name that is new or was deleted.
    fn node_changed(&mut self, node: &str) {
        for bound in self.devices.values_mut().filter(|bound| bound.node == node) {
            bound.check(&self.nodes, &self.events);
        }
    }
}

impl BoundDevice {
    /// Records the event if the node does not exist and it was not recorded.
    fn check(&mut self, nodes: &Informer<Node>, events: &Recorder) {
        let is_missing = nodes.get("", &self.node).is_none();
        if is_missing && !self.recorded {
            let node = &self.node;
            let message = format!(
                "is bound to Node {node}, which does not exist; correct spec.nodeName, or join the machine as {node}"
            );
            events.record(
                &self.device,
                NewEvent::warning(Component::Device, "NodeMissing", message),
            );
        }
        self.recorded = is_missing;
    }
}

fn key(device: &DynamicObject) -> Key {
    (device.namespace().unwrap_or_default(), device.name_any())
}

#[cfg(test)]
mod tests;
