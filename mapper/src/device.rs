//! Devices as a protocol's code sees them.

use std::{fmt, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wire::dmi;

/// The default interval of readings.
const COLLECT: Duration = Duration::from_secs(1);
/// The default interval of reports.
const REPORT: Duration = Duration::from_secs(10);
/// The shortest interval of readings and reports.
const LEAST: Duration = Duration::from_millis(10);

/// A device of the mapper.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How to connect to it: `spec.protocol.configData`.
    pub settings: Settings,
    /// Its properties.
    pub properties: Vec<Property>,
}

/// A property of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
    /// Whether it cannot be written.
    pub is_read_only: bool,
    /// The smallest value, as text; empty if there is none.
    pub minimum: String,
    /// The largest value, as text; empty if there is none.
    pub maximum: String,
    /// The unit of its values; empty if there is none.
    pub unit: String,
    /// How to access it: `visitors.configData`.
    pub settings: Settings,
    /// The desired value.
    pub desired: Option<String>,
    /// The interval of readings.
    pub collect: Duration,
    /// The interval of reports.
    pub report: Duration,
    /// Whether it is reported to the cloud.
    pub to_cloud: bool,
}

/// The type of a property's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Int,
    /// Numbers.
    Float,
    /// Numbers of double precision.
    Double,
    /// `true` or `false`.
    Boolean,
    /// Bytes.
    Bytes,
    /// A stream, such as video.
    Stream,
    /// Text, and any other type.
    #[default]
    String,
}

/// Settings by name.
#[derive(Clone, Default, PartialEq)]
pub struct Settings(Map<String, Value>);

/// A setting that is missing or wrong.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The setting is missing.
    #[error("setting {0} is missing; add it to configData")]
    Missing(String),
    /// The setting has another type or form.
    #[error("setting {name} is invalid")]
    Wrong {
        /// The setting's name.
        name: String,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl Settings {
    /// Returns a setting, converted to the expected type. A number may have been written as text.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, SettingError> {
        let value = self
            .0
            .get(name)
            .ok_or_else(|| SettingError::Missing(name.to_owned()))?;
        let wrong = |source| SettingError::Wrong {
            name: name.to_owned(),
            source,
        };
        match (serde_json::from_value(value.clone()), value) {
            (Err(error), Value::String(text)) => {
                serde_json::from_str(text).map_err(|_| wrong(error))
            }
            (found, _) => found.map_err(wrong),
        }
    }

    /// Returns a setting, or `other` if it is missing.
    pub fn get_or<T: DeserializeOwned>(&self, name: &str, other: T) -> Result<T, SettingError> {
        if self.0.contains_key(name) {
            self.get(name)
        } else {
            Ok(other)
        }
    }
}

impl From<Map<String, Value>> for Settings {
    fn from(settings: Map<String, Value>) -> Self {
        Self(settings)
    }
}

/// Shows the names of the settings but not their values, which may be passwords.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Kind {
    fn of(word: &str) -> Self {
        match word {
            "INT" => Self::Int,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "BOOLEAN" => Self::Boolean,
            "BYTES" => Self::Bytes,
            "STREAM" => Self::Stream,
            _ => Self::String,
        }
    }

    /// Returns the type's name in reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float | Self::Double => "float",
            Self::Boolean => "boolean",
            Self::Bytes | Self::Stream | Self::String => "string",
        }
    }
}

