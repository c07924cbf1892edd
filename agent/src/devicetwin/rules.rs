//! What a property's name and value may be: EdgeCore's rules, and what the device's model says.

use std::collections::BTreeMap;

use crds::devices::{AccessMode, DeviceModelSpec, DeviceSpec, ModelProperty, PropertyType};
use serde::{Deserialize, Serialize};
use wire::topic::DeviceId;

/// The longest name of a property.
const MAX_NAME: usize = 128;
/// The longest value.
const MAX_VALUE: usize = 512;
/// Properties of one device. Only devices without a model can come near: anything may be reported of those.
pub(super) const MAX_PROPERTIES: usize = 1024;

/// The type of a property's values, as MQTT has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Int,
    /// The same as `Int` under another name.
    Integer,
    Float,
    Boolean,
    #[default]
    String,
}

impl Kind {
    /// Reads the word, as EdgeCore writes it or as models do; nothing is a string.
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
        WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, kind)| *kind)
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

/// What a model says of one property.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule {
    kind: Option<Kind>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    read_only: bool,
}

/// A model: its properties by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model(BTreeMap<String, Rule>);

impl Model {
    /// Of a DeviceModel.
    pub(super) fn of(spec: &DeviceModelSpec) -> Self {
        let rules =
            spec.properties.iter().filter_map(|property| Some((property.name.clone()?, rule(property))));
        Self(rules.collect())
    }
}

fn rule(property: &ModelProperty) -> Rule {
    // a bound that is no number bounds nothing
    let bound =
        |text: &Option<String>| text.as_ref()?.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let kind = property.kind.map(Kind::of);
    let is_number = matches!(kind, Some(Kind::Int | Kind::Integer | Kind::Float));
    Rule {
        kind,
        minimum: bound(&property.minimum).filter(|_| is_number),
        maximum: bound(&property.maximum).filter(|_| is_number),
        read_only: property.access_mode == Some(AccessMode::ReadOnly),
    }
}

/// What matters here of a Device's object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    /// Its model.
    pub(super) model: Option<DeviceId>,
    /// Its protocol.
    pub(super) protocol: Option<String>,
    /// Its properties by name, each with the value that is wanted.
    pub(super) properties: Box<[(String, Option<String>)]>,
    /// Those of them that say `reportToCloud: false`. CloudCore leaves `false` out, and so nothing is no word against a report.
    local: Box<[String]>,
    /// Whether its state says so.
    pub(super) is_state_local: bool,
}

impl Spec {
    /// Of a device in this namespace.
    pub(super) fn of(namespace: &str, spec: &DeviceSpec) -> Self {
        let model = spec.device_model_ref.as_ref().map(|model| model.name.as_str());
        let properties = spec.properties.iter().filter_map(|property| {
            let wanted = property.desired.as_ref().map(|desired| desired.value.clone());
            // an empty value is how the custom resource says that nothing is wanted
            Some((property.name.clone()?, wanted.filter(|value| !value.is_empty())))
        });
        let local = spec.properties.iter().filter(|property| property.report_to_cloud == Some(false));
        // the last of a name counts
        let properties: BTreeMap<_, _> = properties.collect();
        Self {
            model: model.and_then(|model| DeviceId::new(namespace, model)),
            protocol: spec.protocol.as_ref().and_then(|protocol| protocol.protocol_name.clone()),
            properties: properties.into_iter().collect(),
            local: local.filter_map(|property| property.name.clone()).collect(),
            is_state_local: spec
                .state_report
                .as_ref()
                .is_some_and(|state| state.report_to_cloud == Some(false)),
        }
    }

    /// Whether the property is kept from the cloud.
    pub(super) fn is_local(&self, name: &str) -> bool {
        self.local.iter().any(|local| local == name)
    }

    /// Whether it has a property of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.properties.binary_search_by(|(own, _)| own.as_str().cmp(name)).is_ok()
    }
}

/// What is known of a device's properties.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules<'a> {
    pub(super) spec: Option<&'a Spec>,
    pub(super) model: Option<&'a Model>,
}

impl Rules<'_> {
    /// Whether the device's object or model names the property.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.rule(name).is_some() || self.spec.is_some_and(|spec| spec.has(name))
    }

    /// Whether the device's object is known and does not name the property: the cloud shows nothing of it.
    pub(super) fn is_strange(&self, name: &str) -> bool {
        self.spec.is_some_and(|spec| !spec.has(name))
    }

    fn rule(&self, name: &str) -> Option<&Rule> {
        self.model.and_then(|model| model.0.get(name))
    }

    /// Whether the device can have such a property.
    pub(super) fn name(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err(format!(
                "the name of a property has 1 to {MAX_NAME} letters, digits and -_.,:/@#, and {name:.40?} has not"
            ));
        }
        let anything_goes = self.model.is_none() && self.spec.is_none_or(|spec| spec.properties.is_empty());
        if anything_goes || self.declares(name) {
            return Ok(());
        }
        let model = self.spec.and_then(|spec| spec.model.as_ref());
        let whose = model
            .map_or_else(|| "the device".to_owned(), |model| format!("the device and its model {model}"));
        Err(format!("{name} is no property of {whose}"))
    }

    /// The type of a property: the model's word before any other.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        self.rule(name).and_then(|rule| rule.kind)
    }

    /// Whether the property can have this value.
    pub(super) fn value(&self, name: &str, value: &str, kind: Kind) -> Result<(), String> {
        let length = value.chars().count();
        if length > MAX_VALUE {
            return Err(format!(
                "the value of {name} has {length} characters, and at most {MAX_VALUE} are taken"
            ));
        }
        let number = match kind {
            Kind::Int | Kind::Integer => value.parse::<i64>().ok().map(|number| number as f64),
            Kind::Float => value.parse::<f64>().ok().filter(|number| number.is_finite()),
            Kind::Boolean => return is_boolean(name, value),
            Kind::String => return self.text(name, value),
        };
        let number = number.ok_or_else(|| {
            let finite = if kind == Kind::Float { " a finite number" } else { "" };
            format!("{name} is of type {}, and {value:.40?} is not{finite}", kind.as_str())
        })?;
        let rule = self.rule(name);
        if let Some(minimum) = rule.and_then(|rule| rule.minimum).filter(|minimum| number < *minimum) {
            return Err(format!("{name} is at least {minimum} by the device's model, and {value} is less"));
        }
        if let Some(maximum) = rule.and_then(|rule| rule.maximum).filter(|maximum| number > *maximum) {
            return Err(format!("{name} is at most {maximum} by the device's model, and {value} is more"));
        }
        Ok(())
    }

    /// Whether the property can have this text. One that is declared may have any.
    fn text(&self, name: &str, value: &str) -> Result<(), String> {
        if self.declares(name) {
            return match value.chars().any(char::is_control) {
                true => Err(format!("{name} is text without control characters, and {value:.40?} has some")),
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

    /// Whether a value of the property can be wanted.
    pub(super) fn writable(&self, name: &str) -> Result<(), String> {
        match self.rule(name) {
            Some(rule) if rule.read_only => Err(format!("{name} is read-only by the device's model")),
            _ => Ok(()),
        }
    }
}

fn is_boolean(name: &str, value: &str) -> Result<(), String> {
    if ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    Err(format!("{name} is of type boolean, and {value:.40?} is neither true nor false"))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.,:/@#".contains(c)
}

#[cfg(test)]
mod tests;
