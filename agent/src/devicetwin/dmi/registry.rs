//! The mappers of this node and what each was told, on disk: neither has to be said again when the agent starts anew.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use kubeapi::store::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    net::UnixStream,
    sync::{Mutex, watch},
};
use tracing::{info, warn};
use wire::dmi::MapperInfo;

use super::{calls::Calls, mapper::Mapper, plan::Known};

/// Where mappers stand in the store.
const GROUP: &str = "mappers.outrigger.dev";
/// Their collection.
const PLURAL: &str = "mappers";
/// Where rows of EdgeCore's database stand until somebody reads them.
const EDGECORE: &str = "edgecore.outrigger.dev";

/// So many mappers at most; a node has a handful of protocols. For one more, one whose socket nobody serves is forgotten.
const MAX_MAPPERS: usize = 64;

/// Why a mapper is not registered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unregistered {
    /// There are too many, and all of them are there.
    #[error("{most} mappers serve on this node, and no more are taken; stop one of them", most = MAX_MAPPERS)]
    Full,
    /// The store failed.
    #[error("the registration could not be kept: {0}; register again")]
    Store(#[from] StoreError),
}

/// A mapper, and which registration of it this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) mapper: Mapper,
    /// Another one means that the mapper has registered anew, and knows what it was answered then.
    pub(super) turn: u64,
    /// What it was told when it registered, or before the agent started.
    pub(super) told: Arc<Known>,
}

/// The mappers by protocol.
pub(super) type Mappers = BTreeMap<String, Registered>;

#[derive(Serialize, Deserialize)]
struct Kept {
    mapper: Mapper,
    #[serde(default)]
    told: Known,
}

/// The registry. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    store: Arc<dyn Store>,
    mappers: watch::Sender<Arc<Mappers>>,
    /// One write at a time: what a mapper was told must not take the place of a newer registration.
    turn: Arc<Mutex<u64>>,
    /// Calls of all mappers, and to them.
    pub(super) calls: Calls,
}

impl Registry {
    /// Nobody until [`Registry::load`].
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, mappers: watch::Sender::default(), turn: Arc::default(), calls: Calls::default() }
    }

    /// Reads what is on disk. A mapper that cannot be read is left out: it will register again.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        let mut turn = self.turn.lock().await;
        let scope = Scope { resource: resource(), namespace: None };
        let mut mappers = Mappers::new();
        for object in self.store.list(&scope, &Page::default()).await?.items {
            match serde_json::from_value::<Kept>(object.value()?) {
                Ok(Kept { mapper, told }) => {
                    *turn += 1;
                    let registered = Registered { turn: *turn, told: Arc::new(told), mapper };
                    mappers.insert(registered.mapper.protocol.clone(), registered);
                }
                Err(error) => warn!(protocol = object.key.name, %error, "a mapper on disk cannot be read"),
            }
        }
        self.take_over(&mut mappers, &mut turn).await?;
        self.mappers.send_replace(Arc::new(mappers));
        Ok(())
    }

    /// Takes the mappers that EdgeCore had, once; those that have registered here since are newer.
    async fn take_over(&self, mappers: &mut Mappers, turn: &mut u64) -> Result<(), StoreError> {
        let scope = Scope { resource: Resource::new(EDGECORE, "devicemapper"), namespace: None };
        for object in self.store.list(&scope, &Page::default()).await?.items {
            if let Some(mapper) = edgecores(&object.value()?).filter(|it| !mappers.contains_key(&it.protocol))
            {
                let told = Known::default();
                self.keep(&mapper, &told).await?;
                *turn += 1;
                let registered = Registered { turn: *turn, told: Arc::new(told), mapper };
                mappers.insert(registered.mapper.protocol.clone(), registered);
            }
            let write = Write { key: object.key, expect: Expect::Anything, value: None };
            self.store.commit(vec![write]).await?;
        }
        Ok(())
    }

    /// The mappers, now and as they change.
    pub(super) fn mappers(&self) -> watch::Receiver<Arc<Mappers>> {
        self.mappers.subscribe()
    }

    /// A mapper is there and knows this much. When it returns, that is on disk.
    pub(super) async fn register(&self, mapper: Mapper, told: Known) -> Result<(), Unregistered> {
        let mut turn = self.turn.lock().await;
        let mappers = self.mappers.borrow().clone();
        if mappers.len() >= MAX_MAPPERS && !mappers.contains_key(&mapper.protocol) {
            self.make_room(&mappers).await?;
        }
        self.keep(&mapper, &told).await?;
        *turn += 1;
        let registered = Registered { turn: *turn, told: Arc::new(told), mapper };
        self.mappers.send_modify(|mappers| {
            Arc::make_mut(mappers).insert(registered.mapper.protocol.clone(), registered);
        });
        Ok(())
    }

    /// A mapper was told this much since; nothing where it has registered anew meanwhile.
    pub(super) async fn note(&self, registered: &Registered, told: &Known) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let mappers = self.mappers.borrow().clone();
        let current = mappers.get(&registered.mapper.protocol);
        if current.is_some_and(|current| current.turn == registered.turn) {
            self.keep(&registered.mapper, told).await?;
        }
        Ok(())
    }

    /// Forgets the mapper that registered the longest ago of those that are not there: it registers when it comes back.
    async fn make_room(&self, mappers: &Mappers) -> Result<(), Unregistered> {
        let mut oldest: Vec<_> = mappers.values().collect();
        oldest.sort_by_key(|registered| registered.turn);
        for Registered { mapper, .. } in oldest {
            if UnixStream::connect(&mapper.socket).await.is_ok() {
                continue;
            }
            info!(
                name = mapper.name,
                protocol = mapper.protocol,
                "a mapper is not there and makes room for another"
            );
            let key = Key::new(resource(), "", mapper.protocol.as_str());
            self.store.commit(vec![Write { key, expect: Expect::Anything, value: None }]).await?;
            self.mappers.send_modify(|mappers| drop(Arc::make_mut(mappers).remove(&mapper.protocol)));
            return Ok(());
        }
        Err(Unregistered::Full)
    }

    async fn keep(&self, mapper: &Mapper, told: &Known) -> Result<(), StoreError> {
        let key = Key::new(resource(), "", mapper.protocol.as_str());
        let value = json!({"metadata": {"name": mapper.protocol}, "mapper": mapper, "told": told});
        let write = Write { key, expect: Expect::Anything, value: Some(value) };
        self.store.commit(vec![write]).await.map(drop)
    }
}

