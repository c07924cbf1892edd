//! What mappers and other rooms ask for.

use jiff::Timestamp;

use super::*;

/// The states that a device can have.
const STATES: [&str; 5] = ["online", "offline", "ok", "unknown", "unhealthy"];
/// Those of a device that has been reached.
const REACHED: [&str; 2] = ["online", "ok"];

impl Core {
    /// A message of a mapper on a topic.
    pub(in crate::devicetwin) fn message(
        &mut self,
        turn: &mut Turn,
        topic: &Topic,
        payload: &[u8],
        now: i64,
    ) {
        match topic {
            Topic::Device(device, what) => self.device_message(turn, (device, *what), payload, now),
            Topic::Node(node, NodeTopic::MembershipGet) if *node == self.node => {
                let devices = |core: &Self| core.members();
                self.node_question(turn, (NodeTopic::MembershipGetResult, payload, now), devices);
            }
            Topic::Node(node, NodeTopic::MembershipDetail) if *node == self.node => {
                let devices = |core: &Self| core.members_in_detail();
                self.node_question(turn, (NodeTopic::MembershipDetailResult, payload, now), devices);
            }
            Topic::Node(node, NodeTopic::AuthInfoGet) if *node == self.node => {
                self.auth_info(turn, payload, now);
            }
            // the answers of this room, and what has no answer in EdgeCore either
            Topic::Node(..) | Topic::Upload(_) | Topic::Other(_) => {}
        }
    }

    fn device_message(
        &mut self,
        turn: &mut Turn,
        (device, what): (&DeviceId, DeviceTopic),
        payload: &[u8],
        now: i64,
    ) {
        let result = match what {
            DeviceTopic::TwinUpdate => DeviceTopic::TwinUpdateResult,
            DeviceTopic::TwinGet => DeviceTopic::TwinGetResult,
            DeviceTopic::StateUpdate => DeviceTopic::StateUpdateResult,
            // the answers of this room, where a rule listens to them
            DeviceTopic::TwinUpdateResult
            | DeviceTopic::TwinUpdateDocument
            | DeviceTopic::TwinUpdateDelta
            | DeviceTopic::TwinGetResult
            | DeviceTopic::StateUpdateResult
            | DeviceTopic::StateGetResult
            | DeviceTopic::TwinCloudUpdated
            | DeviceTopic::Updated => return,
            DeviceTopic::TwinEdgeUpdated | DeviceTopic::StateGet => {
                warn!(%device, topic = what.as_str(), "this is no request over MQTT; ask with twin/get, and set with twin/update");
                return;
            }
        };
        let mut event_id = String::new();
        let outcome = match what {
            DeviceTopic::TwinUpdate => self.twin_update(turn, device, (payload, &mut event_id), now),
            DeviceTopic::TwinGet => self.twin_get(turn, device, (payload, &mut event_id), now),
            _ => self.state_update(turn, device, (payload, &mut event_id), now),
        };
        match outcome {
            Ok(()) => turn.counts.push(Count::Done),
            Err(Refused { code, reason }) => {
                turn.counts.push(match code {
                    NOT_FOUND => Count::Unknown,
                    TOO_LARGE => Count::TooLarge,
                    _ => Count::Bad,
                });
                let event = self.event(&event_id, now);
                turn.publish(Topic::Device(device.clone(), result), &Refusal { event, code, reason });
            }
        }
    }

    fn twin_update(
        &mut self,
        turn: &mut Turn,
        asked: &DeviceId,
        (payload, event_id): (&[u8], &mut String),
        now: i64,
    ) -> Result<(), Refused> {
        let update: TwinUpdate = read(payload)?;
        event_id.clone_from(&update.event.event_id);
        let twins = update
            .twin
            .ok_or_else(|| Refused::new(BAD_REQUEST, "an update has the properties under \"twin\""))?;
        let id = self.asked_for(asked, "updating twin")?;
        let event = self.event(event_id, now);
        let outcome = self.update(turn, &id, &twins, now)?;
        let result = TwinUpdate { event: event.clone(), twin: Some(outcome.result.clone()) };
        turn.publish(Topic::Device(asked.clone(), DeviceTopic::TwinUpdateResult), &result);
        self.notify_mappers(turn, &id, &event, &outcome);
        Ok(())
    }

    pub(super) fn update(
        &mut self,
        turn: &mut Turn,
        id: &DeviceId,
        twins: &Twins,
        now: i64,
    ) -> Result<Outcome, Refused> {
        self.change(turn, id, |device, rules| merge::update(device, rules, twins, now))
            .unwrap_or_else(|| Err(not_found(id, "updating twin")))
    }

