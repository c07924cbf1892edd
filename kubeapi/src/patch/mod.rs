//! Patches: pure functions from (what stands, what the client sent) to what shall stand, with the real API server's answers.
//!
//! Comes in: a patch body as JSON (the caller reads YAML) and the object as it stands. Goes out: the new object, or a
//! [`PatchError`] whose variants are HTTP answers. [`track_update`] keeps `metadata.managedFields` for ordinary writes.

use serde_json::Value;

use self::merge_schema::MergeSchema;

mod apply;
mod json;
mod merge;
mod merge_schema;
mod order;
mod strategic;

/// The four ways to patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902, a list of operations.
    Json,
    /// RFC 7396.
    Merge,
    /// Merge that knows the keys of Kubernetes' lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// From a `Content-Type`, whose parameters do not matter.
    pub(crate) fn from_content_type(value: &str) -> Option<Self> {
        match value.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// The kind of the object patched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// Empty for the core group.
    pub(crate) group: &'a str,
    /// As in `v1`.
    pub(crate) version: &'a str,
    /// As in `Pod`.
    pub(crate) kind: &'a str,
    /// The `openAPIV3Schema` of a kind from a definition; `None` for the kinds of Kubernetes itself.
    pub(crate) schema: Option<&'a Value>,
}

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyOptions<'a> {
    /// The field manager.
    pub(crate) manager: &'a str,
    /// Whether an apply takes fields from their other owners.
    pub(crate) force: bool,
    /// The time of the write in RFC 3339.
    pub(crate) now: &'a str,
    /// As in `status`; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Top-level fields that this endpoint does not write, whatever the client sent: `status` at the object itself where
    /// that is a subresource, `spec` at `…/status`. Nobody comes to own them here.
    pub(crate) ignored: &'a [&'a str],
}

/// A field that an apply would take from another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// As in `.spec.containers[name="web"].image`.
    pub(crate) field: String,
    /// As in `conflict with "kubectl" using v1`.
    pub(crate) message: String,
}

/// Why a patch is refused; the message is the real server's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// 400: no such patch can be carried out on any object.
    #[error("{0}")]
    BadRequest(String),
    /// 404: there is no object to patch (an apply would make it).
    #[error("there is no object to patch")]
    Missing,
    /// 409: other managers own fields of this apply.
    #[error("{message}")]
    Conflict {
        /// All of them in one text.
        message: String,
        /// One by one.
        conflicts: Vec<Conflict>,
    },
    /// 413: more operations than a JSON patch may have.
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {found}")]
    TooLarge {
        /// As many are allowed.
        limit: usize,
        /// As many came.
        found: usize,
    },
    /// 415: this kind cannot be patched that way.
    #[error("the body of the request was in an unknown format - accepted media types include: {accepted}")]
    UnsupportedMediaType {
        /// What it can be patched with.
        accepted: &'static str,
    },
    /// 422: well-formed, but not for this object.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
}

impl PatchError {
    /// What is wrong with the patch. The answer to a client that sent an [`Unprocessable`](Self::Unprocessable) one has it as a cause.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Unprocessable(why) => why.clone(),
            other => other.to_string(),
        }
    }
}

/// `current` after the operations of a JSON patch, whoever sent it: with bounds of how much it copies and how deep it nests.
pub(crate) fn json(current: &Value, body: &Value) -> Result<Value, PatchError> {
    json::apply(current, body)
}

/// The object after the patch `body`. `current` is what stands; only [`PatchKind::Apply`] can do without.
/// What comes out is as the client wants it: its `metadata.resourceVersion` and `metadata.uid` may be the client's conditions.
pub(crate) fn patch(
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
        // as the real server answers for kinds whose Go types it does not have
        PatchKind::Strategic if target.schema.is_some() => Err(PatchError::UnsupportedMediaType {
            accepted: "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        }),
        PatchKind::Strategic => strategic::apply(standing()?, body, MergeSchema::of(target)),
        PatchKind::Apply if !options.subresource.is_empty() && current.is_none() => Err(PatchError::Missing),
        PatchKind::Apply => apply::apply(target, current, body, options),
    }
}

/// Makes the writer of `new` the owner of what differs from `old`, in the `metadata.managedFields` of `new`. For every write
/// but an apply, whose [`patch`] has done it.
pub(crate) fn track_update(
    target: &Target<'_>,
    old: Option<&Value>,
    new: &mut Value,
    options: &ApplyOptions<'_>,
) {
    apply::track(target, old, new, options);
}
