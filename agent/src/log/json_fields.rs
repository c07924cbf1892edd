//! The fields of spans for lines in JSON: kept with the span as an object, and added to each line within it.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, FormattedFields, format::Writer},
    registry::Extensions,
};

/// Formats the fields of a span as a JSON object.
pub(super) struct JsonFields;

impl<'w> FormatFields<'w> for JsonFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut object = Object::default();
        fields.record(&mut object);
        write!(writer, "{}", Value::Object(object.0))
    }
}

/// Returns the fields of a span.
pub(super) fn of_span<N: 'static>(
    extensions: &Extensions<'_>,
) -> impl Iterator<Item = (std::borrow::Cow<'static, str>, Value)> {
    let text = extensions
        .get::<FormattedFields<N>>()
        .map(|fields| fields.fields.as_str())
        .unwrap_or_default();
    let object: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    object.into_iter().map(|(name, value)| (name.into(), value))
}

#[derive(Default)]
struct Object(Map<String, Value>);

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0
            .insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
