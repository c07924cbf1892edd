//! Spans of time as Go writes them: `1h30m`, `250ms`.

use jiff::SignedDuration;

/// Reads a span; without a unit only `0`.
pub fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail
            .find(|char: char| char.is_ascii_digit() || char == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        nanos = nanos.checked_add(whole.checked_mul(scale)?)?;
        let mut unit = scale;
        for digit in fraction.bytes() {
            unit /= 10;
            nanos = nanos.checked_add(
                i128::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * unit,
            )?;
        }
        rest = tail;
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}
