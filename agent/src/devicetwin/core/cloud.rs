//! What the cloud says of devices, and what it is told.

use std::ops::Bound::{Excluded, Unbounded};

use crds::devices::{Device as DeviceObject, DeviceModel};

use super::{super::handle::Listed, *};

/// A report to the cloud, and what its confirmation is about.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::devicetwin) enum Due {
    /// `device/<id>/twin/edge_updated`.
    Twin(TwinUpdate, report::ReportedTwins),
    /// `device/<id>/state/update`, and the state that it tells.
    State(StateResult, report::ReportedState),
}

impl Due {
    fn confirm(&self, device: &mut Device) {
        match self {
            Self::Twin(_, told) => report::confirmed(device, told),
            Self::State(_, told) => report::confirmed_state(device, told),
        }
    }
}

impl Turn {
    /// The cloud has confirmed what a device was before this turn.
    pub(in crate::devicetwin) fn confirmed(&mut self, id: &DeviceId, due: &Due) {
        if let Some(Some(before)) = self.before.get_mut(id) {
            due.confirm(&mut before.device);
        }
    }
}

/// As mappers see them.
fn without_versions(twins: Twins) -> Twins {
    let bare = |twin: twin::Twin| twin::Twin { expected_version: None, actual_version: None, ..twin };
    twins.into_iter().map(|(name, twin)| (name, twin.map(bare))).collect()
}

impl Core {
    /// Devices were bound to this node, or taken from it.
    pub(in crate::devicetwin) fn membership(&mut self, turn: &mut Turn, content: Value, now: i64) {
        let Some(update) = decoded::<MembershipUpdate>(content, "membership") else { return };
        let removed = update.removed.unwrap_or_default().into_iter().map(|member| member.id).collect();
        self.members_are(turn, (update.added.unwrap_or_default(), removed), &update.event, now);
    }

    /// All devices of this node; those that are not named and have no object are not its own any more.
    pub(in crate::devicetwin) fn membership_detail(&mut self, turn: &mut Turn, content: Value, now: i64) {
        let Some(list) = decoded::<MembershipList>(content, "membership/detail") else { return };
        let named: BTreeSet<_> = list.devices.iter().map(|member| &member.id).collect();
        let left = self.devices.iter().filter(|(id, known)| !named.contains(id) && !known.has_object());
        let removed = left.map(|(id, _)| id.clone()).collect();
        self.members_are(turn, (list.devices, removed), &list.event, now);
    }

    fn members_are(
        &mut self,
        turn: &mut Turn,
        (added, removed): (Vec<Member>, Vec<DeviceId>),
        event: &Event,
        now: i64,
    ) {
        let mut news =
            MembershipUpdate { event: self.event(&event.event_id, now), ..MembershipUpdate::default() };
        for member in added {
            if self.devices.contains_key(&member.id) {
                self.change(turn, &member.id, |device, _| device.member = true);
                self.attributes(turn, &member, now);
                continue;
            }
            turn.before.entry(member.id.clone()).or_insert(None);
            self.put(
                member.id.clone(),
                Some(Known { device: Device::of_member(&member), ..Known::default() }),
            );
            news.added.get_or_insert_default().push(member);
        }
        for id in removed {
            if self.devices.get(&id).is_some_and(Known::has_object) {
                // it goes with its object, whose end the cloud tells until that is acknowledged
                self.change(turn, &id, |device, _| device.member = false);
                continue;
            }
            if let Some(known) = self.remove(turn, &id) {
                news.removed.get_or_insert_default().push(known.device.on_wire(&id));
            }
        }
        if news.added.is_some() || news.removed.is_some() {
            turn.publish(Topic::Node(self.node.clone(), NodeTopic::MembershipUpdated), &news);
        }
    }

    fn attributes(&mut self, turn: &mut Turn, member: &Member, now: i64) {
        if member.attributes.is_empty() {
            return;
        }
        let changed = self.change(turn, &member.id, |device, _| {
            let mut changed = twin::Attributes::new();
            for (name, attribute) in &member.attributes {
                if device.attributes.get(name) == attribute.as_ref() {
                    continue;
                }
                changed.insert(name.clone(), attribute.clone());
                match attribute {
                    Some(attribute) => device.attributes.insert(name.clone(), attribute.clone()),
                    None => device.attributes.remove(name),
                };
            }
            changed
        });
        let attributes = changed.unwrap_or_default();
        if !attributes.is_empty() {
            let event = self.event("", now);
            let update = twin::DeviceUpdate { event, state: String::new(), attributes };
            turn.publish(Topic::Device(member.id.clone(), DeviceTopic::Updated), &update);
        }
    }

