//! The objects of the database, without their secret values.

use futures::TryStreamExt;
use objectstore::{Inspection, StoreError};
use record::redact::{MASK, Redactor};
use serde_json::{Value, json};

use crate::{app, config::Config, metamanager};

/// The most bytes of all objects.
const MAX_BYTES: usize = 64 << 20;
/// The resources whose values are not shown, beside those of Secrets and tokens.
const CONFIG_MAPS: &str = "configmaps";
/// The resources whose objects are shown; of all others, only name and size.
const SHOWN: [&str; 13] = [
    "pods",
    "nodes",
    "services",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "leases.coordination.k8s.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "secrets",
    CONFIG_MAPS,
    "serviceaccounttokens.kubeedge.io",
    "devices.devices.kubeedge.io",
    "devicemodels.devices.kubeedge.io",
];
/// The annotation with a whole object as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Values of an object that are not shown.
const PAYLOADS: [&str; 3] = ["/data", "/binaryData", "/stringData"];
/// The lists of containers of a pod, or of a pod's template.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// What was read of the database.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Each object, a line.
    pub(super) lines: Vec<Value>,
    /// The secrets in them.
    pub(super) secrets: Vec<String>,
}

/// Reads all objects.
///
/// # Errors
/// The database cannot be read.
pub(super) async fn read(config: &Config) -> Result<Objects, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read the database: {error}");
    let seal = app::seal(config).map_err(|error| failed(&error))?;
    let path = app::database(config);
    let mut database = Inspection::open(&path, seal)
        .await
        .map_err(|error| failed(&error))?;
    let confidential = metamanager::confidential();
    let (mut found, mut size) = (Objects::default(), 0);
    let mut objects = std::pin::pin!(database.objects());
    loop {
        match objects.try_next().await {
            Ok(Some(object)) => {
                let mut value = object.value().unwrap_or_default();
                let is_secret = confidential.contains(&object.key.resource);
                if is_secret {
                    found.secrets.extend(secret_values(&value));
                }
                let resource = object.key.resource.as_str();
                mask_object(&mut value, is_secret || resource == CONFIG_MAPS);
                if !SHOWN.contains(&resource) {
                    value = Value::Null;
                }
                size += object.json.len();
                found.lines.push(json!({
                    "resource": resource, "namespace": object.key.namespace, "name": object.key.name,
                    "revision": object.revision, "bytes": object.json.len(), "object": value,
                }));
            }
            Ok(None) => return Ok(found),
            Err(StoreError::Damaged { key, source }) => found.lines.push(json!({
                "resource": key.resource.as_str(), "namespace": key.namespace, "name": key.name,
                "damaged": source.to_string(),
            })),
            Err(error) => return Err(failed(&error)),
        }
        if size > MAX_BYTES {
            return Err(format!(
                "the database has more than {MAX_BYTES} bytes of objects"
            ));
        }
    }
}

/// Returns the lines without secrets.
pub(super) fn to_text(lines: &[Value], redactor: &Redactor) -> Vec<u8> {
    let mut text = String::new();
    for line in lines {
        let mut line = line.clone();
        redactor.value(&mut line);
        text.push_str(&format!("{line}\n"));
    }
    text.into_bytes()
}

/// Returns the values of a Secret or token, in base64 if it has them so.
pub fn secret_values(value: &Value) -> Vec<String> {
    let maps = ["/data", "/stringData"].map(|place| value.pointer(place));
    let maps = maps.into_iter().flatten().filter_map(Value::as_object);
    let values = maps.flat_map(|map| map.values());
    let token = value.pointer("/token/status/token");
    values
        .chain(token)
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Replaces the values of an object that may be secret: the data of Secrets and ConfigMaps (`has_payload`), stored tokens, values of
/// environment variables, and the annotation of `kubectl apply`. Names stay.
pub fn mask_object(object: &mut Value, has_payload: bool) {
    if has_payload {
        for place in PAYLOADS {
            let map = object.pointer_mut(place).and_then(Value::as_object_mut);
            for value in map.into_iter().flat_map(|map| map.values_mut()) {
                *value = MASK.into();
            }
        }
        if let Some(annotations) = object.pointer_mut("/metadata/annotations") {
            let map = annotations.as_object_mut();
            for value in map.into_iter().flat_map(|map| map.values_mut()) {
                *value = MASK.into();
            }
        }
    }
    for place in ["/token/status/token", "/status/token"] {
        if let Some(token) = object.pointer_mut(place) {
            *token = MASK.into();
        }
    }
    mask_nested(object);
}

fn mask_nested(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mask_nested),
        Value::Object(map) => {
            for (key, value) in map {
                if key == LAST_APPLIED {
                    *value = MASK.into();
                } else if CONTAINERS.contains(&key.as_str()) {
                    mask_environment(value);
                } else {
                    mask_nested(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the values of environment variables of these containers.
fn mask_environment(containers: &mut Value) {
    let containers = containers.as_array_mut().into_iter().flatten();
    for container in containers {
        let variables = container.pointer_mut("/env").and_then(Value::as_array_mut);
        for variable in variables.into_iter().flatten() {
            if let Some(value) = variable.get_mut("value") {
                *value = MASK.into();
            }
        }
    }
}
