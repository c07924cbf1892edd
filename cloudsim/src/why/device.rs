//! The steps of a device: its model, its node, its mapper's reports, its desired values. Pure.

use crds::{
    devices::{Device, DeviceModel, DeviceStatus, DeviceStatusStatus},
    reliablesyncs::ObjectSync,
};
use jiff::Timestamp;
use kube::ResourceExt;

use super::{
    age,
    node::NodeFacts,
    step::{Chain, Finding, missing},
};

/// What is known of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceFacts {
    /// The device.
    pub(super) device: Device,
    /// Its model.
    pub(super) model: Option<DeviceModel>,
    /// Its node; `None` if it names none.
    pub(super) node: Option<NodeFacts>,
    /// The revision that the node has acknowledged.
    pub(super) sync: Option<ObjectSync>,
    /// Its reported state.
    pub(super) status: Option<DeviceStatus>,
}

impl DeviceFacts {
    /// Returns what was reported of the device.
    fn report(&self) -> DeviceStatusStatus {
        let status = self.status.as_ref();
        status.and_then(|it| it.status.clone()).unwrap_or_default()
    }

    fn protocol(&self) -> String {
        let protocol = self.device.spec.protocol.clone().unwrap_or_default();
        protocol.protocol_name.unwrap_or_default()
    }

    fn model(&self) -> Finding {
        let reference = self.device.spec.device_model_ref.clone();
        let name = reference.map(|model| model.name).unwrap_or_default();
        if name.is_empty() {
            return missing(
                "it names no model",
                "set spec.deviceModelRef.name to a DeviceModel of the same namespace",
            );
        }
        let Some(model) = &self.model else {
            return missing(
                format!("there is no DeviceModel {name} in its namespace"),
                "create the model, or correct spec.deviceModelRef.name",
            );
        };
        let known: Vec<_> = model
            .spec
            .properties
            .iter()
            .filter_map(|it| it.name.as_deref())
            .collect();
        let mut names = self
            .device
            .spec
            .properties
            .iter()
            .filter_map(|it| it.name.as_deref());
        match names.find(|property| !known.contains(property)) {
            Some(property) => missing(
                format!("its property {property} is not in the model {name}"),
                format!("add it to the model, which has {}", known.join(", ")),
            ),
            None => Ok(name),
        }
    }

    fn node(&self, now: Timestamp) -> Finding {
        let Some(node) = &self.node else {
            return missing(
                "it names no node",
                "set spec.nodeName to the node that the device is attached to",
            );
        };
        node.registration(now)?;
        let text = node.connection(now)?;
        Ok(format!("{} is connected {text}", node.name))
    }

    fn delivery(&self) -> Finding {
        let status = self.sync.as_ref().and_then(|sync| sync.status.clone());
        let revision = status.and_then(|status| status.object_resource_version);
        match revision.filter(|revision| !revision.is_empty() && revision != "0") {
            Some(revision) => Ok(format!("the node has acknowledged revision {revision}")),
            None => missing(
                "the node has not acknowledged it",
                "wait for some seconds; if it stays, look for failures of this node in the log of the cloud",
            ),
        }
    }

    fn mapper(&self, now: Timestamp) -> Finding {
        let protocol = self.protocol();
        let status = self.report();
        let has_reported = status.twins.iter().any(|twin| twin.reported.is_some());
        let online = status.last_online_time.clone().unwrap_or_default();
        let since = online
            .parse::<Timestamp>()
            .map_or(online.clone(), |time| format!("{} ago", age(time, now)));
        match status.state.as_deref().filter(|state| !state.is_empty()) {
            Some(state) if ["online", "ok"].contains(&state.to_lowercase().as_str()) => {
                Ok(format!("the mapper reports {state}, last {since}"))
            }
            Some(state) => missing(
                format!("the mapper reports that the device is {state}; it was online {since}"),
                "check the device and its connection to the node",
            ),
            None if has_reported => Ok("values were reported, no state".to_owned()),
            None => missing(
                "no value and no state was ever reported",
                format!(
                    "start the mapper for protocol {protocol:?} on the node; `edge-agent status` there lists registered mappers"
                ),
            ),
        }
    }

    fn desired_values(&self) -> Finding {
        let status = self.report();
        for property in &self.device.spec.properties {
            let Some(desired) = property.desired.as_ref().filter(|it| !it.value.is_empty()) else {
                continue;
            };
            let name = property.name.as_deref().unwrap_or_default();
            let twin = status
                .twins
                .iter()
                .find(|twin| twin.property_name.as_deref() == Some(name));
            let reported = twin.and_then(|twin| twin.reported.as_ref());
            match reported {
                Some(reported) if reported.value == desired.value => {}
                Some(reported) => {
                    return missing(
                        format!(
                            "{name} is desired as {}, and {} is reported",
                            desired.value, reported.value
                        ),
                        "wait for the next report; then check that the mapper writes the property and that the model allows it (ReadWrite)",
                    );
                }
                None => {
                    return missing(
                        format!(
                            "{name} is desired as {}, and no value is reported",
                            desired.value
                        ),
                        "check that the property has reportToCloud, and that the mapper reads it",
                    );
                }
            }
        }
        Ok("all desired values are reported".to_owned())
    }
}

/// Returns the steps of a device.
pub(super) fn chain(facts: &DeviceFacts, now: Timestamp) -> Chain {
    let created = facts.device.creation_timestamp();
    let created = created.map_or_else(String::new, |time| format!("{} ago", age(time.0, now)));
    let mut chain = Chain::default();
    chain.step("created", || Ok(created));
    chain.step("model", || facts.model());
    chain.step("node", || facts.node(now));
    chain.step("delivered", || facts.delivery());
    chain.step("mapper", || facts.mapper(now));
    chain.step("desired", || facts.desired_values());
    chain
}
