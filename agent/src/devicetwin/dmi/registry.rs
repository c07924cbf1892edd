//! The registered mappers of this node and the state that each was sent, on disk, so that both survive restarts of the agent.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use objectstore::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    net::UnixStream,
    sync::{Mutex, watch},
};
use tracing::{info, warn};
use wire::dmi::MapperInfo;

use super::{calls::CallCounts, mapper::Mapper, plan::SyncedState};

/// The group of the mappers' collection.
const GROUP: &str = "mappers.outrigger.dev";
/// The name of the collection.
const PLURAL: &str = "mappers";
/// The group of rows of EdgeCore's database that were not taken over yet.
const EDGECORE_GROUP: &str = "edgecore.outrigger.dev";

/// The most mappers; a node has a handful of protocols. Another one replaces a mapper whose socket is not served.
const MAX_MAPPERS: usize = 64;

/// Why a mapper was not registered.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegisterError {
    /// The registry is full, and all mappers in it are served.
    #[error("{most} mappers are registered on this node, which is the limit; stop one of them", most = MAX_MAPPERS)]
    Full,
    /// The store failed.
    #[error("failed to store the registration: {0}; register again")]
    Store(#[from] StoreError),
}

/// A mapper and its registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) mapper: Mapper,
    /// The number of the registration. A new number means that the mapper has registered again, and has the answer to that.
    pub(super) number: u64,
    /// The states that it was sent when it registered, or before the agent started.
    pub(super) synced: Arc<SyncedState>,
}

/// The mappers by protocol.
pub(super) type Mappers = BTreeMap<String, Registered>;

#[derive(Serialize, Deserialize)]
struct StoredMapper {
    mapper: Mapper,
    #[serde(default, rename = "told")]
    synced: SyncedState,
}

/// The registry; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    store: Arc<dyn Store>,
    mappers: watch::Sender<Arc<Mappers>>,
    /// The last number; the lock allows one write at a time, so that a record of sent states does not replace a newer
    /// registration.
    number: Arc<Mutex<u64>>,
    /// Counts the calls from and to all mappers.
    pub(super) calls: CallCounts,
}

