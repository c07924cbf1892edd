//! Everything that a store in memory has, as JSON.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;

use super::{Key, Object, Resource};

/// Everything that a [`MemoryStore`](super::MemoryStore) has. As JSON:
/// `{"revision": 7, "objects": [["pods", "default", "web", 5, {…}], …]}`, each object with its collection, namespace, name and revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The revision of the newest commit.
    pub revision: u64,
    /// All objects.
    pub objects: Vec<Object>,
}

/// Collection, namespace, name, revision and JSON of an object.
type Row<'a> = (&'a str, &'a str, &'a str, u64, &'a RawValue);

fn row(object: &Object) -> serde_json::Result<Row<'_>> {
    let json = serde_json::from_slice(&object.json)?;
    let (resource, key) = (object.key.resource.as_str(), &object.key);
    Ok((resource, &key.namespace, &key.name, object.revision, json))
}

#[derive(Serialize)]
struct ImageRef<'a> {
    revision: u64,
    objects: Vec<Row<'a>>,
}

#[derive(Deserialize)]
struct OwnedImage {
    revision: u64,
    objects: Vec<(String, String, String, u64, Box<RawValue>)>,
}

impl Serialize for Image {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let objects = self.objects.iter().map(row).collect::<Result<_, _>>();
        let objects = objects.map_err(S::Error::custom)?;
        let revision = self.revision;
        ImageRef { revision, objects }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Image {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OwnedImage { revision, objects } = OwnedImage::deserialize(deserializer)?;
        let object = |(resource, namespace, name, at, json): (String, _, _, u64, Box<RawValue>)| {
            if at > revision {
                let why =
                    format!("{resource} {name} has revision {at}, and the newest is {revision}");
                return Err(D::Error::custom(why));
            }
            let key = Key::new(Resource::named(&resource), namespace, name);
            let json = Box::<str>::from(json).into_boxed_bytes();
            Ok(Object::new(key, at, Bytes::from(json)))
        };
        let objects = objects.into_iter().map(object).collect::<Result<_, _>>()?;
        Ok(Self { revision, objects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_refused() {
        for (text, why) in [
            (
                r#"{"revision": 1, "objects": [["pods", "", "a", 2, {}]]}"#,
                "the newest is 1",
            ),
            (r#"{"objects": []}"#, "missing field `revision`"),
            (
                r#"{"revision": 1, "objects": [["pods", "", "a", 1]]}"#,
                "invalid length 4",
            ),
        ] {
            let error = serde_json::from_str::<Image>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
