//! Durations as people write them: `250ms`, `5s`, `2m`, `30d`. Pure.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

const DAY: u64 = 24 * 60 * 60 * 1000;
/// The longest duration, milliseconds: ten years. Sums of several never overflow a clock.
const MAX_MILLIS: u64 = 3650 * DAY;

/// A duration in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a duration: expected a whole number with a unit, for example 250ms, 5s, 2m, 3h or 30d"
)]
pub struct ParsePeriodError(String);

impl Period {
    /// Creates a duration of milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// Creates a duration of seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the duration.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Reports whether the duration is zero.
    pub const fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl FromStr for Period {
    type Err = ParsePeriodError;

    fn from_str(text: &str) -> Result<Self, ParsePeriodError> {
        let no = || ParsePeriodError(text.chars().take(40).collect());
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(no)?;
        let (number, unit) = text.split_at(end);
        let number: u64 = number.parse().map_err(|_| no())?;
        let factor = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            "d" => DAY,
            _ => return Err(no()),
        };
        let millis = number
            .checked_mul(factor)
            .filter(|millis| *millis <= MAX_MILLIS)
            .ok_or_else(no)?;
        Ok(Self::millis(millis))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis.is_multiple_of(1000) {
            write!(f, "{}s", millis / 1000)
        } else {
            write!(f, "{millis}ms")
        }
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_a_number_and_a_unit() {
        let read = |text: &str| {
            text.parse::<Period>()
                .map(|period| period.get().as_millis())
        };
        let rows = [
            ("0s", 0),
            ("250ms", 250),
            ("5s", 5000),
            (" 2m ", 120_000),
            ("24h", 86_400_000),
            ("30d", 2_592_000_000),
        ];
        for (text, millis) in rows {
            assert_eq!(read(text), Ok(millis), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 s",
            "3651d",
            "99999999999999999999s",
            "5sec",
        ] {
            assert!(
                read(text).unwrap_err().to_string().contains("250ms"),
                "{text}"
            );
        }
    }

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["0s", "250ms", "90s"] {
            let period: Period = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(period).unwrap(), text);
        }
    }
}
