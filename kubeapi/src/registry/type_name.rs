//! The group, version and kind of a type.

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
