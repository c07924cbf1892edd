//! Functions of timestamps and durations.

use jiff::{Timestamp, Zoned, tz::TimeZone};

use super::context::{Context, no_overload};
use crate::cel::{
    error::{EvalError, Evaluated},
    value::Val,
};

/// Calls a function `get…` of a timestamp or duration.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    if !name.starts_with("get") {
        return None;
    }
    Some(match args {
        [Val::Duration(span)] => match name {
            "getHours" => Ok(Val::Int(span.as_hours())),
            "getMinutes" => Ok(Val::Int(span.as_mins())),
            "getSeconds" => Ok(Val::Int(span.as_secs())),
            "getMilliseconds" => Ok(Val::Int(i64::from(span.subsec_millis()))),
            _ => no_overload(),
        },
        [Val::Timestamp(moment)] => part(name, &moment.to_zoned(TimeZone::UTC)),
        [Val::Timestamp(moment), Val::String(zone)] => match time_zone(zone) {
            Some(zone) => part(name, &moment.to_zoned(zone)),
            None => EvalError::failed(format!("unknown time zone {}", &**zone)),
        },
        _ => return None,
    })
}

fn part<'a>(name: &str, moment: &Zoned) -> Evaluated<'a> {
    Ok(Val::Int(match name {
        "getFullYear" => moment.year().into(),
        "getMonth" => i64::from(moment.month()) - 1,
        "getDate" => moment.day().into(),
        "getDayOfMonth" => i64::from(moment.day()) - 1,
        "getDayOfWeek" => moment.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(moment.day_of_year()) - 1,
        "getHours" => moment.hour().into(),
        "getMinutes" => moment.minute().into(),
        "getSeconds" => moment.second().into(),
        "getMilliseconds" => moment.millisecond().into(),
        _ => return no_overload(),
    }))
}

/// Returns a time zone by name or by an offset such as `+02:00`.
fn time_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let (sign, digits) = match name.split_at_checked(1) {
        Some(("-", digits)) => (-1, digits),
        Some(("+", digits)) => (1, digits),
        _ => (1, name),
    };
    if let Some((hours, minutes)) = digits.split_once(':') {
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let seconds = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
        return Some(TimeZone::fixed(jiff::tz::Offset::from_seconds(sign * seconds).ok()?));
    }
    TimeZone::get(name).ok()
}

/// Writes a timestamp as RFC 3339 with as many fractional digits as needed.
pub(super) fn text(moment: Timestamp) -> String {
    moment.to_string()
}
