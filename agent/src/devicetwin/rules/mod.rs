//! Validates a property's name and value: by EdgeCore's rules, and by the device's model.

use std::collections::BTreeMap;

use crds::devices::{AccessMode, DeviceModelSpec, DeviceSpec, ModelProperty, PropertyType};
use serde::{Deserialize, Serialize};
use wire::topic::DeviceId;

/// The longest name of a property, bytes.
const MAX_NAME: usize = 128;
/// The longest value, characters.
const MAX_VALUE: usize = 512;
/// The most properties of one device. Only devices without a model can come near: those accept any property.
pub(super) const MAX_PROPERTIES: usize = 1024;

/// The type of a property's values in MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Int,
    /// An alias of `Int`.
    Integer,
    Float,
    Boolean,
    #[default]
    String,
}

impl Kind {
    /// Parses the name of a type as EdgeCore or models write it; an empty one is a string.
    pub(super) fn parse(text: &str) -> Option<Self> {
        const WORDS: [(&str, Kind); 10] = [
            ("", Kind::String),
            ("string", Kind::String),
            ("int", Kind::Int),
            ("integer", Kind::Integer),
            ("float", Kind::Float),
            ("double", Kind::Float),
            ("boolean", Kind::Boolean),
            ("bytes", Kind::String),
            ("stream", Kind::String),
            ("enum", Kind::String),
        ];
        WORDS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text))
            .map(|(_, kind)| *kind)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::String => "string",
        }
    }

    fn of(kind: PropertyType) -> Self {
        match kind {
            PropertyType::Int => Self::Int,
            PropertyType::Float | PropertyType::Double => Self::Float,
            PropertyType::Boolean => Self::Boolean,
            PropertyType::String | PropertyType::Bytes | PropertyType::Stream => Self::String,
        }
    }
}

/// The model's rule of one property.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule {
    kind: Option<Kind>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    read_only: bool,
}

/// A model: its rules by property name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model(BTreeMap<String, Rule>);

impl Model {
    /// Reads the rules of a DeviceModel.
    pub(super) fn of(spec: &DeviceModelSpec) -> Self {
        let rules = spec
            .properties
            .iter()
            .filter_map(|property| Some((property.name.clone()?, rule(property))));
        Self(rules.collect())
    }
}

fn rule(property: &ModelProperty) -> Rule {
    // a bound that is no number does not count
    let bound = |text: &Option<String>| {
        text.as_ref()?
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    };
    let kind = property.kind.map(Kind::of);
    let is_number = matches!(kind, Some(Kind::Int | Kind::Integer | Kind::Float));
    Rule {
        kind,
        minimum: bound(&property.minimum).filter(|_| is_number),
        maximum: bound(&property.maximum).filter(|_| is_number),
        read_only: property.access_mode == Some(AccessMode::ReadOnly),
    }
}

/// The parts of a Device's object that are used here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    /// The model of the device.
    pub(super) model: Option<DeviceId>,
    /// The protocol of the device.
    pub(super) protocol: Option<String>,
    /// The properties by name, each with its desired value.
    pub(super) properties: Box<[(String, Option<String>)]>,
    /// The properties with `reportToCloud: false`. CloudCore leaves `false` out, so an absent field does not forbid reports.
    local: Box<[String]>,
    /// Whether the state is excluded from reports.
    pub(super) is_state_local: bool,
}

impl Spec {
    /// Reads the spec of a device in this namespace.
    pub(super) fn of(namespace: &str, spec: &DeviceSpec) -> Self {
        let model = spec
            .device_model_ref
            .as_ref()
            .map(|model| model.name.as_str());
        let properties = spec.properties.iter().filter_map(|property| {
            let wanted = property
                .desired
                .as_ref()
                .map(|desired| desired.value.clone());
            // an empty value is how the custom resource says that nothing is desired
            Some((
                property.name.clone()?,
                wanted.filter(|value| !value.is_empty()),
            ))
        });
        let local = spec
            .properties
            .iter()
            .filter(|property| property.report_to_cloud == Some(false));
        // the last one of a name counts
        let properties: BTreeMap<_, _> = properties.collect();
        Self {
            model: model.and_then(|model| DeviceId::new(namespace, model)),
            protocol: spec
                .protocol
                .as_ref()
                .and_then(|protocol| protocol.protocol_name.clone()),
            properties: properties.into_iter().collect(),
            local: local.filter_map(|property| property.name.clone()).collect(),
            is_state_local: spec
                .state_report
                .as_ref()
                .is_some_and(|state| state.report_to_cloud == Some(false)),
        }
    }

