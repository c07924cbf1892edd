//! Kubernetes quantities (`500m`, `128Mi`, `1e3`) as numbers; what is no quantity is `None`, never a panic.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// 10⁻⁹ of one, the finest unit of a quantity.
const NANOS: i128 = 1_000_000_000;
/// No quantity that means anything is longer.
const MAX_LEN: usize = 32;

/// Whole units, rounded up as Kubernetes does.
pub fn whole(quantity: &Quantity) -> Option<i64> {
    scaled(quantity, NANOS)
}

/// Whole units, where there are any.
pub(crate) fn positive(quantity: &Quantity) -> Option<i64> {
    whole(quantity).filter(|amount| *amount > 0)
}

/// Thousandths, rounded up.
pub(crate) fn milli(quantity: &Quantity) -> Option<i64> {
    scaled(quantity, NANOS / 1000)
}

/// Whole units of a quantity in text, as configuration has it.
pub(crate) fn bytes(text: &str) -> Option<i64> {
    i64::try_from(ceil_div(nanos(text)?, NANOS)).ok()
}

/// A number of bytes as Kubernetes writes it: with the largest binary suffix that divides it.
pub(crate) fn binary(bytes: i64) -> String {
    if bytes.unsigned_abs() < 1024 {
        return bytes.to_string();
    }
    let (mut value, mut suffix) = (bytes, "");
    for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if value % 1024 != 0 {
            break;
        }
        (value, suffix) = (value / 1024, next);
    }
    format!("{value}{suffix}")
}

/// `quantity / divisor`, rounded up: what `resourceFieldRef` asks for.
pub(crate) fn divided(quantity: &Quantity, divisor: &Quantity) -> Option<i64> {
    match nanos(&divisor.0)? {
        0 => scaled(quantity, NANOS),
        divisor => scaled(quantity, divisor),
    }
}

fn scaled(quantity: &Quantity, unit: i128) -> Option<i64> {
    i64::try_from(ceil_div(nanos(&quantity.0)?, unit)).ok()
}

fn ceil_div(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by != 0 && (value > 0) == (by > 0) { quotient + 1 } else { quotient }
}

/// The quantity in units of 10⁻⁹.
fn nanos(text: &str) -> Option<i128> {
    if text.len() > MAX_LEN || !text.is_ascii() {
        return None;
    }
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (integer.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("{integer}{fraction}").parse().ok()?;
    let (factor, exponent) = unit(suffix)?;
    let exponent = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let product = mantissa.checked_mul(factor)?;
    let value = match u32::try_from(exponent) {
        Ok(exponent) => product.checked_mul(10_i128.checked_pow(exponent)?)?,
        Err(_) => ceil_div(product, 10_i128.checked_pow(exponent.unsigned_abs())?),
    };
    Some(if negative { -value } else { value })
}

/// Factor and power of ten of a suffix.
fn unit(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            (1, Some(exponent).filter(|e| e.abs() <= 24)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn q(text: &str) -> Quantity {
        Quantity(text.into())
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, wanted) in
            [("0", 0), ("1", 1000), ("0.1", 100), ("100m", 100), ("1.5", 1500), ("2k", 2_000_000), ("1n", 1)]
        {
            assert_eq!(milli(&q(text)), Some(wanted), "{text}");
        }
        for (text, wanted) in [
            ("128Mi", 134_217_728),
            ("1.5Gi", 1_610_612_736),
            ("1e3", 1000),
            ("100M", 100_000_000),
            ("1m", 1),
        ] {
            assert_eq!(whole(&q(text)), Some(wanted), "{text}");
        }
        for bad in ["", "x", "1.2.3", "1Kib", "--1", "1e99", "99999999999999999999999999999Ei", ".", "1 "] {
            assert_eq!(whole(&q(bad)), None, "{bad}");
        }
        assert_eq!((positive(&q("1Ki")), positive(&q("0")), positive(&q("-1"))), (Some(1024), None, None));
        assert_eq!(divided(&q("250m"), &q("1m")), Some(250));
        assert_eq!(divided(&q("1Gi"), &q("1Mi")), Some(1024));
        assert_eq!(divided(&q("1500m"), &q("0")), Some(2));
        for (bytes, wanted) in
            [(0, "0"), (1000, "1000"), (1025, "1025"), (1024, "1Ki"), (100 << 20, "100Mi"), (1 << 60, "1Ei")]
        {
            assert_eq!(binary(bytes), wanted);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}", by in ".{0,8}") {
            divided(&q(&text), &q(&by));
        }
    }
}
