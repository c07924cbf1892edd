//! Messages of the cloud about devices, and reports to it.

use std::ops::Bound::{Excluded, Unbounded};

use crds::devices::{Device as DeviceObject, DeviceModel};

use super::{super::handle::CatalogueEntry, *};

/// A report to the cloud, and what its confirmation confirms.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::devicetwin) enum PendingReport {
    /// `device/<id>/twin/edge_updated`.
    Twin(TwinUpdate, report::ReportedTwins),
    /// `device/<id>/state/update`, and the reported state.
    State(StateResult, report::ReportedState),
}

impl PendingReport {
    fn confirm(&self, device: &mut Device) {
        match self {
            Self::Twin(_, told) => report::confirm(device, told),
            Self::State(_, told) => report::confirmed_state(device, told),
        }
    }
}

impl Batch {
    /// Applies the cloud's confirmation to a device as it was before this batch.
    pub(in crate::devicetwin) fn confirm(&mut self, id: &DeviceId, due: &PendingReport) {
        if let Some(Some(before)) = self.before.get_mut(id) {
            due.confirm(&mut before.device);
        }
    }
}

/// Returns the twins without versions, as mappers see them.
fn without_versions(twins: Twins) -> Twins {
    let bare = |twin: twin::Twin| twin::Twin {
        expected_version: None,
        actual_version: None,
        ..twin
    };
    twins
        .into_iter()
        .map(|(name, twin)| (name, twin.map(bare)))
        .collect()
}

impl Core {
    /// Adds or removes devices that the cloud has bound to this node.
    pub(in crate::devicetwin) fn membership(
        &mut self,
        batch: &mut Batch,
        content: Value,
        now: i64,
    ) {
        let Some(update) = decode::<MembershipUpdate>(content, "membership") else {
            return;
        };
        let removed = update
            .removed
            .unwrap_or_default()
            .into_iter()
            .map(|member| member.id)
            .collect();
        self.apply_members(
            batch,
            update.added.unwrap_or_default(),
            removed,
            &update.event,
            now,
        );
    }

    /// Applies the list of all devices of this node: those that it does not name and that have no object are removed.
    pub(in crate::devicetwin) fn membership_detail(
        &mut self,
        batch: &mut Batch,
        content: Value,
        now: i64,
    ) {
        let Some(list) = decode::<MembershipList>(content, "membership/detail") else {
            return;
        };
        let named: BTreeSet<_> = list.devices.iter().map(|member| &member.id).collect();
        let left = self
            .devices
            .iter()
            .filter(|(id, known)| !named.contains(id) && !known.has_object());
        let removed = left.map(|(id, _)| id.clone()).collect();
        self.apply_members(batch, list.devices, removed, &list.event, now);
    }

    fn apply_members(
        &mut self,
        batch: &mut Batch,
        added: Vec<Member>,
        removed: Vec<DeviceId>,
        event: &Event,
        now: i64,
    ) {
        let mut news = MembershipUpdate {
            event: self.event(&event.event_id, now),
            ..MembershipUpdate::default()
        };
        for member in added {
            if self.devices.contains_key(&member.id) {
                self.change(batch, &member.id, |device, _| device.member = true);
                self.attributes(batch, &member, now);
                continue;
            }
            batch.before.entry(member.id.clone()).or_insert(None);
            self.put(
                member.id.clone(),
                Some(DeviceEntry {
                    device: Device::of_member(&member),
                    ..DeviceEntry::default()
                }),
            );
            news.added.get_or_insert_default().push(member);
        }
        for id in removed {
            if self.devices.get(&id).is_some_and(DeviceEntry::has_object) {
                // the device is removed with its object, whose deletion the cloud sends until it is acknowledged
                self.change(batch, &id, |device, _| device.member = false);
                continue;
            }
            if let Some(known) = self.remove(batch, &id) {
                news.removed
                    .get_or_insert_default()
                    .push(known.device.on_wire(&id));
            }
        }
        if news.added.is_some() || news.removed.is_some() {
            batch.publish(
                Topic::Node(self.node.clone(), NodeTopic::MembershipUpdated),
                &news,
            );
        }
    }

