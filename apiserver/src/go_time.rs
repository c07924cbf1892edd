//! Points in time as Go's `time.Parse` reads RFC 3339, of the years 0 to 9999.

use jiff::civil::{Date, DateTime};

/// Reads a date such as `2006-01-02`.
pub(crate) fn date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let (b'-', b'-', 10) = (*bytes.get(4)?, *bytes.get(7)?, bytes.len()) else {
        return None;
    };
    let (year, month, day) = (
        number(bytes.get(..4)?)?,
        number(bytes.get(5..7)?)?,
        number(bytes.get(8..)?)?,
    );
    Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    )
    .ok()
}

/// Reads a date with a time and an offset: the time of that place, and its offset in seconds.
pub(crate) fn date_time(text: &str) -> Option<(DateTime, i32)> {
    let (day, rest) = text.split_at_checked(10)?;
    let day = date(day)?;
    let rest = rest.strip_prefix('T')?.as_bytes();
    // Go takes hours of one digit
    let rest = match rest.get(1) {
        Some(b':') => [&b"0"[..], rest].concat(),
        _ => rest.to_vec(),
    };
    let (b':', b':') = (*rest.get(2)?, *rest.get(5)?) else {
        return None;
    };
    let (hour, minute, second) = (
        number(rest.get(..2)?)?,
        number(rest.get(3..5)?)?,
        number(rest.get(6..8)?)?,
    );
    let mut rest = rest.get(8..)?;
    let mut nanos = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        let length = fraction
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let digits = fraction.get(..length).filter(|digits| !digits.is_empty())?;
        for place in 0..9 {
            nanos = nanos * 10 + digits.get(place).map_or(0, |digit| i32::from(digit - b'0'));
        }
        rest = fraction.get(length..)?;
    }
    let offset = match rest {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), hours @ .., b':', tens, ones] if hours.len() == 2 => {
            let (hours, minutes) = (number(hours)?, number(&[*tens, *ones])?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let seconds = i32::try_from(hours * 3600 + minutes * 60).ok()?;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let small = |number: u32| i8::try_from(number).ok();
    let time = jiff::civil::Time::new(small(hour)?, small(minute)?, small(second)?, nanos).ok()?;
    Some((day.to_datetime(time), offset))
}

fn number(digits: &[u8]) -> Option<u32> {
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all_digits.then(|| {
        digits
            .iter()
            .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_is_read_strictly() {
        for good in [
            "2024-02-29T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "2024-01-01T10:00:00.5+02:00",
            "2024-01-01T10:00:00-23:59",
            "2024-01-01T1:00:00Z",
        ] {
            assert!(date_time(good).is_some(), "{good}");
        }
        for bad in [
            "2023-02-29T23:59:59Z",
            "2024-01-01",
            "2024-01-01 10:00:00Z",
            "2024-01-01t10:00:00z",
            "2024-01-01T10:00:00",
            "2024-01-01T10:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T10:60:00Z",
            "2024-01-01T10:00:60Z",
            "2024-01-01T10:00:00.Z",
            "2024-01-01T10:00:00+0200",
            "-0001-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "today",
            "",
        ] {
            assert!(date_time(bad).is_none(), "{bad}");
        }
        assert!(
            date("2024-13-01").is_none()
                && date("2024-1-01").is_none()
                && date("0000-01-01").is_some()
        );
    }
}
