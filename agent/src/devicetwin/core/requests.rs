//! Requests of mappers and other modules.

use jiff::Timestamp;

use super::*;

/// The states that a device can have.
const STATES: [&str; 5] = ["online", "offline", "ok", "unknown", "unhealthy"];
/// The states of a device that was reached.
const REACHED_STATES: [&str; 2] = ["online", "ok"];

impl Core {
    /// Handles a message of a mapper on a topic.
    pub(in crate::devicetwin) fn message(
        &mut self,
        batch: &mut Batch,
        topic: &Topic,
        payload: &[u8],
        now: i64,
    ) {
        match topic {
            Topic::Device(device, what) => self.device_message(batch, device, *what, payload, now),
            Topic::Node(node, NodeTopic::MembershipGet) if *node == self.node => {
                let devices = |core: &Self| core.members();
                self.node_question(batch, NodeTopic::MembershipGetResult, payload, now, devices);
            }
            Topic::Node(node, NodeTopic::MembershipDetail) if *node == self.node => {
                let devices = |core: &Self| core.members_in_detail();
                self.node_question(
                    batch,
                    NodeTopic::MembershipDetailResult,
                    payload,
                    now,
                    devices,
                );
            }
            Topic::Node(node, NodeTopic::AuthInfoGet) if *node == self.node => {
                self.auth_info(batch, payload, now);
            }
            // results that this module publishes, and topics without an answer in EdgeCore either
            Topic::Node(..) | Topic::Upload(_) | Topic::Other(_) => {}
        }
    }

    fn device_message(
        &mut self,
        batch: &mut Batch,
        device: &DeviceId,
        what: DeviceTopic,
        payload: &[u8],
        now: i64,
    ) {
        let result = match what {
            DeviceTopic::TwinUpdate => DeviceTopic::TwinUpdateResult,
            DeviceTopic::TwinGet => DeviceTopic::TwinGetResult,
            DeviceTopic::StateUpdate => DeviceTopic::StateUpdateResult,
            // results that this module publishes, in case a rule subscribes to them
            DeviceTopic::TwinUpdateResult
            | DeviceTopic::TwinUpdateDocument
            | DeviceTopic::TwinUpdateDelta
            | DeviceTopic::TwinGetResult
            | DeviceTopic::StateUpdateResult
            | DeviceTopic::StateGetResult
            | DeviceTopic::TwinCloudUpdated
            | DeviceTopic::Updated => return,
            DeviceTopic::TwinEdgeUpdated | DeviceTopic::StateGet => {
                warn!(
                    %device,
                    topic = what.as_str(),
                    "cannot handle requests on this topic; use twin/get to read and twin/update to set"
                );
                return;
            }
        };
        let mut event_id = String::new();
        let outcome = match what {
            DeviceTopic::TwinUpdate => self.twin_update(batch, device, payload, &mut event_id, now),
            DeviceTopic::TwinGet => self.twin_get(batch, device, payload, &mut event_id, now),
            _ => self.state_update(batch, device, payload, &mut event_id, now),
        };
        match outcome {
            Ok(()) => batch.counts.push(RequestOutcome::Done),
            Err(RequestError { code, reason }) => {
                batch.counts.push(match code {
                    NOT_FOUND => RequestOutcome::Unknown,
                    TOO_LARGE => RequestOutcome::TooLarge,
                    _ => RequestOutcome::Bad,
                });
                let event = self.event(&event_id, now);
                batch.publish(
                    Topic::Device(device.clone(), result),
                    &Refusal {
                        event,
                        code,
                        reason,
                    },
                );
            }
        }
    }

    fn twin_update(
        &mut self,
        batch: &mut Batch,
        asked: &DeviceId,
        payload: &[u8],
        event_id: &mut String,
        now: i64,
    ) -> Result<(), RequestError> {
        let update: TwinUpdate = read(payload)?;
        event_id.clone_from(&update.event.event_id);
        let twins = update.twin.ok_or_else(|| {
            RequestError::new(BAD_REQUEST, "an update has the properties under \"twin\"")
        })?;
        let id = self.resolve_for_mapper(asked, "updating twin")?;
        let event = self.event(event_id, now);
        let outcome = self.update(batch, &id, &twins, now)?;
        let result = TwinUpdate {
            event: event.clone(),
            twin: Some(outcome.result.clone()),
        };
        batch.publish(
            Topic::Device(asked.clone(), DeviceTopic::TwinUpdateResult),
            &result,
        );
        self.notify_mappers(batch, &id, &event, &outcome);
        Ok(())
    }

    pub(super) fn update(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        twins: &Twins,
        now: i64,
    ) -> Result<Outcome, RequestError> {
        self.change(batch, id, |device, rules| {
            merge::update(device, rules, twins, now)
        })
        .unwrap_or_else(|| Err(not_found(id, "updating twin")))
    }

