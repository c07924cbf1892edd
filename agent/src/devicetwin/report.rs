//! The contents of messages about a device: deltas for mappers, reports for the cloud. Pure.

use std::collections::BTreeMap;

use wire::twin::{DELETED, Twin, Twins, TypeMetadata, Version};

use super::device::{Device, TwinValue};

/// Returns the properties whose reported value differs from the desired one.
pub(super) fn delta(device: &Device) -> Option<(Twins, BTreeMap<String, String>)> {
    let differing = || {
        device
            .twins
            .iter()
            .filter_map(|(name, property)| Some((name, property, property.delta()?)))
    };
    let delta: BTreeMap<String, String> = differing()
        .map(|(name, _, value)| (name.clone(), value.to_owned()))
        .collect();
    let twins = differing()
        .map(|(name, property, _)| (name.clone(), property.on_wire()))
        .collect();
    (!delta.is_empty()).then_some((twins, delta))
}

/// Returns what the cloud has not confirmed, and what its confirmation will confirm.
pub(super) fn report(device: &Device) -> Option<(Twins, ReportedTwins)> {
    let mut told = ReportedTwins {
        uid: device.uid.clone(),
        twins: BTreeMap::new(),
    };
    let mut twins = Twins::new();
    for (name, property) in device
        .twins
        .iter()
        .filter(|(_, property)| property.is_due())
    {
        let (expected, actual) = (&property.expected, &property.actual);
        let seen = property.observed.clone().or_else(|| expected.value.clone());
        let seen = TwinValue {
            value: seen,
            ..expected.clone()
        }
        .on_wire();
        let word = if property.deleted {
            DELETED
        } else {
            property.kind.as_str()
        };
        let twin = Twin {
            expected: seen.filter(|_| expected.due),
            actual: actual.on_wire().filter(|_| actual.due),
            optional: Some(property.optional),
            metadata: Some(TypeMetadata {
                kind: word.to_owned(),
            }),
            expected_version: expected.due.then_some(expected.version),
            actual_version: actual.due.then_some(actual.version),
        };
        twins.insert(name.clone(), Some(twin));
        told.twins.insert(
            name.clone(),
            (expected.version, property.observed.clone(), actual.version),
        );
    }
    (!twins.is_empty()).then_some((twins, told))
}

/// What was reported, to compare with the device when the cloud has confirmed it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReportedTwins {
    /// The UID of the device: another one may have its name by then.
    uid: String,
    twins: BTreeMap<String, (Version, Option<String>, Version)>,
}

/// Applies the cloud's confirmation; what has changed since is reported again.
pub(super) fn confirm(device: &mut Device, told: &ReportedTwins) {
    if device.uid != told.uid {
        return;
    }
    for (name, (expected, observed, actual)) in &told.twins {
        let Some(property) = device.twins.get_mut(name) else {
            continue;
        };
        if property.expected.version == *expected && property.observed == *observed {
            property.expected.due = false;
        }
        if property.actual.version == *actual {
            property.actual.due = false;
        }
    }
}

/// The reported state: the device's UID, and the number of the state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportedState(String, u64);

/// Returns the state for a report.
pub(super) fn reported_state(device: &Device) -> ReportedState {
    ReportedState(device.uid.clone(), device.state_due)
}

/// Applies the cloud's confirmation of a state; a newer state is reported again.
pub(super) fn confirmed_state(device: &mut Device, told: &ReportedState) {
    if reported_state(device) == *told {
        device.state_due = 0;
    }
}
