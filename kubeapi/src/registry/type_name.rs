//! The group, version and kind of a type.

use std::{collections::HashSet, sync::OnceLock};

use super::kubernetes;
use crate::request_type;

/// The group, version and kind of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeName<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl TypeName<'_> {
    /// Returns `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of the package that has the internal version of the types of the group, for messages.
    pub(crate) fn package(&self) -> &str {
        match self.group {
            "" | "events.k8s.io" => "core",
            group => group.split('.').next().unwrap_or_default(),
        }
    }
}

/// Reports whether Kubernetes has a type of this `apiVersion` and kind, stored or not.
pub(crate) fn is_registered(api_version: &str, kind: &str) -> bool {
    static NAMES: OnceLock<HashSet<(String, String)>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let stored = kubernetes::kinds().map(|kind| (kind.api_version(), kind.kind));
        let others = request_type::ALL.iter().map(|other| other.name());
        stored.chain(others.map(|name| (name.api_version(), name.kind.to_owned()))).collect()
    });
    names.contains(&(api_version.to_owned(), kind.to_owned()))
}