/// A mapper as EdgeCore writes it: the message as Go's JSON, its bytes in base64.
fn edgecores(kept: &Value) -> Option<Mapper> {
    let text =
        |field: &str| kept.pointer(&format!("/row/{field}")).and_then(Value::as_str).unwrap_or_default();
    let address = STANDARD.decode(text("address")).ok()?;
    let info = MapperInfo {
        name: text("name").to_owned(),
        version: text("version").to_owned(),
        protocol: text("protocol").to_owned(),
        address: address.into(),
        ..MapperInfo::default()
    };
    Mapper::from_info(info)
        .inspect_err(|error| warn!(error, "a mapper of EdgeCore is left to register anew"))
        .ok()
}

fn resource() -> Resource {
    Resource::new(GROUP, PLURAL)
}

#[cfg(test)]
mod tests {
    use kubeapi::store::MemoryStore;
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

    fn told(device: &str) -> Known {
        let digest = Digest::of(&wire::dmi::Device::default());
        Known { devices: [(DeviceId::parse(device).unwrap(), digest)].into(), ..Known::default() }
    }

    #[tokio::test]
    async fn mappers_and_what_they_were_told_survive() {
        let store = MemoryStore::new();
        let registry = Registry::new(store.clone());
        registry.register(mapper("modbus", "a"), Known::default()).await.unwrap();
        registry.register(mapper("ble/5 \"x\"", "b"), told("ns/b")).await.unwrap();
        let first = registry.mappers().borrow()["modbus"].clone();
        registry.note(&first, &told("ns/d")).await.unwrap();
        // the same protocol again, as after a restart of the mapper
        registry.register(mapper("modbus", "c"), told("ns/e")).await.unwrap();
        registry.note(&first, &told("ns/old")).await.unwrap();

        let again = Registry::new(store.clone());
        again.load().await.unwrap();
        let mappers = again.mappers().borrow().clone();
        let found: Vec<_> =
            mappers.values().map(|it| (it.mapper.name.as_str(), (*it.told).clone())).collect();
        assert_eq!(found, [("b", told("ns/b")), ("c", told("ns/e"))]);
    }

    #[tokio::test]
    async fn edgecores_mappers_are_taken_over_once() {
        let store = MemoryStore::new();
        let put = async |name: &str, row: Value| {
            let key = Key::new(Resource::new(EDGECORE, "devicemapper"), "", name);
            let value = Some(json!({"metadata": {"name": name}, "row": row}));
            store.commit(vec![Write { key, expect: Expect::Absent, value }]).await.unwrap();
        };
        let row = |protocol: &str, address: &str| json!({"name": "m", "version": "v1", "protocol": protocol, "address": STANDARD.encode(address)});
        put("modbus", row("modbus", "/etc/kubeedge/modbus.sock")).await;
        put("bad", row("", "/etc/kubeedge/bad.sock")).await;
        put("ble", row("ble", "/etc/kubeedge/old.sock")).await;
        Registry::new(store.clone()).register(mapper("ble", "new"), Known::default()).await.unwrap();
        for _ in 0..2 {
            let registry = Registry::new(store.clone());
            registry.load().await.unwrap();
            let mappers = registry.mappers().borrow().clone();
            let found: Vec<_> = mappers.values().map(|it| it.mapper.socket.display().to_string()).collect();
            assert_eq!(found, ["/run/m.sock", "/etc/kubeedge/modbus.sock"]);
        }
    }

    #[tokio::test]
    async fn there_are_not_more_than_so_many_and_one_that_is_away_makes_room() {
        let (store, directory) = (MemoryStore::new(), tempfile::tempdir().unwrap());
        let registry = Registry::new(store.clone());
        let sockets: Vec<_> =
            (0..MAX_MAPPERS).map(|number| directory.path().join(format!("{number}.sock"))).collect();
        let mut serving: Vec<_> =
            sockets.iter().map(|path| tokio::net::UnixListener::bind(path).unwrap()).collect();
        for (number, socket) in sockets.into_iter().enumerate() {
            let mapper = Mapper { socket, ..mapper(&format!("p{number}"), "a") };
            registry.register(mapper, Known::default()).await.unwrap();
        }
        let more = || registry.register(mapper("more", "b"), Known::default());
        assert!(matches!(more().await, Err(Unregistered::Full)));
        // one that is known may come again
        registry.register(mapper("p7", "c"), Known::default()).await.unwrap();
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
        store.commit(vec![Write { key, expect: Expect::Absent, value }]).await.unwrap();
        let registry = Registry::new(store);
        registry.load().await.unwrap();
        assert!(registry.mappers().borrow().is_empty());
        registry.register(mapper("modbus", "a"), Known::default()).await.unwrap();
        assert_eq!(registry.mappers().borrow()["modbus"].mapper.name, "a");
    }
}
