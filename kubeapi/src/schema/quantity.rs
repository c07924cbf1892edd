//! Amounts of resources: `100m`, `1.5Gi`, `1e3`.

use std::fmt;

/// An amount, to be compared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity {
    /// In units of 10^-9.
    nanos: i128,
}

impl Quantity {
    /// Reads `[+-]digits[.digits][suffix]`; a suffix is a power of ten, of two, or an exponent. What is finer than 10^-9
    /// rounds up, as in the real server.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
        let (digits, suffix) = text.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, exponent) = scale(suffix)?;
        let nanos = amount(whole, fraction, base, exponent);
        Some(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// Nothing.
    pub(crate) const ZERO: Self = Self { nanos: 0 };

    /// One.
    pub(crate) const ONE: Self = Self { nanos: NANOS };

    /// As text of the family that `like` is of: with binary suffixes or decimal ones.
    pub(crate) fn written_like(self, like: &str) -> String {
        let is_binary = like.ends_with('i') && self.nanos.abs() >= 1024 * NANOS;
        if is_binary { binary(self.nanos) } else { self.to_string() }
    }

    /// The sum, as much as there can be at most.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }

    /// What is left without the other.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }

    /// How many times `other` it is.
    #[allow(clippy::cast_precision_loss, reason = "a ratio is told in six digits")]
    pub(crate) fn ratio(self, other: Self) -> f64 {
        self.nanos as f64 / other.nanos as f64
    }

    /// Whether it is more than nothing.
    pub(crate) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Whether it is less than nothing.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

/// `text` as the real server writes the same amount: no fraction, the largest suffix that leaves a whole number, of the family
/// that the text has; what is below 1024 is decimal. `None` for what is no amount, and for one too large to be written anew.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let nanos = Quantity::parse(text)?.nanos;
    if nanos.unsigned_abs() >= LARGEST {
        return None;
    }
    let is_suffix = |char: char| !(char.is_ascii_digit() || matches!(char, '.' | '+' | '-'));
    let suffix = text.find(is_suffix).and_then(|at| text.get(at..)).unwrap_or_default();
    let small = nanos.abs() < 1024 * NANOS;
    Some(match suffix {
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" if !small => binary(nanos),
        suffix if suffix.starts_with(['e', 'E']) && suffix.len() > 1 && !suffix.ends_with('i') => {
            decimal(nanos, |exponent| if exponent == 0 { String::new() } else { format!("e{exponent}") })
        }
        _ => decimal(nanos, |exponent| SUFFIXES.get(suffix_at(exponent)).copied().unwrap_or_default().into()),
    })
}

/// Amounts up to here have a suffix of their own: 1024 E.
const LARGEST: u128 = 1024 * 1_000_000_000_000_000_000 * 1_000_000_000;

/// The decimal suffixes from 10^-9 on, each a thousand times the one before.
const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

fn suffix_at(exponent: i32) -> usize {
    usize::try_from(exponent / 3 + 3).unwrap_or_default()
}

fn decimal(mut nanos: i128, suffix: impl Fn(i32) -> String) -> String {
    let mut exponent = -9;
    while nanos != 0 && nanos % 1000 == 0 && exponent < 18 {
        nanos /= 1000;
        exponent += 3;
    }
    if nanos == 0 { "0".to_owned() } else { format!("{nanos}{}", suffix(exponent)) }
}

/// Parts of a unit round up, away from nothing.
fn binary(nanos: i128) -> String {
    let up = i128::from(nanos % NANOS != 0) * nanos.signum();
    let mut whole = nanos / NANOS + up;
    let mut suffix = "";
    for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if whole % 1024 != 0 {
            break;
        }
        whole /= 1024;
        suffix = next;
    }
    format!("{whole}{suffix}")
}

impl fmt::Display for Quantity {
    /// In decimal form, with the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.nanos, |exponent| {
            SUFFIXES.get(suffix_at(exponent)).copied().unwrap_or_default().into()
        }))
    }
}

/// The base and exponent that a suffix stands for.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            (10, is_number.then(|| exponent.parse().ok())??)
        }
    })
}

/// Nanos in a unit.
const NANOS: i128 = 1_000_000_000;

/// In nanos; an amount too large to be told from another one is the largest.
fn amount(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    // far more digits than any amount has that fits
    const DIGITS: usize = 30;
    let fraction = fraction.get(..DIGITS.min(fraction.len())).unwrap_or_default();
    let Ok(mantissa) = format!("0{whole}{fraction}").parse::<i128>() else { return i128::MAX };
    let places = u32::try_from(fraction.len()).unwrap_or_default();
    let power = |base: i128, exponent: u32| base.checked_pow(exponent);
    let mut up = power(base, exponent.max(0).unsigned_abs()).and_then(|power| power.checked_mul(NANOS));
    let mut down = power(10, places);
    if exponent < 0 {
        down = down.and_then(|down| down.checked_mul(power(base, exponent.unsigned_abs())?));
    }
    if mantissa == 0 {
        (up, down) = (Some(1), Some(1));
    }
    match (up.and_then(|up| up.checked_mul(mantissa)), down) {
        (Some(amount), Some(down)) => amount / down + i128::from(amount % down != 0),
        // too small to be anything but the smallest there is
        (Some(_), None) => 1,
        (None, _) => i128::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_compare_over_their_suffixes() {
        let equal = [
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E3", "1000"),
            ("1E", "1000P"),
            ("12e-3", "12m"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-1", "-1000m"),
            ("0", "0Gi"),
            ("0.1n", "1n"),
            ("0e999", "0"),
        ];
        for (left, right) in equal {
            assert_eq!(Quantity::parse(left).unwrap(), Quantity::parse(right).unwrap(), "{left} {right}");
        }
        for (less, more) in [
            ("99m", "0.1"),
            ("1M", "1Mi"),
            ("-1", "0"),
            ("1", "1e999"),
            ("1Ei", "99999999999999999999999999E"),
        ] {
            assert!(Quantity::parse(less).unwrap() < Quantity::parse(more).unwrap(), "{less} {more}");
        }
    }

    #[test]
    fn amounts_are_written_in_one_way() {
        let cases = [
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1Ki", "1Ki"),
            ("1500Mi", "1500Mi"),
            ("0Gi", "0"),
            ("0", "0"),
            ("1000", "1k"),
            ("128974848", "128974848"),
            ("1500", "1500"),
            ("1.50", "1500m"),
            ("+1", "1"),
            ("-1000m", "-1"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("12E6", "12e6"),
            ("100e-3", "100e-3"),
            ("1E", "1E"),
            ("2Ei", "2Ei"),
            ("1.1Ki", "1127"),
            ("0.0000000001", "1n"),
        ];
        for (text, expected) in cases {
            let written = canonical(text).unwrap();
            assert_eq!(written, expected, "{text}");
            assert_eq!(canonical(&written).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "x", "1e999", "9999999E"] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in
            ["", "+", ".", "m", "1 Gi", "1GiB", "1.2.3", "1e", "1e+", "0x10", "--1", "1e1.5", "NaN", "1K"]
        {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }
}
