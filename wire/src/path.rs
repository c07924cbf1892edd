//! The resource of a route: `<namespace>/<type>/<name>` for objects, and a few fixed words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ResourceType;

/// The namespace of cluster-scoped objects.
pub const CLUSTER: &str = "null";

/// A resource exactly as it appears on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourcePath(String);

/// A resource path that names an object, or a collection if `name` is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef<'a> {
    /// `None` for cluster-scoped objects (`null` on the wire).
    pub namespace: Option<&'a str>,
    /// The resource type.
    pub kind: ResourceType,
    /// The name; absent for a collection.
    pub name: Option<&'a str>,
}

impl ResourcePath {
    /// Creates the path of an object; an empty namespace means cluster-scoped.
    pub fn object(namespace: &str, kind: &ResourceType, name: &str) -> Self {
        let namespace = if namespace.is_empty() {
            CLUSTER
        } else {
            namespace
        };
        Self(format!("{namespace}/{kind}/{name}"))
    }

    /// Returns the text on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether the field is absent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the object that the path names; `None` for other resources (`membership`, a topic, a URL …).
    pub fn as_object(&self) -> Option<ObjectRef<'_>> {
        let mut parts = self.0.splitn(3, '/');
        let (namespace, kind) = (parts.next()?, parts.next()?);
        let name = parts.next().filter(|name| !name.is_empty());
        let kind = ResourceType::from(kind.to_owned());
        let sound = !namespace.is_empty()
            && !kind.is_empty()
            && name.is_none_or(|name| !name.contains('/'));
        sound.then_some(ObjectRef {
            namespace: Some(namespace).filter(|text| *text != CLUSTER),
            kind,
            name,
        })
    }
}

impl From<&str> for ResourcePath {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for ResourcePath {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for ResourcePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Option<String>, String, Option<String>)> {
        let path = ResourcePath::from(text);
        let object = path.as_object()?;
        Some((
            object.namespace.map(str::to_owned),
            object.kind.to_string(),
            object.name.map(str::to_owned),
        ))
    }

    #[test]
    fn objects_are_understood() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("default/pod/p1"),
            Some((some("default"), "pod".into(), some("p1")))
        );
        assert_eq!(
            read("null/node/edge-1"),
            Some((None, "node".into(), some("edge-1")))
        );
        assert_eq!(
            read("default/podlist"),
            Some((some("default"), "podlist".into(), None))
        );
        for other in [
            "",
            "node",
            "membership",
            "device/ns/d/twin/edge_updated",
            "/pod/p1",
            "a//b",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn objects_are_written() {
        assert_eq!(
            ResourcePath::object("ns", &ResourceType::Secret, "s").as_str(),
            "ns/secret/s"
        );
        assert_eq!(
            ResourcePath::object("", &ResourceType::Node, "n").as_str(),
            "null/node/n"
        );
    }
}
