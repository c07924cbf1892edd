//! The cost of walking a value. Computed values share their parts, so counting ends as soon as more is found than can be paid.

use serde_json::Value as Json;

use super::value::{List, Map, Val};

/// Returns the cost of reading or writing this many bytes.
pub(super) fn of_bytes(bytes: usize) -> u64 {
    1 + bytes as u64 / 10
}

impl Val<'_> {
    /// Counts the parts of a value, a long text as many; returns `limit` + 1 for more than `limit`. It takes time in proportion to the
    /// result, which must be paid in any case.
    pub(super) fn weight(&self, limit: u64) -> u64 {
        let mut left = limit;
        match self.take_from(&mut left) {
            Some(()) => limit - left,
            None => limit.saturating_add(1),
        }
    }

    /// Subtracts the value's weight from what is left; `None` where it is more.
    fn take_from(&self, left: &mut u64) -> Option<()> {
        *left = left.checked_sub(self.own_weight())?;
        match self {
            Self::List(List::Read(items, _)) => items.iter().try_for_each(|item| json(item, left)),
            Self::List(List::Computed(items)) => {
                items.iter().try_for_each(|item| item.take_from(left))
            }
            Self::Map(Map::Read(map, _) | Map::Object(map, _)) => entries(map, left),
            Self::Map(Map::Computed(map)) => map.iter().try_for_each(|(key, value)| {
                *left = left.checked_sub(key.length() as u64 / 10)?;
                value.take_from(left)
            }),
            Self::Optional(Some(value)) => value.take_from(left),
            _ => Some(()),
        }
    }

    /// Returns the value's weight without its parts.
    pub(super) fn own_weight(&self) -> u64 {
        match self {
            Self::String(text) => of_bytes(text.len()),
            Self::Bytes(bytes) => of_bytes(bytes.len()),
            Self::Url(url) => of_bytes(url.len()),
            Self::Semver(version) => of_bytes(version.length()),
            Self::Check(check) => of_bytes(check.length()),
            _ => 1,
        }
    }

    /// Returns the cost of comparing two values, of which at most `limit` can be paid; next to nothing where their sizes differ.
    pub(super) fn comparison(&self, other: &Self, limit: u64) -> u64 {
        match (self, other) {
            (Self::List(one), Self::List(two)) if one.len() != two.len() => 1,
            (Self::Map(one), Self::Map(two)) if one.is_told_apart(two) => 1,
            (Self::List(_), Self::List(_))
            | (Self::Map(_), Self::Map(_))
            | (Self::Optional(Some(_)), Self::Optional(Some(_))) => self.weight(limit),
            (one, two) => one.own_weight().min(two.own_weight()),
        }
    }
}

fn json(value: &Json, left: &mut u64) -> Option<()> {
    let own = value.as_str().map_or(1, |text| of_bytes(text.len()));
    *left = left.checked_sub(own)?;
    match value {
        Json::Array(items) => items.iter().try_for_each(|item| json(item, left)),
        Json::Object(map) => entries(map, left),
        _ => Some(()),
    }
}

fn entries(map: &serde_json::Map<String, Json>, left: &mut u64) -> Option<()> {
    map.iter().try_for_each(|(key, value)| {
        *left = left.checked_sub(key.len() as u64 / 10)?;
        json(value, left)
    })
}
