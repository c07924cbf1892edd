//! EdgeMesh's task: watches Services, publishes snapshots, and applies them to the proxy.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use componentbase::{Heartbeat, Part, PartError};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    Config,
    dialer::Dialer,
    exclusive,
    metrics::MeshMetrics,
    proxy::{LocalNode, Proxy},
    snapshot::Snapshot,
    source::Source,
};

/// How long changes are gathered, so that those that come together are applied together.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How often routes and listeners are checked and repaired.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The task that [`super::new`] builds.
pub struct Task {
    pub(super) config: Config,
    pub(super) publish: watch::Sender<Arc<Snapshot>>,
    pub(super) metrics: Arc<MeshMetrics>,
    pub(super) dialer: Dialer,
    pub(super) unserved: watch::Sender<BTreeSet<String>>,
}

impl Part for Task {
    async fn run(
        &mut self,
        heart: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        let _lock = exclusive::lock()?;
        let Config {
            node: name,
            settings,
            services,
            own,
            api,
            ..
        } = &self.config;
        let mut source = Source::new(services, own, name, settings.clone());
        let mut proxy = Proxy::new(
            self.metrics.clone(),
            self.dialer.clone(),
            api.clone(),
            shutdown.child_token(),
        );
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let rest = heart.idle();
            clock::select! {
                // cancel-safe: the source keeps changes
                () = shutdown.cancelled() => break,
                () = changed(&mut source) => {}
                _ = checks.tick() => {}
            }
            drop(rest);
            let snapshot = source.snapshot();
            if !snapshot.synced {
                // until Services are known, the routes of an earlier agent stay
                continue;
            }
            if !self.publish.borrow().synced {
                info!(
                    services = snapshot.services.len(),
                    "Services loaded by EdgeMesh"
                );
            }
            let snapshot = self.publish(snapshot);
            let (topology, pod_networks) = source.node();
            let pods = source.own_pods(&snapshot);
            let node = LocalNode {
                topology: &topology,
                pod_networks: &pod_networks,
                pods: &pods,
                settings,
            };
            proxy.apply(&snapshot, &node).await;
            self.unserved.send_if_modified(|current| {
                let is_new = current != proxy.unserved_names();
                if is_new {
                    current.clone_from(proxy.unserved_names());
                }
                is_new
            });
        }
        proxy.shut_down().await;
        Ok(())
    }
}

impl Task {
    /// Publishes a snapshot if it differs from the last one.
    fn publish(&self, snapshot: Snapshot) -> Arc<Snapshot> {
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

/// Waits for a change, and for those that come right after it.
async fn changed(source: &mut Source) {
    source.changed().await;
    let end = sleep(DEBOUNCE);
    tokio::pin!(end);
    loop {
        clock::select! {
            // cancel-safe: the source keeps changes
            () = &mut end => return,
            () = source.changed() => {}
        }
    }
}