impl Registry {
    /// Creates the registry, empty until [`Registry::load`].
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            mappers: watch::Sender::default(),
            number: Arc::default(),
            calls: CallCounts::default(),
        }
    }

    /// Reads the registry from disk. A mapper that cannot be read is left out: it will register again.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        let mut number = self.number.lock().await;
        let scope = Scope {
            resource: resource(),
            namespace: None,
        };
        let mut mappers = Mappers::new();
        for object in self.store.list(&scope, &Page::default()).await?.items {
            match serde_json::from_value::<StoredMapper>(object.value()?) {
                Ok(StoredMapper { mapper, synced }) => {
                    *number += 1;
                    let registered = Registered {
                        number: *number,
                        synced: Arc::new(synced),
                        mapper,
                    };
                    mappers.insert(registered.mapper.protocol.clone(), registered);
                }
                Err(error) => {
                    warn!(protocol = object.key.name, %error, "cannot read stored mapper; ignored")
                }
            }
        }
        self.take_over(&mut mappers, &mut number).await?;
        self.mappers.send_replace(Arc::new(mappers));
        Ok(())
    }

    /// Imports the mappers of EdgeCore's database, once; those that have registered here since are newer.
    async fn take_over(&self, mappers: &mut Mappers, number: &mut u64) -> Result<(), StoreError> {
        let scope = Scope {
            resource: Resource::new(EDGECORE_GROUP, "devicemapper"),
            namespace: None,
        };
        for object in self.store.list(&scope, &Page::default()).await?.items {
            if let Some(mapper) = parse_edgecore_mapper(&object.value()?)
                .filter(|it| !mappers.contains_key(&it.protocol))
            {
                let synced = SyncedState::default();
                self.save(&mapper, &synced).await?;
                *number += 1;
                let registered = Registered {
                    number: *number,
                    synced: Arc::new(synced),
                    mapper,
                };
                mappers.insert(registered.mapper.protocol.clone(), registered);
            }
            let write = Write {
                key: object.key,
                expect: Expect::Anything,
                value: None,
            };
            self.store.commit(vec![write]).await?;
        }
        Ok(())
    }

    /// Returns a watch of the mappers.
    pub(super) fn mappers(&self) -> watch::Receiver<Arc<Mappers>> {
        self.mappers.subscribe()
    }

    /// Registers a mapper that has these states. The registration is on disk when this returns.
    pub(super) async fn register(
        &self,
        mapper: Mapper,
        synced: SyncedState,
    ) -> Result<(), RegisterError> {
        let mut number = self.number.lock().await;
        let mappers = self.mappers.borrow().clone();
        if mappers.len() >= MAX_MAPPERS && !mappers.contains_key(&mapper.protocol) {
            self.evict_unreachable(&mappers).await?;
        }
        self.save(&mapper, &synced).await?;
        *number += 1;
        let registered = Registered {
            number: *number,
            synced: Arc::new(synced),
            mapper,
        };
        self.mappers.send_modify(|mappers| {
            Arc::make_mut(mappers).insert(registered.mapper.protocol.clone(), registered);
        });
        Ok(())
    }

    /// Records the states that a mapper has been sent; does nothing if it has registered again meanwhile.
    pub(super) async fn record_synced(
        &self,
        registered: &Registered,
        synced: &SyncedState,
    ) -> Result<(), StoreError> {
        let _lock = self.number.lock().await;
        let mappers = self.mappers.borrow().clone();
        let current = mappers.get(&registered.mapper.protocol);
        if current.is_some_and(|current| current.number == registered.number) {
            self.save(&registered.mapper, synced).await?;
        }
        Ok(())
    }

    /// Removes the oldest mapper whose socket is not served: it registers again when it comes back.
    async fn evict_unreachable(&self, mappers: &Mappers) -> Result<(), RegisterError> {
        let mut oldest: Vec<_> = mappers.values().collect();
        oldest.sort_by_key(|registered| registered.number);
        for Registered { mapper, .. } in oldest {
            if UnixStream::connect(&mapper.socket).await.is_ok() {
                continue;
            }
            info!(
                name = mapper.name,
                protocol = mapper.protocol,
                "absent mapper removed: limit of mappers reached"
            );
            let key = Key::new(resource(), "", mapper.protocol.as_str());
            self.store
                .commit(vec![Write {
                    key,
                    expect: Expect::Anything,
                    value: None,
                }])
                .await?;
            self.mappers
                .send_modify(|mappers| drop(Arc::make_mut(mappers).remove(&mapper.protocol)));
            return Ok(());
        }
        Err(RegisterError::Full)
    }

    async fn save(&self, mapper: &Mapper, synced: &SyncedState) -> Result<(), StoreError> {
        let key = Key::new(resource(), "", mapper.protocol.as_str());
        let value =
            json!({"metadata": {"name": mapper.protocol}, "mapper": mapper, "told": synced});
        let write = Write {
            key,
            expect: Expect::Anything,
            value: Some(value),
        };
        self.store.commit(vec![write]).await.map(drop)
    }
}

