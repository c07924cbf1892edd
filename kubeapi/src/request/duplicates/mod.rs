//! Finds duplicate fields in bodies: the last value counts, but the client is warned.

use std::{collections::HashSet, fmt};

use http::HeaderMap;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::{request::body, validate::FieldValidation};

mod yaml;

pub(crate) use yaml::MAX_FIELD_ERRORS;

/// The most bytes of reported field errors: a path may be nearly as long as the body, and is repeated for each of its fields.
const MAX_FIELD_ERROR_BYTES: usize = 64 * 1024;

/// A body to be searched for duplicate fields.
#[derive(Clone, Copy, Debug)]
pub enum DuplicateFields<'a> {
    /// The check is disabled, or the format has no field names.
    Ignored,
    /// JSON: errors name the path.
    Json(&'a [u8]),
    /// A JSON patch: its duplicate fields are listed before the unknown fields of the patched object.
    Patch(&'a [u8]),
    /// YAML: errors name the line.
    Yaml(&'a [u8]),
}

impl<'a> DuplicateFields<'a> {
    /// Returns the body of a request, to be searched unless the check is disabled.
    pub fn of(headers: &HeaderMap, body: &'a [u8], fields: FieldValidation) -> Self {
        match body::media_type(headers) {
            _ if fields == FieldValidation::Ignore => Self::Ignored,
            "application/yaml" => Self::Yaml(body),
            media_type if media_type.ends_with("patch+json") => Self::Patch(body),
            _ if body::is_json(headers) => Self::Json(body),
            _ => Self::Ignored,
        }
    }
}

impl DuplicateFields<'_> {
    /// Returns the messages for duplicate fields and for `unknown` ones, in the order of the body. A field that is both is only
    /// reported as unknown, as by a Go decoder.
    pub fn messages_with_unknown(self, unknown: &[String]) -> Vec<String> {
        let unknown_told = |path: &String| format!("unknown field \"{path}\"");
        let mut told: Vec<String> = match self {
            Self::Ignored | Self::Patch(_) => self
                .messages()
                .into_iter()
                .chain(unknown.iter().take(MAX_FIELD_ERRORS).map(unknown_told))
                .collect(),
            Self::Json(body) => {
                let told = faults(body, &unknown.iter().map(String::as_str).collect());
                // defaults of older clients, a patch: what is not in this body is told behind
                let more = MAX_FIELD_ERRORS.saturating_sub(told.len());
                let rest = unknown
                    .iter()
                    .map(unknown_told)
                    .filter(|text| !told.contains(text))
                    .take(more);
                let rest: Vec<_> = rest.collect();
                told.into_iter().chain(rest).collect()
            }
            // a Go decoder reads YAML as JSON whose keys are sorted
            Self::Yaml(_) => {
                let mut unknown = unknown.to_vec();
                unknown.sort_unstable();
                self.messages()
                    .into_iter()
                    .chain(unknown.iter().map(unknown_told))
                    .collect()
            }
        };
        told.truncate(MAX_FIELD_ERRORS);
        told
    }

    /// Returns the messages for duplicate fields alone.
    pub fn messages(self) -> Vec<String> {
        match self {
            Self::Ignored => Vec::new(),
            Self::Json(body) | Self::Patch(body) => faults(body, &HashSet::new()),
            Self::Yaml(body) => yaml::find(body),
        }
    }

    /// Joins the messages into the text of an error.
    pub fn into_refusal(self, told: &[String]) -> String {
        let is_line = |text: &&String| text.starts_with("line ");
        let lines: Vec<_> = told
            .iter()
            .take_while(is_line)
            .map(|line| format!("\n  {line}"))
            .collect();
        let rest = told.iter().skip(lines.len()).cloned();
        if lines.is_empty() {
            return rest.collect::<Vec<_>>().join(", ");
        }
        let lines = format!("yaml: unmarshal errors:{}", lines.concat());
        std::iter::once(lines)
            .chain(rest)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Returns the messages for duplicate and unknown fields of a JSON body; empty for invalid JSON, which the parser reports.
fn faults(json: &[u8], unknown: &HashSet<&str>) -> Vec<String> {
    let mut found = FieldErrors {
        unknown,
        told_unknown: HashSet::new(),
        told: Vec::new(),
        bytes: 0,
    };
    let mut path = String::new();
    let seed = Seed {
        path: &mut path,
        found: &mut found,
    };
    // the error is the parser's to tell
    let _ = seed.deserialize(&mut serde_json::Deserializer::from_slice(json));
    found.told
}

struct FieldErrors<'a> {
    unknown: &'a HashSet<&'a str>,
    told_unknown: HashSet<String>,
    told: Vec<String>,
    /// The bytes of `told`.
    bytes: usize,
}

impl FieldErrors<'_> {
    fn key(&mut self, path: &str, is_repeated: bool) {
        if self.told.len() >= MAX_FIELD_ERRORS || self.bytes >= MAX_FIELD_ERROR_BYTES {
            return;
        }
        let before = self.told.len();
        if self.unknown.contains(path) {
            if self.told_unknown.insert(path.to_owned()) {
                self.told.push(format!("unknown field \"{path}\""));
            }
        } else if is_repeated {
            self.told.push(format!("duplicate field \"{path}\""));
        }
        self.bytes += self.told.get(before).map_or(0, String::len);
    }
}

struct Seed<'a, 'b> {
    path: &'a mut String,
    found: &'a mut FieldErrors<'b>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
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
            self.found.key(self.path, !known.insert(key));
            map.next_value_seed(Seed {
                path: self.path,
                found: self.found,
            })?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0.. {
            self.path.push_str(&format!("[{index}]"));
            let next = list.next_element_seed(Seed {
                path: self.path,
                found: self.found,
            })?;
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
            (
                r#"{"a": 1, "b": {"a": null}, "c": [{"a": 1.5}, {"a": "x"}]}"#,
                vec![],
            ),
            (r#"{"a": 1, "a": 2, "a": true}"#, vec!["a", "a"]),
            (
                r#"{"a": {"b": 1, "b": -2}, "c": [[], [{"d": 1, "d": 1}]]}"#,
                vec!["a.b", "c[1][0].d"],
            ),
            (r#"{"a": 1, "a": "#, vec!["a"]),
            ("nonsense", vec![]),
        ];
        for (json, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|path| format!("duplicate field \"{path}\""))
                .collect();
            assert_eq!(
                DuplicateFields::Json(json.as_bytes()).messages(),
                expected,
                "{json}"
            );
        }
        assert_eq!(
            DuplicateFields::Json("[".repeat(100_000).as_bytes()).messages(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn unknown_and_repeated_fields_are_told_in_the_order_of_the_body() {
        let body = br#"{"x": 1, "a": 1, "x": 2, "a": 2, "b": [{"y": 1, "c": 1, "c": 2}]}"#;
        let unknown = ["b[0].y".to_owned(), "x".to_owned(), "z".to_owned()];
        let told = DuplicateFields::Json(body).messages_with_unknown(&unknown);
        let expected = [
            "unknown field \"x\"",
            "duplicate field \"a\"",
            "unknown field \"b[0].y\"",
            "duplicate field \"b[0].c\"",
            "unknown field \"z\"",
        ];
        assert_eq!(told, expected);
        let yaml = DuplicateFields::Yaml(b"a: 1\nx: 1\na: 2\nb:\n- c: 1\n  c: 2\n");
        let told = yaml.messages_with_unknown(&["x".to_owned()]);
        assert_eq!(
            yaml.into_refusal(&told),
            "yaml: unmarshal errors:\n  line 3: key \"a\" already set in map\n  line 6: key \"c\" already set in map, unknown field \"x\""
        );
    }
}
