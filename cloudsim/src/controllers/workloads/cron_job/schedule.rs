//! Schedules as in crontab(5): five fields, or `@daily` and the like. Pure.

use jiff::{
    Timestamp, ToSpan, Zoned,
    civil::{DateTime, Weekday},
    tz::TimeZone,
};

/// How far ahead a time is looked for: February 29 comes within eight years.
const HORIZON_YEARS: i16 = 9;

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScheduleError {
    /// Not five fields.
    #[error(
        "the schedule {0:?} has not five fields (minute, hour, day of month, month, day of week), nor is it @daily or the like"
    )]
    Fields(String),
    /// A field that says nothing.
    #[error(
        "{field:?} is no {name} in a schedule; give numbers from {least} to {most}, ranges, lists, steps or *"
    )]
    Field {
        /// What it says.
        field: String,
        /// Which one it is.
        name: &'static str,
        /// The least number.
        least: u8,
        /// The largest number.
        most: u8,
    },
}

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Sets of numbers, as bits.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// With both days given, either is enough.
    either_day: bool,
    zone: TimeZone,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads a schedule, for the clock of a time zone.
    pub(super) fn parse(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let spelled = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<_> = spelled.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(ScheduleError::Fields(text.to_owned()));
        };
        let weekdays = Field { name: "day of week", least: 0, most: 7, words: &WEEKDAYS }.parse(weekday)?;
        let is_any = |field: &str| field.starts_with('*') || field == "?";
        Ok(Self {
            minutes: Field { name: "minute", least: 0, most: 59, words: &[] }.parse(minute)?,
            hours: Field { name: "hour", least: 0, most: 23, words: &[] }.parse(hour)?,
            days: Field { name: "day of month", least: 1, most: 31, words: &[] }.parse(day)?,
            months: Field { name: "month", least: 1, most: 12, words: &MONTHS }.parse(month)?,
            // 7 is Sunday as well
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            either_day: !is_any(day) && !is_any(weekday),
            zone,
        })
    }

    /// The first time after `after`; `None` where it never comes.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(self.zone.clone()).datetime();
        let mut time =
            start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        let end = start.year().checked_add(HORIZON_YEARS)?;
        while time.year() < end {
            if !has(self.months, time.month()) {
                time = time
                    .first_of_month()
                    .with()
                    .hour(0)
                    .minute(0)
                    .build()
                    .ok()?
                    .checked_add(1.month())
                    .ok()?;
            } else if !self.is_day(time) {
                time = time.with().hour(0).minute(0).build().ok()?.checked_add(1.day()).ok()?;
            } else if !has(self.hours, time.hour()) {
                time = time.with().minute(0).build().ok()?.checked_add(1.hour()).ok()?;
            } else if !has(self.minutes, time.minute()) {
                time = time.checked_add(1.minute()).ok()?;
            } else {
                match self.moment(time).filter(|moment| *moment > after) {
                    Some(moment) => return Some(moment),
                    // the clock skips this time, or shows it a second time
                    None => time = time.checked_add(1.minute()).ok()?,
                }
            }
        }
        None
    }

    fn moment(&self, time: DateTime) -> Option<Timestamp> {
        let zoned: Zoned = time.to_zoned(self.zone.clone()).ok()?;
        (zoned.datetime() == time).then(|| zoned.timestamp())
    }

    fn is_day(&self, time: DateTime) -> bool {
        let weekday = match time.weekday() {
            Weekday::Sunday => 0,
            other => other.to_monday_one_offset(),
        };
        let (day, weekday) = (has(self.days, time.day()), has(self.weekdays, weekday));
        if self.either_day { day || weekday } else { day && weekday }
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| set >> number & 1 == 1)
}

struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    words: &'static [&'static str],
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, ScheduleError> {
        let error = || ScheduleError::Field {
            field: text.to_owned(),
            name: self.name,
            least: self.least,
            most: self.most,
        };
        text.split(',').try_fold(0, |set, part| self.part(part).map(|part| set | part).ok_or_else(error))
    }

    /// `*`, `5`, `1-5`, each perhaps with `/2`.
    fn part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u8>().ok().filter(|step| *step > 0)?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (self.least, self.most),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            // a step without an end goes to the end
            None if step.is_some() => (self.number(range)?, self.most),
            None => (self.number(range)?, self.number(range)?),
        };
        let numbers = (first..=last).step_by(usize::from(step.unwrap_or(1)));
        (first <= last).then(|| numbers.fold(0, |set, number| set | 1 << number))
    }

    fn number(&self, text: &str) -> Option<u8> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let number = match word {
            Some(at) => u8::try_from(at).ok()? + self.least,
            None => text.parse().ok()?,
        };
        (self.least..=self.most).contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &str, after: &str) -> String {
        let schedule = Schedule::parse(text, TimeZone::UTC).unwrap();
        schedule.next(after.parse().unwrap()).map_or_else(|| "never".into(), |time| time.to_string())
    }

    #[test]
    fn the_next_time_is_the_one_that_cron_would_take() {
        for (text, after, expected) in [
            ("* * * * *", "2025-06-01T12:00:30Z", "2025-06-01T12:01:00Z"),
            ("* * * * *", "2025-06-01T12:01:00Z", "2025-06-01T12:02:00Z"),
            ("*/15 * * * *", "2025-06-01T12:46:00Z", "2025-06-01T13:00:00Z"),
            ("5/20 * * * *", "2025-06-01T12:26:00Z", "2025-06-01T12:45:00Z"),
            ("0 9-17/4 * * *", "2025-06-01T13:00:00Z", "2025-06-01T17:00:00Z"),
            ("30 2 * * mon-fri", "2025-06-06T03:00:00Z", "2025-06-09T02:30:00Z"),
            ("0 0 * * 7", "2025-06-02T00:00:00Z", "2025-06-08T00:00:00Z"),
            ("0 0 1,15 * *", "2025-12-20T00:00:00Z", "2026-01-01T00:00:00Z"),
            // either day is enough
            ("0 0 13 * FRI", "2025-06-01T00:00:00Z", "2025-06-06T00:00:00Z"),
            ("0 0 29 2 *", "2025-06-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 31 feb *", "2025-06-01T00:00:00Z", "never"),
            ("@hourly", "2025-06-01T12:00:00Z", "2025-06-01T13:00:00Z"),
            ("@weekly", "2025-06-02T12:00:00Z", "2025-06-08T00:00:00Z"),
        ] {
            assert_eq!(next(text, after), expected, "{text} after {after}");
        }
    }

    #[test]
    fn a_time_that_the_clock_skips_waits_for_the_next_day() {
        // Central European rules in POSIX form, so that no time zone files are needed
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let schedule = Schedule::parse("30 2 * * *", zone).unwrap();
        let next = schedule.next("2025-03-29T12:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2025-03-31T00:30:00Z");
    }

    #[test]
    fn what_is_no_schedule_is_refused_by_name() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * * * mon-sun-1",
            "5-1 * * * *",
            "*/0 * * * *",
            "@reboot",
            "x * * * *",
        ] {
            assert!(Schedule::parse(text, TimeZone::UTC).is_err(), "{text}");
        }
        let error = Schedule::parse("0 24 * * *", TimeZone::UTC).unwrap_err();
        insta::assert_snapshot!(error, @r#""24" is no hour in a schedule; give numbers from 0 to 23, ranges, lists, steps or *"#);
    }
}
