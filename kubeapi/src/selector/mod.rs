//! Label and field selectors: which objects of a collection a request asks for.

use serde_json::Value;

use crate::{
    object::{items, names::path_segment, text_or_empty},
    registry::Kind,
    status::StatusError,
};
use objectstore::{Object, StoreError};

mod fields;
mod labels;
mod lexer;

use fields::FieldRequirement;
use labels::LabelRequirement;

/// Which objects of a collection a request asks for; by default all of them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

/// Returns the only name that a field selector allows; `None` if it allows several.
pub(crate) fn selected_name(fields: &str) -> Option<String> {
    fields::exact_value(fields, "metadata.name").filter(|name| path_segment(name).is_empty())
}

impl Selection {
    /// Parses the query parameters `labelSelector` and `fieldSelector`.
    pub fn parse(
        kind: &Kind,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, StatusError> {
        let labels = labels
            .map(labels::parse)
            .transpose()
            .map_err(StatusError::bad_request)?;
        let fields = fields
            .map(|text| fields::parse(kind, text))
            .transpose()
            .map_err(StatusError::bad_request)?;
        Ok(Self {
            labels: labels.unwrap_or_default(),
            fields: fields.unwrap_or_default(),
        })
    }

    /// Parses a `LabelSelector`; `None` for an invalid one.
    pub fn of_labels(selector: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut terms = Vec::new();
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            terms.push(format!("{key}={}", text(value)?));
        }
        for one in items(selector, "/matchExpressions") {
            let key = text_or_empty(one, "/key");
            let values: Option<Vec<_>> = items(one, "/values").iter().map(text).collect();
            let values = values?.join(",");
            terms.push(match text_or_empty(one, "/operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                _ => return None,
            });
        }
        let labels = labels::parse(&terms.join(",")).ok()?;
        Some(Self {
            labels,
            fields: Vec::new(),
        })
    }

    /// Reports whether `object` is selected.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| {
            labels
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        };
        self.labels
            .iter()
            .all(|requirement| requirement.matches(label(requirement.key())))
            && self
                .fields
                .iter()
                .all(|requirement| requirement.matches(object))
    }

    /// Reports whether a stored object is selected; parses no more of it than it must.
    pub fn selects(&self, object: &Object) -> Result<bool, StoreError> {
        if !self.labels.is_empty() {
            let labels = object.labels()?;
            let label = |key: &str| labels.get(key).map(String::as_str);
            if !self
                .labels
                .iter()
                .all(|requirement| requirement.matches(label(requirement.key())))
            {
                return Ok(false);
            }
        }
        for requirement in &self.fields {
            if !requirement.selects(object)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests;
