//! What came of a probe.

/// What one probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As wanted.
    Success,
    /// As wanted, with something to tell.
    Warning(String),
    /// Not as wanted.
    Failure(String),
    /// The probe itself did not work; it says nothing of the container.
    Error(String),
}