impl Device {
    /// Creates a device from the agent's message and the device's model; fails if a setting cannot be parsed.
    pub(crate) fn read(
        device: &dmi::Device,
        model: &dmi::DeviceModel,
    ) -> Result<Self, wire::dmi::ValueError> {
        let spec = device.spec.clone().unwrap_or_default();
        let protocol = spec.protocol.unwrap_or_default();
        let of_model = model.spec.clone().unwrap_or_default().properties;
        let property = |property: dmi::DeviceProperty| {
            let of_model = of_model.iter().find(|model| model.name == property.name);
            Property::read(property, of_model.cloned().unwrap_or_default())
        };
        Ok(Self {
            namespace: device.namespace.clone(),
            name: device.name.clone(),
            settings: settings(protocol.config_data.as_ref())?,
            properties: spec
                .properties
                .into_iter()
                .map(property)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Reports whether both have the same connection settings, so that a connection to one can be used for the other.
    pub(crate) fn is_reached_as(&self, other: &Self) -> bool {
        let way = |device: &Self| {
            let properties = device.properties.iter();
            let properties =
                properties.map(|property| (property.name.clone(), property.settings.clone()));
            (device.settings.clone(), properties.collect::<Vec<_>>())
        };
        way(self) == way(other)
    }
}

impl Property {
    fn read(
        property: dmi::DeviceProperty,
        model: dmi::ModelProperty,
    ) -> Result<Self, wire::dmi::ValueError> {
        let visitors = property.visitors.unwrap_or_default();
        let desired = property.desired.map(|desired| desired.value);
        Ok(Self {
            kind: Kind::of(&model.r#type),
            is_read_only: model.access_mode == "ReadOnly",
            minimum: model.minimum,
            maximum: model.maximum,
            unit: model.unit,
            settings: settings(visitors.config_data.as_ref())?,
            desired: desired.filter(|desired| !desired.is_empty()),
            collect: cycle(property.collect_cycle, COLLECT),
            report: cycle(property.report_cycle, REPORT),
            to_cloud: property.report_to_cloud,
            name: property.name,
        })
    }
}

fn settings(value: Option<&dmi::CustomizedValue>) -> Result<Settings, wire::dmi::ValueError> {
    Ok(Settings(
        value
            .map(dmi::CustomizedValue::to_json)
            .transpose()?
            .unwrap_or_default(),
    ))
}

fn cycle(milliseconds: i64, default: Duration) -> Duration {
    match u64::try_from(milliseconds) {
        Ok(0) | Err(_) => default,
        Ok(milliseconds) => Duration::from_millis(milliseconds).max(LEAST),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(json: Value) -> Settings {
        Settings(json.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn settings_are_of_the_type_that_is_asked_for() {
        let settings =
            of(json!({"port": "5502", "unit": 1, "ip": "192.0.2.1", "swap": "true", "scale": 0.1}));
        assert_eq!(settings.get::<u16>("port").unwrap(), 5502);
        assert_eq!(settings.get::<u8>("unit").unwrap(), 1);
        assert_eq!(settings.get::<String>("port").unwrap(), "5502");
        assert_eq!(settings.get::<String>("ip").unwrap(), "192.0.2.1");
        assert!(settings.get::<bool>("swap").unwrap());
        assert!((settings.get_or("scale", 1.0).unwrap() - 0.1_f64).abs() < 1e-9);
        assert_eq!(settings.get_or("limit", 1).unwrap(), 1);
        assert!(
            settings
                .get::<u8>("limit")
                .unwrap_err()
                .to_string()
                .contains("limit is missing")
        );
        assert!(
            settings
                .get::<u8>("ip")
                .unwrap_err()
                .to_string()
                .contains("ip is invalid")
        );
        assert!(!format!("{settings:?}").contains("192"));
    }

    #[test]
    fn a_device_is_read_with_its_model() {
        let model = dmi::DeviceModel {
            spec: Some(dmi::DeviceModelSpec {
                properties: vec![dmi::ModelProperty {
                    name: "t".into(),
                    r#type: "FLOAT".into(),
                    access_mode: "ReadOnly".into(),
                    unit: "celsius".into(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        };
        let property = |name: &str, collect, desired: Option<&str>| dmi::DeviceProperty {
            name: name.into(),
            collect_cycle: collect,
            desired: desired.map(|value| dmi::TwinProperty {
                value: value.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let properties = vec![
            property("t", 250, Some("")),
            property("other", 0, Some("1")),
        ];
        let device = dmi::Device {
            name: "d".into(),
            spec: Some(dmi::DeviceSpec {
                properties,
                ..Default::default()
            }),
            ..Default::default()
        };
        let device = Device::read(&device, &model).unwrap();
        let [t, other] = &device.properties[..] else {
            panic!("{device:?}")
        };
        assert_eq!(
            (t.kind, t.is_read_only, t.unit.as_str(), &t.desired),
            (Kind::Float, true, "celsius", &None)
        );
        assert_eq!((t.collect, t.report), (Duration::from_millis(250), REPORT));
        assert_eq!(
            (other.kind, other.collect, other.desired.as_deref()),
            (Kind::String, COLLECT, Some("1"))
        );
        let mut changed = device.clone();
        changed.properties[1].desired = Some("2".into());
        assert!(device.is_reached_as(&changed));
        changed.properties[1].settings = of(json!({"offset": 1}));
        assert!(!device.is_reached_as(&changed));
    }
}
