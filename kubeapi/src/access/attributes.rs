//! The attributes of a request that the authorizer decides on.

use crate::request::path::Target;

/// The attributes of a request, named as in RBAC rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb, such as `list`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// As in `pods` or `pods/log`.
    pub resource: String,
    /// Empty at the cluster's scope.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// The path of a non-resource request; else `None`.
    pub path: Option<String>,
}

impl Attributes {
    /// Returns the attributes of a resource request.
    pub fn of_objects(verb: &str, target: &Target) -> Self {
        let Target {
            kind,
            namespace,
            name,
            part,
        } = target;
        let resource = part.map_or_else(
            || kind.plural.clone(),
            |part| format!("{}/{}", kind.plural, part.name()),
        );
        // a namespace stands in itself
        let own = kind.group.is_empty() && kind.plural == "namespaces";
        Self {
            verb: verb.to_owned(),
            group: kind.group.clone(),
            resource,
            namespace: if own { name.clone() } else { namespace.clone() },
            name: name.clone(),
            path: None,
        }
    }

    /// Returns the attributes of a non-resource request.
    pub fn of_path(verb: &str, path: &str) -> Self {
        Self {
            verb: verb.to_lowercase(),
            path: Some(path.to_owned()),
            ..Self::default()
        }
    }
}
