//! What is told of a device: to mappers what is wanted and is not so, to the cloud what it does not know yet. Pure.

use std::collections::BTreeMap;

use wire::twin::{DELETED, Twin, Twins, TypeMetadata, Version};

use super::device::{Device, Side};

/// What is wanted and is not so.
pub(super) fn delta(device: &Device) -> Option<(Twins, BTreeMap<String, String>)> {
    let differing =
        || device.twins.iter().filter_map(|(name, property)| Some((name, property, property.delta()?)));
    let delta: BTreeMap<String, String> =
        differing().map(|(name, _, value)| (name.clone(), value.to_owned())).collect();
    let twins = differing().map(|(name, property, _)| (name.clone(), property.on_wire())).collect();
    (!delta.is_empty()).then_some((twins, delta))
}

/// What the cloud is told: what it has not confirmed. Also the proof by which its confirmation counts.
pub(super) fn report(device: &Device) -> Option<(Twins, ReportedTwins)> {
    let mut told = ReportedTwins { uid: device.uid.clone(), twins: BTreeMap::new() };
    let mut twins = Twins::new();
    for (name, property) in device.twins.iter().filter(|(_, property)| property.is_due()) {
        let (expected, actual) = (&property.expected, &property.actual);
        let seen = property.observed.clone().or_else(|| expected.value.clone());
        let seen = Side { value: seen, ..expected.clone() }.on_wire();
        let word = if property.deleted { DELETED } else { property.kind.as_str() };
        let twin = Twin {
            expected: seen.filter(|_| expected.due),
            actual: actual.on_wire().filter(|_| actual.due),
            optional: Some(property.optional),
            metadata: Some(TypeMetadata { kind: word.to_owned() }),
            expected_version: expected.due.then_some(expected.version),
            actual_version: actual.due.then_some(actual.version),
        };
        twins.insert(name.clone(), Some(twin));
        told.twins.insert(name.clone(), (expected.version, property.observed.clone(), actual.version));
    }
    (!twins.is_empty()).then_some((twins, told))
}

/// What was told, to compare with what is when the cloud has confirmed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReportedTwins {
    /// Of the device: another one may have come under its name since.
    uid: String,
    twins: BTreeMap<String, (Version, Option<String>, Version)>,
}

/// The cloud has confirmed what it was told; what has changed since is told again.
pub(super) fn confirmed(device: &mut Device, told: &ReportedTwins) {
    if device.uid != told.uid {
        return;
    }
    for (name, (expected, observed, actual)) in &told.twins {
        let Some(property) = device.twins.get_mut(name) else { continue };
        if property.expected.version == *expected && property.observed == *observed {
            property.expected.due = false;
        }
        if property.actual.version == *actual {
            property.actual.due = false;
        }
    }
}

/// The state that was told: the device's UID, and the number of the state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportedState(String, u64);

/// The state that the cloud is told.
pub(super) fn reported_state(device: &Device) -> ReportedState {
    ReportedState(device.uid.clone(), device.state_due)
}

/// The cloud has confirmed a state; one that has come since is told again.
pub(super) fn confirmed_state(device: &mut Device, told: &ReportedState) {
    if reported_state(device) == *told {
        device.state_due = 0;
    }
}
