//! Plans the calls that a mapper still needs. Pure.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use wire::{
    dmi::{self, Message},
    topic::DeviceId,
};

/// The bytes of a digest that are kept: enough to distinguish two states of an object.
const DIGEST_BYTES: usize = 12;

/// The digest of an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Digest(String);

impl Digest {
    /// Digests a message, whose encoding is unique because its maps are ordered.
    pub(super) fn of(message: &impl Message) -> Self {
        let bytes = digest(&SHA256, &message.encode_to_vec());
        Self(
            bytes
                .as_ref()
                .iter()
                .take(DIGEST_BYTES)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }
}

/// The states of devices and models: those that a mapper has, or those that it should have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SyncedState {
    /// Devices.
    #[serde(default)]
    pub(super) devices: BTreeMap<DeviceId, Digest>,
    /// Models.
    #[serde(default)]
    pub(super) models: BTreeMap<DeviceId, Digest>,
}

impl SyncedState {
    /// Records that a step towards `wanted` was executed.
    pub(super) fn record_step(&mut self, step: &Step, wanted: &SyncedState) {
        let put = |synced: &mut BTreeMap<DeviceId, Digest>,
                   wanted: &BTreeMap<DeviceId, Digest>,
                   id: &DeviceId| {
            if let Some(digest) = wanted.get(id) {
                synced.insert(id.clone(), digest.clone());
            }
        };
        match step {
            Step::CreateModel(id) | Step::UpdateModel(id) => {
                put(&mut self.models, &wanted.models, id)
            }
            Step::Register(id) | Step::Update(id) => put(&mut self.devices, &wanted.devices, id),
            Step::Remove(id) => drop(self.devices.remove(id)),
            Step::RemoveModel(id) => drop(self.models.remove(id)),
        }
    }
}

impl SyncedState {
    /// Forgets the state of a refused update: the mapper may have lost what it had, so the next step creates the object.
    pub(super) fn forget(&mut self, refused: &Step) {
        match refused {
            Step::Update(id) => drop(self.devices.remove(id)),
            Step::UpdateModel(id) => drop(self.models.remove(id)),
            Step::CreateModel(_) | Step::Register(_) | Step::Remove(_) | Step::RemoveModel(_) => {}
        }
    }
}

/// A call to a mapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `CreateDeviceModel`.
    CreateModel(DeviceId),
    /// `UpdateDeviceModel`.
    UpdateModel(DeviceId),
    /// `RegisterDevice`.
    Register(DeviceId),
    /// `UpdateDevice`.
    Update(DeviceId),
    /// `RemoveDevice`.
    Remove(DeviceId),
    /// `RemoveDeviceModel`.
    RemoveModel(DeviceId),
}

impl Step {
    /// Returns the device or model of the call.
    pub(super) fn id(&self) -> &DeviceId {
        match self {
            Self::CreateModel(id)
            | Self::UpdateModel(id)
            | Self::Register(id)
            | Self::Update(id)
            | Self::Remove(id)
            | Self::RemoveModel(id) => id,
        }
    }
}

/// Returns the calls that lead from `synced` to `wanted`: a model before its devices, and removed after them.
pub(super) fn steps(synced: &SyncedState, wanted: &SyncedState) -> Vec<Step> {
    let mut steps = Vec::new();
    let put = |synced: &BTreeMap<DeviceId, Digest>, id: &DeviceId, digest: &Digest| match synced
        .get(id)
    {
        None => Some(true),
        Some(known) => (known != digest).then_some(false),
    };
    for (id, digest) in &wanted.models {
        let is_new = put(&synced.models, id, digest);
        let step = |new| {
            if new {
                Step::CreateModel(id.clone())
            } else {
                Step::UpdateModel(id.clone())
            }
        };
        steps.extend(is_new.map(step));
    }
    let gone = |synced: &BTreeMap<DeviceId, Digest>, wanted: &BTreeMap<DeviceId, Digest>| {
        synced
            .keys()
            .filter(|id| !wanted.contains_key(*id))
            .cloned()
            .collect::<Vec<_>>()
    };
    // removals first, so that the new devices can use what the old ones held
    steps.extend(
        gone(&synced.devices, &wanted.devices)
            .into_iter()
            .map(Step::Remove),
    );
    for (id, digest) in &wanted.devices {
        let is_new = put(&synced.devices, id, digest);
        let step = |new| {
            if new {
                Step::Register(id.clone())
            } else {
                Step::Update(id.clone())
            }
        };
        steps.extend(is_new.map(step));
    }
    steps.extend(
        gone(&synced.models, &wanted.models)
            .into_iter()
            .map(Step::RemoveModel),
    );
    steps
}

