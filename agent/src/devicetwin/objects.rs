//! The objects of devices and models, followed: first all of them, then each change.

use std::{collections::BTreeSet, time::Duration};

use crds::devices::{Device, DeviceModel};
use kubeapi::store::{Event, EventKind, Object, StoreError, Watch};
use serde::de::DeserializeOwned;
use tracing::{error, warn};
use wire::topic::DeviceId;

use super::core::{Core, Turn};
use crate::metamanager::{DeviceObject, DeviceObjects};

/// After the store failed.
const RETRY: Duration = Duration::from_secs(1);

/// What was seen of objects.
#[derive(Debug)]
pub(super) enum Seen {
    /// All there are. Models first: they say what values may be.
    All { models: Vec<Object>, devices: Vec<Object> },
    /// One has changed.
    One(DeviceObject, Box<Event>),
}

/// A reader of the objects.
#[derive(Debug)]
pub(super) struct Objects {
    source: DeviceObjects,
    watches: Option<(Watch, Watch)>,
}

impl Objects {
    pub(super) fn new(source: DeviceObjects) -> Self {
        Self { source, watches: None }
    }

    /// Begins anew with all objects.
    pub(super) fn again(&mut self) {
        self.watches = None;
    }

    /// What there is to see next. Cancel-safe: what was not returned is returned by the next call.
    pub(super) async fn next(&mut self) -> Seen {
        loop {
            let outcome = match &mut self.watches {
                Some((models, devices)) => tokio::select! {
                    // models first: they say what values may be
                    biased;
                    // cancel-safe, both: a change not returned is returned by the next call
                    event = models.next() => event.map(|event| Seen::One(DeviceObject::Model, Box::new(event))),
                    event = devices.next() => event.map(|event| Seen::One(DeviceObject::Device, Box::new(event))),
                },
                None => self.all().await,
            };
            match outcome {
                Ok(seen) => return seen,
                Err(StoreError::Expired { .. }) => self.again(),
                Err(error) => {
                    error!(
                        error = &error as &dyn std::error::Error,
                        "what the cloud wants of devices cannot be read"
                    );
                    self.again();
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn all(&mut self) -> Result<Seen, StoreError> {
        let (models, models_at) = self.source.list(DeviceObject::Model).await?;
        let (devices, devices_at) = self.source.list(DeviceObject::Device).await?;
        let watches = (
            self.source.watch(DeviceObject::Model, models_at)?,
            self.source.watch(DeviceObject::Device, devices_at)?,
        );
        self.watches = Some(watches);
        Ok(Seen::All { models, devices })
    }
}

impl Seen {
    /// Has the devices follow.
    pub(super) fn apply(&self, core: &mut Core, turn: &mut Turn, now: i64) {
        match self {
            Self::All { models, devices } => {
                for object in models {
                    if let Some((id, model)) = read::<DeviceModel>(object) {
                        core.model(turn, &id, Some(&model), now);
                    }
                }
                let all = |objects: &[Object]| objects.iter().filter_map(id).collect::<BTreeSet<_>>();
                for object in devices {
                    if let Some((id, device)) = read::<Device>(object) {
                        core.object(turn, &id, Some(&device), now);
                    }
                }
                core.objects_are(turn, (&all(models), &all(devices)), now);
            }
            Self::One(kind, event) => {
                let Some(id) = id(&event.object) else { return };
                let is_gone = event.kind == EventKind::Deleted;
                match kind {
                    DeviceObject::Model if is_gone => core.model(turn, &id, None, now),
                    DeviceObject::Device if is_gone => core.object(turn, &id, None, now),
                    DeviceObject::Model => {
                        if let Some((id, model)) = read::<DeviceModel>(&event.object) {
                            core.model(turn, &id, Some(&model), now);
                        }
                    }
                    DeviceObject::Device => {
                        if let Some((id, device)) = read::<Device>(&event.object) {
                            core.object(turn, &id, Some(&device), now);
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

/// One that cannot be read is named and left out; the others are not touched by it.
fn read<T: DeserializeOwned>(object: &Object) -> Option<(DeviceId, T)> {
    let id = id(object)?;
    let read = serde_json::from_slice(&object.json);
    read.inspect_err(
        |error| warn!(object = %object.key, %error, "this object is not what its kind says, and is left out"),
    )
    .ok()
    .map(|read| (id, read))
}
