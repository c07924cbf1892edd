//! The devices in the store, one object each, so that a device is written whole or not at all.

use std::{collections::BTreeMap, sync::Arc};

use objectstore::{Expect, Key, Object, Page, Resource, Scope, Store, StoreError, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};
use wire::topic::DeviceId;

use self::rows::Rows;
pub(crate) use self::rows::device_rows;
use super::{
    device::Device,
    history::{Chunk, HistoryEntry},
};

mod rows;

/// The group of the devices' collection.
const GROUP: &str = "twins.outrigger.dev";
/// The group of rows of EdgeCore's tables that were not taken over yet.
const EDGECORE_GROUP: &str = "edgecore.outrigger.dev";
/// The group of the history's collection.
const HISTORY_GROUP: &str = "history.outrigger.dev";
const TABLES: [&str; 3] = ["device", "device_attr", "device_twin"];

/// The devices in the store.
#[derive(Clone, Debug)]
pub(super) struct DeviceStore(Arc<dyn Store>);

#[derive(Serialize, Deserialize)]
struct Stored {
    id: DeviceId,
    device: Device,
}

impl DeviceStore {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    /// Returns all devices. The rows of EdgeCore's tables are imported first, once.
    pub(super) async fn load(&self) -> Result<Vec<(DeviceId, Device)>, StoreError> {
        self.take_over().await?;
        let mut devices = Vec::new();
        for object in self.list(&Resource::new(GROUP, "devices")).await? {
            match serde_json::from_value::<Stored>(object.value()?) {
                Ok(stored) => devices.push((stored.id, stored.device)),
                // another version of this program wrote it; the cloud and the mapper send it again
                Err(error) => {
                    warn!(object = %object.key, %error, "cannot decode a stored device; device ignored")
                }
            }
        }
        Ok(devices)
    }

    /// Returns the number and newest time of each chunk of the history.
    pub(super) async fn chunks(&self) -> Result<Vec<(u64, i64)>, StoreError> {
        let mut chunks = Vec::new();
        for object in self.list(&Resource::new(HISTORY_GROUP, "chunks")).await? {
            let Ok(number) = object.key.name.parse() else {
                continue;
            };
            let chunk: Chunk = serde_json::from_value(object.value()?).unwrap_or_default();
            chunks.push((
                number,
                chunk
                    .entries
                    .iter()
                    .map(|past| past.at)
                    .max()
                    .unwrap_or_default(),
            ));
        }
        Ok(chunks)
    }

    /// Writes a chunk of the history, and removes others.
    pub(super) async fn write_chunk(
        &self,
        number: u64,
        chunk: &Chunk,
        over: &[u64],
    ) -> Result<(), StoreError> {
        let mut value = serde_json::to_value(chunk).unwrap_or_default();
        value["metadata"] = json!({});
        let mut writes = vec![Write {
            key: chunk_key(number),
            expect: Expect::Anything,
            value: Some(value),
        }];
        writes.extend(over.iter().map(|number| Write {
            key: chunk_key(*number),
            expect: Expect::Anything,
            value: None,
        }));
        self.write_one_by_one(writes).await
    }

    /// Returns the history of a device, the oldest first.
    pub(super) async fn history(&self, device: &DeviceId) -> Result<Vec<HistoryEntry>, StoreError> {
        let mut history = Vec::new();
        for object in self.list(&Resource::new(HISTORY_GROUP, "chunks")).await? {
            let chunk: Chunk = serde_json::from_value(object.value()?).unwrap_or_default();
            history.extend(
                chunk
                    .entries
                    .into_iter()
                    .filter(|past| past.device == *device),
            );
        }
        Ok(history)
    }

    /// Writes devices, or removes them, in one commit. The values are taken before the returned future is polled.
    pub(super) fn write<'a>(
        &self,
        devices: impl Iterator<Item = (&'a DeviceId, Option<&'a Device>)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
        let writes: Vec<Write> = devices.map(|(id, device)| write(id, device)).collect();
        let store = self.clone();
        async move { store.write_all(writes).await }
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        let removes = writes
            .iter()
            .any(|write| write.value.is_none())
            .then(|| writes.clone());
        match (self.0.commit(writes).await, removes) {
            // the device was created and removed between two writes: there is nothing to remove
            (Err(StoreError::Missing(_)), Some(writes)) => self.write_one_by_one(writes).await,
            (written, _) => written.map(drop),
        }
    }

    async fn write_one_by_one(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        for write in writes {
            match self.0.commit(vec![write]).await {
                Ok(_) | Err(StoreError::Missing(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn list(&self, resource: &Resource) -> Result<Vec<Object>, StoreError> {
        let scope = Scope {
            resource: resource.clone(),
            namespace: None,
        };
        Ok(self.0.list(&scope, &Page::default()).await?.items)
    }

    /// Imports the rows of EdgeCore's tables as devices, and removes them with the same commit.
    async fn take_over(&self) -> Result<(), StoreError> {
        let mut rows = Rows::default();
        let mut writes = Vec::new();
        for table in TABLES {
            for object in self.list(&Resource::new(EDGECORE_GROUP, table)).await? {
                rows.add(
                    table,
                    object.value()?.get("row").cloned().unwrap_or_default(),
                );
                writes.push(Write {
                    key: object.key,
                    expect: Expect::Anything,
                    value: None,
                });
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let devices: BTreeMap<DeviceId, Device> = rows.devices();
        for (id, device) in &devices {
            // a device that is here already is newer
            let known = match self.0.get(&key(id)).await {
                Err(StoreError::Damaged { .. }) => None,
                known => known?,
            };
            if known.is_none() {
                writes.push(write(id, Some(device)));
            }
        }
        self.0.commit(writes).await?;
        info!(
            devices = devices.len(),
            "devices imported from EdgeCore's database"
        );
        Ok(())
    }
}

fn key(id: &DeviceId) -> Key {
    Key::new(
        Resource::new(GROUP, "devices"),
        id.namespace().unwrap_or_default(),
        id.name(),
    )
}

/// Returns the key of a chunk; names sort as their numbers.
fn chunk_key(number: u64) -> Key {
    Key::new(
        Resource::new(HISTORY_GROUP, "chunks"),
        "",
        format!("{number:020}"),
    )
}

fn write(id: &DeviceId, device: Option<&Device>) -> Write {
    let value = device.map(|device| json!({"metadata": {}, "id": id, "device": device}));
    Write {
        key: key(id),
        expect: Expect::Anything,
        value,
    }
}

/// Parses a text that holds JSON, as EdgeCore stores it; null if it is none.
fn inner(text: &Value) -> Value {
    text.as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
