//! All devices of the node, and what each message makes of them. Pure: no IO, no clock.
//!
//! What happens goes into a [`Turn`]: which devices are to be written, and what is to be said when they are. A turn that could not
//! be written is taken back.

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
        self, BAD_REQUEST, DeviceState, Event, Member, MembershipList, MembershipUpdate, NOT_FOUND, Refusal,
        StateResult, TOO_LARGE, TwinDelta, TwinDocument, TwinUpdate, Twins,
    },
};

use super::{
    counts::Count,
    device::Device,
    handle::{Catalogue, Command, Done, Reading, Refused},
    history::{MIN_INTERVAL_MILLIS, Past},
    merge::{self, Outcome},
    report,
    rules::{Model, Rules, Spec},
};

mod answer;
mod cloud;
mod requests;

pub(super) use self::{answer::Reply, cloud::Due};

/// The longest request that is read, bytes: a thousand properties, many times over.
pub(super) const MAX_PAYLOAD: usize = 256 * 1024;
/// Devices whose mappers are told again in one turn.
const MAX_REMINDERS: usize = 256;

/// A device with what is known of it beside.
#[derive(Clone, Debug, Default)]
struct Known {
    device: Device,
    /// Of its object.
    spec: Option<Arc<Spec>>,
    /// A mapper has asked for it without its namespace.
    is_bare: bool,
}

impl Known {
    /// Whether it has an object; the object of a device that was stored may not have been read yet.
    fn has_object(&self) -> bool {
        self.spec.is_some() || !self.device.uid.is_empty()
    }
}

/// When a mapper is told again what is wanted of its device, milliseconds. The default: at once.
#[derive(Clone, Copy, Debug, Default)]
struct Reminder {
    at: i64,
    wait: i64,
}

impl Reminder {
    /// The first wait.
    const FIRST_DELAY: i64 = 10_000;
    /// The longest; each is twice the one before.
    const MAX_DELAY: i64 = 60_000;

    fn after(now: i64) -> Self {
        Self { at: now + Self::FIRST_DELAY, wait: Self::FIRST_DELAY }
    }

    /// Whether it is time. A clock that was set back does not make it late.
    fn is_due(self, now: i64) -> bool {
        self.at <= now || self.at - now > Self::MAX_DELAY
    }

    fn next(self, now: i64) -> Self {
        let wait = (self.wait * 2).clamp(Self::FIRST_DELAY, Self::MAX_DELAY);
        Self { at: now + wait, wait }
    }
}

/// All devices.
#[derive(Debug)]
pub(super) struct Core {
    node: String,
    new_id: fn() -> String,
    devices: BTreeMap<DeviceId, Known>,
    /// Devices by their names without namespaces.
    names: HashMap<String, Vec<DeviceId>>,
    models: BTreeMap<DeviceId, Model>,
    /// Devices of which the cloud does not know everything yet that is on disk.
    due: BTreeSet<DeviceId>,
    /// Devices that are not as they are wanted, and when their mappers are told again.
    unheeded: BTreeMap<DeviceId, Reminder>,
    /// The one of them that was told last.
    last_due: Option<DeviceId>,
    catalogue: Catalogue,
    revision: u64,
}

/// A question about what a device was, and who asks.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) device: Result<DeviceId, Refused>,
    pub(super) done: Done<Vec<Past>>,
}

/// What a turn has brought about.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The devices that it touched, as they were before.
    before: BTreeMap<DeviceId, Option<Known>>,
    /// What is to be published.
    pub(super) publish: Vec<(Topic, Vec<u8>)>,
    /// What is to be answered to other rooms.
    pub(super) replies: Vec<Reply>,
    /// Questions about what devices were.
    pub(super) questions: Vec<Question>,
    /// What values have become.
    pub(super) past: Vec<Past>,
    /// Requests that failed or were carried out.
    pub(super) counts: Vec<Count>,
    /// Whether the catalogue is another.
    pub(super) catalogue: bool,
}

impl Turn {
    /// What is to be written: the devices as they are now, `None` where one is gone.
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

    /// Something to be published; what is not JSON is not there.
    fn publish(&mut self, topic: Topic, body: &impl Serialize) {
        self.publish.extend(serde_json::to_vec(body).ok().map(|body| (topic, body)));
    }
}

