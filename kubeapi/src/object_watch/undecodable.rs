//! Objects that cannot be decoded: which versions of them were logged, and the text of the error without values of the object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Namespace and name.
type Key = (String, String);

/// The objects of one kind that cannot be decoded now. Each is logged once per version.
#[derive(Debug)]
pub(super) struct Undecodable {
    kind: String,
    /// The resource version that was logged.
    logged: BTreeMap<Key, String>,
    /// During a list: what was logged before. Objects that are not in the list are forgotten with it.
    before: BTreeMap<Key, String>,
}

impl Undecodable {
    pub(super) fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            logged: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    pub(super) fn begin_list(&mut self) {
        // a list that failed has seen a part of the objects
        self.before.append(&mut self.logged);
    }

    pub(super) fn end_list(&mut self) {
        self.before.clear();
    }

    /// Logs that an object cannot be decoded, unless this version was logged.
    pub(super) fn report(&mut self, meta: &ObjectMeta, error: &serde_json::Error) {
        let (key, version) = (key(meta), meta.resource_version.clone().unwrap_or_default());
        let before = self.before.remove(&key);
        let known = self.logged.insert(key, version.clone()).or(before);
        if known.as_ref() == Some(&version) {
            return;
        }
        tracing::warn!(
            kind = self.kind,
            namespace = meta.namespace,
            name = meta.name,
            resource_version = version,
            error = without_values(&self.kind, error),
            "cannot decode object; this version is ignored, correct the object"
        );
    }

    pub(super) fn forget(&mut self, meta: &ObjectMeta) {
        if !self.logged.is_empty() || !self.before.is_empty() {
            let key = key(meta);
            self.logged.remove(&key);
            self.before.remove(&key);
        }
    }
}

fn key(meta: &ObjectMeta) -> Key {
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Returns the text of an error of serde without the value of a field, which may be a secret.
pub(crate) fn without_values(kind: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    if kind == "Secret" {
        return format!("wrong type of a field at column {}", error.column());
    }
    let value = text.find("string \"").zip(text.rfind("\", expected "));
    match value {
        Some((begin, end)) if begin < end => {
            format!("{}a string{}", &text[..begin], &text[end + 1..])
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_fields_are_not_in_the_text_of_an_error() {
        fn text<K: DeserializeOwned>(kind: &str, data: &serde_json::Value) -> String {
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, "data": data});
            let decoded = serde_json::from_str::<K>(&object.to_string());
            without_values(kind, &decoded.map(|_| ()).unwrap_err())
        }
        for data in [json!("pass, expected word"), json!({"key": ["pass"]})] {
            let said = text::<ConfigMap>("ConfigMap", &data);
            assert!(
                !said.contains("pass") && said.contains("expected"),
                "{said}"
            );
            let said = text::<Secret>("Secret", &data);
            assert!(!said.contains("pass") && said.contains("column"), "{said}");
        }
    }
}
