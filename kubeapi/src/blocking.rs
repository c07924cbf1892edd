//! Work that takes as long as the author of a schema, policy or object likes: it is done beside the workers of the runtime, a few
//! at a time, with a deadline for its turn.

use std::time::Duration;

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::status::StatusError;

/// How much of it runs at once.
static TURNS: Semaphore = Semaphore::const_new(4);

/// How long it waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);

/// Does `work` beside the workers.
///
/// # Errors
/// 504 where no turn comes in time, 500 where the work panics.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StatusError> {
    let turn = timeout(TURN_TIMEOUT, TURNS.acquire()).await;
    let _turn = turn
        .map_err(|_| StatusError::timeout("request did not complete within requested timeout"))?
        .map_err(|_| StatusError::internal("the checks have ended"))?;
    spawn_blocking(work).await.map_err(|error| StatusError::internal(format!("a check broke off: {error}")))
}
