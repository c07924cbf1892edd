//! All devices of the node, and how each message changes them. Pure: no IO, no clock.
//!
//! Changes are collected in a [`Batch`]: the devices to be written, and the messages to be sent once they are. A batch that
//! could not be written is rolled back.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tracing::warn;
use wire::{
    topic::{DeviceId, DeviceTopic, NodeTopic, Topic},
    twin::{
        self, BAD_REQUEST, DeviceState, Event, Member, MembershipList, MembershipUpdate, NOT_FOUND,
        Refusal, StateResult, TOO_LARGE, TwinDelta, TwinDocument, TwinUpdate, Twins,
    },
};

use super::{
    counts::RequestOutcome,
    device::Device,
    handle::{Catalogue, Command, Reading, RequestError, Responder},
    history::{HistoryEntry, MIN_INTERVAL_MILLIS},
    merge::{self, Outcome},
    report,
    rules::{Model, PropertyRules, Spec},
};

mod answer;
mod cloud;
mod requests;

pub(super) use self::{answer::Reply, cloud::PendingReport};

/// The longest request that is read, bytes: several times what a thousand properties need.
pub(super) const MAX_PAYLOAD: usize = 256 * 1024;
/// The most devices whose mappers are reminded in one batch.
const MAX_REMINDERS: usize = 256;

/// A device with its object's spec.
#[derive(Clone, Debug, Default)]
struct DeviceEntry {
    device: Device,
    /// From the device's object.
    spec: Option<Arc<Spec>>,
    /// Whether a mapper has addressed the device without its namespace.
    is_bare: bool,
}

impl DeviceEntry {
    /// Reports whether the device has an object. The object of a stored device may not have been read yet.
    fn has_object(&self) -> bool {
        self.spec.is_some() || !self.device.uid.is_empty()
    }
}

/// When a mapper is sent the desired values of its device again, milliseconds. The default is at once.
#[derive(Clone, Copy, Debug, Default)]
struct Reminder {
    at: i64,
    wait: i64,
}

impl Reminder {
    /// The first interval.
    const FIRST_DELAY: i64 = 10_000;
    /// The longest interval; each is twice the one before.
    const MAX_DELAY: i64 = 60_000;

    fn after(now: i64) -> Self {
        Self {
            at: now + Self::FIRST_DELAY,
            wait: Self::FIRST_DELAY,
        }
    }

    /// Reports whether the reminder is due. A clock that was set back does not delay it.
    fn is_due(self, now: i64) -> bool {
        self.at <= now || self.at - now > Self::MAX_DELAY
    }

    fn next(self, now: i64) -> Self {
        let wait = (self.wait * 2).clamp(Self::FIRST_DELAY, Self::MAX_DELAY);
        Self {
            at: now + wait,
            wait,
        }
    }
}

/// All devices.
#[derive(Debug)]
pub(super) struct Core {
    node: String,
    new_id: fn() -> String,
    devices: BTreeMap<DeviceId, DeviceEntry>,
    /// The devices by their names without namespaces.
    names: HashMap<String, Vec<DeviceId>>,
    models: BTreeMap<DeviceId, Model>,
    /// Devices with values on disk that the cloud has not confirmed.
    due: BTreeSet<DeviceId>,
    /// Devices whose values differ from the desired ones, with the time of the next reminder of their mappers.
    out_of_sync: BTreeMap<DeviceId, Reminder>,
    /// The device that was reported last.
    last_due: Option<DeviceId>,
    catalogue: Catalogue,
    revision: u64,
}

/// A query for the history of a device, and where its answer goes.
#[derive(Debug)]
pub(super) struct HistoryQuery {
    pub(super) device: Result<DeviceId, RequestError>,
    pub(super) responder: Responder<Vec<HistoryEntry>>,
}

