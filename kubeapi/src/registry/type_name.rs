//! The group, version and kind of a type.

/// The group, version and kind of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The version, such as `v1`.
    pub version: &'a str,
    /// The kind, such as `Pod`.
    pub kind: &'a str,
}

impl TypeName<'_> {
    /// Returns `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of the package that has the internal version of the types of the group, for messages.
    pub fn package(&self) -> &str {
        match self.group {
            "" | "events.k8s.io" => "core",
            group => group.split('.').next().unwrap_or_default(),
        }
    }
}
