//! The formats of strings that are checked; all others are taken as they come, as the real server does with unknown ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::go_duration;

/// Whether `text` is of `format`.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "duration" => go_duration::parse(text).is_some(),
        "uuid" => uuid::Uuid::try_parse(text).is_ok(),
        "mac" => is_mac(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
        _ => true,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    address.parse::<Ipv4Addr>().is_ok() && length <= 32
        || address.parse::<Ipv6Addr>().is_ok() && length <= 128
}

fn is_mac(text: &str) -> bool {
    let bytes: Vec<_> = text.split([':', '-']).collect();
    let is_byte = |byte: &&str| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
    matches!(bytes.len(), 6 | 8) && bytes.iter().all(is_byte)
}
