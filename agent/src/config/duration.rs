//! Durations in Go's notation: `1h15m30.5s`, `100ms`, `0`.

use std::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Parses a duration as Go's `time.ParseDuration` does; `None` for invalid and for negative ones.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut nanoseconds: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number);
        let unit = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanoseconds = nanoseconds.checked_add(parse_scaled(number, *scale)?)?;
        rest = after;
    }
    // Go's own limit: 63 bits of nanoseconds, 292 years
    (nanoseconds <= i64::MAX as u64).then(|| Duration::from_nanos(nanoseconds))
}

/// Parses a decimal number of units of `scale` nanoseconds; fractions of a nanosecond are cut off.
fn parse_scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut total = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.chars() {
        place /= 10;
        total = total.checked_add(u64::from(digit.to_digit(10)?) * place)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read() {
        let table = [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("10s", Some(10_000)),
            ("5m0s", Some(300_000)),
            ("4h0m0s", Some(14_400_000)),
            ("100ms", Some(100)),
            ("1.5s", Some(1_500)),
            (".5s", Some(500)),
            ("1.s", Some(1_000)),
            ("+1s", Some(1_000)),
            ("1000000µs", Some(1_000)),
            ("", None),
            ("+", None),
            ("10", None),
            ("-1s", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("1 s", None),
            ("1d", None),
            ("9999999999999h", None),
            ("99999999999999999999s", None),
        ];
        for (text, milliseconds) in table {
            assert_eq!(
                parse(text),
                milliseconds.map(Duration::from_millis),
                "{text}"
            );
        }
    }
}
