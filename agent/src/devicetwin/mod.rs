//! DeviceTwin: the devices of this node, what is wanted of them and what they are.
//!
//! In: devices and models from the cloud (objects, memberships), updates of mappers over MQTT and DMI. Out: answers and deltas to
//! mappers, reports to the cloud. What was answered is on disk; what is on disk is reported until the cloud has confirmed it.
//!
//! | part | what |
//! |---|---|
//! | `device`, `rules`, `merge`, `report`, `core` | decisions, pure |
//! | `kept`, `history` | the devices in the store, and what they were |
//! | `task`, `work`, `commit`, `cloud_reports` | the one owner: takes what has come, commits it, then answers; what the cloud is told |
//! | `dmi` | mappers over gRPC |
//! | `handle` | the doors for other rooms |
//!
//! Source: KubeEdge's DeviceTwin.

mod cloud_reports;
mod commit;
mod core;
mod counts;
mod device;
pub mod dmi;
mod handle;
mod history;
mod merge;
mod objects;
mod report;
mod rules;
mod store;
mod task;
mod work;

use std::sync::Arc;

use kubeapi::store::Store;
use tokio::sync::{mpsc, watch};

pub(crate) use self::store::device_rows;
pub use self::{
    counts::{Count, Counts},
    handle::{Catalogue, DeviceTwin, Devices, Listed, Reading, Refused, Unavailable},
    history::Past,
    task::Task,
};
use self::{objects::Objects, store::DeviceStore};
use crate::{
    edgehub::EdgeHub,
    eventbus::{Bus, Requests},
    metamanager::{CloudMessages, DeviceObjects},
};

/// Requests of other rooms that wait for a turn. Whoever asks waits.
const COMMANDS: usize = 256;

/// What the room needs.
#[derive(Debug)]
pub struct Config {
    /// This node's name.
    pub node_name: String,
    /// Where devices are kept.
    pub store: Arc<dyn Store>,
    /// The objects of devices and models.
    pub objects: DeviceObjects,
    /// What the cloud says of devices beside them.
    pub messages: CloudMessages,
    /// The way to the cloud.
    pub hub: EdgeHub,
    /// The way to mappers over MQTT.
    pub bus: Bus,
    /// What mappers ask over MQTT.
    pub requests: Requests,
}

/// Builds the room; [`Task::run`] reads what is stored.
pub fn new(config: Config) -> (DeviceTwin, Task) {
    let Config { node_name, store, objects, messages, hub, bus, requests } = config;
    let (commands, inbox) = mpsc::channel(COMMANDS);
    let (catalogue, newest) = watch::channel(None);
    let counts = Arc::new(Counts::default());
    let handle = DeviceTwin { commands, catalogue: newest, objects: objects.clone(), counts: counts.clone() };
    let task = Task {
        store: DeviceStore::new(store),
        objects: Objects::new(objects),
        commands: inbox,
        requests,
        messages,
        bus,
        hub,
        node: node_name,
        catalogue,
        counts,
    };
    (handle, task)
}
