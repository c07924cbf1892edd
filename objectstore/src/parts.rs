//! Reads parts of a stored object without the rest of it.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{
    Deserialize,
    de::{
        DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
        Visitor,
    },
};

use super::{Object, StoreError};

/// Labels by key.
pub(crate) type Labels = HashMap<String, String>;

/// The labels of an object, read once for all clones of it.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownLabels(Arc<OnceLock<Labels>>);

impl Object {
    /// Returns the labels.
    pub fn labels(&self) -> Result<&HashMap<String, String>, StoreError> {
        if let Some(labels) = self.labels.0.get() {
            return Ok(labels);
        }
        let labels = self
            .part::<Option<Labels>>(&["metadata", "labels"])?
            .flatten()
            .unwrap_or_default();
        Ok(self.labels.0.get_or_init(|| labels))
    }

    /// Reads the value at a path of fields; `None` where there is none. Reading ends behind it, and fails only where it does not get
    /// there.
    pub fn part<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, StoreError> {
        let mut found = None;
        let mut json = serde_json::Deserializer::from_slice(&self.json);
        match (
            json.deserialize_map(UpTo {
                path,
                found: &mut found,
            }),
            found,
        ) {
            // what ended the reading is the end of the part
            (_, Some(part)) => Ok(Some(part)),
            (Ok(()), None) => Ok(None),
            (Err(error), None) => Err(self.not_json(&error)),
        }
    }
}

/// Reads an object until the part is known, and fails then: the rest is not read.
struct UpTo<'a, T> {
    path: &'a [&'a str],
    found: &'a mut Option<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for UpTo<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(T::deserialize(deserializer)?);
            return Err(D::Error::custom("the rest is not read"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for UpTo<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    // what is no object has no fields

    fn visit_unit<E: Error>(self) -> Result<(), E> {
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((wanted, path)) = self.path.split_first() else {
            return Ok(());
        };
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == *wanted {
                map.next_value_seed(UpTo {
                    path,
                    found: &mut *self.found,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Key, Resource};

    fn object(json: &'static str) -> Object {
        let key = Key::new(Resource::new("", "pods"), "a", "b");
        Object::new(key, 1, Bytes::from_static(json.as_bytes()))
    }

    #[test]
    fn labels_are_read_wherever_the_metadata_stands() {
        for json in [
            r#"{"kind":"Pod","metadata":{"name":"b","labels":{"a":"\u0031"}},"spec":{"metadata":{}}}"#,
            r#"{"spec":{"metadata":{"labels":{"a":"2"}}},"metadata":{"labels":{"a":"1"}}}"#,
        ] {
            assert_eq!(
                *object(json).labels().unwrap(),
                Labels::from([("a".into(), "1".into())]),
                "{json}"
            );
        }
        for json in [
            r#"{"metadata":{"labels":null}}"#,
            r#"{"metadata":null}"#,
            "{}",
            r#"{"metadata":{}}"#,
        ] {
            assert_eq!(*object(json).labels().unwrap(), Labels::default(), "{json}");
        }
        for json in [
            "[]",
            r#"{"metadata":{"labels":"#,
            r#"{"metadata":{"labels":{"a":1}}}"#,
        ] {
            assert!(
                matches!(object(json).labels(), Err(StoreError::Damaged { .. })),
                "{json}"
            );
        }
    }

    #[test]
    fn labels_are_read_once_for_all_clones() {
        let first = object(r#"{"metadata":{"labels":{"a":"1"}}}"#);
        let second = first.clone();
        assert!(std::ptr::eq(
            first.labels().unwrap(),
            second.labels().unwrap()
        ));
    }

    #[test]
    fn a_part_is_read_without_what_follows() {
        let cut = object(r#"{"spec":{"a":{"b":"c"},"nodeName":"n","d":"#);
        for (path, expected) in [
            (&["spec", "nodeName"][..], Some(json!("n"))),
            (&["spec", "a", "b"], Some(json!("c"))),
            (&["spec", "a"], Some(json!({"b": "c"}))),
        ] {
            assert_eq!(cut.part::<Value>(path).unwrap(), expected, "{path:?}");
        }
        assert!(cut.part::<Value>(&["spec", "e"]).is_err());
        for json in [
            r#"{"spec":{"a":1}}"#,
            r#"{"spec":{"b":"c"}}"#,
            r#"{"spec":{"b":[{"c":1}, 2]}}"#,
            r#"{"spec":1}"#,
            "{}",
        ] {
            assert_eq!(
                object(json).part::<Value>(&["spec", "b", "c"]).unwrap(),
                None,
                "{json}"
            );
        }
    }
}