/// Returns as many devices as fit into one answer of this size, each with its model; the others are sent by calls.
pub(super) fn fitting(
    devices: Vec<(DeviceId, dmi::Device)>,
    models: &BTreeMap<DeviceId, dmi::DeviceModel>,
    limit: usize,
) -> (dmi::MapperRegisterResponse, SyncedState) {
    let (mut answer, mut synced) = (
        dmi::MapperRegisterResponse::default(),
        SyncedState::default(),
    );
    let mut room = limit;
    // tag and length of each entry
    let size = |message: usize| message + 8;
    for (id, device) in devices {
        let Some((model_id, model)) =
            model_of(&id, &device).and_then(|id| models.get_key_value(&id))
        else {
            continue;
        };
        let is_new = !synced.models.contains_key(model_id);
        let needed =
            size(device.encoded_len()) + if is_new { size(model.encoded_len()) } else { 0 };
        if needed > room {
            continue;
        }
        room -= needed;
        if is_new {
            synced.models.insert(model_id.clone(), Digest::of(model));
            answer.model_list.push(model.clone());
        }
        synced.devices.insert(id, Digest::of(&device));
        answer.device_list.push(device);
    }
    (answer, synced)
}

fn model_of(id: &DeviceId, device: &dmi::Device) -> Option<DeviceId> {
    let name = &device.spec.as_ref()?.device_model_reference;
    DeviceId::new(id.namespace().unwrap_or_default(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> DeviceId {
        DeviceId::parse(text).unwrap()
    }

    fn synced_state(devices: &[(&str, &str)], models: &[(&str, &str)]) -> SyncedState {
        let map = |rows: &[(&str, &str)]| {
            rows.iter()
                .map(|(name, digest)| (id(name), Digest((*digest).to_owned())))
                .collect()
        };
        SyncedState {
            devices: map(devices),
            models: map(models),
        }
    }

    #[test]
    fn a_model_is_created_before_its_devices_and_removed_after_them() {
        let all = synced_state(&[("ns/d", "1"), ("ns/e", "1")], &[("ns/m", "1")]);
        let nothing = SyncedState::default();
        let come = steps(&nothing, &all);
        assert_eq!(
            come,
            [
                Step::CreateModel(id("ns/m")),
                Step::Register(id("ns/d")),
                Step::Register(id("ns/e"))
            ]
        );
        let go = steps(&all, &nothing);
        assert_eq!(
            go,
            [
                Step::Remove(id("ns/d")),
                Step::Remove(id("ns/e")),
                Step::RemoveModel(id("ns/m"))
            ]
        );
        assert!(steps(&all, &all).is_empty());
    }

    #[test]
    fn what_has_changed_is_updated() {
        let before = synced_state(&[("ns/d", "1"), ("ns/gone", "1")], &[("ns/m", "1")]);
        let after = synced_state(&[("ns/d", "2"), ("ns/new", "1")], &[("ns/m", "2")]);
        let steps = steps(&before, &after);
        let expected = [
            Step::UpdateModel(id("ns/m")),
            Step::Remove(id("ns/gone")),
            Step::Update(id("ns/d")),
            Step::Register(id("ns/new")),
        ];
        assert_eq!(steps, expected);
    }

    /// Executing any part of the steps and planning again ends in the same state as executing all of them.
    #[test]
    fn a_plan_that_was_cut_off_is_taken_up() {
        let before = synced_state(
            &[("ns/d", "1"), ("ns/gone", "1")],
            &[("ns/m", "1"), ("ns/old", "1")],
        );
        let after = synced_state(&[("ns/d", "2"), ("ns/new", "1")], &[("ns/m", "2")]);
        let plan = steps(&before, &after);
        for cut in 0..=plan.len() {
            let mut synced = before.clone();
            plan.iter()
                .take(cut)
                .for_each(|step| synced.record_step(step, &after));
            let rest = steps(&synced, &after);
            assert_eq!(rest.len(), plan.len() - cut);
            rest.iter()
                .for_each(|step| synced.record_step(step, &after));
            assert_eq!(synced, after, "cut after {cut}");
        }
    }

    #[test]
    fn an_answer_has_as_many_devices_as_fit() {
        let device = |name: &str| {
            let spec = dmi::DeviceSpec {
                device_model_reference: "m".into(),
                ..dmi::DeviceSpec::default()
            };
            (
                id(name),
                dmi::Device {
                    name: name.into(),
                    spec: Some(spec),
                    ..dmi::Device::default()
                },
            )
        };
        let devices: Vec<_> = (0..100)
            .map(|number| device(&format!("ns/{number}")))
            .collect();
        let models = [(
            id("ns/m"),
            dmi::DeviceModel {
                name: "m".into(),
                ..dmi::DeviceModel::default()
            },
        )]
        .into();
        let (all, synced) = fitting(devices.clone(), &models, 1 << 20);
        assert_eq!(
            (
                all.device_list.len(),
                all.model_list.len(),
                synced.devices.len()
            ),
            (100, 1, 100)
        );
        let (some, synced) = fitting(devices.clone(), &models, 500);
        assert!((1..100).contains(&some.device_list.len()) && some.encoded_len() <= 500);
        assert_eq!(
            (synced.devices.len(), synced.models.len()),
            (some.device_list.len(), 1)
        );
        let (none, synced) = fitting(devices, &BTreeMap::new(), 1 << 20);
        assert_eq!(
            (none.device_list.len(), synced),
            (0, SyncedState::default()),
            "a device needs its model"
        );
    }
}
