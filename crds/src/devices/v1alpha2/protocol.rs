//! Converts protocol settings: `v1alpha2` has a field for each protocol, `v1beta1` a name and open settings.

use serde_json::{Map, Value, json};

/// The protocols that have a field of their own in `v1alpha2`.
const KNOWN: [&str; 3] = ["opcua", "modbus", "bluetooth"];

/// The field of all other protocols.
const OTHER: &str = "customizedProtocol";

/// The settings that several protocols share, by their path below `common` in `v1alpha2`.
const SHARED: [(&str, &[&str]); 3] = [
    (
        "/com",
        &["serialPort", "baudRate", "dataBits", "parity", "stopBits"],
    ),
    ("/tcp", &["ip", "port"]),
    (
        "",
        &[
            "commType",
            "reconnTimeout",
            "reconnRetryTimes",
            "collectTimeout",
            "collectRetryTimes",
            "collectType",
        ],
    ),
];

/// Returns name and settings. Shared settings are put among the protocol's own, as mappers of `v1beta1` expect.
pub(super) fn to_beta(mut protocol: Map<String, Value>) -> Value {
    let common = protocol.shift_remove("common");
    let values = protocol.shift_remove("customizedValues");
    let (name, mut data) = match KNOWN
        .iter()
        .find_map(|name| Some((*name, protocol.shift_remove(*name)?)))
    {
        Some((name, data)) => {
            let mut data = map(data);
            for (place, fields) in SHARED {
                let settings = common.as_ref().and_then(|common| common.pointer(place));
                for field in fields {
                    data.extend(
                        settings
                            .and_then(|all| all.get(*field))
                            .map(|value| ((*field).to_owned(), value.clone())),
                    );
                }
            }
            let more = common
                .as_ref()
                .and_then(|common| common.get("customizedValues"));
            data.extend(
                more.map(|values| ("common".to_owned(), json!({"customizedValues": values}))),
            );
            (Some(name.to_owned()), data)
        }
        None => {
            let mut own = map(protocol.shift_remove(OTHER).unwrap_or_default());
            let name = own
                .shift_remove("protocolName")
                .as_ref()
                .and_then(Value::as_str)
                .map(str::to_owned);
            let mut data = map(own.shift_remove("configData").unwrap_or_default());
            data.extend(common.map(|common| ("common".to_owned(), common)));
            (name, data)
        }
    };
    data.extend(values.map(|values| ("customizedValues".to_owned(), values)));
    let mut written = Map::new();
    written.extend(name.map(|name| ("protocolName".to_owned(), name.into())));
    if !data.is_empty() {
        written.insert("configData".into(), Value::Object(data));
    }
    Value::Object(written)
}

/// Reverses [`to_beta`].
pub(super) fn to_alpha(mut protocol: Map<String, Value>) -> Value {
    let name = protocol
        .shift_remove("protocolName")
        .as_ref()
        .and_then(Value::as_str)
        .map(str::to_owned);
    let mut data = map(protocol.shift_remove("configData").unwrap_or_default());
    let values = data.shift_remove("customizedValues");
    let mut common = map(data.shift_remove("common").unwrap_or_default());
    let mut written = Map::new();
    match name {
        Some(name) if KNOWN.contains(&name.as_str()) => {
            for (place, fields) in SHARED {
                for field in fields {
                    let Some(value) = data.shift_remove(*field) else {
                        continue;
                    };
                    let part = match place.strip_prefix('/') {
                        Some(part) => super::child(&mut common, part),
                        None => &mut common,
                    };
                    part.insert((*field).to_owned(), value);
                }
            }
            written.insert(name, Value::Object(data));
        }
        None if data.is_empty() => {}
        name => {
            let mut own = Map::new();
            own.extend(name.map(|name| ("protocolName".to_owned(), name.into())));
            if !data.is_empty() {
                own.insert("configData".into(), Value::Object(data));
            }
            written.insert(OTHER.into(), Value::Object(own));
        }
    }
    if !common.is_empty() {
        written.insert("common".into(), Value::Object(common));
    }
    written.extend(values.map(|values| ("customizedValues".to_owned(), values)));
    Value::Object(written)
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
