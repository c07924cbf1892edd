//! What is patched, and by whom.

use serde_json::Value;

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
