//! What is read of the objects of the simulated world.

use serde_json::Value;

/// ConfigMaps and Secrets that a pod mounts: plural and name.
pub(crate) fn used(pod: &Value) -> impl Iterator<Item = (&'static str, String)> {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    volumes.into_iter().filter_map(|volume| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match (text(&volume["configMap"]["name"]), text(&volume["secret"]["secretName"])) {
            (Some(name), _) => Some(("configmaps", name)),
            (None, Some(name)) => Some(("secrets", name)),
            (None, None) => None,
        }
    })
}

/// The UID of an object.
pub(crate) fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The number of a pod's status; 0 where it has none.
pub(crate) fn number_of(pod: &Value) -> u64 {
    pod["status"]["message"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The number of a node's.
pub(crate) fn number_of_node(node: &Value) -> u64 {
    let conditions = node["status"]["conditions"].as_array();
    let told = conditions.into_iter().flatten().find(|condition| condition["type"] == "Told");
    told.and_then(|told| told["message"].as_str()?.parse().ok()).unwrap_or_default()
}