/// The results of a batch of requests.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The devices that the batch has changed, as they were before.
    before: BTreeMap<DeviceId, Option<DeviceEntry>>,
    /// Messages to be published.
    pub(super) publish: Vec<(Topic, Vec<u8>)>,
    /// Answers to other modules.
    pub(super) replies: Vec<Reply>,
    /// Queries for the history of devices.
    pub(super) history_queries: Vec<HistoryQuery>,
    /// Entries for the history.
    pub(super) past: Vec<HistoryEntry>,
    /// How the requests ended.
    pub(super) counts: Vec<RequestOutcome>,
    /// Whether the catalogue has changed.
    pub(super) catalogue: bool,
}

impl Batch {
    /// Returns what has to be written: the changed devices as they are now, `None` where one was removed.
    pub(super) fn writes<'a>(
        &'a self,
        core: &'a Core,
    ) -> impl Iterator<Item = (&'a DeviceId, Option<&'a Device>)> {
        self.before.iter().filter_map(|(id, before)| {
            let now = core.devices.get(id).map(|known| &known.device);
            let before = before.as_ref().map(|known| &known.device);
            (before != now).then_some((id, now))
        })
    }

    /// Adds a message to be published; a body that cannot be encoded as JSON is left out.
    fn publish(&mut self, topic: Topic, body: &impl Serialize) {
        self.publish
            .extend(serde_json::to_vec(body).ok().map(|body| (topic, body)));
    }
}

impl Core {
    /// Creates the core with the stored devices.
    pub(super) fn new(
        node: &str,
        devices: impl IntoIterator<Item = (DeviceId, Device)>,
        new_id: fn() -> String,
    ) -> Self {
        let mut core = Self {
            node: node.to_owned(),
            new_id,
            devices: BTreeMap::new(),
            names: HashMap::new(),
            models: BTreeMap::new(),
            due: BTreeSet::new(),
            out_of_sync: BTreeMap::new(),
            last_due: None,
            catalogue: Catalogue::default(),
            revision: 0,
        };
        for (id, device) in devices {
            core.put(
                id,
                Some(DeviceEntry {
                    device,
                    ..DeviceEntry::default()
                }),
            );
        }
        core
    }

    /// Returns the devices and models whose objects are known.
    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Rolls back a batch that could not be written. Callers get an error; nothing is published.
    pub(super) fn roll_back(&mut self, batch: Batch) {
        for (id, known) in batch.before {
            self.put(id, known);
        }
        let why = RequestError::unwritten();
        batch.replies.into_iter().for_each(|reply| reply.fail(&why));
    }

    fn put(&mut self, id: DeviceId, known: Option<DeviceEntry>) {
        match known {
            None => {
                self.devices.remove(&id);
                self.due.remove(&id);
                self.out_of_sync.remove(&id);
                if let Some(same) = self.names.get_mut(id.name()) {
                    same.retain(|other| *other != id);
                    if same.is_empty() {
                        self.names.remove(id.name());
                    }
                }
            }
            Some(known) => {
                let device = &known.device;
                if device.is_due() {
                    self.due.insert(id.clone());
                }
                if report::delta(device).is_some() {
                    self.out_of_sync.entry(id.clone()).or_default();
                }
                let same = self.names.entry(id.name().to_owned()).or_default();
                if !same.contains(&id) {
                    same.push(id.clone());
                }
                self.devices.insert(id, known);
            }
        }
    }

    /// Resolves a device id: one without a namespace may be the only device of its name, or the one in the namespace `default`.
    fn resolve(&self, id: &DeviceId) -> Option<DeviceId> {
        if self.devices.contains_key(id) {
            return Some(id.clone());
        }
        let same = self
            .names
            .get(id.name())
            .filter(|_| id.namespace().is_none())?;
        let standard =
            DeviceId::new("default", id.name()).filter(|standard| same.contains(standard));
        standard.or_else(|| same.first().filter(|_| same.len() == 1).cloned())
    }

