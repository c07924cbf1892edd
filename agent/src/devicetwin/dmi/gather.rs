//! The devices of a protocol with their models, as the mapper should know them.

use std::{collections::BTreeMap, sync::Arc};

use crds::devices::{Device, DeviceModel};
use tracing::{debug, warn};
use wire::{dmi, topic::DeviceId};

use super::{
    convert,
    plan::{Digest, Known},
};
use crate::devicetwin::{Catalogue, DeviceTwin, Listed, Unavailable};

/// From so many on, devices are read all at once.
const MANY: usize = 64;

/// Devices as the API has them, and all models.
type Objects = (BTreeMap<DeviceId, Device>, BTreeMap<DeviceId, DeviceModel>);

/// Reads devices and models; what has not changed since the last time is not read again.
#[derive(Debug)]
pub(super) struct Gatherer {
    twin: DeviceTwin,
    protocol: String,
    seen: BTreeMap<DeviceId, (Stamp, Digest)>,
    models: BTreeMap<DeviceId, (u64, Digest)>,
    /// Whether something could not be read the last time that can be later.
    is_partial: bool,
}

/// What makes a device another one: its UID, its own revision and its model's.
type Stamp = (Arc<str>, u64, u64);

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

    /// What the mapper should know. A device whose model is not there yet waits for it; one that cannot be read is left as it is.
    pub(super) async fn wanted(&mut self, catalogue: &Catalogue, told: &Known) -> Known {
        let mut wanted = Known::default();
        self.is_partial = false;
        self.seen.retain(|id, _| catalogue.devices.contains_key(id));
        self.models.retain(|id, _| catalogue.models.contains_key(id));
        let objects = self.many(catalogue).await;
        for (id, listed) in &catalogue.devices {
            let Some((model, revision)) = self.model_of(catalogue, id, listed) else { continue };
            let stamp = (Arc::clone(&listed.uid), listed.revision, revision);
            let known =
                self.seen.get(id).filter(|(seen, _)| *seen == stamp).map(|(_, digest)| digest.clone());
            let digest = match known {
                Some(digest) => Some(digest),
                None => self.digest(id, (&model, revision), stamp, &objects).await,
            };
            // what cannot be read now stays as the mapper knows it
            let Some(digest) = digest.or_else(|| told.devices.get(id).cloned()) else { continue };
            let of_model = self.models.get(&model).map(|(_, digest)| digest.clone());
            if let Some(of_model) = of_model.or_else(|| told.models.get(&model).cloned()) {
                wanted.devices.insert(id.clone(), digest);
                wanted.models.insert(model, of_model);
            }
        }
        wanted
    }

    /// All objects where many have changed; none where they are better read one by one.
    async fn many(&self, catalogue: &Catalogue) -> Objects {
        let is_changed = |(id, listed): &(&DeviceId, &Listed)| {
            let seen = self.seen.get(*id).map(|((uid, revision, _), _)| (uid, *revision));
            seen != Some((&listed.uid, listed.revision)) && self.model_of(catalogue, id, listed).is_some()
        };
        if catalogue.devices.iter().filter(is_changed).take(MANY).count() < MANY {
            return Objects::default();
        }
        // where that fails they are read one by one, and whatever fails then is told
        self.twin.devices_of(&self.protocol).await.unwrap_or_default()
    }

    /// Whether what is wanted is to be asked for again although nothing has changed.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The model of a device of this protocol, and its revision.
    fn model_of(&self, catalogue: &Catalogue, id: &DeviceId, listed: &Listed) -> Option<(DeviceId, u64)> {
        if listed.protocol.as_deref() != Some(self.protocol.as_str()) {
            return None;
        }
        let found = listed.model.as_ref().and_then(|model| catalogue.models.get_key_value(model));
        if found.is_none() {
            debug!(%id, "a device waits for its model");
        }
        found.map(|(model, revision)| (model.clone(), *revision))
    }

    async fn digest(
        &mut self,
        id: &DeviceId,
        (model, revision): (&DeviceId, u64),
        stamp: Stamp,
        (devices, models): &Objects,
    ) -> Option<Digest> {
        let known = devices.get(id).and_then(|device| told(device, id, models));
        let found = match known {
            Some((device, model)) => Ok(Some((device, model.clone()))),
            None => self.device(id).await,
        };
        let (device, of_device) = match found {
            Ok(found) => found?,
            Err(error) => {
                warn!(%id, error = &error as &dyn std::error::Error, "a device cannot be told to its mapper");
                // one that is malformed changes before it can be read
                self.is_partial |= !matches!(error, Unavailable::Malformed { .. });
                return None;
            }
        };
        self.models.insert(model.clone(), (revision, Digest::of(&convert::model(&of_device))));
        let digest = Digest::of(&device);
        self.seen.insert(id.clone(), (stamp, digest.clone()));
        Some(digest)
    }

    /// A device as the mapper gets it, and its model; `None` where one of them has gone meanwhile.
    pub(super) async fn device(
        &self,
        id: &DeviceId,
    ) -> Result<Option<(dmi::Device, DeviceModel)>, Unavailable> {
        let Some(device) = self.twin.device(id).await? else { return Ok(None) };
        let name = device.spec.device_model_ref.as_ref().map(|model| model.name.as_str()).unwrap_or_default();
        let model = DeviceId::new(id.namespace().unwrap_or_default(), name);
        let Some(model) = model else { return Ok(None) };
        let Some(model) = self.twin.model(&model).await? else { return Ok(None) };
        Ok(Some((convert::device(&device, &model), model)))
    }

    /// A model as the mapper gets it.
    pub(super) async fn model(&self, id: &DeviceId) -> Result<Option<dmi::DeviceModel>, Unavailable> {
        Ok(self.twin.model(id).await?.map(|model| convert::model(&model)))
    }
}

/// A device as its mapper gets it, and its model, where that is among these.
fn told<'a>(
    device: &Device,
    id: &DeviceId,
    models: &'a BTreeMap<DeviceId, DeviceModel>,
) -> Option<(dmi::Device, &'a DeviceModel)> {
    let name = &device.spec.device_model_ref.as_ref()?.name;
    let model = models.get(&DeviceId::new(id.namespace().unwrap_or_default(), name)?)?;
    Some((convert::device(device, model), model))
}

/// All devices of a protocol and their models, for a mapper that has just come. What cannot be read is told when it can.
pub(super) async fn all(
    twin: &DeviceTwin,
    protocol: &str,
) -> (Vec<(DeviceId, dmi::Device)>, BTreeMap<DeviceId, dmi::DeviceModel>) {
    let (mut devices, mut models) = (Vec::new(), BTreeMap::new());
    // as soon as what is stored has been read
    if twin.devices().next().await.is_none() {
        return (devices, models);
    }
    let objects = twin.devices_of(protocol).await;
    let objects = objects.inspect_err(|error| {
        warn!(error = error as &dyn std::error::Error, "devices cannot be told to their mapper yet")
    });
    let (all, of_all) = objects.unwrap_or_default();
    for (id, device) in all {
        let Some((device, model)) = told(&device, &id, &of_all) else { continue };
        let name = device.spec.as_ref().map(|spec| spec.device_model_reference.as_str()).unwrap_or_default();
        if let Some(model_id) = DeviceId::new(id.namespace().unwrap_or_default(), name) {
            models.entry(model_id).or_insert_with(|| convert::model(model));
        }
        devices.push((id, device));
    }
    (devices, models)
}
