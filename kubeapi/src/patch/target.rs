//! The object that is patched, and its writer.

use std::fmt;

use serde_json::Value;

use super::PatchError;

/// The kind of the patched object.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version, such as `v1`.
    pub version: &'a str,
    /// The kind, such as `Pod`.
    pub kind: &'a str,
    /// The `openAPIV3Schema` of a kind from a definition; `None` for built-in kinds.
    pub schema: Option<&'a Value>,
}

/// The writer of a patch, and its options.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Whether an apply takes fields from their other owners.
    pub force: bool,
    /// The time of the write in RFC 3339.
    pub now: &'a str,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Top-level fields that this endpoint does not write, whatever the client sends: `status` for the object itself if that is a
    /// subresource, `spec` for `…/status`. Nobody becomes their owner here.
    pub ignored: &'a [&'a str],
    /// The other versions of the object; `None` if its versions have the same fields.
    pub versions: Option<&'a dyn Versions>,
}

/// Converts an object between the versions of its kind: owners of fields are recorded in the version in which they wrote.
pub trait Versions: fmt::Debug + Sync {
    /// Returns the schema of `<group>/<version>`; `None` if there is no such version.
    fn schema(&self, api_version: &str) -> Option<&Value>;

    /// Returns `object` in this version.
    ///
    /// # Errors
    /// [`PatchError::Unconverted`] if the conversion has to be made before.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, PatchError>;
}
