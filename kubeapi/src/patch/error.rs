//! Why a patch is refused.

/// The end of the message about a failed `test`.
pub(super) const TEST_FAILED: &str = "test failed";

/// A field that an apply would take from another manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of the field, such as `.spec.containers[name="web"].image`.
    pub field: String,
    /// The message, such as `conflict with "kubectl" using v1`.
    pub message: String,
}

/// Why a patch is refused; the message is the real server's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch is invalid for any object.
    #[error("{0}")]
    BadRequest(String),
    /// 404: there is no object to patch (an apply would create it).
    #[error("there is no object to patch")]
    Missing,
    /// 409: other managers own fields of this apply.
    #[error("{message}")]
    Conflict {
        /// The message about all of them.
        message: String,
        /// The conflicts one by one.
        conflicts: Vec<Conflict>,
    },
    /// 413: more operations than a JSON patch may have.
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {found}")]
    TooLarge {
        /// The most operations that are allowed.
        limit: usize,
        /// The number of operations in the patch.
        found: usize,
    },
    /// 415: this kind cannot be patched that way.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    )]
    UnsupportedMediaType {
        /// The media types that are accepted.
        accepted: &'static str,
    },
    /// 500: the object is needed in another version. Whoever patches converts it, and patches again.
    #[error("the object is not converted to another version")]
    Unconverted,
    /// 500: the object is needed in another version, and could not be converted.
    #[error("{0}")]
    Inconvertible(String),
    /// 422: the patch is well-formed, but does not fit this object.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable(String),
}

impl PatchError {
    /// Reports whether a `test` of a JSON patch found another value.
    pub fn is_failed_test(&self) -> bool {
        matches!(self, Self::Unprocessable(why) if why.ends_with(TEST_FAILED))
    }

    /// Returns the fault of the patch. A response for [`Unprocessable`](Self::Unprocessable) contains it as a cause.
    pub fn reason(&self) -> String {
        match self {
            Self::Unprocessable(why) => why.clone(),
            other => other.to_string(),
        }
    }
}
