//! What a controller does after a failure: when it logs it, and when it tries again.

use std::{sync::LazyLock, time::Duration};

use clock::Instant;

use crate::controllers::reconciler::Action;
use limits::Repeated;
use parking_lot::Mutex;
use tracing::{debug, warn};

/// The wait after another writer was faster.
pub(super) const CONFLICT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// The wait after any other failure.
pub(super) const ERROR_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The failures of all controllers that were logged: each is logged at once, and then at growing intervals.
static LOGGED: LazyLock<Mutex<Repeated>> = LazyLock::new(Mutex::default);

/// Counts a failure, which is the text of everything that tells it from others. Returns the number of its occurrences if it is to be
/// logged now.
pub(super) fn due(failure: &str) -> Option<u64> {
    LOGGED.lock().count(failure, Instant::now())
}

/// Reports whether another writer was faster, or the object was deleted meanwhile, which is ordinary.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

/// Logs that an object could not be handled, and tries again.
pub(super) fn after_failure(what: &'static str, error: &kube::Error) -> Action {
    if is_conflict(error) {
        debug!(
            error = error as &dyn std::error::Error,
            "failed to {what}: conflict; retrying"
        );
        return Action::requeue(CONFLICT_RETRY_INTERVAL);
    }
    if let Some(times) = due(&format!("{what} {error}")) {
        warn!(
            times,
            error = error as &dyn std::error::Error,
            "failed to {what}; retrying"
        );
    }
    Action::requeue(ERROR_RETRY_INTERVAL)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn conflicts_are_tried_again_at_once_and_other_failures_later() {
        let failure = |code| kube::Error::Api(Box::new(Status::failure("x", "y").with_code(code)));
        for (code, wait) in [
            (409, CONFLICT_RETRY_INTERVAL),
            (404, CONFLICT_RETRY_INTERVAL),
            (500, ERROR_RETRY_INTERVAL),
        ] {
            assert_eq!(
                after_failure("write a node", &failure(code)),
                Action::requeue(wait),
                "{code}"
            );
        }
    }

    #[test]
    fn repeated_failure_is_logged_once_until_it_changes() {
        let found = [
            "service a is damaged",
            "service a is damaged",
            "service b is damaged",
        ]
        .map(due);
        assert_eq!(found, [Some(1), None, Some(1)]);
    }
}
