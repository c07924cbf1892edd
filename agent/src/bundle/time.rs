//! The time range of a bug report. Pure.

use jiff::Timestamp;

use crate::cli::LogArgs;

/// A range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Its begin.
    pub since: Timestamp,
    /// Its end; `None` for now.
    pub until: Option<Timestamp>,
}

impl From<&LogArgs> for TimeRange {
    fn from(logs: &LogArgs) -> Self {
        Self {
            since: logs.since,
            until: logs.until,
        }
    }
}

impl TimeRange {
    /// Reports whether the range contains this time.
    pub fn contains(&self, time: Timestamp) -> bool {
        time >= self.since && self.until.is_none_or(|until| time <= until)
    }

    /// Returns the lines of a log that are in the range. A line without a time belongs to the one before it.
    pub fn lines(&self, log: &str) -> String {
        // lines before the first time are old
        let (mut is_inside, mut result) = (false, String::new());
        for line in log.split_inclusive('\n') {
            if let Some(time) = time_of(line) {
                is_inside = self.contains(time);
            }
            if is_inside {
                result.push_str(line);
            }
        }
        result
    }
}

/// Returns the time with which a line of a log begins: as text, or in the field `timestamp` of JSON.
fn time_of(line: &str) -> Option<Timestamp> {
    let line = line.trim_start_matches("{\"timestamp\":\"");
    let end = line.find([' ', '"'])?;
    line[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_outside_of_the_range_are_left_out() {
        let range = TimeRange {
            since: "2026-01-01T12:00:00Z".parse().unwrap(),
            until: Some("2026-01-01T13:00:00Z".parse().unwrap()),
        };
        let log = "older\n2026-01-01T11:59:59.5Z a\n more of a\n2026-01-01T12:00:00.000001Z b\n more of b\n\
                   {\"timestamp\":\"2026-01-01T12:30:00Z\",\"level\":\"WARN\"}\n2026-01-01T13:00:01Z c\n";
        let expected = "2026-01-01T12:00:00.000001Z b\n more of b\n{\"timestamp\":\"2026-01-01T12:30:00Z\",\"level\":\"WARN\"}\n";
        assert_eq!(range.lines(log), expected);
    }
}
