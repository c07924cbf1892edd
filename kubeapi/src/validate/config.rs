//! Checks config maps and secrets.

use serde_json::Value;

use super::faults::faults;
use crate::{cause::Cause, names, object::text_or_empty};

/// The most bytes of all values together.
const DATA_BYTES: usize = 1024 * 1024;

pub(super) fn config_map(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let binary = || entries(object, "binaryData");
    let both = |key: &str| object.pointer("/binaryData").is_some_and(|binary| binary.get(key).is_some());
    for (key, _) in entries(object, "data") {
        causes.extend(faults(&format!("data[{key}]"), key, names::config_key(key)));
        if both(key) {
            let why = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(format!("data[{key}]"), &key.as_str().into(), why));
        }
    }
    for (key, _) in binary() {
        causes.extend(faults(&format!("binaryData[{key}]"), key, names::config_key(key)));
    }
    let texts: usize = entries(object, "data").map(|(_, value)| value.as_str().map_or(0, str::len)).sum();
    let size = texts + binary().map(|(_, value)| decoded_bytes(value)).sum::<usize>();
    causes.extend((size > DATA_BYTES).then(|| Cause::too_long("", DATA_BYTES)));
    causes
}

pub(super) fn secret(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, _) in entries(object, "data") {
        causes.extend(faults(&format!("data[{key}]"), key, names::config_key(key)));
    }
    let size: usize = entries(object, "data").map(|(_, value)| decoded_bytes(value)).sum();
    causes.extend((size > DATA_BYTES).then(|| Cause::too_long("data", DATA_BYTES)));
    let has = |key: &str| entries(object, "data").any(|(other, _)| other == key);
    let need = |keys: &[&str]| -> Vec<Cause> {
        let missing = keys.iter().filter(|key| !has(key));
        missing.map(|key| Cause::required(format!("data[{key}]"), "")).collect()
    };
    match text_or_empty(object, "/type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let annotations = object.pointer("/metadata/annotations");
            let account =
                annotations.and_then(|annotations| annotations.get(ACCOUNT)).and_then(Value::as_str);
            if account.is_none_or(str::is_empty) {
                causes.push(Cause::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            }
        }
        "kubernetes.io/dockerconfigjson" => causes.extend(need(&[".dockerconfigjson"])),
        "kubernetes.io/dockercfg" => causes.extend(need(&[".dockercfg"])),
        "kubernetes.io/tls" => causes.extend(need(&["tls.crt", "tls.key"])),
        "kubernetes.io/ssh-auth" => causes.extend(need(&["ssh-privatekey"])),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            causes.extend(need(&["username", "password"]));
        }
        _ => {}
    }
    causes
}

/// Checks a change of either kind; only secrets have a type.
pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";
    let mut causes = Vec::new();
    if let Some(type_) = new.get("type").filter(|type_| old.get("type") != Some(type_)) {
        causes.push(Cause::invalid("type", type_, "field is immutable"));
    }
    let immutable = |object: &Value| object.get("immutable").and_then(Value::as_bool).unwrap_or(false);
    if !immutable(old) {
        return causes;
    }
    if !immutable(new) {
        causes.push(Cause::forbidden("immutable", IMMUTABLE_MESSAGE));
    }
    for field in ["data", "binaryData"] {
        let map = |object: &Value| object.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        if map(old) != map(new) {
            causes.push(Cause::forbidden(field, IMMUTABLE_MESSAGE));
        }
    }
    causes
}

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.get(field).and_then(Value::as_object).into_iter().flatten()
}

/// Returns how many bytes a base64 text encodes, to the byte or two.
fn decoded_bytes(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4)
}