    /// Changes a device by `change`, which gets the rules of its properties. The batch keeps the device as it was before.
    fn change<T>(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        change: impl FnOnce(&mut Device, PropertyRules<'_>) -> T,
    ) -> Option<T> {
        let known = self.devices.get_mut(id)?;
        batch
            .before
            .entry(id.clone())
            .or_insert_with(|| Some(known.clone()));
        let model = known.spec.as_deref().and_then(|spec| spec.model.as_ref());
        let rules = PropertyRules {
            spec: known.spec.as_deref(),
            model: model.and_then(|model| self.models.get(model)),
        };
        let changed = change(&mut known.device, rules);
        if let Some(spec) = known.spec.as_deref() {
            known.device.keep_local(spec);
        }
        Some(changed)
    }

    /// Sends mappers the changes of a device.
    fn notify_mappers(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        event: &Event,
        outcome: &Outcome,
    ) {
        let Some(known) = self.devices.get_mut(id) else {
            return;
        };
        for property in &outcome.undeclared {
            warn!(
                device = %id,
                property,
                "cannot report an undeclared property to the cloud; add it to spec.properties of the device"
            );
        }
        batch
            .past
            .extend(history_entries(id, &mut known.device, outcome));
        let bare = DeviceId::parse(id.name()).filter(|_| known.is_bare);
        let delta = report::delta(&known.device);
        if delta.is_none() {
            self.out_of_sync.remove(id);
        } else if outcome.desired || !self.out_of_sync.contains_key(id) {
            self.out_of_sync
                .insert(id.clone(), Reminder::after(event.timestamp));
        }
        for device in [Some(id.clone()), bare].into_iter().flatten() {
            let topic = |topic| Topic::Device(device.clone(), topic);
            if !outcome.document.is_empty() {
                let document = TwinDocument {
                    event: event.clone(),
                    twin: outcome.document.clone(),
                };
                batch.publish(topic(DeviceTopic::TwinUpdateDocument), &document);
            }
            if let Some((twin, delta)) = &delta {
                let event = Event {
                    event_id: (self.new_id)(),
                    timestamp: event.timestamp,
                };
                let delta = TwinDelta {
                    event,
                    twin: twin.clone(),
                    delta: delta.clone(),
                };
                batch.publish(topic(DeviceTopic::TwinUpdateDelta), &delta);
            }
        }
        if outcome.desired {
            self.touch_catalogue(batch, id);
        }
    }

    /// Records in the catalogue that a device or its desired values have changed.
    fn touch_catalogue(&mut self, batch: &mut Batch, id: &DeviceId) {
        self.revision += 1;
        let revision = self.revision;
        if let Some(listed) = self.catalogue.devices.get_mut(id) {
            listed.revision = revision;
            batch.catalogue = true;
        }
    }

    fn event(&self, event_id: &str, now: i64) -> Event {
        let event_id = if event_id.is_empty() {
            (self.new_id)()
        } else {
            event_id.to_owned()
        };
        Event {
            event_id,
            timestamp: now,
        }
    }
}

/// Returns the history entries for changed values.
fn history_entries(id: &DeviceId, device: &mut Device, outcome: &Outcome) -> Vec<HistoryEntry> {
    let value = |twin: &Option<twin::Twin>| twin.as_ref()?.actual.as_ref()?.value.clone();
    let mut past = Vec::new();
    for (name, change) in &outcome.document {
        let Some(property) = device.twins.get_mut(name) else {
            continue;
        };
        let (at, current) = (property.actual.at, value(&change.current));
        if current.is_none() && !property.deleted {
            // only the desired value has changed
            continue;
        }
        property.is_noted &= current == value(&change.last);
        if !property.is_noted && at.abs_diff(property.noted) >= MIN_INTERVAL_MILLIS.unsigned_abs() {
            (property.noted, property.is_noted) = (at, true);
            past.push(HistoryEntry {
                device: id.clone(),
                property: name.clone(),
                value: current,
                at,
            });
        }
    }
    past
}

#[cfg(test)]
mod tests;
