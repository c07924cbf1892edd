//! Follows the objects of devices and models: first all of them, then each change.

use std::{collections::BTreeSet, fmt, time::Duration};

use crds::devices::{Device, DeviceModel};
use futures::future::BoxFuture;
use objectstore::{Event, EventKind, Object, StoreError, Watch};
use serde::de::DeserializeOwned;
use tracing::{error, warn};
use wire::topic::DeviceId;

use super::core::{Batch, Core};
use crate::metamanager::{DeviceObject, DeviceObjects};

/// The wait after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Objects that were read.
#[derive(Debug)]
pub(super) enum ObservedObjects {
    /// All objects. Models come first, because they restrict values.
    All {
        models: Vec<Object>,
        devices: Vec<Object>,
        damaged: Unreadable,
    },
    /// One object has changed.
    One(DeviceObject, Box<Event>),
}

/// Models and devices that are stored but cannot be read.
type Unreadable = (BTreeSet<DeviceId>, BTreeSet<DeviceId>);

/// A list of all objects, and the watches that continue it.
type Listing = BoxFuture<'static, Result<(ObservedObjects, Watch, Watch), StoreError>>;

/// A reader of the objects.
pub(super) struct Objects {
    source: DeviceObjects,
    state: State,
}

enum State {
    /// Kept between calls of [`Objects::next`], so that it completes even if its caller is busy with other events.
    Listing(Listing),
    /// Watches of models, and of devices.
    Watching(Watch, Watch),
}

impl Objects {
    pub(super) fn new(source: DeviceObjects) -> Self {
        let state = State::Listing(list(source.clone(), Duration::ZERO));
        Self { source, state }
    }

    /// Starts again with all objects, after a time.
    pub(super) fn restart_after(&mut self, wait: Duration) {
        self.state = State::Listing(list(self.source.clone(), wait));
    }

    /// Returns the next objects. Cancel-safe: what was not returned is returned by the next call.
    pub(super) async fn next(&mut self) -> ObservedObjects {
        loop {
            let outcome = match &mut self.state {
                State::Listing(listing) => match listing.await {
                    Ok((all, models, devices)) => {
                        self.state = State::Watching(models, devices);
                        Ok(all)
                    }
                    Err(error) => Err(error),
                },
                State::Watching(models, devices) => clock::select! {
                    // models first, because they restrict values
                    biased;
                    // cancel-safe: a change not returned is returned by the next call
                    event = models.next() => event.map(|event| ObservedObjects::One(DeviceObject::Model, Box::new(event))),
                    event = devices.next() => event.map(|event| ObservedObjects::One(DeviceObject::Device, Box::new(event))),
                },
            };
            match outcome {
                Ok(seen) => return seen,
                Err(StoreError::Expired { .. }) => self.restart_after(Duration::ZERO),
                Err(error) => {
                    error!(
                        error = &error as &dyn std::error::Error,
                        "failed to read the desired state of devices; retrying"
                    );
                    self.restart_after(STORE_RETRY_DELAY);
                }
            }
        }
    }
}

