//! The device controller: sends devices and their models to the nodes that they are bound to, and writes nodes' reports to
//! DeviceStatuses.
//!
//! In: events of Devices and DeviceModels, which fill the mailboxes of their nodes; reports ([`Devices::report`]). Out: messages that a
//! node lacks ([`Devices::update`]), and confirmations. A node may report only devices that are bound to it. A desired value is sent
//! within its Device, as CloudCore 1.23 does.
//!
//! Source: KubeEdge's DeviceController. Differences: changes during a node's absence are sent when it returns; a request for devices
//! (`membership/detail`) is answered; a refused report is answered, so that it is not repeated forever.

mod index;
pub(crate) mod missing_nodes;
mod missing_statuses;
mod report;
mod status;
mod update;
mod watch;

use std::{collections::BTreeSet, sync::Arc};

use crds::devices::Device;
use kube::Client;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::watch as state;
use wire::{Downstream, Header};

pub use self::update::DeviceUpdate;
use self::{
    index::Index,
    missing_statuses::MissingStatuses,
    update::{LiveDevice, UpdatePlanner},
};
use crate::{
    controllers::{
        edge::objects,
        events::{Component, NewEvent, Recorder},
        sync::Synced,
    },
    delivery::Reply,
    mailbox::{Mailboxes, ObjectKind, ObjectPath},
};

/// The device controller; cheap to clone.
#[derive(Clone)]
pub struct Devices {
    client: Client,
    index: Arc<RwLock<Index>>,
    mailboxes: Mailboxes,
    events: Recorder,
    missing_statuses: Arc<MissingStatuses>,
    /// Whether devices and models have been listed.
    complete: state::Sender<bool>,
}

impl Devices {
    /// Creates the controller.
    pub fn new(client: Client, mailboxes: Mailboxes, events: Recorder) -> Self {
        let complete = state::Sender::new(false);
        Self {
            client,
            index: Arc::default(),
            mailboxes,
            events,
            missing_statuses: Arc::default(),
            complete,
        }
    }

    /// Returns the recorder of events about what nodes are sent.
    pub(crate) fn events(&self) -> &Recorder {
        &self.events
    }

    /// Waits until devices have been listed.
    pub async fn complete(&self) {
        // fails only when the sender is gone, which `self` has
        let _ = self
            .complete
            .subscribe()
            .wait_for(|complete| *complete)
            .await;
    }

    /// Returns the objects to send to `node` when it connects, and the objects that it has acknowledged.
    pub fn everything(&self, node: &str) -> BTreeSet<ObjectPath> {
        self.index.read().desired_objects(node)
    }

    /// Returns the messages that bring `node` from the acknowledged to the newest state of the device or model at `path`.
    pub async fn update(
        &self,
        node: &str,
        path: &ObjectPath,
        synced: &Synced,
    ) -> Result<DeviceUpdate, kube::Error> {
        let object = objects::get(&self.client, path).await?;
        let now = clock::unix_millis();
        if path.kind == ObjectKind::DeviceModel {
            let index = self.index.read();
            return Ok(UpdatePlanner {
                node,
                path,
                synced,
                index: &index,
                now,
            }
            .model(object));
        }
        let live = match object.filter(|device| device["spec"]["nodeName"] == node) {
            Some(device) => Some(LiveDevice {
                model: self.model_of(path, &device).await?,
                device,
            }),
            None => None,
        };
        self.record_missing_model(live.as_ref());
        let index = self.index.read();
        Ok(UpdatePlanner {
            node,
            path,
            synced,
            index: &index,
            now,
        }
        .device(live))
    }

    async fn model_of(
        &self,
        path: &ObjectPath,
        device: &Value,
    ) -> Result<Option<Value>, kube::Error> {
        let name = device
            .pointer("/spec/deviceModelRef/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        objects::get(
            &self.client,
            &ObjectPath::new(ObjectKind::DeviceModel, &path.namespace, name),
        )
        .await
    }

    fn record_missing_model(&self, live: Option<&LiveDevice>) {
        let Some(LiveDevice {
            device,
            model: None,
        }) = live
        else {
            return;
        };
        let Ok(device) = serde_json::from_value::<Device>(device.clone()) else {
            return;
        };
        if let Some(model) = &device.spec.device_model_ref {
            let message = format!(
                "waits for DeviceModel {}, which does not exist; create it",
                model.name
            );
            self.events.record(
                &device,
                NewEvent::warning(Component::Device, "ModelMissing", message),
            );
        }
    }

    /// Answers a node's request for all of its devices.
    pub fn members(&self, node: &str, asked: &Header) -> Vec<Reply> {
        let now = clock::unix_millis();
        let devices = self.index.read().members(node);
        let content =
            json!({"event_id": clock::uuid().to_string(), "timestamp": now, "devices": devices});
        // the answer stops EdgeCore's repetitions; it takes the devices from a message that answers nothing
        let confirmed = Downstream::TwinConfirmed("OK".into())
            .into_message(now)
            .answering(&asked.msg_id);
        vec![
            Reply::Direct(confirmed),
            Reply::Direct(Downstream::MembershipDetail(content).into_message(now)),
        ]
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices").finish_non_exhaustive()
    }
}
