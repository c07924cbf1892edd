//! Points in time of the years 1 to 9999, as expressions have them.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use crate::go_time;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

const OVERFLOW: &str = "timestamp overflow";

/// A point in time, with the offset of the place whose time it was written in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    utc: DateTime,
    /// Seconds east of UTC.
    offset: i32,
}

impl Moment {
    /// Parses RFC 3339.
    ///
    /// # Errors
    /// Returns cel-go's text.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (local, offset) = go_time::date_time(text)
            .ok_or("type conversion error from 'string' to 'google.protobuf.Timestamp'")?;
        Self { utc: local, offset }.plus(SignedDuration::from_secs(-i64::from(offset)))
    }

    /// Parses the text of a `date` or `date-time` in an object.
    pub(super) fn read(text: &str) -> Option<Self> {
        let midnight = || {
            Some(Self {
                utc: go_time::date(text)?.at(0, 0, 0, 0),
                offset: 0,
            })
        };
        Self::parse(text).ok().or_else(midnight)
    }

    /// Returns the point in time this many seconds after 1970.
    pub(super) fn from_seconds(seconds: i64) -> Result<Self, &'static str> {
        Self {
            utc: EPOCH,
            offset: 0,
        }
        .plus(SignedDuration::from_secs(seconds))
    }

    pub(super) fn as_seconds(self) -> i64 {
        let since = self.utc.duration_since(EPOCH);
        since.as_secs() - i64::from(since.subsec_nanos() < 0)
    }

    pub(super) fn plus(self, span: SignedDuration) -> Result<Self, &'static str> {
        let utc = self.utc.checked_add(span).map_err(|_| OVERFLOW)?;
        if utc.year() < 1 {
            Err(OVERFLOW)
        } else {
            Ok(Self { utc, ..self })
        }
    }

    pub(super) fn minus(self, span: SignedDuration) -> Result<Self, &'static str> {
        self.plus(span.checked_neg().ok_or(OVERFLOW)?)
    }

    pub(super) fn since(self, earlier: Self) -> SignedDuration {
        self.utc.duration_since(earlier.utc)
    }

    /// Returns the time in UTC.
    pub(super) fn utc(self) -> DateTime {
        self.utc
    }

    /// Returns the time in a zone, which has a name or is an offset such as `+02:00`.
    ///
    /// # Errors
    /// Returns Go's text for a zone that is none.
    pub(super) fn within(self, zone: &str) -> Result<DateTime, String> {
        let seconds = match zone.split_once(':') {
            Some((hours, minutes)) => {
                let number = |text: &str| {
                    text.parse::<i32>()
                        .map_err(|_| format!("strconv.Atoi: parsing {text:?}: invalid syntax"))
                };
                let (hours, minutes) = (i64::from(number(hours)?), i64::from(number(minutes)?));
                let minutes = if zone.starts_with('-') {
                    -minutes
                } else {
                    minutes
                };
                hours * 3600 + minutes * 60
            }
            None if matches!(zone, "" | "UTC") => 0,
            None => {
                let found = TimeZone::get(zone).map_err(|_| format!("unknown time zone {zone}"))?;
                let time = self
                    .utc
                    .to_zoned(TimeZone::UTC)
                    .map_or(Timestamp::MAX, |time| time.timestamp());
                i64::from(found.to_offset(time).seconds())
            }
        };
        self.utc
            .checked_add(SignedDuration::from_secs(seconds))
            .map_err(|_| OVERFLOW.to_owned())
    }
}

impl std::fmt::Display for Moment {
    /// Formats as RFC 3339 with as many fractional digits as needed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let local = self
            .utc
            .checked_add(SignedDuration::from_secs(self.offset.into()));
        let (local, offset) = local.map_or((self.utc, 0), |local| (local, self.offset));
        write!(f, "{local}")?;
        if offset == 0 {
            return f.write_str("Z");
        }
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.unsigned_abs() / 60;
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.utc == other.utc
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.utc.partial_cmp(&other.utc)
    }
}
