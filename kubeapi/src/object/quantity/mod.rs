//! Quantities of resources: `100m`, `1.5Gi`, `1e3`. Parsing an invalid one returns `None` and never panics.

use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

/// A quantity that can be compared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// The quantity in units of 10^-9.
    nanos: i128,
}

impl Quantity {
    /// Parses `[+-]digits[.digits][suffix]`; a suffix is a power of ten or of two, or an exponent. Anything finer than 10^-9 is rounded
    /// up, as in the real server.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text
            .find(|char: char| !char.is_ascii_digit() && char != '.')
            .unwrap_or(text.len());
        let (digits, suffix) = text.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, exponent) = scale(suffix)?;
        let nanos = amount(whole, fraction, base, exponent);
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
        })
    }

    /// The quantity 0.
    pub const ZERO: Self = Self { nanos: 0 };

    /// The quantity 1.
    pub const ONE: Self = Self { nanos: NANOS };

    /// Formats it with binary or decimal suffixes, like `like`.
    pub fn written_like(self, like: &str) -> String {
        let is_binary = like.ends_with('i') && self.nanos.abs() >= 1024 * NANOS;
        if is_binary {
            with_binary_suffix(self.nanos)
        } else {
            self.to_string()
        }
    }

    /// Returns the sum, saturating at the largest quantity.
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }

    /// Returns the difference, saturating at the smallest quantity.
    pub fn minus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }

    /// Returns a quantity of whole units.
    pub fn whole(number: i64) -> Self {
        Self {
            nanos: i128::from(number) * NANOS,
        }
    }

    /// Returns the quantity as an integer, if it is one and fits.
    pub fn as_whole(self) -> Option<i64> {
        if self.nanos % NANOS == 0 {
            i64::try_from(self.nanos / NANOS).ok()
        } else {
            None
        }
    }

    /// Returns how many times `other` it is.
    #[allow(clippy::cast_precision_loss, reason = "a ratio is told in six digits")]
    pub fn ratio(self, other: Self) -> f64 {
        self.nanos as f64 / other.nanos as f64
    }

    /// Reports whether it is greater than 0.
    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Reports whether it is less than 0.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

/// Returns `text` as the real server writes the same quantity: no fraction, the largest suffix that leaves an integer, of the text's
/// own family; below 1024 it is decimal. `None` if the text is not a quantity, or one that is too large to be rewritten.
pub fn canonical(text: &str) -> Option<String> {
    let nanos = Quantity::parse(text)?.nanos;
    if nanos.unsigned_abs() >= LARGEST {
        return None;
    }
    let is_suffix = |char: char| !(char.is_ascii_digit() || matches!(char, '.' | '+' | '-'));
    let suffix = text
        .find(is_suffix)
        .and_then(|at| text.get(at..))
        .unwrap_or_default();
    let small = nanos.abs() < 1024 * NANOS;
    Some(match suffix {
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" if !small => with_binary_suffix(nanos),
        suffix if suffix.starts_with(['e', 'E']) && suffix.len() > 1 && !suffix.ends_with('i') => {
            decimal(nanos, |exponent| {
                if exponent == 0 {
                    String::new()
                } else {
                    format!("e{exponent}")
                }
            })
        }
        _ => decimal(nanos, |exponent| {
            SUFFIXES
                .get(suffix_at(exponent))
                .copied()
                .unwrap_or_default()
                .into()
        }),
    })
}

/// The largest quantity that is written with a suffix: 1024 E.
const LARGEST: u128 = 1024 * 1_000_000_000_000_000_000 * 1_000_000_000;

/// The decimal suffixes from 10^-9, each a thousand times the one before.
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
    if nanos == 0 {
        "0".to_owned()
    } else {
        format!("{nanos}{}", suffix(exponent))
    }
}

/// Formats with a binary suffix; parts of a unit are rounded up, away from zero.
fn with_binary_suffix(nanos: i128) -> String {
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
    /// Formats in decimal form, with the largest suffix that leaves an integer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.nanos, |exponent| {
            SUFFIXES
                .get(suffix_at(exponent))
                .copied()
                .unwrap_or_default()
                .into()
        }))
    }
}

/// Returns the base and exponent of a suffix.
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

/// The nanos in a unit.
const NANOS: i128 = 1_000_000_000;

/// Returns the amount in nanos; an amount that does not fit becomes the largest one.
fn amount(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    // Far more digits than any amount that fits has.
    const DIGITS: usize = 30;
    let fraction = fraction
        .get(..DIGITS.min(fraction.len()))
        .unwrap_or_default();
    let Ok(mantissa) = format!("0{whole}{fraction}").parse::<i128>() else {
        return i128::MAX;
    };
    let places = u32::try_from(fraction.len()).unwrap_or_default();
    let power = |base: i128, exponent: u32| base.checked_pow(exponent);
    let mut up =
        power(base, exponent.max(0).unsigned_abs()).and_then(|power| power.checked_mul(NANOS));
    let mut down = power(10, places);
    if exponent < 0 {
        down = down.and_then(|down| down.checked_mul(power(base, exponent.unsigned_abs())?));
    }
    if mantissa == 0 {
        (up, down) = (Some(1), Some(1));
    }
    match (up.and_then(|up| up.checked_mul(mantissa)), down) {
        (Some(amount), Some(down)) => amount / down + i128::from(amount % down != 0),
        // It is so small that it becomes the smallest amount.
        (Some(_), None) => 1,
        (None, _) => i128::MAX,
    }
}

/// Returns whole units, rounded up as Kubernetes does.
pub fn whole(quantity: &Written) -> Option<i64> {
    scale_to(quantity, NANOS)
}

/// Returns whole units if there are any.
pub fn positive(quantity: &Written) -> Option<i64> {
    whole(quantity).filter(|amount| *amount > 0)
}

/// Returns thousandths, rounded up.
pub fn milli(quantity: &Written) -> Option<i64> {
    scale_to(quantity, NANOS / 1000)
}

/// Returns the whole units of a quantity in text, as configuration contains it.
pub fn bytes(text: &str) -> Option<i64> {
    i64::try_from(ceil_div(Quantity::parse(text)?.nanos, NANOS)).ok()
}

/// Formats a number of bytes as Kubernetes does: with the largest binary suffix that divides it.
pub fn binary(bytes: i64) -> String {
    if bytes.unsigned_abs() < 1024 {
        bytes.to_string()
    } else {
        with_binary_suffix(i128::from(bytes) * NANOS)
    }
}

/// Returns `quantity / divisor` rounded up, which is the value of a `resourceFieldRef`.
pub fn divide(quantity: &Written, divisor: &Written) -> Option<i64> {
    match Quantity::parse(&divisor.0)?.nanos {
        0 => scale_to(quantity, NANOS),
        divisor => scale_to(quantity, divisor),
    }
}

fn scale_to(quantity: &Written, unit: i128) -> Option<i64> {
    i64::try_from(ceil_div(Quantity::parse(&quantity.0)?.nanos, unit)).ok()
}

fn ceil_div(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by != 0 && (value > 0) == (by > 0) {
        quotient + 1
    } else {
        quotient
    }
}

#[cfg(test)]
mod tests;
