//! Ends containers when their time has come.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{core::Core, state::State};

/// Runs until `end`, which comes with the last handle of the runtime; holds the runtime only for an instant.
pub(super) async fn run(core: Weak<Core>, deadline_changed: Arc<Notify>, end: CancellationToken) {
    loop {
        let Some(wait) = core.upgrade().map(|core| core.time_to_deadline()) else { return };
        let deadline = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        // All three are cancel-safe; a ring that comes while we are elsewhere is kept by the `Notify`.
        tokio::select! {
            () = end.cancelled() => return,
            () = deadline_changed.notified() => {}
            () = deadline => {
                let Some(core) = core.upgrade() else { return };
                core.change(State::advance);
            }
        }
    }
}
