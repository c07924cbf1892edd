//! Bounds of numbers, ports and percentages, with Kubernetes' messages.

use serde_json::Value;

use super::place::Place;
use crate::cause::Cause;

/// Of a number that is less than 0.
pub const NEGATIVE: &str = "must be greater than or equal to 0";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
    used for validation is '[0-9]+%')";
/// The largest number of a port.
pub const LAST_PORT: i64 = 65_535;

/// The required range of a number.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// At least this; an absent number is 0 if one is required.
    Least {
        /// The smallest value.
        least: i64,
        /// The text of the fault.
        why: &'static str,
        /// Whether an absent value is a fault.
        is_required: bool,
    },
    /// Between two numbers.
    Range {
        /// The smallest value.
        from: i64,
        /// The largest value.
        to: i64,
        /// Whether an absent value is a fault.
        is_required: bool,
    },
    /// Between two numbers, with another message.
    Limited {
        /// The smallest value.
        from: i64,
        /// The largest value.
        to: i64,
        /// The text of the fault.
        why: &'static str,
    },
    /// Not negative, or a percentage.
    IntOrPercent,
}

/// Returns the fault of the number at `place`.
pub fn fault(bound: Bound, place: &Place<'_>) -> Option<Cause> {
    match bound {
        Bound::Least {
            least,
            why,
            is_required,
        } => {
            let number = number(place, is_required)?;
            (number < least).then(|| Cause::invalid(place.path(), &number.into(), why))
        }
        Bound::Range {
            from,
            to,
            is_required,
        } => {
            let number = number(place, is_required)?;
            (!(from..=to).contains(&number))
                .then(|| Cause::invalid(place.path(), &number.into(), &range(from, to)))
        }
        Bound::Limited { from, to, why } => {
            let number = number(place, false)?;
            (!(from..=to).contains(&number))
                .then(|| Cause::invalid(place.path(), &number.into(), why))
        }
        Bound::IntOrPercent => match place.value {
            Value::String(text) => percent(place.value)
                .is_none()
                .then(|| Cause::invalid(place.path(), &text.as_str().into(), PERCENT)),
            _ => fault(
                Bound::Least {
                    least: 0,
                    why: NEGATIVE,
                    is_required: false,
                },
                place,
            ),
        },
    }
}

fn number(place: &Place<'_>, is_required: bool) -> Option<i64> {
    place.value.as_i64().or(is_required.then_some(0))
}

/// `must be between 1 and 5, inclusive`.
pub fn range(from: i64, to: i64) -> String {
    format!("must be between {from} and {to}, inclusive")
}

/// The number of a text such as `25%`.
pub fn percent(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether a number or percentage is 0; an absent one is.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(_) => percent(value).unwrap_or_default() == 0,
        value => value.as_i64().unwrap_or_default() == 0,
    }
}
