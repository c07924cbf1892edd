//! Blocking work: on a thread of its own, or in a simulation as a task.

use tokio::task::{self, JoinHandle};

use crate::is_simulated;

/// Runs blocking work on a thread for it. In a simulation the work is a task, so that its end has a place in the order of events.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    match is_simulated() {
        true => task::spawn(async { work() }),
        false => task::spawn_blocking(work),
    }
}
