//! Validates devices against their models, and models. It does no IO.
//!
//! The texts are for authors of manifests: each names the field, the value, and a valid alternative.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AccessMode, DeviceModelSpec, DeviceSpec, ModelProperty, PropertyType};

/// An invalid field.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The field's path, such as `spec.properties[0].desired.value`.
    pub path: String,
    /// The field's value.
    pub value: Value,
    /// The reason.
    pub why: String,
}

/// Returns the faults of a device of this model. `None` means that the model does not exist yet, or that the device has none.
pub fn device(spec: &DeviceSpec, model: Option<&DeviceModelSpec>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    for (index, property) in spec.properties.iter().enumerate() {
        let path = format!("spec.properties[{index}]");
        let name = property.name.as_deref().unwrap_or_default();
        if let Some(why) = name_fault(name, !names.insert(name)) {
            faults.push(fault(format!("{path}.name"), name, why));
            continue;
        }
        let Some(model) = model else { continue };
        let Some(of_model) = find(model, name) else {
            let why = format!(
                "the model has no such property; it has {}",
                list_check(model)
            );
            faults.push(fault(format!("{path}.name"), name, why));
            continue;
        };
        let desired = property
            .desired
            .as_ref()
            .map(|desired| desired.value.as_str());
        // Go programs write an empty value for none
        if let Some(desired) = desired.filter(|desired| !desired.is_empty()) {
            let path = format!("{path}.desired.value");
            if of_model.access_mode == Some(AccessMode::ReadOnly) {
                faults.push(fault(
                    path,
                    desired,
                    "the property is ReadOnly; remove desired",
                ));
            } else if let Err(why) = of_model.check(desired) {
                faults.push(fault(path, desired, why));
            }
        }
    }
    for (index, method) in spec.methods.iter().enumerate() {
        for (number, name) in method.property_names.iter().enumerate() {
            if !names.contains(name.as_str()) {
                let path = format!("spec.methods[{index}].propertyNames[{number}]");
                faults.push(fault(
                    path,
                    name,
                    "the device has no such property in spec.properties",
                ));
            }
        }
    }
    faults
}

/// Returns the faults of a model.
pub fn model(spec: &DeviceModelSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    for (index, property) in spec.properties.iter().enumerate() {
        let path = format!("spec.properties[{index}]");
        let name = property.name.as_deref().unwrap_or_default();
        if let Some(why) = name_fault(name, !names.insert(name)) {
            faults.push(fault(format!("{path}.name"), name, why));
        }
        if !property.is_number() {
            continue;
        }
        let limits = [
            ("minimum", &property.minimum),
            ("maximum", &property.maximum),
        ];
        for (what, limit) in limits {
            let limit = limit.as_deref().unwrap_or_default();
            if !limit.is_empty() && number(limit).is_none() {
                faults.push(fault(
                    format!("{path}.{what}"),
                    limit,
                    "use a number, as text",
                ));
            }
        }
        if let (Some(least), Some(greatest)) = (property.least(), property.greatest())
            && least > greatest
        {
            let why = format!("it is less than the minimum, {least}");
            faults.push(fault(format!("{path}.maximum"), &greatest.to_string(), why));
        }
    }
    faults
}

impl ModelProperty {
    /// Checks that a value is of the property's type and within its limits.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let is_sound = match self.kind {
            Some(PropertyType::Int) => value.parse::<i64>().is_ok(),
            Some(PropertyType::Float | PropertyType::Double) => number(value).is_some(),
            Some(PropertyType::Boolean) => matches!(value, "true" | "false"),
            Some(PropertyType::String | PropertyType::Bytes | PropertyType::Stream) | None => true,
        };
        if !is_sound {
            let kind = match self.kind {
                Some(PropertyType::Int) => "a whole number (INT)",
                Some(PropertyType::Boolean) => "true or false (BOOLEAN)",
                _ => "a number (FLOAT, DOUBLE)",
            };
            return Err(format!("the property requires {kind}"));
        }
        let Some(number) = number(value).filter(|_| self.is_number()) else {
            return Ok(());
        };
        let unit = self
            .unit
            .as_deref()
            .map(|unit| format!(" {unit}"))
            .unwrap_or_default();
        match (self.least(), self.greatest()) {
            (Some(least), _) if number < least => {
                Err(format!("it is less than the minimum, {least}{unit}"))
            }
            (_, Some(most)) if number > most => {
                Err(format!("it is greater than the maximum, {most}{unit}"))
            }
            _ => Ok(()),
        }
    }

    fn is_number(&self) -> bool {
        matches!(
            self.kind,
            Some(PropertyType::Int | PropertyType::Float | PropertyType::Double)
        )
    }

    fn least(&self) -> Option<f64> {
        number(self.minimum.as_deref()?)
    }

    fn greatest(&self) -> Option<f64> {
        number(self.maximum.as_deref()?)
    }
}

