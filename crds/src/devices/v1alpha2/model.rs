//! Converts device models: `v1alpha2` has a field for each value type, `v1beta1` a type name.

use serde_json::{Map, Value};

use super::{convert, list};

/// The names of a property's type in `v1alpha2` and in `v1beta1`.
const TYPES: [(&str, &str); 6] = [
    ("int", "INT"),
    ("string", "STRING"),
    ("double", "DOUBLE"),
    ("float", "FLOAT"),
    ("boolean", "BOOLEAN"),
    ("bytes", "BYTES"),
];

/// The key of the default values in the annotation, by property.
const DEFAULTS: &str = "defaultValues";

/// Returns a `DeviceModel` in `version`, converted if it has the other one.
pub fn model(version: &str, object: Value) -> Value {
    convert(version, object, to_beta, to_alpha)
}

fn to_beta(model: &mut Map<String, Value>) -> Map<String, Value> {
    let mut defaults = Map::new();
    let properties = model
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("properties"));
    for property in properties
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Value::Object(property) = property else {
            continue;
        };
        let Some(Value::Object(mut types)) = property.shift_remove("type") else {
            continue;
        };
        let found = TYPES
            .iter()
            .find_map(|(old, new)| Some((*new, types.shift_remove(*old)?)));
        let Some((name, settings)) = found else {
            continue;
        };
        property.insert("type".into(), name.into());
        let Value::Object(mut settings) = settings else {
            continue;
        };
        if let (Some(value), Some(Value::String(name))) =
            (settings.shift_remove("defaultValue"), property.get("name"))
        {
            defaults.insert(name.clone(), value);
        }
        for (field, value) in settings {
            let text = match value {
                Value::Number(number) => number.to_string().into(),
                value => value,
            };
            property.insert(field, text);
        }
    }
    let mut kept = Map::new();
    if !defaults.is_empty() {
        kept.insert(DEFAULTS.into(), Value::Object(defaults));
    }
    kept
}

fn to_alpha(model: &mut Map<String, Value>, mut kept: Map<String, Value>) {
    let defaults = kept.shift_remove(DEFAULTS);
    let Some(properties) = model
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("properties"))
    else {
        return;
    };
    let written = list(Some(properties.take())).map(|property| {
        let Value::Object(mut property) = property else {
            return property;
        };
        let type_ = property.shift_remove("type");
        let known = TYPES
            .iter()
            .find(|(_, new)| type_.as_ref().and_then(Value::as_str) == Some(new));
        // the older version has no streams
        let Some((type_, _)) = known else {
            return Value::Object(property);
        };
        let mut settings = Map::new();
        for field in ["accessMode", "minimum", "maximum", "unit"] {
            let is_number = matches!(field, "minimum" | "maximum");
            let value = property
                .shift_remove(field)
                .map(|value| if is_number { number(value) } else { value });
            settings.extend(value.map(|value| (field.to_owned(), value)));
        }
        let name = property
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let default = defaults.as_ref().and_then(|defaults| defaults.get(name));
        settings.extend(default.map(|value| ("defaultValue".to_owned(), value.clone())));
        property.insert(
            "type".into(),
            Value::Object(Map::from_iter([(
                (*type_).to_owned(),
                Value::Object(settings),
            )])),
        );
        Value::Object(property)
    });
    *properties = written.collect();
}

/// Parses a number that was written as text.
fn number(value: Value) -> Value {
    let parsed = value
        .as_str()
        .and_then(|text| serde_json::from_str::<serde_json::Number>(text).ok());
    parsed.map_or(value, Value::Number)
}