    fn attributes(&mut self, batch: &mut Batch, member: &Member, now: i64) {
        if member.attributes.is_empty() {
            return;
        }
        let changed = self.change(batch, &member.id, |device, _| {
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
            let update = twin::DeviceUpdate {
                event,
                state: String::new(),
                attributes,
            };
            batch.publish(
                Topic::Device(member.id.clone(), DeviceTopic::Updated),
                &update,
            );
        }
    }

    fn remove(&mut self, batch: &mut Batch, id: &DeviceId) -> Option<DeviceEntry> {
        let known = self.devices.get(id)?.clone();
        batch
            .before
            .entry(id.clone())
            .or_insert_with(|| Some(known.clone()));
        self.put(id.clone(), None);
        batch.catalogue |= self.catalogue.devices.remove(id).is_some();
        Some(known)
    }

    /// Applies the cloud's desired twins of a device, with versions.
    pub(in crate::devicetwin) fn apply_cloud_twin(
        &mut self,
        batch: &mut Batch,
        device: &str,
        content: Value,
        now: i64,
    ) {
        let Some(update) = decode::<TwinUpdate>(content, "twin/cloud_updated") else {
            return;
        };
        let Some(id) = DeviceId::parse(device).and_then(|id| self.resolve(&id)) else {
            warn!(
                device,
                "failed to apply desired values: device not found on this node"
            );
            return;
        };
        let twins = update.twin.unwrap_or_default();
        let Some(outcome) = self.change(batch, &id, |device, rules| {
            merge::sync(device, rules, &twins, now)
        }) else {
            return;
        };
        let event = self.event(&update.event.event_id, now);
        if outcome.desired {
            let told = TwinUpdate {
                event: event.clone(),
                twin: Some(without_versions(twins)),
            };
            batch.publish(
                Topic::Device(id.clone(), DeviceTopic::TwinCloudUpdated),
                &told,
            );
        }
        self.notify_mappers(batch, &id, &event, &outcome);
    }

    /// Applies a device's object; `None` means that the object was deleted, and removes the device.
    pub(in crate::devicetwin) fn object(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        object: Option<&DeviceObject>,
        now: i64,
    ) {
        let Some(object) = object else {
            if let Some(known) = self.remove(batch, id) {
                let event = self.event("", now);
                let removed = Some(vec![known.device.on_wire(id)]);
                let news = MembershipUpdate {
                    event,
                    added: None,
                    removed,
                };
                batch.publish(
                    Topic::Node(self.node.clone(), NodeTopic::MembershipUpdated),
                    &news,
                );
            }
            return;
        };
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let spec = Spec::of(id.namespace().unwrap_or_default(), &object.spec);
        let is_another = self
            .devices
            .get(id)
            .is_some_and(|known| !known.device.uid.is_empty() && known.device.uid != uid);
        if is_another {
            // another device under the same name: nothing of the old one is kept
            self.remove(batch, id);
        }
        if !self.devices.contains_key(id) {
            batch.before.entry(id.clone()).or_insert(None);
            self.put(id.clone(), Some(DeviceEntry::default()));
            let event = self.event("", now);
            let added = Some(vec![Member::new(id.clone())]);
            let news = MembershipUpdate {
                event,
                added,
                removed: None,
            };
            batch.publish(
                Topic::Node(self.node.clone(), NodeTopic::MembershipUpdated),
                &news,
            );
        }
        self.change(batch, id, |device, _| device.uid.clone_from(&uid));
        let listed = CatalogueEntry {
            revision: 0,
            uid: uid.into(),
            protocol: spec.protocol.as_deref().map(Into::into),
            model: spec.model.clone(),
        };
        self.catalogue.devices.insert(id.clone(), listed);
        self.touch_catalogue(batch, id);
        if let Some(known) = self.devices.get_mut(id) {
            known.spec = Some(Arc::new(spec));
        }
        self.apply_spec(batch, id, now);
    }

    /// Applies a model's object; `None` means that it was deleted.
    pub(in crate::devicetwin) fn model(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        object: Option<&DeviceModel>,
        now: i64,
    ) {
        self.revision += 1;
        batch.catalogue = true;
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
        let of_model = |known: &DeviceEntry| {
            known
                .spec
                .as_ref()
                .is_some_and(|spec| spec.model.as_ref() == Some(id))
        };
        let devices: Vec<_> = self
            .devices
            .iter()
            .filter(|(_, known)| of_model(known))
            .map(|(id, _)| id.clone())
            .collect();
        devices
            .iter()
            .for_each(|id| self.apply_spec(batch, id, now));
    }

    /// Sets the desired values of a device to those of its object.
    fn apply_spec(&mut self, batch: &mut Batch, id: &DeviceId, now: i64) {
        let Some(spec) = self.devices.get(id).and_then(|known| known.spec.clone()) else {
            return;
        };
        let wanted = self.change(batch, id, |device, rules| {
            merge::apply_spec(device, rules, &spec, now)
        });
        let Some((outcome, faults)) = wanted else {
            return;
        };
        for why in faults {
            warn!(device = %id, error = why, "cannot apply a desired value; correct the device's object");
        }
        if !outcome.document.is_empty() {
            let event = self.event("", now);
            self.notify_mappers(batch, id, &event, &outcome);
        }
    }

    /// Applies the list of all objects: devices and models that had one and are not in it are removed.
    pub(in crate::devicetwin) fn apply_object_list(
        &mut self,
        batch: &mut Batch,
        models: &BTreeSet<DeviceId>,
        there: &BTreeSet<DeviceId>,
        now: i64,
    ) {
        let gone: Vec<_> = self
            .models
            .keys()
            .filter(|id| !models.contains(*id))
            .cloned()
            .collect();
        gone.iter().for_each(|id| self.model(batch, id, None, now));
        let gone = self
            .devices
            .iter()
            .filter(|(id, known)| !known.device.uid.is_empty() && !there.contains(id));
        let gone: Vec<_> = gone.map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.object(batch, id, None, now));
    }