    fn twin_get(
        &mut self,
        turn: &mut Turn,
        asked: &DeviceId,
        (payload, event_id): (&[u8], &mut String),
        now: i64,
    ) -> Result<(), Refused> {
        let question: Event = read(payload)?;
        event_id.clone_from(&question.event_id);
        let id = self.asked_for(asked, "getting twin")?;
        let result = TwinUpdate { event: self.event(event_id, now), twin: Some(self.twins(&id)) };
        turn.publish(Topic::Device(asked.clone(), DeviceTopic::TwinGetResult), &result);
        Ok(())
    }

    fn twins(&self, id: &DeviceId) -> Twins {
        let twins = self.devices.get(id).into_iter().flat_map(|known| &known.device.twins);
        twins.filter_map(|(name, property)| Some((name.clone(), Some(property.on_wire()?)))).collect()
    }

    fn state_update(
        &mut self,
        turn: &mut Turn,
        asked: &DeviceId,
        (payload, event_id): (&[u8], &mut String),
        now: i64,
    ) -> Result<(), Refused> {
        let update: twin::DeviceUpdate = read(payload)?;
        event_id.clone_from(&update.event.event_id);
        let id = self.asked_for(asked, "updating state")?;
        let device = self.set_state(turn, &id, &update.state, now)?;
        let event = self.event(event_id, now);
        turn.publish(
            Topic::Device(asked.clone(), DeviceTopic::StateUpdateResult),
            &StateResult { event, device },
        );
        Ok(())
    }

    fn set_state(
        &mut self,
        turn: &mut Turn,
        id: &DeviceId,
        state: &str,
        now: i64,
    ) -> Result<DeviceState, Refused> {
        let state = STATES.into_iter().find(|known| known.eq_ignore_ascii_case(state)).ok_or_else(|| {
            let why = format!("{state:.40?} is no state; a device is {}", STATES.join(", "));
            Refused::new(BAD_REQUEST, why)
        })?;
        let set = self.change(turn, id, |device, _| {
            state.clone_into(&mut device.state);
            if REACHED.contains(&state) {
                device.last_online = seconds(now);
            }
            device.state_due = device.state_due.wrapping_add(1).max(1);
            state_of(id, device)
        });
        set.ok_or_else(|| not_found(id, "updating state"))
    }

    /// A question for the devices of this node.
    fn node_question(
        &mut self,
        turn: &mut Turn,
        (result, payload, now): (NodeTopic, &[u8], i64),
        devices: impl FnOnce(&Self) -> Vec<Member>,
    ) {
        let topic = Topic::Node(self.node.clone(), result);
        match read::<Event>(payload) {
            Ok(question) => {
                let event = self.event(&question.event_id, now);
                turn.counts.push(Count::Done);
                turn.publish(topic, &MembershipList { event, devices: devices(self) });
            }
            Err(Refused { code, reason }) => {
                turn.counts.push(if code == TOO_LARGE { Count::TooLarge } else { Count::Bad });
                turn.publish(topic, &Refusal { event: self.event("", now), code, reason });
            }
        }
    }

    /// Credentials are not given over MQTT: whoever asks is told so, and where brokers and the API have theirs.
    fn auth_info(&mut self, turn: &mut Turn, payload: &[u8], now: i64) {
        let event_id = read::<Event>(payload).map(|question| question.event_id).unwrap_or_default();
        let reason = "this node gives no credentials over MQTT; users of its broker stand in \
                      modules.eventBus.internalAccess.passwordFile";
        turn.counts.push(Count::Bad);
        let refusal =
            Refusal { event: self.event(&event_id, now), code: NOT_FOUND, reason: reason.to_owned() };
        turn.publish(Topic::Node(self.node.clone(), NodeTopic::AuthInfoGetResult), &refusal);
    }

    /// The devices with their attributes and properties.
    fn members_in_detail(&self) -> Vec<Member> {
        let detailed = self.devices.iter().map(|(id, known)| {
            let attributes = known.device.attributes.iter();
            let attributes = attributes.map(|(name, attribute)| (name.clone(), Some(attribute.clone())));
            Member { attributes: attributes.collect(), twin: self.twins(id), ..known.device.on_wire(id) }
        });
        detailed.collect()
    }

    fn members(&self) -> Vec<Member> {
        self.devices.iter().map(|(id, known)| known.device.on_wire(id)).collect()
    }

