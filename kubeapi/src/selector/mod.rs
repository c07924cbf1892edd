//! Label and field selectors: which objects of a collection a request asks for.

use serde_json::Value;

use crate::{registry::Kind, status::StatusError};

mod fields;
mod labels;
mod lexer;

use fields::FieldRequirement;
use labels::LabelRequirement;

/// Which objects of a collection a request asks for; by default all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

impl Selection {
    /// Of the query parameters `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(
        kind: &Kind,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, StatusError> {
        let labels = labels.map(labels::parse).transpose().map_err(StatusError::bad_request)?;
        let fields =
            fields.map(|text| fields::parse(kind, text)).transpose().map_err(StatusError::bad_request)?;
        Ok(Self { labels: labels.unwrap_or_default(), fields: fields.unwrap_or_default() })
    }

    /// Whether `object` is asked for.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(object))
            && self.fields.iter().all(|requirement| requirement.matches(object))
    }

    /// Whether every object is.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests;
