//! Merges changes into twins, and collects the messages about them. Pure.
//!
//! Each property has two sides, the desired and the reported value, and each side has two counters: the changes by the cloud,
//! and the changes by this node. A change here increments the edge's counter. A twin of the cloud is adopted if neither of its
//! counters is behind; otherwise this node's state is sent back, which the cloud has to adopt: of two concurrent changes the
//! edge's wins. A device's object has no counters: a desired value that has changed in it since it was last read replaces the
//! one here.

use std::collections::BTreeMap;

use wire::twin::{BAD_REQUEST, Change, DELETED, Twin, Twins, Version};

use super::{
    device::{Device, Property, TwinValue},
    handle::{Reading, RequestError},
    rules::{Kind, MAX_PROPERTIES, PropertyRules, Spec},
};

/// The results of a change of twins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// The changed parts, for the answer.
    pub(super) result: Twins,
    /// The changed properties before and after.
    pub(super) document: BTreeMap<String, Change>,
    /// Whether a desired value has changed.
    pub(super) desired: bool,
    /// New properties that the device's object does not name: the cloud does not show them.
    pub(super) undeclared: Vec<String>,
}

impl Outcome {
    fn record_change(&mut self, name: &str, last: Option<Twin>, property: &Property) {
        self.document.insert(
            name.to_owned(),
            Change {
                last,
                current: property.on_wire(),
            },
        );
    }
}

fn refusal(why: String) -> RequestError {
    RequestError::new(BAD_REQUEST, why)
}

/// The validated change of one property.
enum PropertyChange<'a> {
    Delete,
    Set {
        kind: Kind,
        optional: Option<bool>,
        expected: Option<&'a str>,
        actual: Option<&'a str>,
    },
}

/// Applies an update of a mapper, all of it or nothing.
pub(super) fn update(
    device: &mut Device,
    rules: PropertyRules<'_>,
    twins: &Twins,
    now: i64,
) -> Result<Outcome, RequestError> {
    let mut changes = Vec::with_capacity(twins.len());
    for (name, twin) in twins {
        changes.push((
            name,
            validate(device, rules, name, twin.as_ref()).map_err(refusal)?,
        ));
    }
    let new = changes
        .iter()
        .filter(|(name, _)| !device.twins.contains_key(*name))
        .count();
    if device.twins.len() + new > MAX_PROPERTIES {
        return Err(refusal(format!(
            "a device has at most {MAX_PROPERTIES} properties"
        )));
    }
    let mut outcome = Outcome::default();
    for (name, changes) in changes {
        match changes {
            PropertyChange::Delete => delete(device, name, now, &mut outcome),
            PropertyChange::Set {
                kind,
                optional,
                expected,
                actual,
            } => {
                let is_new = device
                    .twins
                    .get(name)
                    .is_none_or(|property| property.deleted);
                outcome
                    .undeclared
                    .extend(Some(name.clone()).filter(|name| is_new && rules.is_undeclared(name)));
                let property = device.property(name, kind);
                let last = property.on_wire().filter(|_| !is_new);
                property.optional |= property.deleted;
                (property.deleted, property.kind) = (false, kind);
                // a required property cannot be made optional again
                property.optional &= optional.unwrap_or(true);
                if let Some(value) = expected {
                    property.expected.set(Some(value.to_owned()), now);
                    // no mapper has acted on this value yet
                    property.observed = None;
                    outcome.desired = true;
                }
                if let Some(value) = actual {
                    property.actual.set(Some(value.to_owned()), now);
                    mark_observed(property);
                }
                outcome.record_change(name, last, property);
                let twin = Twin {
                    expected: expected.and_then(|_| property.expected.on_wire()),
                    actual: actual.and_then(|_| property.actual.on_wire()),
                    ..property.on_wire().unwrap_or_default()
                };
                outcome.result.insert(name.clone(), Some(twin));
            }
        }
    }
    Ok(outcome)
}

