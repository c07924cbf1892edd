//! A node without a cloud: EventBus and DeviceTwin on a store with the objects that the cloud has sent.

use std::{
    fmt::Debug,
    net::Ipv4Addr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use objectstore::{
    Expect, Key, Listing, MemoryStore, Object, Page, Resource, Scope, Store, StoreError, Watch,
    Write,
};
use serde_json::json;
use testkit::eventually;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::topic::DeviceId;

use super::super::{Bus, Config, External, Internal, Requests, new};
use crate::{
    devicetwin::{self, DeviceTwin},
    edgehub::{
        EdgeHub, Inbound,
        fake_cloud::{FakeCloud, fake_cloud},
    },
    metamanager,
};

/// Returns a store with a device and its model.
pub(super) fn store() -> Arc<MemoryStore> {
    MemoryStore::new()
}

/// Returns the device's id.
pub(super) fn device() -> DeviceId {
    DeviceId::parse("default/d").unwrap()
}

/// Returns the settings of the node's MetaManager, without MetaServer.
pub(super) fn meta_config(
    store: Arc<dyn Store>,
    hub: &EdgeHub,
    inbound: Inbound,
) -> metamanager::Config {
    let (node_name, timing) = ("edge-1".into(), metamanager::Timing::default());
    metamanager::Config {
        node_name,
        store,
        hub: hub.clone(),
        inbound,
        timing,
        server: None,
    }
}

/// The running modules.
pub(super) struct Node {
    pub(super) bus: Bus,
    pub(super) devices: DeviceTwin,
    store: Arc<dyn Store>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    /// Starts them without a cloud; the device and its model are known when this returns.
    pub(super) async fn start(
        internal: Option<Internal>,
        external: Option<External>,
        store: Arc<dyn Store>,
    ) -> Self {
        Self::before(internal, external, store).await.0
    }

    /// Starts them, and returns the cloud's end of a connection that is not established yet.
    pub(super) async fn before(
        internal: Option<Internal>,
        external: Option<External>,
        store: Arc<dyn Store>,
    ) -> (Self, FakeCloud) {
        let (hub, inbound, line) = fake_cloud();
        let (meta, ends) = metamanager::new(meta_config(store.clone(), &hub, inbound));
        let bus = Config {
            internal,
            external,
            store: store.clone(),
            hub: hub.clone(),
            messages: ends.topic_messages,
        };
        let (bus, requests, bus_task): (Bus, Requests, _) = new(bus).unwrap();
        let (devices, task) = devicetwin::new(devicetwin::Config {
            node_name: "edge-1".into(),
            store: store.clone(),
            objects: meta.devices(),
            messages: ends.device_messages,
            hub,
            bus: bus.clone(),
            requests,
        });
        let stop = CancellationToken::new();
        let (one, two, three) = (stop.clone(), stop.clone(), stop.clone());
        let tasks = vec![
            tokio::spawn(async move { Box::pin(bus_task.run(one)).await.unwrap() }),
            tokio::spawn(task.run(two)),
            tokio::spawn(ends.task.run(three)),
        ];
        let node = Self {
            bus,
            devices,
            store,
            stop,
            tasks,
        };
        if node.store.get(&key("device", "d")).await.unwrap().is_none() {
            let model = json!({"metadata": {"name": "m", "uid": "m"}, "spec": {"properties": [
                {"name": "temp", "type": "FLOAT", "minimum": "0", "maximum": "100", "accessMode": "ReadWrite"},
            ]}});
            node.put("devicemodel", "m", model).await;
            node.want("21").await;
        }
        (node, line)
    }

    /// Sets the desired value of the device, which is known when this returns.
    pub(super) async fn want(&self, value: &str) {
        let object = json!({"metadata": {"name": "d", "namespace": "default", "uid": "d"}, "spec": {
            "deviceModelRef": {"name": "m"}, "properties": [{"name": "temp", "desired": {"value": value}}],
        }});
        self.put("device", "d", object).await;
        eventually("what is wanted", async || {
            match self.devices.desired_values(&device()).await {
                Ok(desired) if desired.get("temp").is_some_and(|wanted| wanted == value) => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    async fn put(&self, kind: &str, name: &str, object: serde_json::Value) {
        let write = Write {
            key: key(kind, name),
            expect: Expect::Anything,
            value: Some(object),
        };
        self.store.commit(vec![write]).await.unwrap();
    }

    /// Waits until its brokers are up.
    pub(super) async fn until_up(&self) {
        eventually("the broker", async || {
            self.bus.is_up().then_some(()).ok_or("not there")
        })
        .await;
    }

    /// Waits until connections have failed this often.
    pub(super) async fn until_failed(&self, times: u64) {
        eventually("failures", async || {
            let failures = self.bus.failures();
            (failures >= times).then_some(()).ok_or(failures)
        })
        .await;
    }

    /// Ends it at once.
    pub(super) async fn kill(mut self) {
        for task in std::mem::take(&mut self.tasks) {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn key(kind: &str, name: &str) -> Key {
    Key::new(Resource::new("kubeedge.io", kind), "default", name)
}

/// Returns the settings of the internal broker.
pub(super) fn internal(directory: Option<&Path>) -> Internal {
    Internal {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        tls: None,
        access: None,
        database: directory.map(|directory| directory.join("mqtt.db")),
        session_queue: 1000,
        qos: 0,
        retain: false,
    }
}

/// A store whose disk is full, or hangs, on command.
#[derive(Debug)]
pub(super) struct FailingStore {
    store: Arc<MemoryStore>,
    fails: AtomicBool,
    hangs: AtomicBool,
    failed: AtomicU64,
}

impl FailingStore {
    pub(super) fn new() -> Arc<Self> {
        let (fails, hangs) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self {
            store: MemoryStore::new(),
            fails,
            hangs,
            failed: AtomicU64::new(0),
        })
    }

    /// Makes the next commit hang.
    pub(super) fn hang_once(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    pub(super) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    /// Returns the number of failed commits.
    pub(super) fn failure_count(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) async fn until_failed(&self, times: u64) {
        eventually("commits that fail", async || {
            let failed = self.failure_count();
            (failed >= times).then_some(()).ok_or(failed)
        })
        .await;
    }
}

#[async_trait]
impl Store for FailingStore {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.store.list(scope, page).await
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.store.sizes().await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        if self.hangs.swap(false, Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.fails.load(Ordering::Relaxed) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::Disk {
                path: "memory".into(),
                step: "commit",
                cure: "make room",
                source: Arc::new(sqlx::Error::PoolClosed),
            });
        }
        self.store.commit(writes).await
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        self.store.watch(scope, after)
    }

    fn revision(&self) -> u64 {
        self.store.revision()
    }
}
