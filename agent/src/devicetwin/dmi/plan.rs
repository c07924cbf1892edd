//! What a mapper has yet to be told. Pure.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use wire::{
    dmi::{self, Message},
    topic::DeviceId,
};

/// So much of a digest tells two states of an object apart.
const DIGEST_BYTES: usize = 12;

/// The state of an object that was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Digest(String);

impl Digest {
    /// Of a message, whose encoding is one only: its maps are ordered.
    pub(super) fn of(message: &impl Message) -> Self {
        let bytes = digest(&SHA256, &message.encode_to_vec());
        Self(bytes.as_ref().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Devices and models by their state: those that a mapper was told, or those that it should know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// Devices.
    #[serde(default)]
    pub(super) devices: BTreeMap<DeviceId, Digest>,
    /// Models.
    #[serde(default)]
    pub(super) models: BTreeMap<DeviceId, Digest>,
}

impl Known {
    /// Notes that a step towards `wanted` was carried out.
    pub(super) fn carried_out(&mut self, step: &Step, wanted: &Known) {
        let put =
            |told: &mut BTreeMap<DeviceId, Digest>, wanted: &BTreeMap<DeviceId, Digest>, id: &DeviceId| {
                if let Some(digest) = wanted.get(id) {
                    told.insert(id.clone(), digest.clone());
                }
            };
        match step {
            Step::CreateModel(id) | Step::UpdateModel(id) => put(&mut self.models, &wanted.models, id),
            Step::Register(id) | Step::Update(id) => put(&mut self.devices, &wanted.devices, id),
            Step::Remove(id) => drop(self.devices.remove(id)),
            Step::RemoveModel(id) => drop(self.models.remove(id)),
        }
    }
}

impl Known {
    /// A mapper that refuses a change may have forgotten what it was told before: the next step begins from nothing.
    pub(super) fn forget(&mut self, refused: &Step) {
        match refused {
            Step::Update(id) => drop(self.devices.remove(id)),
            Step::UpdateModel(id) => drop(self.models.remove(id)),
            Step::CreateModel(_) | Step::Register(_) | Step::Remove(_) | Step::RemoveModel(_) => {}
        }
    }
}

/// One call of a mapper.
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
    /// The device or model that it is about.
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

/// The calls that lead from what was told to what should be known: a model before its devices, and after them when it goes.
pub(super) fn steps(told: &Known, wanted: &Known) -> Vec<Step> {
    let mut steps = Vec::new();
    let put = |told: &BTreeMap<DeviceId, Digest>, id: &DeviceId, digest: &Digest| match told.get(id) {
        None => Some(true),
        Some(known) => (known != digest).then_some(false),
    };
    for (id, digest) in &wanted.models {
        let is_new = put(&told.models, id, digest);
        let step = |new| if new { Step::CreateModel(id.clone()) } else { Step::UpdateModel(id.clone()) };
        steps.extend(is_new.map(step));
    }
    let gone = |told: &BTreeMap<DeviceId, Digest>, wanted: &BTreeMap<DeviceId, Digest>| {
        told.keys().filter(|id| !wanted.contains_key(*id)).cloned().collect::<Vec<_>>()
    };
    // first, so that what the gone ones hold is free for the new ones
    steps.extend(gone(&told.devices, &wanted.devices).into_iter().map(Step::Remove));
    for (id, digest) in &wanted.devices {
        let is_new = put(&told.devices, id, digest);
        let step = |new| if new { Step::Register(id.clone()) } else { Step::Update(id.clone()) };
        steps.extend(is_new.map(step));
    }
    steps.extend(gone(&told.models, &wanted.models).into_iter().map(Step::RemoveModel));
    steps
}

/// As many devices as go into one answer of this size, each with its model; what is left out is told by calls.
pub(super) fn fitting(
    devices: Vec<(DeviceId, dmi::Device)>,
    models: &BTreeMap<DeviceId, dmi::DeviceModel>,
    limit: usize,
) -> (dmi::MapperRegisterResponse, Known) {
    let (mut answer, mut told) = (dmi::MapperRegisterResponse::default(), Known::default());
    let mut room = limit;
    // tag and length of each entry
    let size = |message: usize| message + 8;
    for (id, device) in devices {
        let Some((model_id, model)) = model_of(&id, &device).and_then(|id| models.get_key_value(&id)) else {
            continue;
        };
        let is_new = !told.models.contains_key(model_id);
        let needed = size(device.encoded_len()) + if is_new { size(model.encoded_len()) } else { 0 };
        if needed > room {
            continue;
        }
        room -= needed;
        if is_new {
            told.models.insert(model_id.clone(), Digest::of(model));
            answer.model_list.push(model.clone());
        }
        told.devices.insert(id, Digest::of(&device));
        answer.device_list.push(device);
    }
    (answer, told)
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

    fn known(devices: &[(&str, &str)], models: &[(&str, &str)]) -> Known {
        let map = |rows: &[(&str, &str)]| {
            rows.iter().map(|(name, digest)| (id(name), Digest((*digest).to_owned()))).collect()
        };
        Known { devices: map(devices), models: map(models) }
    }

    #[test]
    fn a_model_comes_before_its_devices_and_goes_after_them() {
        let all = known(&[("ns/d", "1"), ("ns/e", "1")], &[("ns/m", "1")]);
        let nothing = Known::default();
        let come = steps(&nothing, &all);
        assert_eq!(
            come,
            [Step::CreateModel(id("ns/m")), Step::Register(id("ns/d")), Step::Register(id("ns/e"))]
        );
        let go = steps(&all, &nothing);
        assert_eq!(go, [Step::Remove(id("ns/d")), Step::Remove(id("ns/e")), Step::RemoveModel(id("ns/m"))]);
        assert!(steps(&all, &all).is_empty());
    }

    #[test]
    fn what_has_changed_is_updated() {
        let before = known(&[("ns/d", "1"), ("ns/gone", "1")], &[("ns/m", "1")]);
        let after = known(&[("ns/d", "2"), ("ns/new", "1")], &[("ns/m", "2")]);
        let steps = steps(&before, &after);
        let expected = [
            Step::UpdateModel(id("ns/m")),
            Step::Remove(id("ns/gone")),
            Step::Update(id("ns/d")),
            Step::Register(id("ns/new")),
        ];
        assert_eq!(steps, expected);
    }

    /// Carrying out any part of the steps, and planning again, ends where carrying out all of them ends.
    #[test]
    fn a_plan_that_was_cut_off_is_taken_up() {
        let before = known(&[("ns/d", "1"), ("ns/gone", "1")], &[("ns/m", "1"), ("ns/old", "1")]);
        let after = known(&[("ns/d", "2"), ("ns/new", "1")], &[("ns/m", "2")]);
        let plan = steps(&before, &after);
        for cut in 0..=plan.len() {
            let mut told = before.clone();
            plan.iter().take(cut).for_each(|step| told.carried_out(step, &after));
            let rest = steps(&told, &after);
            assert_eq!(rest.len(), plan.len() - cut);
            rest.iter().for_each(|step| told.carried_out(step, &after));
            assert_eq!(told, after, "cut after {cut}");
        }
    }

    #[test]
    fn an_answer_has_as_much_as_goes_into_it() {
        let device = |name: &str| {
            let spec = dmi::DeviceSpec { device_model_reference: "m".into(), ..dmi::DeviceSpec::default() };
            (id(name), dmi::Device { name: name.into(), spec: Some(spec), ..dmi::Device::default() })
        };
        let devices: Vec<_> = (0..100).map(|number| device(&format!("ns/{number}"))).collect();
        let models =
            [(id("ns/m"), dmi::DeviceModel { name: "m".into(), ..dmi::DeviceModel::default() })].into();
        let (all, told) = fitting(devices.clone(), &models, 1 << 20);
        assert_eq!((all.device_list.len(), all.model_list.len(), told.devices.len()), (100, 1, 100));
        let (some, told) = fitting(devices.clone(), &models, 500);
        assert!((1..100).contains(&some.device_list.len()) && some.encoded_len() <= 500);
        assert_eq!((told.devices.len(), told.models.len()), (some.device_list.len(), 1));
        let (none, told) = fitting(devices, &BTreeMap::new(), 1 << 20);
        assert_eq!((none.device_list.len(), told), (0, Known::default()), "a device needs its model");
    }
}
