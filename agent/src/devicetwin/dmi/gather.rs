//! Collects the devices of a protocol with their models, as the mapper should know them.

use std::{collections::BTreeMap, sync::Arc};

use crds::devices::{Device, DeviceModel};
use tracing::{debug, warn};
use wire::{dmi, topic::DeviceId};

use super::{
    convert,
    plan::{Digest, SyncedState},
};
use crate::devicetwin::{Catalogue, CatalogueEntry, DeviceTwin, ObjectError};

/// From this number of changed devices on, all are read at once.
const BULK_READ_THRESHOLD: usize = 64;

/// Devices and models as the API has them.
type Objects = (BTreeMap<DeviceId, Device>, BTreeMap<DeviceId, DeviceModel>);

/// Reads devices and models; what has not changed since the last time is not read again.
#[derive(Debug)]
pub(super) struct Gatherer {
    twin: DeviceTwin,
    protocol: String,
    seen: BTreeMap<DeviceId, (ObjectVersion, Digest)>,
    models: BTreeMap<DeviceId, (u64, Digest)>,
    /// Whether something could not be read the last time that may be readable later.
    is_partial: bool,
}

/// What identifies the state of a device: its UID, its own revision and its model's.
type ObjectVersion = (Arc<str>, u64, u64);

impl Gatherer {
    pub(super) fn new(twin: DeviceTwin, protocol: &str) -> Self {
        Self {
            twin,
            protocol: protocol.to_owned(),
            seen: BTreeMap::new(),
            models: BTreeMap::new(),
            is_partial: false,
        }
    }

    /// Returns what the mapper should know. A device whose model is missing waits for it; one that cannot be read stays as the
    /// mapper knows it.
    pub(super) async fn desired_state(
        &mut self,
        catalogue: &Catalogue,
        synced: &SyncedState,
    ) -> SyncedState {
        let mut wanted = SyncedState::default();
        self.is_partial = false;
        self.seen.retain(|id, _| catalogue.devices.contains_key(id));
        self.models
            .retain(|id, _| catalogue.models.contains_key(id));
        let objects = self.read_all(catalogue).await;
        for (id, listed) in &catalogue.devices {
            let Some((model, revision)) = self.model_of(catalogue, id, listed) else {
                continue;
            };
            let stamp = (Arc::clone(&listed.uid), listed.revision, revision);
            let known = self
                .seen
                .get(id)
                .filter(|(seen, _)| *seen == stamp)
                .map(|(_, digest)| digest.clone());
            let digest = match known {
                Some(digest) => Some(digest),
                None => self.digest(id, &model, revision, stamp, &objects).await,
            };
            // an object that cannot be read now stays as the mapper knows it
            let Some(digest) = digest.or_else(|| synced.devices.get(id).cloned()) else {
                continue;
            };
            let of_model = self.models.get(&model).map(|(_, digest)| digest.clone());
            if let Some(of_model) = of_model.or_else(|| synced.models.get(&model).cloned()) {
                wanted.devices.insert(id.clone(), digest);
                wanted.models.insert(model, of_model);
            }
        }
        wanted
    }

    /// Reads all objects if many have changed; none if they are better read one by one.
    async fn read_all(&self, catalogue: &Catalogue) -> Objects {
        let is_changed = |(id, listed): &(&DeviceId, &CatalogueEntry)| {
            let seen = self
                .seen
                .get(*id)
                .map(|((uid, revision, _), _)| (uid, *revision));
            seen != Some((&listed.uid, listed.revision))
                && self.model_of(catalogue, id, listed).is_some()
        };
        if catalogue
            .devices
            .iter()
            .filter(is_changed)
            .take(BULK_READ_THRESHOLD)
            .count()
            < BULK_READ_THRESHOLD
        {
            return Objects::default();
        }
        // on an error they are read one by one, and that error is logged
        self.twin
            .devices_of(&self.protocol)
            .await
            .unwrap_or_default()
    }

    /// Reports whether the objects have to be read again although nothing has changed.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Returns the model of a device of this protocol, and its revision.
    fn model_of(
        &self,
        catalogue: &Catalogue,
        id: &DeviceId,
        listed: &CatalogueEntry,
    ) -> Option<(DeviceId, u64)> {
        if listed.protocol.as_deref() != Some(self.protocol.as_str()) {
            return None;
        }
        let found = listed
            .model
            .as_ref()
            .and_then(|model| catalogue.models.get_key_value(model));
        if found.is_none() {
            debug!(%id, "device waits for its model");
        }
        found.map(|(model, revision)| (model.clone(), *revision))
    }

