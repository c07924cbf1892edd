//! Converts rows of EdgeCore's database to objects of this agent. Pure.
//!
//! Source: KubeEdge, `edge/pkg/metamanager/dao/models` and `edge/pkg/metamanager/process.go`.

use objectstore::{Key, Resource};
use serde_json::{Value, json};
use wire::{ResourcePath, ResourceType};

use super::token::TokenRequest;
use crate::metamanager::{
    desired::{CloudChange, resource, schema_error},
    mirror,
    remote::stored_token,
};

/// The group of the collections of rows that are stored unchanged.
const GROUP: &str = "edgecore.outrigger.dev";

/// What a row is imported as.
#[derive(Debug, PartialEq)]
pub(super) enum Row {
    /// An object that the cloud has sent.
    Object(CloudChange),
    /// The same from `meta_v2`, in which objects stay that the cloud has long deleted: used only for objects that are stored.
    V2Object(CloudChange),
    /// A pod's status that the cloud may not have, as a strategic merge patch: namespace, name, patch.
    Status(String, String, Value),
    /// A value that this agent stores in a form of its own.
    Raw(Key, Value),
    /// The row is left out; the text says why.
    Skipped(&'static str),
}

/// Converts a row of `meta`, whose keys are resources of messages.
pub(super) fn of_meta(node_name: &str, key: &str, kind: &str, value: &str) -> Row {
    let kind = ResourceType::from(kind.to_owned());
    let Ok(value) = serde_json::from_str::<Value>(value) else {
        return Row::Skipped("it is no JSON");
    };
    if kind == ResourceType::ServiceAccountToken {
        return token(key, value);
    }
    if kind == ResourceType::DeviceMapper {
        // the prefix before the name is the same for all
        let name = key.rsplit('/').next().unwrap_or_default();
        let row = json!({"metadata": {"name": name}, "row": value});
        return Row::Raw(Key::new(Resource::new(GROUP, kind.as_str()), "", name), row);
    }
    let path = ResourcePath::from(key);
    let Some((place, name)) = path
        .as_object()
        .and_then(|place| place.name.map(|name| (place.clone(), name)))
    else {
        return Row::Skipped("its key names no object");
    };
    let namespace = place.namespace.unwrap_or_default();
    match kind {
        ResourceType::PodPatch => Row::Status(namespace.to_owned(), name.to_owned(), value),
        ResourceType::Lease
        | ResourceType::Event
        | ResourceType::PodStatus
        | ResourceType::NodeStatus
        | ResourceType::NodePatch
        | ResourceType::CertificateSigningRequest => Row::Skipped("this agent makes its own"),
        _ => object(
            node_name,
            Key::new(resource(&place.kind), namespace, name),
            value,
        ),
    }
}

/// Converts a row of `meta_v2`, whose keys are `/<core|group>/<version>/<plural>/<namespace|null>/<name>`.
pub(super) fn of_meta_v2(node_name: &str, key: &str, value: &str) -> Row {
    let parts: Vec<&str> = key.split('/').collect();
    let ["", group, _, plural, namespace, name] = parts[..] else {
        return Row::Skipped("its key names no object");
    };
    let group = if group == "core" { "" } else { group };
    let Ok(value) = serde_json::from_str::<Value>(value) else {
        return Row::Skipped("it is no JSON");
    };
    let namespace = if namespace == wire::CLUSTER {
        ""
    } else {
        namespace
    };
    let key = Key::new(Resource::new(group, plural), namespace, name);
    match (group, plural) {
        ("" | "events.k8s.io", "events") | ("coordination.k8s.io", "leases") => {
            Row::Skipped("this agent makes its own")
        }
        ("devices.kubeedge.io", _) => Row::Skipped("it is in the table meta, too"),
        (
            "",
            "pods"
            | "nodes"
            | "configmaps"
            | "secrets"
            | "persistentvolumes"
            | "persistentvolumeclaims",
        ) => match object(node_name, key, value) {
            Row::Object(put) => Row::V2Object(put),
            other => other,
        },
        _ => object(node_name, key, value),
    }
}

/// Converts a row of another table, a JSON object.
pub(super) fn of_table(table: &str, key: &str, value: &str) -> Row {
    match serde_json::from_str::<Value>(value) {
        Ok(row) => Row::Raw(
            Key::new(Resource::new(GROUP, table), "", key),
            json!({"metadata": {"name": key}, "row": row}),
        ),
        Err(_) => Row::Skipped("it is no JSON"),
    }
}

fn object(node_name: &str, key: Key, value: Value) -> Row {
    let text = |pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    // EdgeCore stores an error of the cloud under the name of the requested object
    if text("/metadata/name") != key.name {
        return Row::Skipped("it is not the object that its key names");
    }
    if key.resource == resource(&ResourceType::Pod) {
        if text("/spec/nodeName") != node_name {
            return Row::Skipped("it is a pod of another node");
        }
        // mirrors are created again when their files have been read
        if mirror::is_from_file(&value) {
            return Row::Skipped("it is the mirror of a static pod");
        }
    }
    if key.resource == resource(&ResourceType::Node) && key.name != node_name {
        return Row::Skipped("it is another node");
    }
    if schema_error(&key, &value).is_some() {
        return Row::Skipped("it has fields of other types than its kind has");
    }
    Row::Object(CloudChange::stored(key, value))
}

fn token(key: &str, value: Value) -> Row {
    let Some(request) = TokenRequest::read(key) else {
        return Row::Skipped("its key is none of a token");
    };
    if value
        .pointer("/status/token")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        return Row::Skipped("it has no token");
    }
    let issued = issue_time(&value).unwrap_or_default();
    let (key, entry) = stored_token(
        &request.namespace,
        &request.account,
        &request.request(),
        &issued,
        value,
    );
    Row::Raw(key, entry)
}

/// Returns when the token was issued, computed as in EdgeCore: its lifetime before its expiration.
fn issue_time(token: &Value) -> Option<String> {
    let expiry: jiff::Timestamp = token
        .pointer("/status/expirationTimestamp")
        .and_then(Value::as_str)?
        .parse()
        .ok()?;
    let life = jiff::SignedDuration::from_secs(token.pointer("/spec/expirationSeconds")?.as_i64()?);
    expiry
        .checked_sub(life)
        .ok()
        .map(|issued| issued.to_string())
}

#[cfg(test)]
mod tests;
