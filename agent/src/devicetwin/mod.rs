//! DeviceTwin: the devices of this node, with their desired and reported values.
//!
//! In: devices and models from the cloud (objects, memberships), updates of mappers over MQTT and DMI. Out: answers and deltas
//! to mappers, reports to the cloud. What was answered is on disk; what is on disk is reported until the cloud has confirmed
//! it.
//!
//! | part | what |
//! |---|---|
//! | `device`, `rules`, `merge`, `report`, `core` | decisions, pure |
//! | `store`, `history` | the devices in the store, and the history of their values |
//! | `task`, `work`, `commit`, `cloud_reports` | the one owner: applies requests, commits them, then answers; reports to the
//! cloud |
//! | `dmi` | mappers over gRPC |
//! | `handle` | the handle for other modules |
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

use objectstore::Store;
use tokio::sync::{mpsc, watch};

pub(crate) use self::store::device_rows;
pub use self::{
    counts::{RequestCounts, RequestOutcome},
    handle::{Catalogue, CatalogueEntry, DeviceTwin, Devices, ObjectError, Reading, RequestError},
    history::HistoryEntry,
    task::Task,
};
use self::{objects::Objects, store::DeviceStore};
use crate::{
    edgehub::EdgeHub,
    eventbus::{Bus, Requests},
    metamanager::{CloudMessages, DeviceObjects},
};

/// The most requests of other modules that wait; further callers wait.
const MAX_QUEUED_COMMANDS: usize = 256;

/// What DeviceTwin needs.
#[derive(Debug)]
pub struct Config {
    /// This node's name.
    pub node_name: String,
    /// The store of the devices.
    pub store: Arc<dyn Store>,
    /// The objects of devices and models.
    pub objects: DeviceObjects,
    /// The cloud's messages about devices other than objects.
    pub messages: CloudMessages,
    /// The connection to the cloud.
    pub hub: EdgeHub,
    /// The MQTT connection to mappers.
    pub bus: Bus,
    /// The requests of mappers over MQTT.
    pub requests: Requests,
}

/// Builds DeviceTwin; [`Task::run`] reads what is stored.
pub fn new(config: Config) -> (DeviceTwin, Task) {
    let Config {
        node_name,
        store,
        objects,
        messages,
        hub,
        bus,
        requests,
    } = config;
    let (commands, inbox) = mpsc::channel(MAX_QUEUED_COMMANDS);
    let (catalogue, newest) = watch::channel(None);
    let counts = Arc::new(RequestCounts::default());
    let handle = DeviceTwin {
        commands,
        catalogue: newest,
        objects: objects.clone(),
        counts: counts.clone(),
    };
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
