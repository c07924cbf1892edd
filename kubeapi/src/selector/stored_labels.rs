//! The labels of a stored object, read without the rest of it.

use std::{borrow::Cow, collections::HashMap, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor},
};

use crate::store::{Object, StoreError};

/// Labels by key.
pub(super) type Labels = HashMap<String, String>;

/// Returns the labels of a stored object. Reading ends behind its metadata, which stands before specification and status.
pub(super) fn stored_labels(object: &Object) -> Result<Labels, StoreError> {
    let mut found = None;
    let mut json = serde_json::Deserializer::from_slice(&object.json);
    match (UpToMetadata { found: &mut found }.deserialize(&mut json), found) {
        // what ended the reading is the end of the metadata
        (_, Some(labels)) => Ok(labels),
        (Ok(()), None) => Ok(Labels::default()),
        (Err(error), None) => Err(object.not_json(&error)),
    }
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: Option<Labels>,
}

/// Reads an object until its metadata is known, and fails then: the rest is not read.
struct UpToMetadata<'a> {
    found: &'a mut Option<Labels>,
}

impl<'de> DeserializeSeed<'de> for UpToMetadata<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for UpToMetadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "metadata" {
                let metadata: Option<Metadata> = map.next_value()?;
                *self.found = Some(metadata.and_then(|metadata| metadata.labels).unwrap_or_default());
                return Err(A::Error::custom("the rest is not read"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::{Key, Resource};

    #[test]
    fn labels_are_read_wherever_the_metadata_stands() {
        let labels = |json: &'static str| {
            let key = Key::new(Resource::new("", "pods"), "a", "b");
            stored_labels(&Object { key, revision: 1, json: Bytes::from_static(json.as_bytes()) })
        };
        for json in [
            r#"{"kind":"Pod","metadata":{"name":"b","labels":{"a":"\u0031"}},"spec":{"metadata":{}}}"#,
            r#"{"spec":{"metadata":{"labels":{"a":"2"}}},"metadata":{"labels":{"a":"1"}}}"#,
        ] {
            assert_eq!(labels(json).unwrap(), Labels::from([("a".into(), "1".into())]), "{json}");
        }
        for json in [r#"{"metadata":{"labels":null}}"#, r#"{"metadata":null}"#, "{}", r#"{"metadata":{}}"#] {
            assert_eq!(labels(json).unwrap(), Labels::default(), "{json}");
        }
        for json in ["[]", r#"{"metadata":{"labels":"#, r#"{"metadata":{"labels":{"a":1}}}"#] {
            assert!(matches!(labels(json), Err(StoreError::Damaged { .. })), "{json}");
        }
    }
}
