//! What runs: reads Services and publishes snapshots.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Config, snapshot::Snapshot};
use crate::rt::{Heart, Part, PartError};

/// See [`super::new`].
pub struct Task {
    pub(super) config: Config,
    pub(super) publish: watch::Sender<Arc<Snapshot>>,
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        let _rest = heart.rest();
        let _ = (&self.config, &self.publish);
        shutdown.cancelled().await;
        Ok(())
    }
}