fn name_fault(name: &str, is_repeated: bool) -> Option<&'static str> {
    if name.is_empty() {
        Some("a property needs a name")
    } else if is_repeated {
        Some("an earlier property has the same name")
    } else {
        None
    }
}

fn find<'a>(model: &'a DeviceModelSpec, name: &str) -> Option<&'a ModelProperty> {
    model
        .properties
        .iter()
        .find(|property| property.name.as_deref() == Some(name))
}

fn list_check(model: &DeviceModelSpec) -> String {
    let names: Vec<_> = model
        .properties
        .iter()
        .filter_map(|property| property.name.as_deref())
        .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn fault(path: String, value: &str, why: impl Into<String>) -> Fault {
    Fault {
        path,
        value: value.into(),
        why: why.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thermometer() -> DeviceModelSpec {
        serde_json::from_value(json!({"properties": [
            {"name": "temperature", "type": "FLOAT", "accessMode": "ReadWrite", "minimum": "-20", "maximum": "60.5",
                "unit": "celsius"},
            {"name": "count", "type": "INT", "maximum": "10", "minimum": ""},
            {"name": "on", "type": "BOOLEAN"},
            {"name": "label", "type": "STRING", "maximum": "nonsense for a text"},
            {"name": "serial", "type": "STRING", "accessMode": "ReadOnly"},
        ]}))
        .unwrap()
    }

    fn device_spec(name: &str, value: &str) -> DeviceSpec {
        serde_json::from_value(json!({"properties": [{"name": name, "desired": {"value": value}}]}))
            .unwrap()
    }

    #[test]
    fn values_are_held_against_the_model() {
        let model = thermometer();
        for (name, value, why) in [
            ("temperature", "21.5", None),
            ("temperature", "-20", None),
            (
                "temperature",
                "-20.1",
                Some("less than the minimum, -20 celsius"),
            ),
            (
                "temperature",
                "61",
                Some("greater than the maximum, 60.5 celsius"),
            ),
            ("temperature", "warm", Some("requires a number")),
            ("temperature", "NaN", Some("requires a number")),
            ("count", "7", None),
            ("count", "7.5", Some("requires a whole number")),
            ("count", "11", Some("greater than the maximum, 10")),
            ("on", "true", None),
            ("on", "yes", Some("true or false")),
            ("label", "anything at all", None),
            ("label", "", None),
            ("serial", "x", Some("ReadOnly")),
        ] {
            let faults = device(&device_spec(name, value), Some(&model));
            let found = faults
                .first()
                .map(|fault| (fault.path.as_str(), fault.why.as_str()));
            match why {
                None => assert_eq!(found, None, "{name}={value}"),
                Some(why) => {
                    let (path, found) = found.unwrap_or_default();
                    assert!(
                        path == "spec.properties[0].desired.value" && found.contains(why),
                        "{path}: {found}"
                    );
                }
            }
        }
        assert!(
            device(&device_spec("temperature", "warm"), None).is_empty(),
            "nothing is known without the model"
        );
    }

    #[test]
    fn names_are_held_against_the_model() {
        let spec: DeviceSpec = serde_json::from_value(json!({
            "properties": [{"name": "count"}, {"name": "pressure"}, {"name": "count"}, {}],
            "methods": [{"name": "Reset", "propertyNames": ["count", "on"]}],
        }))
        .unwrap();
        let faults = device(&spec, Some(&thermometer()));
        let found: Vec<_> = faults
            .iter()
            .map(|fault| (fault.path.as_str(), fault.value.as_str().unwrap()))
            .collect();
        let expected = [
            ("spec.properties[1].name", "pressure"),
            ("spec.properties[2].name", "count"),
            ("spec.properties[3].name", ""),
            ("spec.methods[0].propertyNames[1]", "on"),
        ];
        assert_eq!(found, expected);
        assert!(
            faults[0]
                .why
                .contains("it has temperature, count, on, label, serial"),
            "{}",
            faults[0].why
        );
    }

    #[test]
    fn a_model_has_sound_limits() {
        assert_eq!(model(&thermometer()), []);
        let spec: DeviceModelSpec = serde_json::from_value(json!({"properties": [
            {"name": "a", "type": "INT", "minimum": "low", "maximum": "5"},
            {"name": "b", "type": "FLOAT", "minimum": "2", "maximum": "1"},
            {"name": "b", "type": "FLOAT"},
        ]}))
        .unwrap();
        let paths: Vec<_> = model(&spec).into_iter().map(|fault| fault.path).collect();
        assert_eq!(
            paths,
            [
                "spec.properties[0].minimum",
                "spec.properties[1].maximum",
                "spec.properties[2].name"
            ]
        );
    }
}