    /// Sends mappers all desired values that differ: they may have missed them.
    pub(in crate::devicetwin) fn send_all_deltas(&mut self, batch: &mut Batch, now: i64) {
        let devices: Vec<_> = self.out_of_sync.keys().cloned().collect();
        for id in devices {
            self.out_of_sync.insert(id.clone(), Reminder::after(now));
            self.remind_mapper(batch, &id, now);
        }
    }

    /// Reminds mappers of desired values that differ, at growing intervals: a mapper that has subscribed since has missed them.
    pub(in crate::devicetwin) fn remind(&mut self, batch: &mut Batch, now: i64) {
        let late = self
            .out_of_sync
            .iter()
            .filter(|(_, reminder)| reminder.is_due(now));
        let late: Vec<_> = late
            .take(MAX_REMINDERS)
            .map(|(id, reminder)| (id.clone(), *reminder))
            .collect();
        for (id, reminder) in late {
            self.out_of_sync.insert(id.clone(), reminder.next(now));
            self.remind_mapper(batch, &id, now);
        }
    }

    fn remind_mapper(&mut self, batch: &mut Batch, id: &DeviceId, now: i64) {
        let event = self.event("", now);
        self.notify_mappers(batch, id, &event, &Outcome::default());
    }

    /// Returns the next device with something to report that is not in `busy`, in a circle.
    pub(in crate::devicetwin) fn next_due(
        &mut self,
        busy: &BTreeSet<DeviceId>,
    ) -> Option<DeviceId> {
        let is_free = |id: &&DeviceId| !busy.contains(*id);
        let after = |last: &DeviceId| {
            self.due
                .range((Excluded(last.clone()), Unbounded))
                .find(is_free)
        };
        let next = self
            .last_due
            .as_ref()
            .and_then(after)
            .or_else(|| self.due.iter().find(is_free))
            .cloned()?;
        self.last_due = Some(next.clone());
        Some(next)
    }

    /// Returns the report of a device; `None` if the cloud has confirmed everything that is on disk. `unwritten` are the
    /// batches that are not on disk, the oldest first.
    pub(in crate::devicetwin) fn due(
        &mut self,
        id: &DeviceId,
        unwritten: &[&Batch],
        now: i64,
    ) -> Option<PendingReport> {
        let written = match unwritten.iter().find_map(|batch| batch.before.get(id)) {
            Some(before) => before.as_ref(),
            None => self.devices.get(id),
        };
        let due = written.and_then(|known| {
            let event = Event {
                event_id: (self.new_id)(),
                timestamp: now,
            };
            match report::report(&known.device) {
                Some((twin, told)) => Some(PendingReport::Twin(
                    TwinUpdate {
                        event,
                        twin: Some(twin),
                    },
                    told,
                )),
                None if known.device.is_state_due() => {
                    let device = requests::state_of(id, &known.device);
                    Some(PendingReport::State(
                        StateResult { event, device },
                        report::reported_state(&known.device),
                    ))
                }
                None => None,
            }
        });
        if due.is_none() {
            // a change that is not written yet is reported after the write
            self.due.remove(id);
        }
        due
    }

    /// Marks the devices of a written batch for reports.
    pub(in crate::devicetwin) fn mark_written(&mut self, batch: &Batch) {
        for id in batch.before.keys() {
            if self
                .devices
                .get(id)
                .is_some_and(|known| known.device.is_due())
            {
                self.due.insert(id.clone());
            }
        }
    }

    /// Applies the cloud's confirmation of a report.
    pub(in crate::devicetwin) fn confirm_report(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        due: &PendingReport,
    ) {
        let Some(known) = self.devices.get_mut(id) else {
            return;
        };
        due.confirm(&mut known.device);
        batch.confirm(id, due);
        batch.counts.push(RequestOutcome::Reported);
    }

    /// Returns a device.
    pub(in crate::devicetwin) fn device(&self, id: &DeviceId) -> Option<&Device> {
        self.devices.get(id).map(|known| &known.device)
    }
}

fn decode<T: DeserializeOwned>(content: Value, what: &str) -> Option<T> {
    let decoded = match content {
        Value::String(text) => serde_json::from_str(&text),
        value => serde_json::from_value(value),
    };
    decoded
        .inspect_err(|error| warn!(%error, what, "cannot decode a device message; message ignored"))
        .ok()
}
