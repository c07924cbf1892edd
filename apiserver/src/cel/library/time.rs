//! Functions of timestamps and durations.

use jiff::civil::DateTime;

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
            "getMilliseconds" => Ok(Val::Int(
                i64::try_from(span.as_millis()).unwrap_or(i64::MAX),
            )),
            _ => no_overload(),
        },
        [Val::Timestamp(moment)] => part(name, moment.utc()),
        [Val::Timestamp(moment), Val::String(zone)] => match moment.within(zone) {
            Ok(local) => part(name, local),
            Err(why) => EvalError::fail(why),
        },
        _ => return None,
    })
}

fn part<'a>(name: &str, moment: DateTime) -> Evaluated<'a> {
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