    fn twin_get(
        &mut self,
        batch: &mut Batch,
        asked: &DeviceId,
        payload: &[u8],
        event_id: &mut String,
        now: i64,
    ) -> Result<(), RequestError> {
        let question: Event = read(payload)?;
        event_id.clone_from(&question.event_id);
        let id = self.resolve_for_mapper(asked, "getting twin")?;
        let result = TwinUpdate {
            event: self.event(event_id, now),
            twin: Some(self.twins(&id)),
        };
        batch.publish(
            Topic::Device(asked.clone(), DeviceTopic::TwinGetResult),
            &result,
        );
        Ok(())
    }

    fn twins(&self, id: &DeviceId) -> Twins {
        let twins = self
            .devices
            .get(id)
            .into_iter()
            .flat_map(|known| &known.device.twins);
        twins
            .filter_map(|(name, property)| Some((name.clone(), Some(property.on_wire()?))))
            .collect()
    }

    fn state_update(
        &mut self,
        batch: &mut Batch,
        asked: &DeviceId,
        payload: &[u8],
        event_id: &mut String,
        now: i64,
    ) -> Result<(), RequestError> {
        let update: twin::DeviceUpdate = read(payload)?;
        event_id.clone_from(&update.event.event_id);
        let id = self.resolve_for_mapper(asked, "updating state")?;
        let device = self.set_state(batch, &id, &update.state, now)?;
        let event = self.event(event_id, now);
        batch.publish(
            Topic::Device(asked.clone(), DeviceTopic::StateUpdateResult),
            &StateResult { event, device },
        );
        Ok(())
    }

