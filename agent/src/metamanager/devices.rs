//! Devices: their objects as the cloud sent them, and the cloud's messages for other modules. MetaManager stores the objects
//! and forwards the messages to DeviceTwin, EventBus, ServiceBus and TaskManager.

use std::collections::BTreeSet;
#[cfg(test)]
use std::sync::Arc;

use componentbase::Queue;
#[cfg(test)]
use objectstore::Store;
use objectstore::{Key, Object, StoreError, Watch};
use serde_json::Value;
use tokio::sync::mpsc;
use wire::{Down, Downstream, Header, ResourceType, node_job::JobPath, topic::DeviceId};

use super::desired::{Desired, resource};

/// The most messages that wait for one module. A full queue makes MetaManager wait, and with it the cloud.
const MAX_QUEUED_MESSAGES: usize = 64;

/// The kinds of objects that describe devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceObject {
    /// A `Device`.
    Device,
    /// A `DeviceModel`.
    Model,
}

/// The stored objects of devices and models; cheap to clone.
#[derive(Clone, Debug)]
pub struct DeviceObjects(Desired);

impl DeviceObjects {
    pub(super) fn new(desired: Desired) -> Self {
        Self(desired)
    }

    /// Wraps a store, without the rest of MetaManager.
    #[cfg(test)]
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        Self(Desired::new(store, "edge-1".to_owned()))
    }

    /// Stores an object as if the cloud had sent it, or removes it.
    #[cfg(test)]
    pub(crate) async fn put(&self, kind: DeviceObject, id: &DeviceId, object: Option<Value>) {
        let namespace = id.namespace().unwrap_or_default();
        let key = Key::new(resource(&kind.resource_type()), namespace, id.name());
        self.0.set(&key, object).await.unwrap();
    }

    /// Returns all objects of a kind, and the revision from which to watch them.
    pub async fn list(&self, kind: DeviceObject) -> Result<(Vec<Object>, u64), StoreError> {
        self.0.list(&resource(&kind.resource_type())).await
    }

    /// Returns the ids of the objects of a kind that are stored but cannot be read.
    pub fn damaged_ids(&self, kind: DeviceObject) -> BTreeSet<DeviceId> {
        let resource = resource(&kind.resource_type());
        let damaged = self.0.damaged_objects().now();
        let of_kind = damaged.keys().filter(|key| key.resource == resource);
        of_kind
            .filter_map(|key| DeviceId::new(&key.namespace, &key.name))
            .collect()
    }

    /// Watches the objects of a kind for changes after `revision`.
    pub fn watch(&self, kind: DeviceObject, revision: u64) -> Result<Watch, StoreError> {
        self.0.watch(&resource(&kind.resource_type()), revision)
    }

    /// Returns one object.
    pub async fn get(
        &self,
        kind: DeviceObject,
        id: &DeviceId,
    ) -> Result<Option<Value>, StoreError> {
        let namespace = id.namespace().unwrap_or_default();
        self.0
            .get(&Key::new(
                resource(&kind.resource_type()),
                namespace,
                id.name(),
            ))
            .await
    }
}

impl DeviceObject {
    fn resource_type(self) -> ResourceType {
        match self {
            Self::Device => ResourceType::Device,
            Self::Model => ResourceType::DeviceModel,
        }
    }
}

/// The cloud's messages about devices other than objects, for their one reader.
#[derive(Debug)]
pub struct CloudMessages(mpsc::Receiver<Box<Downstream>>);

impl CloudMessages {
    /// Returns the next message; `None` when MetaManager has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Downstream> {
        self.0.recv().await.map(|message| *message)
    }
}

/// The messages of the cloud for topics, HTTP services or node jobs, each with the header that its answer needs, for their one
/// reader.
#[derive(Debug)]
pub struct RouterMessages(mpsc::Receiver<Box<Down>>);

impl RouterMessages {
    /// Returns the next message; `None` when MetaManager has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Down> {
        self.0.recv().await.map(|message| *message)
    }

    /// Returns messages that a test sends.
    #[cfg(test)]
    pub(crate) fn of_test() -> (mpsc::Sender<Box<Down>>, Self) {
        let (sender, messages) = mpsc::channel(MAX_QUEUED_MESSAGES);
        (sender, Self(messages))
    }
}

/// The receivers of the messages that other modules handle.
#[derive(Debug)]
pub(super) struct ModuleReceivers {
    pub(super) devices: CloudMessages,
    pub(super) topics: RouterMessages,
    pub(super) services: RouterMessages,
    pub(super) jobs: RouterMessages,
}

/// Forwards messages to the modules that handle them. They are boxed, since a channel reserves space for many.
#[derive(Clone, Debug)]
pub(super) struct ModuleForwarder {
    devices: mpsc::Sender<Box<Downstream>>,
    topics: mpsc::Sender<Box<Down>>,
    services: mpsc::Sender<Box<Down>>,
    jobs: mpsc::Sender<Box<Down>>,
}

impl ModuleForwarder {
    /// Creates the queues, and returns them with their receivers.
    pub(super) fn new() -> (Self, ModuleReceivers) {
        let (devices, of_devices) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let (topics, of_topics) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let (services, of_services) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let (jobs, of_jobs) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let readers = ModuleReceivers {
            devices: CloudMessages(of_devices),
            topics: RouterMessages(of_topics),
            services: RouterMessages(of_services),
            jobs: RouterMessages(of_jobs),
        };
        (
            Self {
                devices,
                topics,
                services,
                jobs,
            },
            readers,
        )
    }

    /// Reports how full the queues are, while a sender exists.
    pub(super) fn queues(&self) -> impl Fn() -> Vec<Queue> + Send + Sync + Clone + use<> {
        let (devices, topics) = (self.devices.downgrade(), self.topics.downgrade());
        let (services, jobs) = (self.services.downgrade(), self.jobs.downgrade());
        move || {
            let devices = Queue::of("metamanager/devices", &devices);
            let topics = Queue::of("metamanager/topics", &topics);
            devices
                .into_iter()
                .chain(topics)
                .chain(Queue::of("metamanager/services", &services))
                .chain(Queue::of("metamanager/jobs", &jobs))
                .collect()
        }
    }

    /// Forwards a message about devices, topics or services to the module that reads these; returns the message where none
    /// does.
    pub(super) async fn forward(&self, header: &Header, message: Downstream) -> Option<Downstream> {
        let reader = match &message {
            Downstream::Membership(_)
            | Downstream::MembershipDetail(_)
            | Downstream::TwinDesired { .. } => {
                return self
                    .devices
                    .send(Box::new(message))
                    .await
                    .err()
                    .map(|unread| *unread.0);
            }
            Downstream::Subscription { .. } | Downstream::Publish { .. } => &self.topics,
            Downstream::ServiceTarget { .. } | Downstream::ServiceCall { .. } => &self.services,
            // tasks before node jobs have another form
            Downstream::Job { path, .. } if JobPath::parse(path.as_str()).is_some() => &self.jobs,
            // what is stored, what answers a question of this node, and what nobody here carries out
            Downstream::Object { .. }
            | Downstream::Answer { .. }
            | Downstream::RootCa(_)
            | Downstream::TwinConfirmed(_)
            | Downstream::UploadAnswer { .. }
            | Downstream::Application(_)
            | Downstream::WatchSync(_)
            | Downstream::Job { .. }
            | Downstream::Volume { .. }
            | Downstream::Unknown { .. } => return Some(message),
        };
        let message = Box::new(Down {
            header: header.clone(),
            body: message,
        });
        reader.send(message).await.err().map(|unread| unread.0.body)
    }
}