    /// Reports whether the property is excluded from reports to the cloud.
    pub(super) fn is_local(&self, name: &str) -> bool {
        self.local.iter().any(|local| local == name)
    }

    /// Reports whether the object has a property of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.properties
            .binary_search_by(|(own, _)| own.as_str().cmp(name))
            .is_ok()
    }
}

/// The rules of a device's properties.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PropertyRules<'a> {
    pub(super) spec: Option<&'a Spec>,
    pub(super) model: Option<&'a Model>,
}

impl PropertyRules<'_> {
    /// Reports whether the device's object or model names the property.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.rule(name).is_some() || self.spec.is_some_and(|spec| spec.has(name))
    }

    /// Reports whether the device's object is known and does not name the property: the cloud does not show it then.
    pub(super) fn is_undeclared(&self, name: &str) -> bool {
        self.spec.is_some_and(|spec| !spec.has(name))
    }

    fn rule(&self, name: &str) -> Option<&Rule> {
        self.model.and_then(|model| model.0.get(name))
    }

    /// Checks that the device can have a property of this name.
    pub(super) fn name(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err(format!(
                "the name of a property has 1 to {MAX_NAME} letters, digits and -_.,:/@#, and {name:.40?} has not"
            ));
        }
        let anything_goes =
            self.model.is_none() && self.spec.is_none_or(|spec| spec.properties.is_empty());
        if anything_goes || self.declares(name) {
            return Ok(());
        }
        let model = self.spec.and_then(|spec| spec.model.as_ref());
        let whose = model.map_or_else(
            || "the device".to_owned(),
            |model| format!("the device and its model {model}"),
        );
        Err(format!("{name} is no property of {whose}"))
    }

    /// Returns the type of a property in the model.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        self.rule(name).and_then(|rule| rule.kind)
    }

    /// Checks that the property can have this value.
    pub(super) fn value(&self, name: &str, value: &str, kind: Kind) -> Result<(), String> {
        let length = value.chars().count();
        if length > MAX_VALUE {
            return Err(format!(
                "the value of {name} has {length} characters, and at most {MAX_VALUE} are taken"
            ));
        }
        let number = match kind {
            Kind::Int | Kind::Integer => value.parse::<i64>().ok().map(|number| number as f64),
            Kind::Float => value
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite()),
            Kind::Boolean => return is_boolean(name, value),
            Kind::String => return self.text(name, value),
        };
        let number = number.ok_or_else(|| {
            let finite = if kind == Kind::Float {
                " a finite number"
            } else {
                ""
            };
            format!(
                "{name} is of type {}, and {value:.40?} is not{finite}",
                kind.as_str()
            )
        })?;
        let rule = self.rule(name);
        if let Some(minimum) = rule
            .and_then(|rule| rule.minimum)
            .filter(|minimum| number < *minimum)
        {
            return Err(format!(
                "{name} is at least {minimum} by the device's model, and {value} is less"
            ));
        }
        if let Some(maximum) = rule
            .and_then(|rule| rule.maximum)
            .filter(|maximum| number > *maximum)
        {
            return Err(format!(
                "{name} is at most {maximum} by the device's model, and {value} is more"
            ));
        }
        Ok(())
    }

    /// Checks that the property can have this text. A declared property may have any text without control characters.
    fn text(&self, name: &str, value: &str) -> Result<(), String> {
        if self.declares(name) {
            return match value.chars().any(char::is_control) {
                true => Err(format!(
                    "{name} is text without control characters, and {value:.40?} has some"
                )),
                false => Ok(()),
            };
        }
        match value.chars().all(is_plain) {
            true => Ok(()),
            false => Err(format!(
                "the value of {name} has letters, digits and -_.,:/@# only, and {value:.40?} has others; a property that the device or its model declares as STRING may have any"
            )),
        }
    }

    /// Checks that a value of the property can be desired.
    pub(super) fn writable(&self, name: &str) -> Result<(), String> {
        match self.rule(name) {
            Some(rule) if rule.read_only => {
                Err(format!("{name} is read-only by the device's model"))
            }
            _ => Ok(()),
        }
    }
}

fn is_boolean(name: &str, value: &str) -> Result<(), String> {
    if ["true", "false"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
    {
        return Ok(());
    }
    Err(format!(
        "{name} is of type boolean, and {value:.40?} is neither true nor false"
    ))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.,:/@#".contains(c)
}

#[cfg(test)]
mod tests;
