//! What a controller of kube-rs does after a failure.

use std::time::Duration;

use kube::runtime::controller::Action;
use tracing::{debug, warn};

/// The wait after another writer was faster.
const CONFLICT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// The wait after any other failure.
const ERROR_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Logs that an object could not be handled, and tries again. A conflict with another writer, or a deletion meanwhile, is ordinary.
pub(super) fn after_failure(what: &'static str, error: &kube::Error) -> Action {
    if matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
        debug!(error = error as &dyn std::error::Error, "conflict: {what}; retrying");
        return Action::requeue(CONFLICT_RETRY_INTERVAL);
    }
    warn!(error = error as &dyn std::error::Error, "{what}; retrying");
    Action::requeue(ERROR_RETRY_INTERVAL)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn conflicts_are_tried_again_at_once_and_other_failures_later() {
        let failure = |code| kube::Error::Api(Box::new(Status::failure("x", "y").with_code(code)));
        for (code, wait) in
            [(409, CONFLICT_RETRY_INTERVAL), (404, CONFLICT_RETRY_INTERVAL), (500, ERROR_RETRY_INTERVAL)]
        {
            assert_eq!(
                after_failure("failed to write a node", &failure(code)),
                Action::requeue(wait),
                "{code}"
            );
        }
    }
}
