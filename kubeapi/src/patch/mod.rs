//! Patches: pure functions from the stored object and the client's patch to the new object, with the API server's results.
//!
//! Input: a patch body as JSON (the caller parses YAML) and the stored object. Output: the new object, or a [`PatchError`] whose
//! variants are HTTP responses. [`track_update`] maintains `metadata.managedFields` for ordinary writes.

use serde_json::Value;

use self::merge_schema::MergeSchema;

mod apply;
pub mod error;
mod json;
mod merge;
mod merge_schema;
mod order;
pub(crate) mod restore;
mod strategic;
pub mod target;

pub use error::PatchError;
pub use target::{ApplyOptions, Target, Versions};

/// The four ways to patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902, a list of operations.
    Json,
    /// RFC 7396.
    Merge,
    /// A merge that knows the keys of Kubernetes' lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// Returns the type for a `Content-Type`, whose parameters are ignored.
    pub fn from_content_type(value: &str) -> Option<Self> {
        match value.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// Applies a JSON patch to `current`, with limits of copied bytes and nesting.
pub fn json(current: &Value, body: &Value) -> Result<Value, PatchError> {
    json::apply(current, body)
}

/// Returns the object after the patch `body`. `current` is the stored object; only [`PatchKind::Apply`] works without one.
/// The result is what the client wants: its `metadata.resourceVersion` and `metadata.uid` may be the client's preconditions.
pub fn patch(
    kind: PatchKind,
    target: &Target<'_>,
    current: Option<&Value>,
    body: &Value,
    options: &ApplyOptions<'_>,
) -> Result<Value, PatchError> {
    let standing = || current.ok_or(PatchError::Missing);
    match kind {
        PatchKind::Json => json::apply(standing()?, body),
        PatchKind::Merge => merge::apply(standing()?, body),
        // This is the real server's response for kinds for which it has no Go types.
        PatchKind::Strategic if target.schema.is_some() => Err(PatchError::UnsupportedMediaType {
            accepted: "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        }),
        PatchKind::Strategic => strategic::apply(standing()?, body, MergeSchema::of(target)),
        PatchKind::Apply if !options.subresource.is_empty() && current.is_none() => {
            Err(PatchError::Missing)
        }
        PatchKind::Apply => apply::apply(target, current, body, options),
    }
}

/// Merges a configuration into `object` as an apply does, without owners of fields.
///
/// # Errors
/// Why it cannot be merged: a list has an item without key, or twice, or a part may only be replaced as a whole.
pub fn merge_configuration(
    target: &Target<'_>,
    object: &Value,
    configuration: &Value,
) -> Result<Value, String> {
    apply::merge_configuration(MergeSchema::of(target), object, configuration)
}

/// Makes the writer of `new` the owner of what differs from `old`, in the `metadata.managedFields` of `new`. For every write except
/// an apply, for which [`patch`] does it.
///
/// # Errors
/// [`PatchError::Unconverted`] if the object is needed in another version.
pub fn track_update(
    target: &Target<'_>,
    old: Option<&Value>,
    new: &mut Value,
    options: &ApplyOptions<'_>,
) -> Result<(), PatchError> {
    apply::track(target, old, new, options)
}
