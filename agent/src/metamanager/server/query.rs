//! The query of a request, and the options of a call that it makes. Pure.

use http::Uri;
use serde_json::{Map, Value, json};

/// The parameters, decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query of a URI.
    pub(super) fn of(uri: &Uri) -> Self {
        Self(
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// Returns the first value of `name` if it is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// Returns whether a flag is given with a value other than `0` and `false`.
    pub(super) fn flag(&self, name: &str) -> bool {
        let value = self
            .0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str());
        value.is_some_and(|value| !matches!(value, "0" | "false"))
    }

    /// Returns the options of a write: `CreateOptions`, `UpdateOptions` and `PatchOptions` have the same fields.
    pub(super) fn write_options(&self) -> Value {
        let mut options = Map::new();
        for name in ["fieldManager", "fieldValidation"] {
            if let Some(value) = self.get(name) {
                options.insert(name.to_owned(), value.into());
            }
        }
        if let Some(stage) = self.get("dryRun") {
            options.insert("dryRun".to_owned(), json!([stage]));
        }
        if self.flag("force") {
            options.insert("force".to_owned(), true.into());
        }
        Value::Object(options)
    }

    /// Returns the options of a delete: the query overrides the body.
    pub(super) fn delete_options(&self, body: Value) -> Value {
        let mut options = if let Value::Object(options) = body {
            options
        } else {
            Map::new()
        };
        if let Some(policy) = self.get("propagationPolicy") {
            options.insert("propagationPolicy".to_owned(), policy.into());
        }
        if let Some(seconds) = self
            .get("gracePeriodSeconds")
            .and_then(|text| text.parse::<i64>().ok())
        {
            options.insert("gracePeriodSeconds".to_owned(), seconds.into());
        }
        if let Some(stage) = self.get("dryRun") {
            options.insert("dryRun".to_owned(), json!([stage]));
        }
        Value::Object(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_the_query() {
        let query = |text: &str| Query::of(&format!("/x?{text}").parse().unwrap());
        assert_eq!(query("").write_options(), json!({}));
        assert_eq!(
            query("fieldManager=kubectl%20x&dryRun=All&force=true&other=1").write_options(),
            json!({"fieldManager": "kubectl x", "dryRun": ["All"], "force": true}),
        );
        assert_eq!(
            query("gracePeriodSeconds=0")
                .delete_options(json!({"gracePeriodSeconds": 30, "kind": "DeleteOptions"})),
            json!({"gracePeriodSeconds": 0, "kind": "DeleteOptions"}),
        );
        assert_eq!(
            query("propagationPolicy=Orphan").delete_options(Value::Null),
            json!({"propagationPolicy": "Orphan"})
        );
        assert!(query("watch").flag("watch") && !query("watch=false").flag("watch"));
    }
}
