//! What a request wants, as those who decide on access see it.

use crate::path::Target;

/// What a request wants, as access rules name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    /// As in `pods` or `pods/log`.
    pub(crate) resource: String,
    /// Empty at the cluster's scope.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// Only for what is no object's.
    pub(crate) path: Option<String>,
}

impl Attributes {
    /// Of a request on objects.
    pub(super) fn of_objects(verb: &str, target: &Target) -> Self {
        let Target { kind, namespace, name, part } = target;
        let resource =
            part.map_or_else(|| kind.plural.clone(), |part| format!("{}/{}", kind.plural, part.name()));
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

    /// Of a request on what is no object's.
    pub(super) fn of_path(verb: &str, path: &str) -> Self {
        Self { verb: verb.to_lowercase(), path: Some(path.to_owned()), ..Self::default() }
    }
}
