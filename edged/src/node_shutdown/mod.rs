//! Graceful node shutdown, as the kubelet's: when logind announces a shutdown of the machine, pods end in the order of their
//! priorities, within the configured periods. Until then, a lock delays the shutdown.
//!
//! | file | what |
//! |---|---|
//! | `groups` | which pods end in which period |
//! | `logind` | the lock and the announcements |

mod groups;
mod logind;

use std::{sync::Arc, time::Duration};

use componentbase::Backoff;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc;
use wire::text::with_causes;

use self::logind::{InhibitLock, Logind};
use crate::{
    ended_pods,
    events::{EventType, Recorder, reason},
    names::Dirs,
    pods::{PodCache, Termination},
    settings::NodeShutdown,
    shutdown_status::{self, ShutdownStatus},
    specs::is_terminal,
    status::Waiting,
    trigger::Trigger,
};

/// First delay before a lost connection to logind is tried again, doubled up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What a shutdown needs.
pub(crate) struct Deps {
    /// The node's name.
    pub(crate) node_name: String,
    /// The periods.
    pub(crate) settings: NodeShutdown,
    /// Whether the node is shutting down, for other parts.
    pub(crate) status: ShutdownStatus,
    /// The pods of this node.
    pub(crate) pods: Store<Pod>,
    /// Marks pods for termination.
    pub(crate) pod_cache: PodCache,
    /// Triggers pods that were marked.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Records events of the node.
    pub(crate) events: Recorder,
    /// The directories of pods.
    pub(crate) dirs: Dirs,
}

/// Waits for shutdowns. Never returns.
pub(crate) async fn run(deps: Deps) {
    if deps.settings.periods().is_empty() {
        return std::future::pending().await;
    }
    let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
    loop {
        let ended = deps.follow(&mut backoff).await;
        let wait = backoff.next(1.0);
        let error = ended.map_or_else(
            |error| with_causes(&error),
            |()| "the connection has ended".to_owned(),
        );
        tracing::warn!(
            error,
            retry_in = ?wait,
            "cannot delay a shutdown of the machine; pods would be killed by it; retrying"
        );
        tokio::time::sleep(wait).await;
    }
}

impl Deps {
    /// Holds the lock and acts on announcements until the connection ends.
    async fn follow(&self, backoff: &mut Backoff) -> Result<(), logind::Error> {
        let logind = Logind::connect().await?;
        logind.allow_delay(self.settings.total()).await?;
        let mut announcements = logind.announcements().await?;
        let mut lock = Some(logind.inhibit().await?);
        backoff.reset();
        let periods = self.settings.periods().len();
        tracing::info!(periods, total = ?self.settings.total(), "waiting for shutdowns of the machine");
        // it may have begun before the lock was taken
        if logind.is_shutting_down().await? {
            self.shut_down(lock.take()).await;
        }
        while let Some(begins) = announcements.next().await {
            if begins {
                self.shut_down(lock.take()).await;
            } else {
                self.status.set(false);
                self.record("Shutdown manager detected shutdown cancellation");
                lock = Some(logind.inhibit().await?);
            }
        }
        Ok(())
    }

    fn record(&self, message: &str) {
        tracing::info!("{message}");
        self.events.node(
            &self.node_name,
            EventType::Normal,
            reason::NODE_SHUTDOWN,
            message.to_owned(),
        );
    }

    /// Ends all pods, one period after the other, and then lets the machine shut down.
    async fn shut_down(&self, lock: Option<InhibitLock>) {
        self.status.set(true);
        self.record("Shutdown manager detected shutdown event");
        let mut pods = self.pods.state();
        pods.retain(|pod| !is_terminal(pod));
        for (period, pods) in groups::by_priority(self.settings.periods(), pods) {
            if pods.is_empty() {
                continue;
            }
            for pod in &pods {
                self.terminate(pod, period.grace).await;
            }
            let gone = ended_pods::wait_until_gone(&self.pods, &self.dirs, &pods);
            if tokio::time::timeout(period.grace, gone).await.is_err() {
                tracing::warn!(
                    priority = period.priority,
                    period = ?period.grace,
                    "shutdown period exceeded"
                );
            }
        }
        tracing::info!("pods ended; the machine shuts down");
        drop(lock);
    }

    async fn terminate(&self, pod: &Arc<Pod>, grace: Duration) {
        let message = shutdown_status::TERMINATED_MESSAGE;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.pod_cache.mark_for_termination(
            uid,
            Termination {
                why: Waiting::new(shutdown_status::TERMINATED_REASON, message),
                grace: Some(grace),
                disrupted: Some(message.to_owned()),
            },
        );
        // fails only if EdgeD ends
        let _ = self.triggers.send(Trigger::of(pod)).await;
    }
}