    fn remove(&mut self, turn: &mut Turn, id: &DeviceId) -> Option<Known> {
        let known = self.devices.get(id)?.clone();
        turn.before.entry(id.clone()).or_insert_with(|| Some(known.clone()));
        self.put(id.clone(), None);
        turn.catalogue |= self.catalogue.devices.remove(id).is_some();
        Some(known)
    }

    /// What the cloud wants of a device, with versions.
    pub(in crate::devicetwin) fn wanted(&mut self, turn: &mut Turn, device: &str, content: Value, now: i64) {
        let Some(update) = decoded::<TwinUpdate>(content, "twin/cloud_updated") else { return };
        let Some(id) = DeviceId::parse(device).and_then(|id| self.meant(&id)) else {
            warn!(device, "the cloud wants something of a device that is not here");
            return;
        };
        let twins = update.twin.unwrap_or_default();
        let Some(outcome) = self.change(turn, &id, |device, rules| merge::sync(device, rules, &twins, now))
        else {
            return;
        };
        let event = self.event(&update.event.event_id, now);
        if outcome.desired {
            let told = TwinUpdate { event: event.clone(), twin: Some(without_versions(twins)) };
            turn.publish(Topic::Device(id.clone(), DeviceTopic::TwinCloudUpdated), &told);
        }
        self.notify_mappers(turn, &id, &event, &outcome);
    }

    /// A device's object as it is now; `None`: it is gone, and so is the device.
    pub(in crate::devicetwin) fn object(
        &mut self,
        turn: &mut Turn,
        id: &DeviceId,
        object: Option<&DeviceObject>,
        now: i64,
    ) {
        let Some(object) = object else {
            if let Some(known) = self.remove(turn, id) {
                let event = self.event("", now);
                let removed = Some(vec![known.device.on_wire(id)]);
                let news = MembershipUpdate { event, added: None, removed };
                turn.publish(Topic::Node(self.node.clone(), NodeTopic::MembershipUpdated), &news);
            }
            return;
        };
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let spec = Spec::of(id.namespace().unwrap_or_default(), &object.spec);
        let is_another =
            self.devices.get(id).is_some_and(|known| !known.device.uid.is_empty() && known.device.uid != uid);
        if is_another {
            // another one under the same name: nothing of the old one is true of it
            self.remove(turn, id);
        }
        if !self.devices.contains_key(id) {
            turn.before.entry(id.clone()).or_insert(None);
            self.put(id.clone(), Some(Known::default()));
            let event = self.event("", now);
            let added = Some(vec![Member::new(id.clone())]);
            let news = MembershipUpdate { event, added, removed: None };
            turn.publish(Topic::Node(self.node.clone(), NodeTopic::MembershipUpdated), &news);
        }
        self.change(turn, id, |device, _| device.uid.clone_from(&uid));
        let listed = Listed {
            revision: 0,
            uid: uid.into(),
            protocol: spec.protocol.as_deref().map(Into::into),
            model: spec.model.clone(),
        };
        self.catalogue.devices.insert(id.clone(), listed);
        self.list(turn, id);
        if let Some(known) = self.devices.get_mut(id) {
            known.spec = Some(Arc::new(spec));
        }
        self.follow(turn, id, now);
    }

    /// A model's object as it is now; `None`: it is gone.
    pub(in crate::devicetwin) fn model(
        &mut self,
        turn: &mut Turn,
        id: &DeviceId,
        object: Option<&DeviceModel>,
        now: i64,
    ) {
        self.revision += 1;
        turn.catalogue = true;
        match object {
            None => {
                self.models.remove(id);
                self.catalogue.models.remove(id);
            }
            Some(object) => {
                self.models.insert(id.clone(), Model::of(&object.spec));
                self.catalogue.models.insert(id.clone(), self.revision);
            }
        }
        let of_model =
            |known: &Known| known.spec.as_ref().is_some_and(|spec| spec.model.as_ref() == Some(id));
        let devices: Vec<_> =
            self.devices.iter().filter(|(_, known)| of_model(known)).map(|(id, _)| id.clone()).collect();
        devices.iter().for_each(|id| self.follow(turn, id, now));
    }

    /// Brings what is wanted of a device to what its object says.
    fn follow(&mut self, turn: &mut Turn, id: &DeviceId, now: i64) {
        let Some(spec) = self.devices.get(id).and_then(|known| known.spec.clone()) else { return };
        let wanted = self.change(turn, id, |device, rules| merge::want(device, rules, &spec, now));
        let Some((outcome, faults)) = wanted else { return };
        for why in faults {
            warn!(device = %id, why, "a value that the cloud wants cannot be; mend the device's object");
        }
        if !outcome.document.is_empty() {
            let event = self.event("", now);
            self.notify_mappers(turn, id, &event, &outcome);
        }
    }

