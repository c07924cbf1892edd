//! The formats of strings that the API server knows, with the values that it takes.

use std::net::{IpAddr, Ipv6Addr};

use crate::{go_time, go_url};
use kubeapi::object::{go_duration, names};

mod email;
mod numbers;
mod patterns;

use patterns::{BASE64, RGB_COLOR, SPANS, SSN, TIME, TOP, WORD};

/// Reports whether a text has a format.
type Fits = fn(&str) -> bool;

/// The formats of strings. Hyphens in a format's name are ignored: `date-time` is `datetime`.
const STRINGS: [(&str, Fits); 26] = [
    ("bsonobjectid", |text| {
        text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }),
    ("uri", |text| go_url::parse_request_uri(text).is_ok()),
    ("email", email::is_address),
    ("hostname", is_hostname),
    ("ipv4", |text| text.contains('.') && address(text).is_some()),
    ("ipv6", |text| {
        text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
    }),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, None)),
    ("uuid3", |text| is_uuid(text, Some(b'3'))),
    ("uuid4", |text| {
        is_uuid(text, Some(b'4')) && has_variant(text)
    }),
    ("uuid5", |text| {
        is_uuid(text, Some(b'5')) && has_variant(text)
    }),
    ("isbn", |text| {
        numbers::is_isbn10(text) || numbers::is_isbn13(text)
    }),
    ("isbn10", numbers::is_isbn10),
    ("isbn13", numbers::is_isbn13),
    ("creditcard", numbers::is_credit_card),
    ("ssn", |text| text.len() == 11 && SSN.is_match(text)),
    ("hexcolor", is_hex_color),
    ("rgbcolor", |text| RGB_COLOR.is_match(text)),
    ("byte", |text| BASE64.is_match(text)),
    ("password", |_| true),
    ("date", |text| go_time::date(text).is_some()),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", |text| names::dns_label(text).is_empty()),
    ("k8slongname", |text| names::dns_subdomain(text).is_empty()),
];

/// Reports whether `text` has the format. Each text has an unknown one.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    of_strings(format).is_none_or(|fits| fits(text))
}

fn of_strings(format: &str) -> Option<Fits> {
    let normalized = format.replace('-', "");
    STRINGS
        .iter()
        .find(|(name, _)| *name == normalized)
        .map(|(_, fits)| *fits)
}

/// Reports whether values of this type can have the format. Others have no effect.
pub(crate) fn is_known(format: &str, type_: &str) -> bool {
    match type_ {
        "" | "string" => of_strings(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Reads an address; parts of an IPv4 address may begin with zeros.
fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let part = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|_| is_number)
    };
    let parts: Option<Vec<_>> = text.split('.').map(part).collect();
    <[u8; 4]>::try_from(parts?).ok().map(IpAddr::from)
}

fn is_cidr(text: &str) -> bool {
    let Some((own, length)) = text.split_once('/') else {
        return false;
    };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let limit = match address(own) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    is_number && length.parse::<u32>().is_ok_and(|length| length <= limit)
}

/// 6, 8 or 20 bytes, with colons, hyphens, or a dot after each two of them.
fn is_mac(text: &str) -> bool {
    let separated = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<_> = text.split(separator).collect();
        let is_part =
            |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        counts.contains(&parts.len()) && parts.iter().all(is_part)
    };
    separated(':', 2, [6, 8, 20]) || separated('-', 2, [6, 8, 20]) || separated('.', 4, [3, 4, 10])
}

/// 32 digits, each hyphen of the usual form being optional.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((part, tail)) = rest.split_at_checked(length) else {
            return false;
        };
        if !part.iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        if index == 2 && version.is_some_and(|version| part.first() != Some(&version)) {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

/// Reports whether the 17th digit is that of the usual variant.
fn has_variant(text: &str) -> bool {
    let digit = text.bytes().filter(|byte| *byte != b'-').nth(16);
    digit.is_some_and(|digit| b"89abAB".contains(&digit))
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// One label, or labels of which the last has at least two letters and nothing else. Letters and symbols of all scripts count.
fn is_hostname(text: &str) -> bool {
    let is_short = |label: &str| label.chars().count() <= 63;
    let is_single = || {
        let mut rest = text.chars();
        rest.next()
            .is_some_and(|first| WORD.is_match(first.encode_utf8(&mut [0; 4])))
            && is_short(text)
            && WORD.is_match(rest.as_str().strip_prefix('-').unwrap_or(rest.as_str()))
    };
    let is_qualified = || {
        let Some((labels, top)) = text.rsplit_once('.') else {
            return false;
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && is_short(label)
                && !label.starts_with('-')
                && !label.ends_with('-')
                && WORD.is_match(&label.replace('-', ""))
        };
        labels.split('.').all(is_label)
            && top.chars().count() >= 2
            && is_short(top)
            && TOP.is_match(top)
    };
    (is_single() || is_qualified())
        && text.len() <= 255
        && text.split('.').all(|label| label.len() <= 63)
}

/// A span as Go writes it, or numbers with the names of units: `2 weeks`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 19] = [
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr",
        "hour", "d", "day", "w", "wk", "week",
    ];
    const LONG: [&str; 8] = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    if go_duration::parse(text).is_some() {
        return true;
    }
    let mut is_any = false;
    let spans = SPANS.0.iter().flat_map(|spans| spans.captures_iter(text));
    for found in spans {
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        if part(1).parse::<i64>().is_err() {
            return false;
        }
        let unit = part(2).to_lowercase();
        is_any |= UNITS.contains(&unit.as_str()) || LONG.iter().any(|long| unit.starts_with(long));
    }
    is_any
}

/// A date of the years 1 to 9999 with a time and an offset.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let day = parts.next().and_then(go_time::date);
    day.is_some_and(|day| day.year() >= 1) && parts.next().is_some_and(|time| TIME.is_match(time))
}

#[cfg(test)]
mod tests;
