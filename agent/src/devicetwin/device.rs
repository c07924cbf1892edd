//! A device as this node stores it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::{
    topic::DeviceId,
    twin::{Attribute, DELETED, Member, Twin, TypeMetadata, Value, ValueMetadata, Version},
};

use super::rules::{Kind, Spec};

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Device {
    /// The UID of its object; empty if the cloud has sent none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    /// Whether a membership of the cloud names it.
    pub(super) member: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) description: String,
    /// `online`, …; empty if no mapper has reported one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) state: String,
    /// When the device was last reached, RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) last_online: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<String, Attribute>,
    /// Boxed: most devices have few, and a map allocates nodes of eleven entries.
    pub(super) twins: BTreeMap<String, Box<Property>>,
    /// The number of the state that the cloud has not confirmed; 0 if it has.
    pub(super) state_due: u64,
    /// Whether its object excludes the state from reports to the cloud.
    #[serde(rename = "state_local", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_state_local: bool,
}

/// A property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Property {
    pub(super) kind: Kind,
    pub(super) optional: bool,
    /// Whether it was deleted; the versions are kept, and go on if it is created again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) deleted: bool,
    /// Whether the device's object excludes it from reports to the cloud.
    #[serde(rename = "local", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_local: bool,
    pub(super) expected: TwinValue,
    pub(super) actual: TwinValue,
    /// The desired value of the device's object when it was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<String>,
    /// The desired value that a mapper has acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed: Option<String>,
    /// When its value was last added to the history.
    #[serde(skip)]
    pub(super) noted: i64,
    /// Whether the history has the current value.
    #[serde(skip)]
    pub(super) is_noted: bool,
}

/// The desired or the reported value of a property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TwinValue {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    /// When it was set, milliseconds since the Unix epoch.
    pub(super) at: i64,
    pub(super) version: Version,
    /// Whether the cloud has not confirmed it.
    pub(super) due: bool,
}

impl TwinValue {
    /// Sets the value on this node.
    pub(super) fn set(&mut self, value: Option<String>, at: i64) {
        self.value = value;
        self.at = at;
        self.version.edge = self.version.edge.saturating_add(1);
        self.due = true;
    }

    /// Sets the value and version of the cloud.
    pub(super) fn adopt(&mut self, value: Option<String>, at: i64, version: Version) {
        *self = Self {
            value,
            at,
            version,
            due: false,
        };
    }

    pub(super) fn on_wire(&self) -> Option<Value> {
        let metadata = Some(ValueMetadata { timestamp: self.at });
        self.value.clone().map(|value| Value {
            value: Some(value),
            metadata,
        })
    }

    /// Creates a value of an earlier time, or of a membership.
    pub(super) fn of(value: Option<Value>, version: Option<Version>) -> Self {
        let value = value.unwrap_or_default();
        let at = value.metadata.map_or(0, |metadata| metadata.timestamp);
        Self {
            value: value.value,
            at,
            version: version.unwrap_or_default(),
            due: false,
        }
    }
}

impl Property {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            optional: true,
            ..Self::default()
        }
    }

    /// Returns the property without versions, as mappers see it; `None` if it was deleted.
    pub(super) fn on_wire(&self) -> Option<Twin> {
        (!self.deleted).then(|| Twin {
            expected: self.expected.on_wire(),
            actual: self.actual.on_wire(),
            optional: Some(self.optional),
            metadata: Some(TypeMetadata {
                kind: self.kind.as_str().to_owned(),
            }),
            ..Twin::default()
        })
    }

    /// Reports whether something has to be reported that the cloud has not confirmed.
    pub(super) fn is_due(&self) -> bool {
        !self.is_local && (self.expected.due || self.actual.due)
    }

    /// Returns the desired value if it is not reached. An empty one means that nothing is desired.
    pub(super) fn delta(&self) -> Option<&str> {
        let expected = self
            .expected
            .value
            .as_deref()
            .filter(|value| !self.deleted && !value.is_empty())?;
        (!self.is_as_wanted()).then_some(expected)
    }

    /// Reports whether the reported value equals the desired one; numbers are compared as numbers.
    pub(super) fn is_as_wanted(&self) -> bool {
        let (Some(wanted), Some(found)) = (&self.expected.value, &self.actual.value) else {
            return false;
        };
        let number = |text: &str| text.parse::<f64>().ok();
        wanted == found
            || match self.kind {
                Kind::Int | Kind::Integer | Kind::Float => {
                    number(wanted).is_some_and(|wanted| number(found) == Some(wanted))
                }
                Kind::Boolean => wanted.eq_ignore_ascii_case(found),
                Kind::String => false,
            }
    }
}

impl Device {
    /// Reports whether something has to be reported that the cloud has not confirmed.
    pub(super) fn is_due(&self) -> bool {
        self.is_state_due() || self.twins.values().any(|property| property.is_due())
    }

    /// Reports whether the state has to be reported.
    pub(super) fn is_state_due(&self) -> bool {
        self.state_due != 0 && !self.is_state_local
    }

    /// Marks the properties that the object excludes from reports.
    pub(super) fn keep_local(&mut self, spec: &Spec) {
        for (name, property) in &mut self.twins {
            property.is_local = spec.is_local(name);
        }
        self.is_state_local = spec.is_state_local;
    }

    /// Returns the property of this name, which is created if it does not exist.
    pub(super) fn property(&mut self, name: &str, kind: Kind) -> &mut Property {
        self.twins
            .entry(name.to_owned())
            .or_insert_with(|| Property::new(kind).into())
    }

    /// Creates a device from a membership.
    pub(super) fn of_member(member: &Member) -> Self {
        let attributes = member.attributes.iter();
        let twins = member.twin.iter().filter_map(|(name, twin)| {
            let twin = twin.clone()?;
            let word = twin
                .metadata
                .as_ref()
                .map_or("", |metadata| metadata.kind.as_str());
            if word == DELETED {
                return None;
            }
            let kind = Kind::parse(word).unwrap_or_default();
            let property = Property {
                optional: twin.optional.unwrap_or(true),
                expected: TwinValue::of(twin.expected, twin.expected_version),
                actual: TwinValue::of(twin.actual, twin.actual_version),
                ..Property::new(kind)
            };
            Some((name.clone(), property.into()))
        });
        Self {
            member: true,
            description: member.description.clone(),
            state: member.state.clone(),
            last_online: member.last_online.clone(),
            attributes: attributes
                .filter_map(|(name, attribute)| Some((name.clone(), attribute.clone()?)))
                .collect(),
            twins: twins.collect(),
            ..Self::default()
        }
    }

    /// Returns the device as the lists of memberships show it.
    pub(super) fn on_wire(&self, id: &DeviceId) -> Member {
        Member {
            description: self.description.clone(),
            state: self.state.clone(),
            ..Member::new(id.clone())
        }
    }
}
