//! Amounts of resources: `100m`, `1.5Gi`, `1e3`.

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

    /// Whether it is more than nothing.
    pub(crate) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Whether it is less than nothing.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
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

/// In nanos; an amount too large to be told from another one is the largest.
fn amount(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    const NANOS: i128 = 1_000_000_000;
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
    fn what_is_no_amount_is_refused() {
        for text in
            ["", "+", ".", "m", "1 Gi", "1GiB", "1.2.3", "1e", "1e+", "0x10", "--1", "1e1.5", "NaN", "1K"]
        {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }
}