fn list(source: DeviceObjects, wait: Duration) -> Listing {
    let listing = async move {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let (models, models_at) = source.list(DeviceObject::Model).await?;
        let (devices, devices_at) = source.list(DeviceObject::Device).await?;
        let of_models = source.watch(DeviceObject::Model, models_at)?;
        let of_devices = source.watch(DeviceObject::Device, devices_at)?;
        let damaged = (
            source.damaged_ids(DeviceObject::Model),
            source.damaged_ids(DeviceObject::Device),
        );
        Ok((
            ObservedObjects::All {
                models,
                devices,
                damaged,
            },
            of_models,
            of_devices,
        ))
    };
    Box::pin(listing)
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl ObservedObjects {
    /// Applies the objects to the devices.
    pub(super) fn apply(&self, core: &mut Core, batch: &mut Batch, now: i64) {
        match self {
            Self::All {
                models,
                devices,
                damaged,
            } => {
                for object in models {
                    if let Some((id, model)) = read::<DeviceModel>(object) {
                        core.model(batch, &id, Some(&model), now);
                    }
                }
                let all =
                    |objects: &[Object]| objects.iter().filter_map(id).collect::<BTreeSet<_>>();
                for object in devices {
                    if let Some((id, device)) = read::<Device>(object) {
                        core.object(batch, &id, Some(&device), now);
                    }
                }
                // a damaged object exists, whatever it says
                let (models, devices) = (&all(models) | &damaged.0, &all(devices) | &damaged.1);
                core.apply_object_list(batch, &models, &devices, now);
            }
            Self::One(kind, event) => {
                let Some(id) = id(&event.object) else { return };
                let is_gone = event.kind == EventKind::Deleted;
                match kind {
                    DeviceObject::Model if is_gone => core.model(batch, &id, None, now),
                    DeviceObject::Device if is_gone => core.object(batch, &id, None, now),
                    DeviceObject::Model => {
                        if let Some((id, model)) = read::<DeviceModel>(&event.object) {
                            core.model(batch, &id, Some(&model), now);
                        }
                    }
                    DeviceObject::Device => {
                        if let Some((id, device)) = read::<Device>(&event.object) {
                            core.object(batch, &id, Some(&device), now);
                        }
                    }
                }
            }
        }
    }
}

fn id(object: &Object) -> Option<DeviceId> {
    DeviceId::new(&object.key.namespace, &object.key.name)
}

/// Decodes an object. An invalid one is logged and left out; the others are not affected.
fn read<T: DeserializeOwned>(object: &Object) -> Option<(DeviceId, T)> {
    let id = id(object)?;
    let read = serde_json::from_slice(&object.json);
    read.inspect_err(
        |error| warn!(object = %object.key, %error, "cannot decode a device object or model; object ignored"),
    )
    .ok()
    .map(|read| (id, read))
}

#[cfg(test)]
mod tests {
    use objectstore::{SqliteOptions, SqliteStore};
    use serde_json::json;
    use testkit::within;

    use super::*;

    #[tokio::test]
    async fn a_list_completes_although_its_future_is_dropped_between_polls() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.db");
        let store = SqliteStore::open_or_begin_anew(&file, SqliteOptions::default())
            .await
            .unwrap()
            .store;
        let source = DeviceObjects::of(store);
        let device = DeviceId::new("default", "d").unwrap();
        let object = json!({"metadata": {"namespace": "default", "name": "d"}, "spec": {}});
        source
            .put(DeviceObject::Device, &device, Some(object))
            .await;
        let mut objects = Objects::new(source);
        let passing = async {
            loop {
                clock::select! {
                    biased;
                    seen = objects.next() => return seen,
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        let seen = within("all objects, and not a beginning anew each time", passing).await;
        assert!(matches!(seen, ObservedObjects::All { devices, .. } if devices.len() == 1));
    }

    #[tokio::test]
    async fn a_damaged_device_counts_as_existing() {
        use sqlx::ConnectOptions;

        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.db");
        let store = SqliteStore::open(&file).await.unwrap();
        let source = DeviceObjects::of(store);
        let id = |name: &str| DeviceId::new("default", name).unwrap();
        for name in ["one", "two"] {
            let object = json!({"metadata": {"namespace": "default", "name": name}, "spec": {}});
            source
                .put(DeviceObject::Device, &id(name), Some(object))
                .await;
        }
        drop(source);
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
        let mut hand = options.connect().await.unwrap();
        let cut = "UPDATE objects SET value = x'7b' WHERE name = 'one'";
        sqlx::raw_sql(cut).execute(&mut hand).await.unwrap();
        let mut objects = Objects::new(DeviceObjects::of(SqliteStore::open(&file).await.unwrap()));
        let ObservedObjects::All {
            devices, damaged, ..
        } = objects.next().await
        else {
            panic!("all first")
        };
        assert_eq!(
            devices.iter().filter_map(super::id).collect::<Vec<_>>(),
            [id("two")]
        );
        assert_eq!(damaged.1, BTreeSet::from([id("one")]));
    }
}