    async fn digest(
        &mut self,
        id: &DeviceId,
        model: &DeviceId,
        revision: u64,
        stamp: ObjectVersion,
        (devices, models): &Objects,
    ) -> Option<Digest> {
        let known = devices
            .get(id)
            .and_then(|device| device_with_model(device, id, models));
        let found = match known {
            Some((device, model)) => Ok(Some((device, model.clone()))),
            None => self.device(id).await,
        };
        let (device, of_device) = match found {
            Ok(found) => found?,
            Err(error) => {
                warn!(
                    %id,
                    error = &error as &dyn std::error::Error,
                    "failed to read the device; device not sent to its mapper"
                );
                // a malformed object has to change before it can be read
                self.is_partial |= !matches!(error, ObjectError::Malformed { .. });
                return None;
            }
        };
        self.models.insert(
            model.clone(),
            (revision, Digest::of(&convert::model(&of_device))),
        );
        let digest = Digest::of(&device);
        self.seen.insert(id.clone(), (stamp, digest.clone()));
        Some(digest)
    }

    /// Returns a device as the mapper gets it, and its model; `None` if one of them was deleted meanwhile.
    pub(super) async fn device(
        &self,
        id: &DeviceId,
    ) -> Result<Option<(dmi::Device, DeviceModel)>, ObjectError> {
        let Some(device) = self.twin.device(id).await? else {
            return Ok(None);
        };
        let name = device
            .spec
            .device_model_ref
            .as_ref()
            .map(|model| model.name.as_str())
            .unwrap_or_default();
        let model = DeviceId::new(id.namespace().unwrap_or_default(), name);
        let Some(model) = model else { return Ok(None) };
        let Some(model) = self.twin.model(&model).await? else {
            return Ok(None);
        };
        Ok(Some((convert::device(&device, &model), model)))
    }

    /// Returns a model as the mapper gets it.
    pub(super) async fn model(
        &self,
        id: &DeviceId,
    ) -> Result<Option<dmi::DeviceModel>, ObjectError> {
        Ok(self
            .twin
            .model(id)
            .await?
            .map(|model| convert::model(&model)))
    }
}

/// Returns a device as its mapper gets it, and its model, if that is among these.
fn device_with_model<'a>(
    device: &Device,
    id: &DeviceId,
    models: &'a BTreeMap<DeviceId, DeviceModel>,
) -> Option<(dmi::Device, &'a DeviceModel)> {
    let name = &device.spec.device_model_ref.as_ref()?.name;
    let model = models.get(&DeviceId::new(id.namespace().unwrap_or_default(), name)?)?;
    Some((convert::device(device, model), model))
}

/// Returns all devices of a protocol and their models, for a mapper that has just registered. What cannot be read is sent
/// later.
pub(super) async fn all(
    twin: &DeviceTwin,
    protocol: &str,
) -> (
    Vec<(DeviceId, dmi::Device)>,
    BTreeMap<DeviceId, dmi::DeviceModel>,
) {
    let (mut devices, mut models) = (Vec::new(), BTreeMap::new());
    // waits until the stored objects have been read
    if twin.devices().next().await.is_none() {
        return (devices, models);
    }
    let objects = twin.devices_of(protocol).await;
    let objects = objects.inspect_err(|error| {
        warn!(
            error = error as &dyn std::error::Error,
            "failed to read devices; devices not sent to their mapper"
        )
    });
    let (all, of_all) = objects.unwrap_or_default();
    for (id, device) in all {
        let Some((device, model)) = device_with_model(&device, &id, &of_all) else {
            continue;
        };
        let name = device
            .spec
            .as_ref()
            .map(|spec| spec.device_model_reference.as_str())
            .unwrap_or_default();
        if let Some(model_id) = DeviceId::new(id.namespace().unwrap_or_default(), name) {
            models
                .entry(model_id)
                .or_insert_with(|| convert::model(model));
        }
        devices.push((id, device));
    }
    (devices, models)
}
