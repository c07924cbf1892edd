//! The outcome of one run of a probe.

/// The outcome of one run of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The probe succeeded.
    Success,
    /// The probe succeeded with a warning.
    Warning(String),
    /// The probe failed.
    Failure(String),
    /// The probe could not be run; this says nothing about the container.
    Error(String),
}