    fn set_state(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        state: &str,
        now: i64,
    ) -> Result<DeviceState, RequestError> {
        let state = STATES
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(state))
            .ok_or_else(|| {
                let why = format!(
                    "{state:.40?} is no state; a device is {}",
                    STATES.join(", ")
                );
                RequestError::new(BAD_REQUEST, why)
            })?;
        let set = self.change(batch, id, |device, _| {
            state.clone_into(&mut device.state);
            if REACHED_STATES.contains(&state) {
                device.last_online = seconds(now);
            }
            device.state_due = device.state_due.wrapping_add(1).max(1);
            state_of(id, device)
        });
        set.ok_or_else(|| not_found(id, "updating state"))
    }

    /// Answers a query for the devices of this node.
    fn node_question(
        &mut self,
        batch: &mut Batch,
        result: NodeTopic,
        payload: &[u8],
        now: i64,
        devices: impl FnOnce(&Self) -> Vec<Member>,
    ) {
        let topic = Topic::Node(self.node.clone(), result);
        match read::<Event>(payload) {
            Ok(question) => {
                let event = self.event(&question.event_id, now);
                batch.counts.push(RequestOutcome::Done);
                batch.publish(
                    topic,
                    &MembershipList {
                        event,
                        devices: devices(self),
                    },
                );
            }
            Err(RequestError { code, reason }) => {
                batch.counts.push(if code == TOO_LARGE {
                    RequestOutcome::TooLarge
                } else {
                    RequestOutcome::Bad
                });
                batch.publish(
                    topic,
                    &Refusal {
                        event: self.event("", now),
                        code,
                        reason,
                    },
                );
            }
        }
    }

    /// Answers a query for credentials, which are not given over MQTT: the answer says where brokers and the API have theirs.
    fn auth_info(&mut self, batch: &mut Batch, payload: &[u8], now: i64) {
        let event_id = read::<Event>(payload)
            .map(|question| question.event_id)
            .unwrap_or_default();
        let reason = "this node issues no credentials over MQTT; the users of its broker are in modules.eventBus.internalAccess.passwordFile";
        batch.counts.push(RequestOutcome::Bad);
        let refusal = Refusal {
            event: self.event(&event_id, now),
            code: NOT_FOUND,
            reason: reason.to_owned(),
        };
        batch.publish(
            Topic::Node(self.node.clone(), NodeTopic::AuthInfoGetResult),
            &refusal,
        );
    }

    /// Returns the devices with their attributes and properties.
    fn members_in_detail(&self) -> Vec<Member> {
        let detailed = self.devices.iter().map(|(id, known)| {
            let attributes = known.device.attributes.iter();
            let attributes =
                attributes.map(|(name, attribute)| (name.clone(), Some(attribute.clone())));
            Member {
                attributes: attributes.collect(),
                twin: self.twins(id),
                ..known.device.on_wire(id)
            }
        });
        detailed.collect()
    }

    fn members(&self) -> Vec<Member> {
        self.devices
            .iter()
            .map(|(id, known)| known.device.on_wire(id))
            .collect()
    }

    /// Resolves the device that a mapper names, which gets its answers in the same form from now on.
    fn resolve_for_mapper(
        &mut self,
        asked: &DeviceId,
        doing: &str,
    ) -> Result<DeviceId, RequestError> {
        let id = self.resolve(asked).ok_or_else(|| not_found(asked, doing))?;
        if id != *asked
            && let Some(known) = self.devices.get_mut(&id)
        {
            known.is_bare = true;
        }
        Ok(id)
    }

    /// Handles a request of another module.
    pub(in crate::devicetwin) fn command(&mut self, batch: &mut Batch, command: Command, now: i64) {
        let reply = match command {
            Command::Update {
                device,
                event,
                twins,
                responder,
            } => {
                let updated = self.find(&device).and_then(|id| {
                    let outcome = self.update(batch, &id, &twins, now)?;
                    let event = self.event(&event.event_id, now);
                    self.notify_mappers(batch, &id, &event, &outcome);
                    Ok(outcome.result)
                });
                batch.counts.push(count(updated.as_ref().map(drop)));
                Reply::Twins(responder, updated)
            }
            Command::Report {
                device,
                readings,
                responder,
            } => {
                let read = self
                    .find(&device)
                    .and_then(|id| self.readings(batch, &id, &readings, now));
                batch.counts.push(count(read.as_ref().map(drop)));
                Reply::Nothing(responder, read)
            }
            Command::State {
                device,
                state,
                responder,
            } => {
                let set = self
                    .find(&device)
                    .and_then(|id| self.set_state(batch, &id, &state, now))
                    .map(drop);
                batch.counts.push(count(set.as_ref().map(drop)));
                Reply::Nothing(responder, set)
            }
            Command::Twin { device, responder } => {
                Reply::Twins(responder, self.find(&device).map(|id| self.twins(&id)))
            }
            Command::Desired { device, responder } => Reply::Desired(
                responder,
                self.find(&device).map(|id| self.desired_values(&id)),
            ),
            Command::AllDesired { responder } => {
                let all = self
                    .devices
                    .keys()
                    .map(|id| (id.clone(), self.desired_values(id)));
                Reply::AllDesired(responder, all.collect())
            }
            // answered from the store, not from the devices
            Command::History { device, responder } => {
                let device = self.find(&device);
                return batch
                    .history_queries
                    .push(HistoryQuery { device, responder });
            }
            Command::Members { responder } => Reply::Members(responder, self.members()),
        };
        batch.replies.push(reply);
    }

    fn find(&self, device: &DeviceId) -> Result<DeviceId, RequestError> {
        self.resolve(device)
            .ok_or_else(|| not_found(device, "looking for it"))
    }

    fn readings(
        &mut self,
        batch: &mut Batch,
        id: &DeviceId,
        readings: &[Reading],
        now: i64,
    ) -> Result<(), RequestError> {
        let read = self.change(batch, id, |device, rules| {
            merge::read(device, rules, readings, now)
        });
        let outcome = read.unwrap_or_else(|| Err(not_found(id, "reporting")))?;
        let event = self.event("", now);
        self.notify_mappers(batch, id, &event, &outcome);
        Ok(())
    }

    fn desired_values(&self, id: &DeviceId) -> BTreeMap<String, String> {
        let twins = self
            .devices
            .get(id)
            .into_iter()
            .flat_map(|known| &known.device.twins);
        let wanted = twins.filter(|(_, property)| !property.deleted);
        wanted
            .filter_map(|(name, property)| {
                // an empty value is no desired value
                let value = property
                    .expected
                    .value
                    .clone()
                    .filter(|value| !value.is_empty())?;
                Some((name.clone(), value))
            })
            .collect()
    }
}

fn count(outcome: Result<(), &RequestError>) -> RequestOutcome {
    match outcome.map_err(|refused| refused.code) {
        Ok(()) => RequestOutcome::Done,
        Err(NOT_FOUND) => RequestOutcome::Unknown,
        Err(_) => RequestOutcome::Bad,
    }
}

fn not_found(id: &DeviceId, doing: &str) -> RequestError {
    RequestError::new(NOT_FOUND, format!("Device {id} not found while {doing}"))
}

/// Decodes the payload of a mapper's message.
fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, RequestError> {
    if payload.len() > MAX_PAYLOAD {
        let why = format!(
            "the message has {} bytes, and at most {MAX_PAYLOAD} are read",
            payload.len()
        );
        return Err(RequestError::new(TOO_LARGE, why));
    }
    serde_json::from_slice(payload).map_err(|error| {
        RequestError::new(BAD_REQUEST, format!("cannot parse the message: {error}"))
    })
}

pub(super) fn state_of(id: &DeviceId, device: &Device) -> DeviceState {
    DeviceState {
        name: id.name().to_owned(),
        state: device.state.clone(),
        last_online: device.last_online.clone(),
    }
}

/// Formats a time as RFC 3339 with seconds.
fn seconds(now: i64) -> String {
    Timestamp::from_millisecond(now)
        .unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
