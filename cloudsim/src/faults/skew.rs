//! A wrong clock of a node: all times that its messages have are shifted. Pure.

use std::{fmt, str::FromStr};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::Value;
use wire::Message;

use super::{ParsePeriodError, Period};

/// Fields with times that the cloud has set and a node repeats.
const OF_CLOUD: [&str; 2] = ["creationTimestamp", "deletionTimestamp"];
/// A number of milliseconds since 1970 in a field of this name is a time.
const TIMESTAMP: &str = "timestamp";

/// How fast a clock is; negative for a slow one. Written as a duration: `5m`, `-90s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    by: Period,
    is_slow: bool,
}

impl Skew {
    /// Shifts the times of a message from the node.
    pub(super) fn shift(self, message: &mut Message) {
        message.header.timestamp = message.header.timestamp.saturating_add(self.millis());
        self.shift_value("", &mut message.content);
    }

    fn millis(self) -> i64 {
        let millis = i64::try_from(self.by.get().as_millis()).unwrap_or(i64::MAX);
        if self.is_slow { -millis } else { millis }
    }

    fn shift_value(self, key: &str, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(shifted) = self.shift_text(key, text) {
                    *text = shifted;
                }
            }
            Value::Number(number) if key == TIMESTAMP => {
                if let Some(millis) = number.as_i64() {
                    *value = millis.saturating_add(self.millis()).into();
                }
            }
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.shift_value(key, item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.shift_value(key, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns a text with another time: a time itself, or JSON with times. `None` if it has none.
    fn shift_text(self, key: &str, text: &str) -> Option<String> {
        if text.starts_with(['{', '[']) {
            let mut inner = serde_json::from_str(text).ok()?;
            self.shift_value(key, &mut inner);
            return Some(inner.to_string());
        }
        if OF_CLOUD.contains(&key) {
            return None;
        }
        let is_time = text.len() >= "2000-01-01T00:00:00Z".len() && text.ends_with('Z');
        let time: Timestamp = text.parse().ok().filter(|_| is_time)?;
        let shifted = time
            .checked_add(SignedDuration::from_millis(self.millis()))
            .ok()?;
        // as precise as before
        let digits = text.split_once('.').map_or(0, |(_, rest)| rest.len() - 1);
        Some(format!("{shifted:.digits$}"))
    }
}

impl FromStr for Skew {
    type Err = ParsePeriodError;

    fn from_str(text: &str) -> Result<Self, ParsePeriodError> {
        let (is_slow, by) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Ok(Self {
            by: by.parse()?,
            is_slow,
        })
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_slow { "-" } else { "" };
        write!(f, "{sign}{}", self.by)
    }
}

impl Serialize for Skew {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Skew {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_the_node_are_shifted_and_those_of_the_cloud_are_not() {
        let mut message = Message {
            content: json!({
                "metadata": {"creationTimestamp": "2025-06-01T12:00:00Z", "name": "2025"},
                "spec": {"renewTime": "2025-06-01T12:00:00.000001Z"},
                "twins": [{"metadata": {"timestamp": 1_000_000}}],
                "text": "{\"startedAt\":\"2025-06-01T12:00:00Z\"}",
            }),
            ..Message::default()
        };
        message.header.timestamp = 500_000;
        "-90s".parse::<Skew>().unwrap().shift(&mut message);
        assert_eq!(message.header.timestamp, 410_000);
        let expected = json!({
            "metadata": {"creationTimestamp": "2025-06-01T12:00:00Z", "name": "2025"},
            "spec": {"renewTime": "2025-06-01T11:58:30.000001Z"},
            "twins": [{"metadata": {"timestamp": 910_000}}],
            "text": "{\"startedAt\":\"2025-06-01T11:58:30Z\"}",
        });
        assert_eq!(message.content, expected);
    }

    #[test]
    fn skews_are_written_as_they_are_read() {
        for text in ["300s", "-90s", "250ms"] {
            let skew: Skew = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(skew).unwrap(), text);
        }
        assert!("--5s".parse::<Skew>().is_err() && "+5s".parse::<Skew>().is_err());
    }
}
