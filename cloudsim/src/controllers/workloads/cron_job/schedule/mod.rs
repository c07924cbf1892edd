//! CronJob schedules as `github.com/robfig/cron` v3 parses them for Kubernetes, which differs from crontab(5): no 7 for Sunday, `*/2`
//! restricts a day, and when clocks change every minute that occurs counts once. Pure.

use jiff::{SignedDuration, Timestamp, ToSpan, Zoned, civil::Weekday, tz::TimeZone};

/// How many years ahead to search: February 29 comes within eight.
const HORIZON_YEARS: i16 = 9;

/// The schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScheduleError {
    /// It has neither five fields nor a descriptor.
    #[error(
        "the schedule {0:?} has neither five fields (minute, hour, day of month, month, day of week) nor a macro such as @daily"
    )]
    Fields(String),
    /// A field is invalid.
    #[error(
        "{field:?} is not a valid {name} in a schedule; use numbers from {least} to {most}, ranges, lists, steps or *"
    )]
    Field {
        /// The text of the field.
        field: String,
        /// The name of the field.
        name: &'static str,
        /// The smallest allowed number.
        least: u8,
        /// The largest allowed number.
        most: u8,
    },
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// At these clock times.
    Clock(Box<Clock>),
    /// At this interval after the last time: `@every 90m`.
    Every(SignedDuration),
}

/// The allowed clock times, to the minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    zone: TimeZone,
}

/// The allowed numbers of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    /// One bit for each number.
    bits: u64,
    /// Whether a part is `*` or `?` without a step, or with step 1: such a field does not restrict days.
    is_any: bool,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Parses a schedule in a time zone.
    pub(super) fn parse(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let spelled = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        if let Some(period) = text.strip_prefix("@every ").and_then(period) {
            return Ok(Self::Every(period));
        }
        let fields: Vec<_> = spelled.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(ScheduleError::Fields(text.to_owned()));
        };
        Ok(Self::Clock(Box::new(Clock {
            minutes: Field {
                name: "minute",
                least: 0,
                most: 59,
                words: &[],
            }
            .parse(minute)?,
            hours: Field {
                name: "hour",
                least: 0,
                most: 23,
                words: &[],
            }
            .parse(hour)?,
            days: Field {
                name: "day of month",
                least: 1,
                most: 31,
                words: &[],
            }
            .parse(day)?,
            months: Field {
                name: "month",
                least: 1,
                most: 12,
                words: &MONTHS,
            }
            .parse(month)?,
            weekdays: Field {
                name: "day of week",
                least: 0,
                most: 6,
                words: &WEEKDAYS,
            }
            .parse(weekday)?,
            zone,
        })))
    }

    /// Returns the first time after `after`; `None` if there is none.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Clock(clock) => clock.next(after),
            Self::Every(period) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*period).ok()
            }
        }
    }
}

/// Parses a duration in Go's notation, in whole seconds, at least one.
fn period(text: &str) -> Option<SignedDuration> {
    let is_go = text
        .bytes()
        .all(|byte| b"0123456789.hmsnu+-".contains(&byte));
    let period = is_go.then(|| text.parse::<SignedDuration>().ok())??;
    Some(SignedDuration::from_secs(period.as_secs().max(1)))
}

impl Clock {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if self.minutes.bits == 0 || self.hours.bits == 0 {
            return None;
        }
        let minute = after
            .as_second()
            .div_euclid(60)
            .checked_add(1)?
            .checked_mul(60)?;
        let mut time = Timestamp::from_second(minute)
            .ok()?
            .to_zoned(self.zone.clone());
        let end = time.year().checked_add(HORIZON_YEARS)?;
        while time.year() < end {
            let later = if !self.months.has(time.month()) {
                time.first_of_month()
                    .ok()?
                    .checked_add(1.month())
                    .ok()?
                    .start_of_day()
                    .ok()?
            } else if !self.is_day(&time) {
                time.tomorrow().ok()?.start_of_day().ok()?
            } else if !self.hours.has(time.hour()) {
                next_hour(&time)?
            } else if !self.minutes.has(time.minute()) {
                time.checked_add(1.minute()).ok()?
            } else {
                return Some(time.timestamp());
            };
            // a day that begins twice: the clock was set back just after midnight
            time = if later > time {
                later
            } else {
                time.checked_add(1.minute()).ok()?
            };
        }
        None
    }

    /// Reports whether the day matches: if both day fields are restricted, either is enough.
    fn is_day(&self, time: &Zoned) -> bool {
        let weekday = match time.weekday() {
            Weekday::Sunday => 0,
            other => other.to_monday_one_offset(),
        };
        let (day, weekday_fits) = (self.days.has(time.day()), self.weekdays.has(weekday));
        if self.days.is_any || self.weekdays.is_any {
            day && weekday_fits
        } else {
            day || weekday_fits
        }
    }
}

/// Returns the next full hour, or the next minute if the clock changes before.
fn next_hour(time: &Zoned) -> Option<Zoned> {
    let hour = time
        .checked_add((60 - i64::from(time.minute())).minutes())
        .ok()?;
    if hour.offset() == time.offset() {
        Some(hour)
    } else {
        time.checked_add(1.minute()).ok()
    }
}

impl Set {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits >> number & 1 == 1)
    }
}

struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    words: &'static [&'static str],
}

impl Field {
    fn parse(&self, text: &str) -> Result<Set, ScheduleError> {
        let error = || ScheduleError::Field {
            field: text.to_owned(),
            name: self.name,
            least: self.least,
            most: self.most,
        };
        // as in Kubernetes, empty parts between commas are ignored
        text.split(',')
            .filter(|part| !part.is_empty())
            .try_fold(Set::default(), |set, part| {
                let part = self.part(part).ok_or_else(error)?;
                Ok(Set {
                    bits: set.bits | part.bits,
                    is_any: set.is_any || part.is_any,
                })
            })
    }

    /// Parses `*`, `5`, `1-5`, each optionally with `/2`; a step without an end goes to the largest number.
    fn part(&self, text: &str) -> Option<Set> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (
                range,
                Some(step.parse().ok().filter(|step: &usize| *step > 0)?),
            ),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range.split('-').next().is_some_and(is_any) => (self.least, self.most),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            None if step.is_some() => (self.number(range)?, self.most),
            None => (self.number(range)?, self.number(range)?),
        };
        let numbers = (first..=last).step_by(step.unwrap_or(1));
        let bits = numbers.fold(0, |bits, number| bits | 1 << number);
        let is_any =
            range.split('-').next().is_some_and(is_any) && step.is_none_or(|step| step == 1);
        (first <= last).then_some(Set { bits, is_any })
    }

    fn number(&self, text: &str) -> Option<u8> {
        let word = self
            .words
            .iter()
            .position(|word| word.eq_ignore_ascii_case(text));
        let number = match word {
            Some(at) => u8::try_from(at).ok()? + self.least,
            None => text.parse().ok()?,
        };
        (self.least..=self.most).contains(&number).then_some(number)
    }
}

fn is_any(text: &str) -> bool {
    matches!(text, "*" | "?")
}

#[cfg(test)]
mod tests;