impl Core {
    /// With the devices that were stored.
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
            unheeded: BTreeMap::new(),
            last_due: None,
            catalogue: Catalogue::default(),
            revision: 0,
        };
        for (id, device) in devices {
            core.put(id, Some(Known { device, ..Known::default() }));
        }
        core
    }

    /// The devices and models whose objects are known.
    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Takes back what a turn did: it could not be written. Whoever asked is told; nothing is published.
    pub(super) fn take_back(&mut self, turn: Turn) {
        for (id, known) in turn.before {
            self.put(id, known);
        }
        let why = Refused::unwritten();
        turn.replies.into_iter().for_each(|reply| reply.fail(&why));
    }

    fn put(&mut self, id: DeviceId, known: Option<Known>) {
        match known {
            None => {
                self.devices.remove(&id);
                self.due.remove(&id);
                self.unheeded.remove(&id);
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
                    self.unheeded.entry(id.clone()).or_default();
                }
                let same = self.names.entry(id.name().to_owned()).or_default();
                if !same.contains(&id) {
                    same.push(id.clone());
                }
                self.devices.insert(id, known);
            }
        }
    }

    /// The device that is meant: one without a namespace may be the only one of its name, or that of namespace `default`.
    fn meant(&self, id: &DeviceId) -> Option<DeviceId> {
        if self.devices.contains_key(id) {
            return Some(id.clone());
        }
        let same = self.names.get(id.name()).filter(|_| id.namespace().is_none())?;
        let standard = DeviceId::new("default", id.name()).filter(|standard| same.contains(standard));
        standard.or_else(|| same.first().filter(|_| same.len() == 1).cloned())
    }

    /// Changes a device by `change`, which is given what is known of its properties; what it was before is kept in the turn.
    fn change<T>(
        &mut self,
        turn: &mut Turn,
        id: &DeviceId,
        change: impl FnOnce(&mut Device, Rules<'_>) -> T,
    ) -> Option<T> {
        let known = self.devices.get_mut(id)?;
        turn.before.entry(id.clone()).or_insert_with(|| Some(known.clone()));
        let model = known.spec.as_deref().and_then(|spec| spec.model.as_ref());
        let rules =
            Rules { spec: known.spec.as_deref(), model: model.and_then(|model| self.models.get(model)) };
        let changed = change(&mut known.device, rules);
        if let Some(spec) = known.spec.as_deref() {
            known.device.keep_local(spec);
        }
        Some(changed)
    }

    /// Tells mappers what has changed in a device.
    fn notify_mappers(&mut self, turn: &mut Turn, id: &DeviceId, event: &Event, outcome: &Outcome) {
        let Some(known) = self.devices.get_mut(id) else { return };
        for property in &outcome.strangers {
            warn!(device = %id, property, "the device's object does not name this property: it is kept on this node, and the cloud does not show it; name it in spec.properties");
        }
        turn.past.extend(history_entries(id, &mut known.device, outcome));
        let bare = DeviceId::parse(id.name()).filter(|_| known.is_bare);
        let delta = report::delta(&known.device);
        if delta.is_none() {
            self.unheeded.remove(id);
        } else if outcome.desired || !self.unheeded.contains_key(id) {
            self.unheeded.insert(id.clone(), Reminder::after(event.timestamp));
        }
        for device in [Some(id.clone()), bare].into_iter().flatten() {
            let topic = |topic| Topic::Device(device.clone(), topic);
            if !outcome.document.is_empty() {
                let document = TwinDocument { event: event.clone(), twin: outcome.document.clone() };
                turn.publish(topic(DeviceTopic::TwinUpdateDocument), &document);
            }
            if let Some((twin, delta)) = &delta {
                let event = Event { event_id: (self.new_id)(), timestamp: event.timestamp };
                let delta = TwinDelta { event, twin: twin.clone(), delta: delta.clone() };
                turn.publish(topic(DeviceTopic::TwinUpdateDelta), &delta);
            }
        }
        if outcome.desired {
            self.list(turn, id);
        }
    }

    /// Notes in the catalogue that a device, or what is wanted of it, is another now.
    fn list(&mut self, turn: &mut Turn, id: &DeviceId) {
        self.revision += 1;
        let revision = self.revision;
        if let Some(listed) = self.catalogue.devices.get_mut(id) {
            listed.revision = revision;
            turn.catalogue = true;
        }
    }

    fn event(&self, event_id: &str, now: i64) -> Event {
        let event_id = if event_id.is_empty() { (self.new_id)() } else { event_id.to_owned() };
        Event { event_id, timestamp: now }
    }
}

/// What goes into the history: values that have become others.
fn history_entries(id: &DeviceId, device: &mut Device, outcome: &Outcome) -> Vec<Past> {
    let value = |twin: &Option<twin::Twin>| twin.as_ref()?.actual.as_ref()?.value.clone();
    let mut past = Vec::new();
    for (name, change) in &outcome.document {
        let Some(property) = device.twins.get_mut(name) else { continue };
        let (at, current) = (property.actual.at, value(&change.current));
        if current.is_none() && !property.deleted {
            // only what is wanted has changed
            continue;
        }
        property.is_noted &= current == value(&change.last);
        if !property.is_noted && at.abs_diff(property.noted) >= MIN_INTERVAL_MILLIS.unsigned_abs() {
            (property.noted, property.is_noted) = (at, true);
            past.push(Past { device: id.clone(), property: name.clone(), value: current, at });
        }
    }
    past
}

#[cfg(test)]
mod tests;
