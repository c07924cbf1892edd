//! Keys that are twice in one mapping of a YAML text, reported with their line.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

/// The most field errors that are reported.
pub(crate) const MAX_FIELD_ERRORS: usize = 100;

/// Returns the messages for duplicate fields; empty for invalid YAML, which the parser reports.
pub(super) fn find(yaml: &[u8]) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(yaml) else {
        return Vec::new();
    };
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins, with_snippet: false };
    let Keys(mut found) = serde_saphyr::from_str_with_options(text, options).unwrap_or_default();
    found.truncate(MAX_FIELD_ERRORS);
    found
        .into_iter()
        .map(|(line, key)| format!("line {line}: key {key:?} already set in map"))
        .collect()
}

/// The repeated keys of a value and of all within it, each with its line.
#[derive(Default)]
struct Keys(Vec<(u64, String)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeysVisitor)
    }
}

struct KeysVisitor;

impl<'de> Visitor<'de> for KeysVisitor {
    type Value = Keys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
        let (mut known, mut found) = (HashSet::new(), Vec::new());
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if !known.insert(key.value.clone()) && found.len() < MAX_FIELD_ERRORS {
                found.push((key.referenced.line(), key.value));
            }
            found.extend(map.next_value::<Keys>()?.0);
        }
        Ok(Keys(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Keys, A::Error> {
        let mut found = Vec::new();
        while let Some(Keys(more)) = list.next_element()? {
            found.extend(more);
        }
        Ok(Keys(found))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Keys, E> {
        Ok(Keys::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Keys, E> {
        Ok(Keys::default())
    }
}
