//! Why a patch is refused.

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
