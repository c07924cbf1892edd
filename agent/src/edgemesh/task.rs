//! What runs: reads Services, publishes snapshots, and has the proxy follow them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    Config,
    dialer::Dialer,
    figures::Figures,
    proxy::{Proxy, Where},
    snapshot::Snapshot,
    source::Source,
};
use crate::rt::{Heartbeat, Part, PartError};

/// Changes that come within this time are carried out together.
const GATHER: Duration = Duration::from_millis(50);
/// How often it is looked whether the machine is as it should be.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// See [`super::new`].
pub struct Task {
    pub(super) config: Config,
    pub(super) publish: watch::Sender<Arc<Snapshot>>,
    pub(super) figures: Arc<Figures>,
    pub(super) dialer: Dialer,
    pub(super) unserved: watch::Sender<BTreeSet<String>>,
}

impl Part for Task {
    async fn run(&mut self, heart: Heartbeat, shutdown: CancellationToken) -> Result<(), PartError> {
        let Config { node, settings, services, own, api, .. } = &self.config;
        let mut source = Source::new(services, own, node, settings.clone());
        let mut proxy =
            Proxy::new(self.figures.clone(), self.dialer.clone(), api.clone(), shutdown.child_token());
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let rest = heart.idle();
            tokio::select! {
                // cancel-safe, all: news is kept by the source
                () = shutdown.cancelled() => break,
                () = gathered(&mut source) => {}
                _ = checks.tick() => {}
            }
            drop(rest);
            let snapshot = source.snapshot();
            if !snapshot.synced {
                // what was there before stays until it is known what is to be there
                continue;
            }
            if !self.publish.borrow().synced {
                info!(services = snapshot.services.len(), "EdgeMesh knows the Services");
            }
            let snapshot = self.follow(snapshot);
            let (here, pods) = source.here();
            let own_pods = source.own_pods(&snapshot);
            let place = Where { here: &here, pods: &pods, own_pods: &own_pods, settings };
            proxy.apply(&snapshot, &place).await;
            self.unserved.send_if_modified(|told| {
                let is_new = told != proxy.unserved();
                if is_new {
                    told.clone_from(proxy.unserved());
                }
                is_new
            });
        }
        proxy.end().await;
        Ok(())
    }
}

impl Task {
    /// Publishes it where it is another one than that before.
    fn follow(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        self.publish.send_if_modified(|current| {
            let is_new = **current != snapshot;
            if is_new {
                *current = Arc::new(snapshot);
            }
            is_new
        });
        self.publish.borrow().clone()
    }
}

/// Waits for a change, and takes those that come right after it.
async fn gathered(source: &mut Source) {
    source.changed().await;
    let end = sleep(GATHER);
    tokio::pin!(end);
    loop {
        tokio::select! {
            // cancel-safe, both
            () = &mut end => return,
            () = source.changed() => {}
        }
    }
}