    /// These are all the objects there are: devices and models that had one and are not among them have gone.
    pub(in crate::devicetwin) fn objects_are(
        &mut self,
        turn: &mut Turn,
        (models, there): (&BTreeSet<DeviceId>, &BTreeSet<DeviceId>),
        now: i64,
    ) {
        let gone: Vec<_> = self.models.keys().filter(|id| !models.contains(*id)).cloned().collect();
        gone.iter().for_each(|id| self.model(turn, id, None, now));
        let gone =
            self.devices.iter().filter(|(id, known)| !known.device.uid.is_empty() && !there.contains(id));
        let gone: Vec<_> = gone.map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.object(turn, id, None, now));
    }

    /// Tells mappers what is wanted, all of it: they may have missed it.
    pub(in crate::devicetwin) fn deltas(&mut self, turn: &mut Turn, now: i64) {
        let devices: Vec<_> = self.unheeded.keys().cloned().collect();
        for id in devices {
            self.unheeded.insert(id.clone(), Reminder::after(now));
            self.notify_again(turn, &id, now);
        }
    }

    /// Tells mappers again what is wanted and is not so, at growing intervals: one that has subscribed since has missed it.
    pub(in crate::devicetwin) fn remind(&mut self, turn: &mut Turn, now: i64) {
        let late = self.unheeded.iter().filter(|(_, reminder)| reminder.is_due(now));
        let late: Vec<_> = late.take(MAX_REMINDERS).map(|(id, reminder)| (id.clone(), *reminder)).collect();
        for (id, reminder) in late {
            self.unheeded.insert(id.clone(), reminder.next(now));
            self.notify_again(turn, &id, now);
        }
    }

    fn notify_again(&mut self, turn: &mut Turn, id: &DeviceId, now: i64) {
        let event = self.event("", now);
        self.notify_mappers(turn, id, &event, &Outcome::default());
    }

    /// A device of which the cloud does not know everything, and that is none of `busy`: each in its turn.
    pub(in crate::devicetwin) fn next_due(&mut self, busy: &BTreeSet<DeviceId>) -> Option<DeviceId> {
        let is_free = |id: &&DeviceId| !busy.contains(*id);
        let after = |last: &DeviceId| self.due.range((Excluded(last.clone()), Unbounded)).find(is_free);
        let next =
            self.last_due.as_ref().and_then(after).or_else(|| self.due.iter().find(is_free)).cloned()?;
        self.last_due = Some(next.clone());
        Some(next)
    }

    /// What the cloud is to be told of a device; `None`: it knows everything that is on disk. `unwritten` are the turns that are not, the
    /// oldest first.
    pub(in crate::devicetwin) fn due(&mut self, id: &DeviceId, unwritten: &[&Turn], now: i64) -> Option<Due> {
        let written = match unwritten.iter().find_map(|turn| turn.before.get(id)) {
            Some(before) => before.as_ref(),
            None => self.devices.get(id),
        };
        let due = written.and_then(|known| {
            let event = Event { event_id: (self.new_id)(), timestamp: now };
            match report::report(&known.device) {
                Some((twin, told)) => Some(Due::Twin(TwinUpdate { event, twin: Some(twin) }, told)),
                None if known.device.is_state_due() => {
                    let device = requests::state_of(id, &known.device);
                    Some(Due::State(StateResult { event, device }, report::reported_state(&known.device)))
                }
                None => None,
            }
        });
        if due.is_none() {
            // what is not written yet is due when it is
            self.due.remove(id);
        }
        due
    }

    /// A turn is on disk: the cloud is to be told.
    pub(in crate::devicetwin) fn written(&mut self, turn: &Turn) {
        for id in turn.before.keys() {
            if self.devices.get(id).is_some_and(|known| known.device.is_due()) {
                self.due.insert(id.clone());
            }
        }
    }

    /// The cloud has confirmed what it was told of a device.
    pub(in crate::devicetwin) fn confirmed(&mut self, turn: &mut Turn, id: &DeviceId, due: &Due) {
        let Some(known) = self.devices.get_mut(id) else { return };
        due.confirm(&mut known.device);
        turn.confirmed(id, due);
        turn.counts.push(Count::Reported);
    }

    /// A device as it is.
    pub(in crate::devicetwin) fn device(&self, id: &DeviceId) -> Option<&Device> {
        self.devices.get(id).map(|known| &known.device)
    }
}

fn decoded<T: DeserializeOwned>(content: Value, what: &str) -> Option<T> {
    let decoded = match content {
        Value::String(text) => serde_json::from_str(&text),
        value => serde_json::from_value(value),
    };
    decoded
        .inspect_err(|error| warn!(%error, what, "a message of the cloud about devices cannot be read"))
        .ok()
}
