//! Watches devices and models, updates the index, and notifies nodes.

use std::{collections::BTreeSet, pin::pin};

use crds::devices::{Device, DeviceModel};
use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Devices, index::key};
use crate::mailbox::{ObjectKind, ObjectPath};

impl Devices {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let (models, listed) = (watch::Sender::new(false), watch::Sender::new(false));
        let complete = async {
            for list in [&models, &listed] {
                // fails only when the sender is gone, which this function has
                let _ = list.subscribe().wait_for(|listed| *listed).await;
            }
            self.complete.send_replace(true);
        };
        let watches = async {
            tokio::join!(
                self.models(&models),
                self.devices(&listed),
                complete,
                self.statuses()
            )
        };
        clock::select! {
            // cancel-safe: the index is rebuilt from a list at the next start
            () = shutdown.cancelled() => {}
            _ = watches => {}
        }
    }

    async fn devices(&self, listed_once: &watch::Sender<bool>) {
        let mut listed = BTreeSet::new();
        let events = watcher::watcher(self.all::<Device>(), watcher::Config::default());
        let mut events = pin!(events.default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(key(&object));
                    self.apply(object);
                }
                Ok(Event::InitDone) => {
                    let gone = self.index.write().retain(&listed);
                    gone.into_iter()
                        .for_each(|(node, path)| self.mailboxes.notify(&node, path));
                    listed_once.send_replace(true);
                }
                Ok(Event::Apply(object)) => self.apply(object),
                Ok(Event::Delete(object)) => {
                    let key = key(&object);
                    if let Some(node) = self.index.write().remove(&key) {
                        self.mailboxes
                            .notify(&node, ObjectPath::new(ObjectKind::Device, key.0, key.1));
                    }
                }
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to watch devices; retrying"
                    )
                }
            }
        }
    }

    /// Reads objects as raw JSON: an invalid object must not end the watch of all others.
    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()))
    }

    fn apply(&self, object: DynamicObject) {
        let key = key(&object);
        let device: Device = match object.try_parse() {
            Ok(device) => device,
            Err(error) => {
                return warn!(namespace = key.0, device = key.1, %error, "cannot read device; apply it again");
            }
        };
        let nodes = self.index.write().apply(&device);
        for node in nodes {
            self.mailboxes
                .notify(&node, ObjectPath::new(ObjectKind::Device, &key.0, &key.1));
        }
        if device.metadata.deletion_timestamp.is_none() {
            self.missing_statuses.add(&device);
        }
    }

    async fn models(&self, listed_once: &watch::Sender<bool>) {
        let events = watcher::watcher(self.all::<DeviceModel>(), watcher::Config::default());
        let mut events = pin!(events.default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(model) | Event::Apply(model) | Event::Delete(model)) => {
                    self.model_touched(&model);
                }
                Ok(Event::Init) => {}
                Ok(Event::InitDone) => drop(listed_once.send_replace(true)),
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to watch device models; retrying"
                    )
                }
            }
        }
    }

    /// Notifies every node with a device of the model of the model, and of devices that waited for it.
    fn model_touched(&self, model: &DynamicObject) {
        let (namespace, name) = (model.namespace().unwrap_or_default(), model.name_any());
        for (node, device) in self.index.read().of_model(&namespace, &name) {
            self.mailboxes.notify(
                &node,
                ObjectPath::new(ObjectKind::DeviceModel, &namespace, &name),
            );
            self.mailboxes.notify(&node, device);
        }
    }
}
