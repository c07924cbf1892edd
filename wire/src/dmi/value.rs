//! Conversion of settings between JSON and DMI, where each value has the name of its type.
//!
//! Numbers are sent as `FloatValue`, as `EdgeCore` does, except for whole numbers that a float would round: these are `Int64Value`. Lists
//! and objects, for which `EdgeCore` refuses a device, are sent as text that holds JSON.

use std::collections::BTreeMap;

use prost::{DecodeError, Message};
use serde_json::{Map, Number, Value as Json};

use super::{AnomalyDetection, CustomizedValue, Value};

const PREFIX: &str = "type.googleapis.com/google.protobuf.";

impl CustomizedValue {
    /// Converts settings by name; settings that are `null` are skipped.
    pub fn from_json(settings: &Map<String, Json>) -> Self {
        Self {
            data: encode(settings),
        }
    }

    /// Returns the settings by name as JSON.
    ///
    /// # Errors
    /// A value's type is not one of DMI's, or its bytes do not match its type.
    pub fn to_json(&self) -> Result<Map<String, Json>, ValueError> {
        let entries = self.data.iter();
        entries
            .map(|(name, value)| Ok((name.clone(), value.to_json(name)?)))
            .collect()
    }
}

impl AnomalyDetection {
    /// Converts settings by name; settings that are `null` are skipped.
    pub fn from_json(settings: &Map<String, Json>) -> Self {
        Self {
            data: encode(settings),
        }
    }
}

/// A setting that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// The setting's type is unknown.
    #[error(
        "setting {name} is of type {type_url}; send one of StringValue, BoolValue, FloatValue, DoubleValue, Int32Value, Int64Value"
    )]
    Type {
        /// The setting.
        name: String,
        /// The type.
        type_url: String,
    },
    /// The setting's bytes are not of its type.
    #[error("setting {name} is not of the type that it names")]
    Bytes {
        /// The setting.
        name: String,
        /// The decoding error.
        source: DecodeError,
    },
}

impl Value {
    fn of(json: &Json) -> Option<Self> {
        let text = |text: String| Self::typed("StringValue", &text);
        Some(match json {
            Json::Null => return None,
            Json::Bool(value) => Self::typed("BoolValue", value),
            Json::String(value) => text(value.clone()),
            Json::Number(number) => Self::number(number),
            Json::Array(_) | Json::Object(_) => text(json.to_string()),
        })
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "what a float rounds is asked for right here"
    )]
    fn number(number: &Number) -> Self {
        let float = number.as_f64().unwrap_or_default() as f32;
        match number.as_i64() {
            Some(whole) if float as i64 != whole => Self::typed("Int64Value", &whole),
            _ => Self::typed("FloatValue", &float),
        }
    }

    fn typed(name: &str, message: &impl Message) -> Self {
        Self {
            type_url: format!("{PREFIX}{name}"),
            value: message.encode_to_vec().into(),
        }
    }

    fn to_json(&self, name: &str) -> Result<Json, ValueError> {
        let bytes = |source| ValueError::Bytes {
            name: name.to_owned(),
            source,
        };
        let wrong = || ValueError::Type {
            name: name.to_owned(),
            type_url: self.type_url.clone(),
        };
        let value = self.value.clone();
        let kind = self
            .type_url
            .rsplit('/')
            .next()
            .and_then(|name| name.strip_prefix("google.protobuf."));
        Ok(match kind.ok_or_else(wrong)? {
            "StringValue" => String::decode(value).map_err(bytes)?.into(),
            "BoolValue" => bool::decode(value).map_err(bytes)?.into(),
            "FloatValue" => shortest(f32::decode(value).map_err(bytes)?),
            "DoubleValue" => f64::decode(value).map_err(bytes)?.into(),
            "Int32Value" => i32::decode(value).map_err(bytes)?.into(),
            "Int64Value" => i64::decode(value).map_err(bytes)?.into(),
            _ => return Err(wrong()),
        })
    }
}

fn encode(settings: &Map<String, Json>) -> BTreeMap<String, Value> {
    settings
        .iter()
        .filter_map(|(name, json)| Some((name.clone(), Value::of(json)?)))
        .collect()
}

/// Converts a float to its shortest decimal form: `0.1`, not `0.10000000149011612`; whole numbers have no point.
#[allow(
    clippy::cast_possible_truncation,
    reason = "only where it is whole and small"
)]
fn shortest(float: f32) -> Json {
    const WHOLE: f32 = 16_777_216.0;
    if float.fract() == 0.0 && float.abs() <= WHOLE {
        return Json::from(float as i64);
    }
    float
        .to_string()
        .parse::<f64>()
        .map_or(Json::Null, Json::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(json: Json) -> (String, Json) {
        let settings = json!({"it": json});
        let value = CustomizedValue::from_json(settings.as_object().expect("an object"));
        let kind = value
            .data
            .get("it")
            .map(|value| value.type_url.replace(PREFIX, ""))
            .unwrap_or_default();
        let back = value.to_json().expect("what was encoded is decoded");
        (kind, back.get("it").cloned().unwrap_or_default())
    }

    #[test]
    fn settings_survive() {
        for (json, kind) in [
            (json!("TCP"), "StringValue"),
            (json!(""), "StringValue"),
            (json!(true), "BoolValue"),
            (json!(5502), "FloatValue"),
            (json!(-1), "FloatValue"),
            (json!(0.1), "FloatValue"),
            (json!(16_777_217), "Int64Value"),
            (json!(9_007_199_254_740_993_i64), "Int64Value"),
            (Json::Null, ""),
        ] {
            assert_eq!(turn(json.clone()), (kind.to_owned(), json));
        }
        assert_eq!(
            turn(json!({"a": [1]})),
            ("StringValue".to_owned(), json!("{\"a\":[1]}"))
        );
    }

    #[test]
    fn what_no_mapper_knows_is_named() {
        let other = |type_url: &str, value: &'static [u8]| CustomizedValue {
            data: [(
                "x".to_owned(),
                Value {
                    type_url: type_url.into(),
                    value: value.into(),
                },
            )]
            .into(),
        };
        for (value, expected) in [
            (
                other("type.googleapis.com/google.protobuf.Struct", b""),
                "Struct",
            ),
            (other("nonsense", b""), "nonsense"),
            (
                other("type.googleapis.com/google.protobuf.BoolValue", b"\xff"),
                "not of the type",
            ),
        ] {
            let error = value.to_json().expect_err("it is refused").to_string();
            assert!(
                error.starts_with("setting x is") && error.contains(expected),
                "{error}"
            );
        }
    }
}