fn validate<'a>(
    device: &Device,
    rules: PropertyRules<'_>,
    name: &str,
    twin: Option<&'a Twin>,
) -> Result<PropertyChange<'a>, String> {
    rules.name(name)?;
    let found = device.twins.get(name).filter(|property| !property.deleted);
    let word = twin
        .and_then(|twin| twin.metadata.as_ref())
        .map(|metadata| metadata.kind.as_str());
    let Some(twin) = twin.filter(|_| word != Some(DELETED)) else {
        return match found {
            _ if rules.declares(name) => Err(format!(
                "{name} is declared by the device and cannot be deleted"
            )),
            None => Err(format!("{name} cannot be deleted: no such property")),
            Some(property) if !property.optional => {
                Err(format!("{name} cannot be deleted: it is not optional"))
            }
            Some(_) => Ok(PropertyChange::Delete),
        };
    };
    let kind = match rules.kind(name).or(found.map(|property| property.kind)) {
        // mappers send all kinds of type names; for a known property they are ignored
        Some(kind) => kind,
        None => match word.map(|word| Kind::parse(word).ok_or(word)).transpose() {
            Ok(told) => told.unwrap_or_default(),
            Err(_) if rules.declares(name) => Kind::default(),
            Err(word) => {
                return Err(format!(
                    "{word:.40?} is no type of {name}; write int, float, boolean or string, or remove metadata"
                ));
            }
        },
    };
    let value = |side: &'a Option<wire::twin::Value>, which: &str| match side {
        None => Ok(None),
        Some(side) => {
            let value = side
                .value
                .as_deref()
                .ok_or_else(|| format!("the {which} of {name} has no value"))?;
            rules.value(name, value, kind).map(|()| Some(value))
        }
    };
    let expected = value(&twin.expected, "expected")?;
    if expected.is_some() {
        rules.writable(name)?;
    }
    Ok(PropertyChange::Set {
        kind,
        optional: twin.optional,
        expected,
        actual: value(&twin.actual, "actual")?,
    })
}

fn delete(device: &mut Device, name: &str, now: i64, outcome: &mut Outcome) {
    let Some(property) = device.twins.get_mut(name) else {
        return;
    };
    let last = property.on_wire();
    outcome.desired |= property.expected.value.is_some();
    property.deleted = true;
    (property.wanted, property.observed) = (None, None);
    property.expected.set(None, now);
    property.actual.set(None, now);
    outcome.record_change(name, last, property);
    outcome.result.insert(name.to_owned(), None);
}

/// Applies the readings of a mapper, all of them or none.
pub(super) fn read(
    device: &mut Device,
    rules: PropertyRules<'_>,
    readings: &[Reading],
    now: i64,
) -> Result<Outcome, RequestError> {
    for Reading {
        property,
        value,
        observed,
        ..
    } in readings
    {
        rules.name(property).map_err(refusal)?;
        let found = device
            .twins
            .get(property)
            .filter(|property| !property.deleted);
        let kind = rules
            .kind(property)
            .or(found.map(|property| property.kind))
            .unwrap_or_default();
        for value in value
            .iter()
            .chain(observed.iter().filter(|value| !value.is_empty()))
        {
            rules.value(property, value, kind).map_err(refusal)?;
        }
    }
    let new = readings
        .iter()
        .filter(|reading| !device.twins.contains_key(&reading.property))
        .count();
    if device.twins.len() + new > MAX_PROPERTIES {
        return Err(refusal(format!(
            "a device has at most {MAX_PROPERTIES} properties"
        )));
    }
    let mut outcome = Outcome::default();
    for Reading {
        property: name,
        value,
        at,
        observed,
    } in readings
    {
        let kind = rules.kind(name);
        let is_new = device
            .twins
            .get(name)
            .is_none_or(|property| property.deleted);
        outcome
            .undeclared
            .extend(Some(name.clone()).filter(|name| is_new && rules.is_undeclared(name)));
        let property = device.property(name, kind.unwrap_or_default());
        let last = property.on_wire().filter(|_| !is_new);
        property.deleted = false;
        property.kind = kind.unwrap_or(property.kind);
        if let Some(value) = value {
            property.actual.set(Some(value.clone()), at.unwrap_or(now));
            outcome.record_change(name, last, property);
        }
        match observed.clone().filter(|value| !value.is_empty()) {
            None => mark_observed(property),
            observed if property.observed != observed => {
                property.observed = observed;
                property.expected.due = true;
            }
            _ => {}
        }
    }
    Ok(outcome)
}

/// Marks the desired value as observed if the reported value equals it, whether or not the mapper says so.
fn mark_observed(property: &mut Property) {
    if property.is_as_wanted() && property.observed != property.expected.value {
        property.observed.clone_from(&property.expected.value);
        property.expected.due = true;
    }
}