/// Parses a mapper as EdgeCore writes it: the message as Go's JSON, its bytes in base64.
fn parse_edgecore_mapper(kept: &Value) -> Option<Mapper> {
    let text = |field: &str| {
        kept.pointer(&format!("/row/{field}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let address = STANDARD.decode(text("address")).ok()?;
    let info = MapperInfo {
        name: text("name").to_owned(),
        version: text("version").to_owned(),
        protocol: text("protocol").to_owned(),
        address: address.into(),
        ..MapperInfo::default()
    };
    Mapper::from_info(info)
        .inspect_err(|error| warn!(error, "cannot take over mapper of EdgeCore"))
        .ok()
}

fn resource() -> Resource {
    Resource::new(GROUP, PLURAL)
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;
    use wire::topic::DeviceId;

    use super::*;
    use crate::devicetwin::dmi::plan::Digest;

    fn mapper(protocol: &str, name: &str) -> Mapper {
        Mapper {
            name: name.into(),
            version: "1".into(),
            protocol: protocol.into(),
            socket: "/run/m.sock".into(),
        }
    }

    fn synced_state(device: &str) -> SyncedState {
        let digest = Digest::of(&wire::dmi::Device::default());
        SyncedState {
            devices: [(DeviceId::parse(device).unwrap(), digest)].into(),
            ..SyncedState::default()
        }
    }

    #[tokio::test]
    async fn mappers_and_their_sent_states_survive() {
        let store = MemoryStore::new();
        let registry = Registry::new(store.clone());
        registry
            .register(mapper("modbus", "a"), SyncedState::default())
            .await
            .unwrap();
        registry
            .register(mapper("ble/5 \"x\"", "b"), synced_state("ns/b"))
            .await
            .unwrap();
        let first = registry.mappers().borrow()["modbus"].clone();
        registry
            .record_synced(&first, &synced_state("ns/d"))
            .await
            .unwrap();
        // the same protocol again, as after a restart of the mapper
        registry
            .register(mapper("modbus", "c"), synced_state("ns/e"))
            .await
            .unwrap();
        registry
            .record_synced(&first, &synced_state("ns/old"))
            .await
            .unwrap();

        let again = Registry::new(store.clone());
        again.load().await.unwrap();
        let mappers = again.mappers().borrow().clone();
        let found: Vec<_> = mappers
            .values()
            .map(|it| (it.mapper.name.as_str(), (*it.synced).clone()))
            .collect();
        assert_eq!(
            found,
            [("b", synced_state("ns/b")), ("c", synced_state("ns/e"))]
        );
    }

    #[tokio::test]
    async fn edgecores_mappers_are_taken_over_once() {
        let store = MemoryStore::new();
        let put = async |name: &str, row: Value| {
            let key = Key::new(Resource::new(EDGECORE_GROUP, "devicemapper"), "", name);
            let value = Some(json!({"metadata": {"name": name}, "row": row}));
            store
                .commit(vec![Write {
                    key,
                    expect: Expect::Absent,
                    value,
                }])
                .await
                .unwrap();
        };
        let row = |protocol: &str, address: &str| json!({"name": "m", "version": "v1", "protocol": protocol, "address": STANDARD.encode(address)});
        put("modbus", row("modbus", "/etc/kubeedge/modbus.sock")).await;
        put("bad", row("", "/etc/kubeedge/bad.sock")).await;
        put("ble", row("ble", "/etc/kubeedge/old.sock")).await;
        Registry::new(store.clone())
            .register(mapper("ble", "new"), SyncedState::default())
            .await
            .unwrap();
        for _ in 0..2 {
            let registry = Registry::new(store.clone());
            registry.load().await.unwrap();
            let mappers = registry.mappers().borrow().clone();
            let found: Vec<_> = mappers
                .values()
                .map(|it| it.mapper.socket.display().to_string())
                .collect();
            assert_eq!(found, ["/run/m.sock", "/etc/kubeedge/modbus.sock"]);
        }
    }

    #[tokio::test]
    async fn the_registry_is_limited_and_an_unreachable_mapper_is_evicted() {
        let (store, directory) = (MemoryStore::new(), tempfile::tempdir().unwrap());
        let registry = Registry::new(store.clone());
        let sockets: Vec<_> = (0..MAX_MAPPERS)
            .map(|number| directory.path().join(format!("{number}.sock")))
            .collect();
        let mut serving: Vec<_> = sockets
            .iter()
            .map(|path| tokio::net::UnixListener::bind(path).unwrap())
            .collect();
        for (number, socket) in sockets.into_iter().enumerate() {
            let mapper = Mapper {
                socket,
                ..mapper(&format!("p{number}"), "a")
            };
            registry
                .register(mapper, SyncedState::default())
                .await
                .unwrap();
        }
        let more = || registry.register(mapper("more", "b"), SyncedState::default());
        assert!(matches!(more().await, Err(RegisterError::Full)));
        // a known mapper may register again
        registry
            .register(mapper("p7", "c"), SyncedState::default())
            .await
            .unwrap();
        serving.remove(3);
        more().await.unwrap();
        let again = Registry::new(store);
        again.load().await.unwrap();
        for registry in [registry, again] {
            let mappers = registry.mappers().borrow().clone();
            assert_eq!(mappers.len(), MAX_MAPPERS);
            assert!(mappers.contains_key("more") && !mappers.contains_key("p3"));
        }
    }

    #[tokio::test]
    async fn a_mapper_that_cannot_be_read_registers_again() {
        let store = MemoryStore::new();
        let key = Key::new(resource(), "", "modbus");
        let value = Some(json!({"metadata": {"name": "modbus"}, "mapper": 7}));
        store
            .commit(vec![Write {
                key,
                expect: Expect::Absent,
                value,
            }])
            .await
            .unwrap();
        let registry = Registry::new(store);
        registry.load().await.unwrap();
        assert!(registry.mappers().borrow().is_empty());
        registry
            .register(mapper("modbus", "a"), SyncedState::default())
            .await
            .unwrap();
        assert_eq!(registry.mappers().borrow()["modbus"].mapper.name, "a");
    }
}
