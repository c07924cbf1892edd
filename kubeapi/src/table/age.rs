//! Formats times as ages, as kubectl prints them.

use jiff::Timestamp;
use serde_json::Value;

/// Returns how long ago `time` (RFC 3339) was.
pub fn since(time: Option<&Value>, now: Timestamp) -> String {
    match time.and_then(Value::as_str).filter(|text| !text.is_empty()) {
        None => "<unknown>".to_owned(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(time) => human(now.duration_since(time).as_secs()),
            Err(_) => "<invalid>".to_owned(),
        },
    }
}

/// Formats a duration in its shortest form: `45s`, `3m12s`, `5h`, `2d4h`, `1y20d`.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    // The clocks of two machines may differ a little.
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 1, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY + HOUR, "8d"),
            (729 * DAY, "729d"),
            (2 * 365 * DAY, "2y"),
            (2 * 365 * DAY + 5 * DAY, "2y5d"),
            (9 * 365 * DAY, "9y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn a_time_that_is_none_has_no_age() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        assert_eq!(since(None, now), "<unknown>");
        assert_eq!(since(Some(&"yesterday".into()), now), "<invalid>");
        assert_eq!(since(Some(&"1970-01-12T13:46:30Z".into()), now), "10s");
    }
}
