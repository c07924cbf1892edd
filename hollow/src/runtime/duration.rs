//! Parses durations as annotations, image names and commands write them.

use std::{fmt::Display, time::Duration};

use serde::Deserialize;

/// Parses `500ms`, `2s` or `1m30s`.
pub(super) fn duration(value: &str) -> Result<Duration, String> {
    let wrong =
        |e: &dyn Display| format!("{value:?} is not a duration like 500ms, 2s or 1m30s: {e}");
    let signed: jiff::SignedDuration = value.parse().map_err(|e: jiff::Error| wrong(&e))?;
    Duration::try_from(signed).map_err(|e| wrong(&e))
}

/// Deserializes such a text for serde.
pub(super) fn duration_text<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    duration(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}
