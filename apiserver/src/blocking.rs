//! Runs work whose duration the author of a schema, policy or object controls on blocking threads: a few jobs at a time, with a
//! deadline for getting a permit.

use std::time::Duration;

use clock::spawn_blocking;
use tokio::{sync::Semaphore, time::timeout};

use kubeapi::status::StatusError;

/// How many jobs run at the same time.
static BLOCKING_PERMITS: Semaphore = Semaphore::const_new(4);

/// How long a job waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `work` on a blocking thread.
///
/// # Errors
/// 504 where no permit becomes free in time, 500 where the work panics.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StatusError> {
    let turn = timeout(PERMIT_TIMEOUT, BLOCKING_PERMITS.acquire()).await;
    let _turn = turn
        .map_err(|_| StatusError::timeout("request did not complete within requested timeout"))?
        .map_err(|_| StatusError::internal("the checks have ended"))?;
    spawn_blocking(work)
        .await
        .map_err(|error| StatusError::internal(format!("a check was interrupted: {error}")))
}
