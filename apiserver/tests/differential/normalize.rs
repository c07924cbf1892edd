//! Replaces in answers what differs from run to run: UIDs, times, resource versions, allocated addresses and ports, generated names.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{openapi, step::Step};

/// Values by their field.
const FIELDS: [(&str, &str); 18] = [
    ("resourceVersion", "VERSION"),
    ("uid", "UID"),
    ("gitVersion", "GIT"),
    ("gitCommit", "GIT"),
    ("buildDate", "TIME"),
    ("goVersion", "GO"),
    ("compiler", "GO"),
    ("gitTreeState", "GIT"),
    ("platform", "GO"),
    ("continue", "CONTINUE"),
    ("clusterIP", "ADDRESS"),
    ("token", "TOKEN"),
    ("storageVersionHash", "HASH"),
    ("hash", "HASH"),
    ("serverAddress", "ADDRESS"),
    ("serverRelativeURL", "URL"),
    ("healthCheckNodePort", "PORT"),
    ("nodePort", "PORT"),
];

/// Values by what they look like.
static PATTERNS: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "UID",
        ),
        (
            r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT[\d:]{8}\.\d+(Z|\+00:00)",
            "MICROTIME",
        ),
        (r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT[\d:]{8}(Z|\+00:00)", "TIME"),
        ("kube-api-access-[a-z0-9]{5}", "kube-api-access-ANY"),
        (r"\b([Mm]ade|gen|-generated)-[a-z0-9]{5}\b", "$1-ANY"),
    ]
    .map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead))
});

/// A whole object as text, in messages about it.
static OBJECT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?s)"[{\[].*[}\]]""#).unwrap());
/// The number of bytes from which texts are searched for objects.
const LONG_TEXT: usize = 400;

/// An age in a table, also that of a time in a request: it grows every day.
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[ydhm])?\d+[ydhms]$").unwrap());

/// Returns the answer to a request in the form that is compared.
pub(crate) fn normalize(step: &Step, code: u16, mut body: Value) -> Value {
    let path = step.request.split(' ').nth(1).unwrap_or_default();
    if path.starts_with("/openapi") {
        return openapi::summary(path, body);
    }
    shorten_tables(&mut body);
    let keeps_fields = step.request.starts_with("APPLY") || path.contains("fieldManager=full");
    Normalizer {
        keeps_fields,
        asked: &step.body,
    }
    .value(&mut body);
    if !body.is_object() {
        return body;
    }
    if body["status"] == "Failure" {
        shorten_failure(&mut body, code);
    }
    for (list, key) in [("resources", "name"), ("groups", "name"), ("items", "")] {
        index_by(&mut body, list, key);
    }
    body
}

/// Shortens the descriptions of columns, and replaces ages, also in the tables of a watch.
fn shorten_tables(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(shorten_tables),
        Value::Object(map) => {
            for column in map
                .get_mut("columnDefinitions")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if let Value::String(text) = &mut column["description"] {
                    *text = text.chars().take(30).collect();
                }
            }
            for row in map
                .get_mut("rows")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                for cell in row["cells"].as_array_mut().into_iter().flatten() {
                    if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                        *cell = "AGE".into();
                    }
                }
            }
            map.get_mut("object").into_iter().for_each(shorten_tables);
        }
        _ => {}
    }
}

struct Normalizer<'a> {
    keeps_fields: bool,
    /// The body of the request; its fields are compared unchanged.
    asked: &'a Value,
}

