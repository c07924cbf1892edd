//! Conversions between types.

use super::context::{Context, no_overload};
use crate::cel::{
    error::{EvalError, Evaluated},
    moment::Moment,
    value::{Map, Val},
};
use kubeapi::object::go_duration;

/// Calls a conversion function, which has the name of its result's type.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    let [arg] = args else { return None };
    Some(match name {
        "type" => Ok(Val::Type(match arg {
            Val::Map(Map::Object(..)) => "map",
            arg => arg.type_name(),
        })),
        "dyn" => Ok(arg.clone()),
        "bool" => match arg {
            Val::Bool(_) => Ok(arg.clone()),
            Val::String(text) => match &**text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
                _ => EvalError::fail("type conversion error from 'string' to 'bool'"),
            },
            _ => no_overload(),
        },
        "int" => int(arg),
        "uint" => uint(arg),
        "double" => double(arg),
        "string" => match text(arg) {
            Some(text) => context
                .budget
                .spend_bytes(text.len())
                .map(|()| Val::text(text)),
            None if matches!(arg, Val::Bytes(_)) => {
                EvalError::fail("invalid UTF-8 in bytes, cannot convert to string")
            }
            None => no_overload(),
        },
        "bytes" => match arg {
            Val::Bytes(_) => Ok(arg.clone()),
            Val::String(text) => context
                .budget
                .spend_bytes(text.len())
                .map(|()| Val::Bytes(text.as_bytes().into())),
            _ => no_overload(),
        },
        "timestamp" => match arg {
            Val::Timestamp(_) => Ok(arg.clone()),
            Val::String(text) => {
                Moment::parse(text).map_or_else(EvalError::fail, |time| Ok(Val::Timestamp(time)))
            }
            Val::Int(seconds) => Moment::from_seconds(*seconds)
                .map_or_else(EvalError::fail, |time| Ok(Val::Timestamp(time))),
            _ => no_overload(),
        },
        "duration" => match arg {
            Val::Duration(_) => Ok(arg.clone()),
            Val::String(text) => go_duration::parse(text).map_or_else(
                || {
                    EvalError::fail(
                        "type conversion error from 'string' to 'google.protobuf.Duration'",
                    )
                },
                |span| Ok(Val::Duration(span)),
            ),
            Val::Int(nanos) => Ok(Val::Duration(jiff::SignedDuration::from_nanos(*nanos))),
            _ => no_overload(),
        },
        _ => return None,
    })
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the range is held against before"
)]
fn int<'a>(arg: &Val<'a>) -> Evaluated<'a> {
    const UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;
    let overflow = || EvalError::fail("integer overflow");
    match arg {
        Val::Int(_) => Ok(arg.clone()),
        Val::Uint(number) => {
            i64::try_from(*number).map_or_else(|_| overflow(), |number| Ok(Val::Int(number)))
        }
        Val::Double(number) if *number > -UPPER_BOUND && *number < UPPER_BOUND => {
            Ok(Val::Int(*number as i64))
        }
        Val::Double(_) => overflow(),
        Val::String(text) => text.parse().map_or_else(
            |_| EvalError::fail("type conversion error from 'string' to 'int'"),
            |number| Ok(Val::Int(number)),
        ),
        Val::Timestamp(time) => Ok(Val::Int(time.as_seconds())),
        Val::Duration(span) => Ok(Val::Int(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))),
        _ => no_overload(),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is held against before"
)]
fn uint<'a>(arg: &Val<'a>) -> Evaluated<'a> {
    const UPPER_BOUND: f64 = 18_446_744_073_709_551_616.0;
    let overflow = || EvalError::fail("unsigned integer overflow");
    match arg {
        Val::Uint(_) => Ok(arg.clone()),
        Val::Int(number) => {
            u64::try_from(*number).map_or_else(|_| overflow(), |number| Ok(Val::Uint(number)))
        }
        Val::Double(number) if *number >= 0.0 && *number < UPPER_BOUND => {
            Ok(Val::Uint(*number as u64))
        }
        Val::Double(_) => overflow(),
        Val::String(text) => text
            .parse()
            .ok()
            .filter(|_| !text.starts_with('+'))
            .map_or_else(
                || EvalError::fail("type conversion error from 'string' to 'uint'"),
                |number| Ok(Val::Uint(number)),
            ),
        _ => no_overload(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "as CEL converts")]
fn double<'a>(arg: &Val<'a>) -> Evaluated<'a> {
    match arg {
        Val::Double(_) => Ok(arg.clone()),
        Val::Int(number) => Ok(Val::Double(*number as f64)),
        Val::Uint(number) => Ok(Val::Double(*number as f64)),
        Val::String(text) => text.parse().map_or_else(
            |_| EvalError::fail("type conversion error from 'string' to 'double'"),
            |number| Ok(Val::Double(number)),
        ),
        _ => no_overload(),
    }
}

/// Returns a value as text; `None` where it has no text.
pub(super) fn text(value: &Val<'_>) -> Option<String> {
    Some(match value {
        Val::String(text) => text.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => double_text(*number),
        Val::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.to_owned(),
        Val::Timestamp(moment) => moment.to_string(),
        Val::Duration(span) => format!("{}s", span.as_secs_f64()),
        Val::Ip(address) => address.to_string(),
        Val::Cidr(address, bits) => format!("{address}/{bits}"),
        _ => return None,
    })
}

/// Returns a number as Go writes it (`%g`): the shortest text, with an exponent for large and small numbers.
fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    let written = format!("{number:e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&power) {
        return number.to_string();
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.unsigned_abs())
}
