//! Converts the rows of EdgeCore's tables `device`, `device_attr` and `device_twin` to devices, and back. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::{
    topic::DeviceId,
    twin::{Attribute, DELETED, TypeMetadata, Version},
};

use super::{
    super::{
        device::{Device, Property, TwinValue},
        rules::Kind,
    },
    Stored, inner,
};
use crate::metamanager::DeviceRows;

/// Rows that are read one by one.
#[derive(Debug, Default)]
pub(super) struct Rows {
    devices: BTreeMap<DeviceId, Device>,
    attributes: Vec<Value>,
    twins: Vec<Value>,
}

impl Rows {
    /// Adds a row of a table.
    pub(super) fn add(&mut self, table: &str, row: Value) {
        match table {
            "device" => self.device(&row),
            "device_attr" => self.attributes.push(row),
            _ => self.twins.push(row),
        }
    }

    fn device(&mut self, row: &Value) {
        let Some(id) = DeviceId::parse(text(row, "id")) else {
            return;
        };
        let owned = |key| text(row, key).to_owned();
        let (description, state, last_online) =
            (owned("description"), owned("state"), owned("last_online"));
        let device = Device {
            member: true,
            description,
            state,
            last_online,
            ..Device::default()
        };
        self.devices.insert(id, device);
    }

    /// Returns the devices; attributes and properties without a device row are left out.
    pub(super) fn devices(mut self) -> BTreeMap<DeviceId, Device> {
        for row in &self.attributes {
            let Some(device) = of(&mut self.devices, row) else {
                continue;
            };
            let attribute = Attribute {
                value: text(row, "value").to_owned(),
                optional: Some(is_optional(row)),
                metadata: Some(TypeMetadata {
                    kind: text(row, "attr_type").to_owned(),
                }),
            };
            device
                .attributes
                .insert(text(row, "name").to_owned(), attribute);
        }
        for row in &self.twins {
            let Some(device) = of(&mut self.devices, row) else {
                continue;
            };
            let word = text(row, "attr_type");
            let property = Property {
                kind: Kind::parse(word).unwrap_or_default(),
                optional: is_optional(row),
                deleted: word == DELETED,
                expected: side(row, "expected"),
                actual: side(row, "actual"),
                ..Property::default()
            };
            device
                .twins
                .insert(text(row, "name").to_owned(), property.into());
        }
        self.devices
    }
}

fn of<'a>(devices: &'a mut BTreeMap<DeviceId, Device>, row: &Value) -> Option<&'a mut Device> {
    devices.get_mut(&DeviceId::parse(text(row, "deviceid"))?)
}

/// Reads one side of a twin. EdgeCore never reports values that changed while the cloud was not connected: all are reported
/// once more.
fn side(row: &Value, name: &str) -> TwinValue {
    let value = Some(text(row, name))
        .filter(|value| !value.is_empty())
        .map(str::to_owned);
    let version: Version =
        serde_json::from_value(inner(&row[format!("{name}_version")])).unwrap_or_default();
    let at = inner(&row[format!("{name}_meta")])["timestamp"]
        .as_i64()
        .unwrap_or_default();
    TwinValue {
        due: value.is_some() && name == "actual",
        value,
        at,
        version,
    }
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn is_optional(row: &Value) -> bool {
    // SQLite has no booleans of its own
    row["optional"]
        .as_bool()
        .or_else(|| row["optional"].as_i64().map(|number| number != 0))
        .unwrap_or(true)
}

/// Converts a stored device to rows of EdgeCore's tables; `None` if the object cannot be read.
pub(crate) fn device_rows(object: &Value) -> Option<DeviceRows> {
    let Stored { id, device } = serde_json::from_value(object.clone()).ok()?;
    let deviceid = id.as_str();
    let mut rows = vec![(
        "device",
        json!({
            "id": deviceid, "name": id.name(), "description": device.description, "state": device.state,
            "last_online": device.last_online,
        }),
    )];
    for (name, attribute) in &device.attributes {
        let kind = attribute
            .metadata
            .as_ref()
            .map_or("string", |metadata| metadata.kind.as_str());
        let row = json!({
            "deviceid": deviceid, "name": name, "description": "", "value": attribute.value,
            "optional": attribute.optional.unwrap_or(true), "attr_type": kind, "metadata": "",
        });
        rows.push(("device_attr", row));
    }
    for (name, property) in &device.twins {
        let kind = if property.deleted {
            DELETED
        } else {
            property.kind.as_str()
        };
        let (expected, actual) = (&property.expected, &property.actual);
        let row = json!({
            "deviceid": deviceid, "name": name, "description": "",
            "expected": expected.value.as_deref().unwrap_or_default(),
            "actual": actual.value.as_deref().unwrap_or_default(),
            "expected_meta": meta(expected), "actual_meta": meta(actual),
            "expected_version": json!(expected.version).to_string(),
            "actual_version": json!(actual.version).to_string(),
            "optional": property.optional, "attr_type": kind, "metadata": "",
        });
        rows.push(("device_twin", row));
    }
    Some(DeviceRows {
        id: deviceid.to_owned(),
        rows,
        has_unconfirmed: device.is_due(),
    })
}

fn meta(side: &TwinValue) -> String {
    if side.value.is_none() {
        String::new()
    } else {
        json!({"timestamp": side.at}).to_string()
    }
}
