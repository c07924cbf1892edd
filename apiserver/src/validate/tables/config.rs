//! Config maps, secrets, namespaces, leases, priority classes and runtime classes.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::{names, text_or_empty},
    validate::{
        change::{Change, Kept, change, same},
        engine::{
            Row,
            Rule::{AtLeast, Check, Labels, Limit, Name, OneOf, Table},
            row,
        },
        metadata,
        place::Place,
        repeats::{canonical, repeats_by},
    },
};

use kubeapi::validate::tables::{affinity, resources};

/// The most bytes of all values together.
const DATA_BYTES: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) static CONFIG_MAP: &[Row] = &[
    row("data{*}", Check(map_key)),
    row("binaryData{*}", Check(key)),
    row("", Limit(map_size)),
];
pub(super) static SECRET: &[Row] = &[
    row("data{*}", Check(key)),
    row("data", Limit(secret_size)),
    row("", Check(of_type)),
];
pub(super) static CONFIG_MAP_CHANGES: &[Change] = &[change("", Kept::Check(map_stays))];
pub(super) static SECRET_CHANGES: &[Change] = &[
    change("type", Kept::Same),
    change("", Kept::Check(secret_stays)),
];

pub(super) static NAMESPACE: &[Row] = &[row("spec.finalizers[-]", Check(metadata::finalizer))];

pub(super) static LEASE: &[Row] = &[
    row(
        "spec.leaseDurationSeconds",
        AtLeast(1, "must be greater than 0"),
    ),
    row(
        "spec.leaseTransitions",
        AtLeast(0, "must be greater than or equal to 0"),
    ),
    row("spec", Check(strategy)),
    row("spec.holderIdentity", Check(holder)),
];

pub(super) static PRIORITY_CLASS: &[Row] = &[
    row("", Check(priority)),
    row(
        "preemptionPolicy",
        OneOf(&["Never", "PreemptLowerPriority"]),
    ),
];
pub(super) static PRIORITY_CLASS_CHANGES: &[Change] = &[
    change("value", Kept::Locked("may not be changed in an update.")),
    change("preemptionPolicy", Kept::Same),
];

pub(super) static RUNTIME_CLASS: &[Row] = &[
    row("handler", Name(names::dns_label)),
    row("overhead?.podFixed", Check(resources::overhead)),
    row("scheduling?.nodeSelector", Labels),
    row("scheduling?.tolerations[*]", Table(affinity::TOLERATION)),
    row("scheduling?.tolerations", Check(check_repeated)),
];
pub(super) static RUNTIME_CLASS_CHANGES: &[Change] = &[change("handler", Kept::Same)];

fn key(value: &Place<'_>, causes: &mut Vec<Cause>) {
    let key = value.key();
    causes.extend(
        names::config_key(key)
            .iter()
            .map(|why| Cause::invalid(value.path(), &key.into(), why)),
    );
}

fn map_key(value: &Place<'_>, causes: &mut Vec<Cause>) {
    key(value, causes);
    if value
        .object()
        .pointer("/binaryData")
        .is_some_and(|binary| binary.get(value.key()).is_some())
    {
        let why = "duplicate of key present in binaryData";
        causes.push(Cause::invalid(value.path(), &value.key().into(), why));
    }
}

fn map_size(object: &Place<'_>, causes: &mut Vec<Cause>) {
    let texts = object.get("data").as_object().into_iter().flatten();
    let texts: usize = texts
        .map(|(_, value)| value.as_str().map_or(0, str::len))
        .sum();
    if texts + decoded_bytes(object.get("binaryData")) > DATA_BYTES {
        causes.push(Cause::too_long("", DATA_BYTES));
    }
}

fn secret_size(data: &Place<'_>, causes: &mut Vec<Cause>) {
    if decoded_bytes(data.value) > DATA_BYTES {
        causes.push(Cause::too_long(data.path(), DATA_BYTES));
    }
}

/// How many bytes the base64 texts of a map encode, to a byte or two each.
fn decoded_bytes(map: &Value) -> usize {
    let bytes = |value: &Value| {
        value
            .as_str()
            .map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4)
    };
    map.as_object()
        .into_iter()
        .flatten()
        .map(|(_, value)| bytes(value))
        .sum()
}

