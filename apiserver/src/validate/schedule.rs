//! Checks the schedules of cron jobs as `github.com/robfig/cron` v3 does for Kubernetes, with its messages. They are not quite
//! crontab(5): there is no 7 for Sunday, and an empty item between commas is ignored.

use jiff::SignedDuration;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The fields minute, hour, day of month, month, day of week.
const FIELDS: [Field; 5] = [
    Field {
        least: 0,
        most: 59,
        words: &[],
    },
    Field {
        least: 0,
        most: 23,
        words: &[],
    },
    Field {
        least: 1,
        most: 31,
        words: &[],
    },
    Field {
        least: 1,
        most: 12,
        words: &MONTHS,
    },
    Field {
        least: 0,
        most: 6,
        words: &WEEKDAYS,
    },
];

/// The range of a field.
struct Field {
    least: i64,
    most: i64,
    /// The names of the numbers, beginning with `least`.
    words: &'static [&'static str],
}

/// Checks that a schedule is valid; the error says why it is not.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let parts: Vec<_> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let (wanted, found) = (FIELDS.len(), parts.len());
        return Err(format!(
            "expected exactly {wanted} fields, found {found}: [{}]",
            parts.join(" ")
        ));
    }
    FIELDS
        .iter()
        .zip(parts)
        .try_for_each(|(field, text)| field.check(text))
}

fn descriptor(text: &str) -> Result<(), String> {
    if let Some(period) = text.strip_prefix("@every ") {
        let is_go = period
            .bytes()
            .all(|byte| b"0123456789.hmsnu+-".contains(&byte));
        let is_read = is_go && period.parse::<SignedDuration>().is_ok();
        let why = || format!("failed to parse duration {text}: time: invalid duration {period:?}");
        return is_read.then_some(()).ok_or_else(why);
    }
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => {
            Ok(())
        }
        other => Err(format!("unrecognized descriptor: {other}")),
    }
}

impl Field {
    fn check(&self, text: &str) -> Result<(), String> {
        text.split(',')
            .filter(|range| !range.is_empty())
            .try_for_each(|range| self.range(range))
    }

    /// Checks `*`, `5` or `1-5`, optionally with `/2`; with a step but without an end, the range goes to the end.
    fn range(&self, text: &str) -> Result<(), String> {
        let parts: Vec<_> = text.split('/').collect();
        let ends: Vec<_> = parts
            .first()
            .copied()
            .unwrap_or_default()
            .split('-')
            .collect();
        let (first, mut last) = match *ends.as_slice() {
            ["*" | "?", ..] => (self.least, self.most),
            [only] => (self.number(only)?, self.number(only)?),
            [first, last] => (self.number(first)?, self.number(last)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        let step = match *parts.as_slice() {
            [_] => 1,
            [_, step] => number(step)?,
            _ => return Err(format!("too many slashes: {text}")),
        };
        if parts.len() > 1 && ends.len() == 1 {
            last = self.most;
        }
        let (least, most) = (self.least, self.most);
        if first < least {
            return Err(format!(
                "beginning of range ({first}) below minimum ({least}): {text}"
            ));
        }
        if last > most {
            return Err(format!(
                "end of range ({last}) above maximum ({most}): {text}"
            ));
        }
        if first > last {
            return Err(format!(
                "beginning of range ({first}) beyond end of range ({last}): {text}"
            ));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        Ok(())
    }

    /// Parses a number or its name.
    fn number(&self, text: &str) -> Result<i64, String> {
        let named = (self.least..)
            .zip(self.words)
            .find(|(_, word)| word.eq_ignore_ascii_case(text));
        named.map_or_else(|| number(text), |(number, _)| Ok(number))
    }
}

fn number(text: &str) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};

    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(error) => {
            let is_large = matches!(error.kind(), PosOverflow | NegOverflow);
            let why = if is_large {
                "value out of range"
            } else {
                "invalid syntax"
            };
            Err(format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"
            ))
        }
    }
}
