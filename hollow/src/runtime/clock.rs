//! Ends containers when their deadline has come.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{core::Core, state::RuntimeState};

/// Starts the clock of a runtime.
pub(super) fn start(core: &Arc<Core>) {
    let clock = run(Arc::downgrade(core), core.deadline_changed(), core.end());
    core.tasks.spawn("the clock of a simulated runtime", clock);
}

/// Runs until `end`, which is cancelled with the last handle of the runtime; holds the runtime only for an instant.
async fn run(core: Weak<Core>, deadline_changed: Arc<Notify>, end: CancellationToken) {
    loop {
        let Some(wait) = core.upgrade().map(|core| core.time_to_deadline()) else {
            return;
        };
        let deadline = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        // cancel-safe: `Notify` keeps a notification that comes while we are elsewhere.
        clock::select! {
            () = end.cancelled() => return,
            () = deadline_changed.notified() => {}
            () = deadline => {
                let Some(core) = core.upgrade() else { return };
                core.change(RuntimeState::advance);
            }
        }
    }
}