fn of_type(secret: &Place<'_>, causes: &mut Vec<Cause>) {
    let data = |key: &str| secret.get("data").get(key);
    let missing = |key: &str| {
        data(key)
            .is_none()
            .then(|| Cause::required(format!("data[{key}]"), ""))
    };
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let annotation = secret
                .pointer("/metadata/annotations")
                .get(ACCOUNT)
                .and_then(Value::as_str);
            if annotation.is_none_or(str::is_empty) {
                causes.push(Cause::required(
                    format!("metadata.annotations[{ACCOUNT}]"),
                    "",
                ));
            }
        }
        "kubernetes.io/dockerconfigjson" => causes.extend(json_of(secret, ".dockerconfigjson")),
        "kubernetes.io/dockercfg" => causes.extend(json_of(secret, ".dockercfg")),
        "kubernetes.io/tls" => {
            causes.extend(["tls.crt", "tls.key"].into_iter().filter_map(missing))
        }
        "kubernetes.io/ssh-auth" if data("ssh-privatekey").is_none_or(|value| value == "") => {
            causes.push(Cause::required("data[ssh-privatekey]", ""));
        }
        "kubernetes.io/basic-auth" if data("username").is_none() && data("password").is_none() => {
            causes.extend(["username", "password"].into_iter().filter_map(missing));
        }
        _ => {}
    }
}

/// Checks that the value under `key` is there and is JSON; the error does not contain it.
fn json_of(secret: &Place<'_>, key: &str) -> Option<Cause> {
    let field = format!("data[{key}]");
    let Some(text) = secret.get("data").get(key).and_then(Value::as_str) else {
        return Some(Cause::required(field, ""));
    };
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let error = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).err()?;
    let why = if bytes.is_empty() {
        "unexpected end of JSON input".to_owned()
    } else {
        error.to_string()
    };
    Some(Cause::invalid(
        field,
        &"<secret contents redacted>".into(),
        &why,
    ))
}

fn secret_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    stays(old, new, &["data"], causes);
}

fn map_stays(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    stays(old, new, &["data", "binaryData"], causes);
}

/// Checks that an immutable object keeps its data.
fn stays(old: &Value, new: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    let is_immutable = |object: &Value| {
        object
            .get("immutable")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    if !is_immutable(old) {
        return;
    }
    if !is_immutable(new) {
        causes.push(Cause::forbidden("immutable", FROZEN));
    }
    let of = |object: &Value, field: &str| object.get(field).cloned().unwrap_or_default();
    for field in fields {
        if !same(&of(old, field), &of(new, field)) {
            causes.push(Cause::forbidden(*field, FROZEN));
        }
    }
}

fn holder(holder: &Place<'_>, causes: &mut Vec<Cause>) {
    if holder.value == "" {
        causes.push(holder.refusal("must not be empty"));
    }
}

fn strategy(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let (strategy, preferred) = (spec.text("strategy"), spec.text("preferredHolder"));
    if spec.has("strategy") {
        // names of others need a domain
        let is_own = strategy == "OldestEmulationVersion";
        let faults = if is_own || strategy.contains('/') {
            names::qualified_name(strategy)
        } else {
            vec!["must be one of the standard strategies or fully qualified".to_owned()]
        };
        causes.extend(
            faults
                .iter()
                .filter(|_| !is_own)
                .map(|why| spec.invalid("strategy", &strategy.into(), why)),
        );
    }
    if !preferred.is_empty() && strategy.is_empty() {
        let why = "may only be specified if `strategy` is defined";
        causes.push(Cause::forbidden(spec.field("preferredHolder"), why));
    }
}

/// Checks the value of a priority class; those of the system have names of their own.
fn priority(class: &Place<'_>, causes: &mut Vec<Cause>) {
    const HIGHEST: i64 = 1_000_000_000;
    let value = class.number("value").unwrap_or_default();
    match text_or_empty(class.value, "/metadata/name") {
        name @ ("system-node-critical" | "system-cluster-critical") => {
            let own = if name == "system-node-critical" {
                2_000_001_000
            } else {
                2_000_000_000
            };
            if value != own {
                causes.push(reserved_cause(&format!(
                    "value of {name} PriorityClass must be {own}"
                )));
            }
        }
        name if name.starts_with("system-") => {
            causes.push(reserved_cause(&format!(
                "{name} is not a known system priority class"
            )));
        }
        _ if value > HIGHEST => {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            causes.push(Cause::forbidden("value", &why));
        }
        _ => {}
    }
}

fn reserved_cause(error: &str) -> Cause {
    let why = format!(
        "priority class names with 'system-' prefix are reserved for system use only. error: {error}"
    );
    Cause::forbidden("metadata.name", &why)
}

fn check_repeated(list: &Place<'_>, causes: &mut Vec<Cause>) {
    for (index, toleration) in repeats_by(list.list(), canonical) {
        causes.push(Cause::duplicate_value(
            list.item(index, toleration).path(),
            toleration,
        ));
    }
}