impl Normalizer<'_> {
    fn value(&self, value: &mut Value) {
        match value {
            Value::Object(map) => self.map(map),
            Value::Array(list) => list.iter_mut().for_each(|value| self.value(value)),
            Value::String(text) => self.text(text),
            _ => {}
        }
    }

    fn map(&self, map: &mut Map<String, Value>) {
        for (key, value) in map.iter_mut() {
            let field = FIELDS.iter().find(|(field, _)| field == key);
            let field = field.filter(|(field, _)| {
                (value.is_string() || value.is_number()) && !self.is_asked(field, value)
            });
            match (field, &mut *value) {
                (Some((_, instead)), value) => *value = (*instead).into(),
                (_, entries @ Value::Array(_)) if key == "managedFields" => {
                    *entries = self.managers(entries)
                }
                // distributions add volumes of their own to each pod
                (_, Value::Array(sources)) if key == "sources" => {
                    sources
                        .retain(|source| source["configMap"]["name"] != "openshift-service-ca.crt");
                    sources.iter_mut().for_each(|source| self.value(source));
                }
                (_, Value::Array(list)) if key == "clusterIPs" => {
                    for ip in list.iter_mut().filter(|ip| !self.is_asked("clusterIP", ip)) {
                        *ip = "ADDRESS".into();
                    }
                }
                _ => self.value(value),
            }
        }
    }

    /// The caller of a watch or of a list wrote nothing.
    fn is_asked(&self, field: &str, value: &Value) -> bool {
        fn has(asked: &Value, field: &str, value: &Value) -> bool {
            match asked {
                Value::Object(map) => {
                    map.get(field) == Some(value)
                        || map.values().any(|inner| has(inner, field, value))
                }
                Value::Array(list) => list.iter().any(|inner| has(inner, field, value)),
                _ => false,
            }
        }
        !matches!(field, "resourceVersion")
            && (has(self.asked, field, value) || value == "None" || value == "")
    }

    /// Returns the entries of `managedFields` by who did what, with their fields if these are compared. Their order depends on seconds.
    fn managers(&self, entries: &mut Value) -> Value {
        let mut managers = Map::new();
        for entry in entries.as_array_mut().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let mut words = format!(
                "{} {} {} {}",
                text("manager"),
                text("operation"),
                text("apiVersion"),
                text("subresource")
            );
            words.truncate(words.trim_end().len());
            if !entry["time"].is_string() {
                words += " without time";
            }
            let fields = if self.keeps_fields {
                entry["fieldsV1"].take()
            } else {
                Value::Bool(true)
            };
            managers.insert(words, fields);
        }
        managers.into()
    }

    fn text(&self, text: &mut String) {
        if text.len() > LONG_TEXT {
            *text = OBJECT.replace_all(text, "\"OBJECT\"").into_owned();
        }
        for (pattern, instead) in &*PATTERNS {
            if pattern.is_match(text) && !self.asked.to_string().contains(text.as_str()) {
                *text = pattern.replace_all(text, *instead).into_owned();
            }
        }
    }
}

/// Removes from a failure what all failures have, and from its message the causes, which it repeats. Causes are
/// compared by their fields; their order does not matter.
fn shorten_failure(body: &mut Value, code: u16) {
    if let Some(Value::Array(causes)) = body.pointer("/details/causes") {
        let text =
            |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
        let mut fields = BTreeMap::<_, Vec<_>>::new();
        for cause in causes {
            let (reason, message) = (text(cause, "reason"), text(cause, "message"));
            fields
                .entry(text(cause, "field"))
                .or_default()
                .push(format!("{reason}: {message}"));
        }
        fields.values_mut().for_each(|causes| causes.sort());
        let message = body["message"].as_str().unwrap_or_default();
        if let Some((start, _)) = message.split_once(" is invalid: ") {
            body["message"] = format!("{start} is invalid").into();
        }
        body["details"]["causes"] = json!(fields);
    }
    let common = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code});
    let (Value::Object(common), Some(body)) = (common, body.as_object_mut()) else {
        return;
    };
    if common
        .iter()
        .all(|(key, value)| body.get(key) == Some(value))
    {
        body.retain(|key, _| !common.contains_key(key));
    }
}

/// Replaces a list of a discovery document by a map, so that one more entry is one difference.
fn index_by(body: &mut Value, list: &str, key: &str) {
    let is_discovery = matches!(
        body["kind"].as_str(),
        Some("APIResourceList" | "APIGroupList" | "APIGroupDiscoveryList" | "APIVersions")
    );
    let Some(entries) = body.get_mut(list).and_then(Value::as_array_mut) else {
        return;
    };
    if !is_discovery {
        return;
    }
    let named = std::mem::take(entries).into_iter().map(|mut entry| {
        let name = if key.is_empty() {
            entry["metadata"]["name"].take()
        } else {
            entry[key].take()
        };
        for version in entry["versions"].as_array_mut().into_iter().flatten() {
            if version.get("resources").is_some() {
                version["kind"] = "APIResourceList".into();
                index_resources(version);
            }
        }
        (name.as_str().unwrap_or_default().to_owned(), entry)
    });
    body[list] = named.collect::<Map<_, _>>().into();
}

/// As [`index_by`], for the resources of aggregated discovery.
fn index_resources(version: &mut Value) {
    let entries = version["resources"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    let named = entries.into_iter().map(|mut entry| {
        let name = entry["resource"].take();
        (name.as_str().unwrap_or_default().to_owned(), entry)
    });
    version["resources"] = named.collect::<Map<_, _>>().into();
}
