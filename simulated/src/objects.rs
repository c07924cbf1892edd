//! Reads fields of the objects in the simulated world.

use serde_json::Value;

/// Returns the ConfigMaps and Secrets that a pod mounts: plural and name.
pub(crate) fn used_objects(pod: &Value) -> impl Iterator<Item = (&'static str, String)> {
    let volumes = pod["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    volumes.into_iter().filter_map(|volume| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match (
            text(&volume["configMap"]["name"]),
            text(&volume["secret"]["secretName"]),
        ) {
            (Some(name), _) => Some(("configmaps", name)),
            (None, Some(name)) => Some(("secrets", name)),
            (None, None) => None,
        }
    })
}

/// Returns the UID of an object.
pub(crate) fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Returns the serial number in a pod's status; 0 if it has none.
pub(crate) fn number_of(pod: &Value) -> u64 {
    pod["status"]["message"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Returns the serial number in a node's status.
pub(crate) fn number_of_node(node: &Value) -> u64 {
    let conditions = node["status"]["conditions"].as_array();
    let told = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Told");
    told.and_then(|told| told["message"].as_str()?.parse().ok())
        .unwrap_or_default()
}
