//! The outcome of one run of a probe.

use std::time::Duration;

use limits::is_stalled;

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

impl Outcome {
    /// Returns the outcome of a run with this timeout that took `took`. A failure says nothing of the container if the agent itself
    /// stood still meanwhile: the answer may have come in time. A command may take the timeout twice, as the runtime answers late.
    pub(super) fn unless_stalled(self, timeout: Duration, took: Duration) -> Self {
        match self {
            Self::Failure(text) if is_stalled(timeout.saturating_mul(2), took) => {
                Self::Error(format!("the agent stood still during the probe: {text}"))
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_during_a_stall_of_the_agent_does_not_count() {
        let failure = || Outcome::Failure("late".to_owned());
        let (second, minutes) = (Duration::from_secs(1), Duration::from_secs(160));
        assert_eq!(failure().unless_stalled(second, second), failure());
        assert_eq!(
            failure().unless_stalled(second, second * 2),
            failure(),
            "a command, whose runtime answers late"
        );
        assert!(matches!(
            failure().unless_stalled(second, minutes),
            Outcome::Error(_)
        ));
        assert_eq!(
            Outcome::Success.unless_stalled(second, minutes),
            Outcome::Success
        );
        assert_eq!(
            failure().unless_stalled(minutes, minutes),
            failure(),
            "a slow probe"
        );
    }
}