    /// The device that a mapper means, who is told in the same form from now on.
    fn asked_for(&mut self, asked: &DeviceId, doing: &str) -> Result<DeviceId, Refused> {
        let id = self.meant(asked).ok_or_else(|| not_found(asked, doing))?;
        if id != *asked
            && let Some(known) = self.devices.get_mut(&id)
        {
            known.is_bare = true;
        }
        Ok(id)
    }

    /// A request of another room.
    pub(in crate::devicetwin) fn command(&mut self, turn: &mut Turn, command: Command, now: i64) {
        let reply = match command {
            Command::Update { device, event, twins, done } => {
                let updated = self.find(&device).and_then(|id| {
                    let outcome = self.update(turn, &id, &twins, now)?;
                    let event = self.event(&event.event_id, now);
                    self.notify_mappers(turn, &id, &event, &outcome);
                    Ok(outcome.result)
                });
                turn.counts.push(count(updated.as_ref().map(drop)));
                Reply::Twins(done, updated)
            }
            Command::Report { device, readings, done } => {
                let read = self.find(&device).and_then(|id| self.readings(turn, &id, &readings, now));
                turn.counts.push(count(read.as_ref().map(drop)));
                Reply::Nothing(done, read)
            }
            Command::State { device, state, done } => {
                let set = self.find(&device).and_then(|id| self.set_state(turn, &id, &state, now)).map(drop);
                turn.counts.push(count(set.as_ref().map(drop)));
                Reply::Nothing(done, set)
            }
            Command::Twin { device, done } => {
                Reply::Twins(done, self.find(&device).map(|id| self.twins(&id)))
            }
            Command::Desired { device, done } => {
                Reply::Desired(done, self.find(&device).map(|id| self.desired_values(&id)))
            }
            Command::AllDesired { done } => {
                let all = self.devices.keys().map(|id| (id.clone(), self.desired_values(id)));
                Reply::AllDesired(done, all.collect())
            }
            // the store is asked, not the devices
            Command::History { device, done } => {
                let device = self.find(&device);
                return turn.questions.push(Question { device, done });
            }
            Command::Members { done } => Reply::Members(done, self.members()),
        };
        turn.replies.push(reply);
    }

    fn find(&self, device: &DeviceId) -> Result<DeviceId, Refused> {
        self.meant(device).ok_or_else(|| not_found(device, "looking for it"))
    }

    fn readings(
        &mut self,
        turn: &mut Turn,
        id: &DeviceId,
        readings: &[Reading],
        now: i64,
    ) -> Result<(), Refused> {
        let read = self.change(turn, id, |device, rules| merge::read(device, rules, readings, now));
        let outcome = read.unwrap_or_else(|| Err(not_found(id, "reporting")))?;
        let event = self.event("", now);
        self.notify_mappers(turn, id, &event, &outcome);
        Ok(())
    }

    fn desired_values(&self, id: &DeviceId) -> BTreeMap<String, String> {
        let twins = self.devices.get(id).into_iter().flat_map(|known| &known.device.twins);
        let wanted = twins.filter(|(_, property)| !property.deleted);
        wanted
            .filter_map(|(name, property)| {
                // an empty value wants nothing
                let value = property.expected.value.clone().filter(|value| !value.is_empty())?;
                Some((name.clone(), value))
            })
            .collect()
    }
}

fn count(outcome: Result<(), &Refused>) -> Count {
    match outcome.map_err(|refused| refused.code) {
        Ok(()) => Count::Done,
        Err(NOT_FOUND) => Count::Unknown,
        Err(_) => Count::Bad,
    }
}

fn not_found(id: &DeviceId, doing: &str) -> Refused {
    Refused::new(NOT_FOUND, format!("Device {id} not found while {doing}"))
}

/// What a mapper has sent.
fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Refused> {
    if payload.len() > MAX_PAYLOAD {
        let why = format!("the message has {} bytes, and at most {MAX_PAYLOAD} are read", payload.len());
        return Err(Refused::new(TOO_LARGE, why));
    }
    serde_json::from_slice(payload)
        .map_err(|error| Refused::new(BAD_REQUEST, format!("the message cannot be read: {error}")))
}

pub(super) fn state_of(id: &DeviceId, device: &Device) -> DeviceState {
    DeviceState {
        name: id.name().to_owned(),
        state: device.state.clone(),
        last_online: device.last_online.clone(),
    }
}

/// RFC 3339, to the second.
fn seconds(now: i64) -> String {
    Timestamp::from_millisecond(now).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
