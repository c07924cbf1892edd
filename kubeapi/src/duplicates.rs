//! Fields that stand twice in one object of a JSON body: the last one counts, but the writer should hear of it.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Who repeats so many fields need not have them all told.
const TOLD: usize = 100;

/// Their paths, as in `spec.containers[0].image`. Empty for what is not JSON, which others say better.
pub(crate) fn find(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = String::new();
    let seed = Seed { path: &mut path, found: &mut found };
    // the error is the parser's to tell
    let _ = seed.deserialize(&mut serde_json::Deserializer::from_slice(json));
    found
}

struct Seed<'a> {
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut known = HashSet::new();
        let length = self.path.len();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if !known.insert(key) && self.found.len() < TOLD {
                self.found.push(self.path.clone());
            }
            map.next_value_seed(Seed { path: self.path, found: self.found })?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0.. {
            self.path.push_str(&format!("[{index}]"));
            let next = list.next_element_seed(Seed { path: self.path, found: self.found })?;
            self.path.truncate(length);
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_found_wherever_they_stand() {
        let cases = [
            (r#"{"a": 1, "b": {"a": null}, "c": [{"a": 1.5}, {"a": "x"}]}"#, vec![]),
            (r#"{"a": 1, "a": 2, "a": true}"#, vec!["a", "a"]),
            (r#"{"a": {"b": 1, "b": -2}, "c": [[], [{"d": 1, "d": 1}]]}"#, vec!["a.b", "c[1][0].d"]),
            (r#"{"a": 1, "a": "#, vec!["a"]),
            ("nonsense", vec![]),
        ];
        for (json, expected) in cases {
            assert_eq!(find(json.as_bytes()), expected, "{json}");
        }
        assert_eq!(find("[".repeat(100_000).as_bytes()), Vec::<String>::new());
    }
}
