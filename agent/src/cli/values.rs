//! Parsers of option values. Each error says which form the option expects. The program `cloudsim` uses them as well.

use std::{
    fmt::Display,
    ops::{Bound, RangeBounds, RangeInclusive},
    str::FromStr,
};

use jiff::{SignedDuration, Timestamp};

/// The units of quantities, as in Kubernetes. The empty one is last: every number ends with it.
const UNITS: [(&str, u64); 9] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("", 1),
];

/// Returns a parser of whole numbers in a range.
pub fn number<T>(
    range: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number{}", limits(&range)))
    }
}

/// Describes the limits of a range.
fn limits<T: Display>(range: &impl RangeBounds<T>) -> String {
    match (range.start_bound(), range.end_bound()) {
        (Bound::Included(least), Bound::Included(most)) => format!(" from {least} to {most}"),
        (Bound::Included(least), _) => format!(", at least {least}"),
        _ => String::new(),
    }
}

/// Parses a port; 0 is accepted.
///
/// # Errors
/// It is no port.
pub fn port(text: &str) -> Result<u16, String> {
    port_in(text, 0..=u16::MAX)
}

/// Parses the port of a server elsewhere.
///
/// # Errors
/// It is no port, or 0.
pub fn remote_port(text: &str) -> Result<u16, String> {
    port_in(text, 1..=u16::MAX)
}

fn port_in(text: &str, range: RangeInclusive<u16>) -> Result<u16, String> {
    let (least, most) = (*range.start(), *range.end());
    let port = text.parse().ok().filter(|port| range.contains(port));
    port.ok_or_else(|| format!("expected a port from {least} to {most}"))
}

/// Parses a klog verbosity. Any whole number is accepted, as by EdgeCore: more than 6 is 6.
///
/// # Errors
/// It is no number.
pub fn verbosity(text: &str) -> Result<i32, String> {
    let expected = "expected a whole number from -1 (only errors) to 6 (everything)";
    text.parse().map_err(|_| expected.to_owned())
}

/// Parses a number of bytes, more than 0, with or without a unit of Kubernetes.
///
/// # Errors
/// It is no such number.
pub fn bytes(text: &str) -> Result<u64, String> {
    let parsed = UNITS.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?;
        let number: u64 = number.parse().ok()?;
        number.checked_mul(*factor)
    });
    let parsed = parsed.filter(|bytes| (1..=i64::MAX.unsigned_abs()).contains(bytes));
    parsed.ok_or_else(|| {
        "expected a number of bytes, with or without a unit, for example 1048576, 512Mi or 8Gi"
            .to_owned()
    })
}

/// Parses a fraction.
///
/// # Errors
/// It is no number from 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    let fraction = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    fraction.ok_or_else(|| "expected a number from 0 to 1, for example 0.05".to_owned())
}

/// Parses a time: RFC 3339, or a duration before now, such as `2h` or `3d`.
///
/// # Errors
/// It is neither.
pub fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let expected = || {
        "expected a duration before now, for example 2h, or a time, for example 2026-01-31T12:00:00Z".to_owned()
    };
    let duration = duration(text).ok_or_else(expected)?;
    clock::now().checked_sub(duration).map_err(|_| expected())
}

fn duration(text: &str) -> Option<SignedDuration> {
    let duration = match text.strip_suffix('d') {
        Some(days) => SignedDuration::from_hours(days.parse::<i64>().ok()?.checked_mul(24)?),
        None => text.parse().ok()?,
    };
    (!duration.is_negative()).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_units_of_kubernetes() {
        for (text, expected) in [
            ("1", Some(1)),
            ("16777216", Some(16 << 20)),
            ("512Mi", Some(512 << 20)),
            ("8Gi", Some(8 << 30)),
            ("2k", Some(2000)),
            ("1T", Some(1_000_000_000_000)),
            ("0", None),
            ("-1Gi", None),
            ("8GB", None),
            ("8 Gi", None),
            ("Gi", None),
            ("9000000Ti", None),
            ("1.5Gi", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_the_range() {
        for (error, expected) in [
            (number(1..=16)("17"), "from 1 to 16"),
            (number(1..)("0"), "at least 1"),
            (number(..)("x"), "a whole number"),
            (remote_port("0").map(i32::from), "from 1 to 65535"),
            (port("65536").map(i32::from), "from 0 to 65535"),
            (verbosity("many"), "from -1"),
        ] {
            let error = error.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for text in ["0", "1", "0.05", "1e-3"] {
            assert!(fraction(text).is_ok(), "{text}");
        }
        for text in ["-0.1", "1.01", "NaN", "inf", "5%", ""] {
            assert!(fraction(text).unwrap_err().contains("0 to 1"), "{text}");
        }
    }

    #[test]
    fn times_are_absolute_or_before_now() {
        let now = clock::now();
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("5m", 300),
            ("2h", 7200),
            ("3d", 259_200),
        ] {
            let age = now.duration_since(time(text).unwrap()).as_secs();
            assert!((seconds - 2..=seconds).contains(&age), "{text}: {age}");
        }
        let absolute: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        assert_eq!(time("2026-01-31T12:00:00Z"), Ok(absolute));
        for bad in ["", "yesterday", "-2h", "2", "99999999999d"] {
            assert!(time(bad).unwrap_err().contains("for example 2h"), "{bad}");
        }
    }
}