/// Applies a twin of the cloud that has versions.
pub(super) fn sync(
    device: &mut Device,
    rules: PropertyRules<'_>,
    twins: &Twins,
    now: i64,
) -> Outcome {
    let mut outcome = Outcome::default();
    for (name, twin) in twins {
        let Some(twin) = twin else { continue };
        let word = twin
            .metadata
            .as_ref()
            .map_or("", |metadata| metadata.kind.as_str());
        let is_deleted = word == DELETED;
        if rules.name(name).is_err()
            || !device.twins.contains_key(name)
                && (is_deleted || device.twins.len() >= MAX_PROPERTIES)
        {
            continue;
        }
        let told = Kind::parse(word).filter(|_| twin.metadata.is_some());
        let kind = rules.kind(name).or(told);
        let is_new = !device.twins.contains_key(name);
        let property = device.property(name, kind.unwrap_or_default());
        let before = property.clone();
        let fits = |value: &Option<wire::twin::Value>| {
            let value = value.as_ref().and_then(|value| value.value.as_deref());
            value.is_none_or(|value| {
                rules
                    .value(name, value, kind.unwrap_or(before.kind))
                    .is_ok()
            })
        };
        let sides = [
            (
                &mut property.expected,
                &twin.expected,
                twin.expected_version,
            ),
            (&mut property.actual, &twin.actual, twin.actual_version),
        ];
        let mut adopted = false;
        for (side, value, version) in sides {
            adopted |= sync_value(side, value, is_deleted, fits(value), version, now);
        }
        if adopted {
            property.deleted = is_deleted;
            property.kind = kind.unwrap_or(property.kind);
            if property.expected.value != before.expected.value {
                property.observed = None;
                outcome.desired = true;
            }
            outcome.record_change(name, before.on_wire().filter(|_| !is_new), property);
        } else if is_new {
            device.twins.remove(name);
        }
    }
    outcome
}

/// Applies one side of the cloud's twin. Returns false if this node's own state has to be sent back.
fn sync_value(
    side: &mut TwinValue,
    value: &Option<wire::twin::Value>,
    is_deleted: bool,
    fits: bool,
    version: Option<Version>,
    now: i64,
) -> bool {
    let Some(version) = version.filter(|_| value.is_some() || is_deleted) else {
        return false;
    };
    // a repetition
    if version == side.version && side.value.is_some() {
        return false;
    }
    if version.cloud < side.version.cloud || version.edge < side.version.edge || !fits {
        side.due = true;
        return false;
    }
    let value = value
        .clone()
        .filter(|_| !is_deleted)
        .and_then(|value| value.value);
    side.adopt(value, now, version);
    true
}

/// Applies the desired values of the device's object that have changed since it was last read. Also returns which of them are
/// invalid.
pub(super) fn apply_spec(
    device: &mut Device,
    rules: PropertyRules<'_>,
    spec: &Spec,
    now: i64,
) -> (Outcome, Vec<String>) {
    let (mut outcome, mut faults) = (Outcome::default(), Vec::new());
    // the model may have come after the values
    for (name, property) in &mut device.twins {
        property.kind = rules.kind(name).unwrap_or(property.kind);
    }
    let gone: Vec<String> = device
        .twins
        .iter()
        .filter(|(name, property)| property.wanted.is_some() && !spec.has(name))
        .map(|(name, _)| name.clone())
        .collect();
    let wishes = spec
        .properties
        .iter()
        .map(|(name, wish)| (name, wish.as_ref()));
    for (name, wish) in wishes.chain(gone.iter().map(|name| (name, None))) {
        let found = device.twins.get(name);
        if found.and_then(|property| property.wanted.as_ref()) == wish {
            continue;
        }
        let kind = rules
            .kind(name)
            .or(found.map(|property| property.kind))
            .unwrap_or_default();
        if let Some(wish) = wish
            && let Err(why) = rules
                .value(name, wish, kind)
                .and_then(|()| rules.writable(name))
        {
            faults.push(why);
            continue;
        }
        let property = device.property(name, kind);
        let last = property
            .on_wire()
            .filter(|twin| twin.expected.is_some() || twin.actual.is_some());
        (property.deleted, property.kind) = (false, kind);
        let before = property.wanted.take();
        property.wanted = wish.cloned();
        // a value that was set at the edge meanwhile stays when the object no longer has one
        if wish.is_none() && property.expected.value != before {
            continue;
        }
        let version = property.expected.version;
        let version = Version {
            cloud: version.cloud.saturating_add(1),
            edge: version.edge,
        };
        property.expected.adopt(wish.cloned(), now, version);
        property.observed = None;
        outcome.desired = true;
        outcome.record_change(name, last, property);
    }
    (outcome, faults)
}

#[cfg(test)]
mod tests;
