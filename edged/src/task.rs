//! The main task of EdgeD: it starts the parts and waits for them.

use std::{sync::Arc, time::Duration};

use componentbase::{Heartbeat, Part, PartError};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    Config, Error, Progress, api, device_manager,
    events::{self, PendingEvent, Recorder},
    eviction,
    gc::{missing_pods, orphans},
    housekeeping,
    names::Dirs,
    node, node_shutdown,
    parts::{Channels, EdgedParts},
    pleg, pods, server, static_pods,
    trigger::{MAX_TRIGGERS, Trigger},
};

/// Time between two checks that the pod controller still takes triggers.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(15);

/// The channels through which EdgeD publishes its progress and its API.
pub(super) struct Publishers {
    /// The progress of EdgeD's start.
    pub(super) progress: watch::Sender<Progress>,
    /// What the API needs, once it is available.
    pub(super) api: watch::Sender<Option<Arc<api::Deps>>>,
}

/// EdgeD, not running yet.
pub struct Task {
    config: Config,
    dirs: Dirs,
    progress: Arc<watch::Sender<Progress>>,
    api: watch::Sender<Option<Arc<api::Deps>>>,
}

impl Task {
    pub(super) fn new(config: Config, dirs: Dirs, publishers: Publishers) -> Self {
        let Publishers { progress, api } = publishers;
        Self {
            config,
            dirs,
            progress: Arc::new(progress),
            api,
        }
    }

    /// Runs pods until `shutdown`. Containers keep running after that; the next run finds them by their labels.
    ///
    /// # Errors
    /// The server cannot listen.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        Box::pin(self.run_restartable(&Heartbeat::unmonitored(), shutdown)).await
    }

    /// Does the same as [`Task::run`], but can be dropped at any time and called again: containers keep running.
    async fn run_restartable(
        &self,
        heart: &Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let (config, progress) = (&self.config, &self.progress);
        let (triggers, received) = mpsc::channel(MAX_TRIGGERS);
        let (recorder, events) = recorder(config);
        let (reader, writer) = reflector::store::<Pod>();
        let channels = Channels {
            pods: reader.clone(),
            events: recorder,
            triggers: triggers.clone(),
            shutdown: shutdown.clone(),
        };
        let parts = EdgedParts::new(config.clone(), self.dirs.clone(), channels);
        // Dropped when this function ends or its future is dropped.
        let _cut = parts.runtime.cancel_when_dropped();
        let inputs = pods::Inputs {
            store: (reader, writer),
            sources: parts.sources(),
            triggers: received,
            concurrency: config.sync.concurrency,
            progress: (**progress).clone(),
        };
        let context = Arc::new(parts.context());
        // Each is boxed where it is made: this future would keep space for all of them beside the boxes.
        let retry = Box::pin(pods::retry::run(context.clone(), config.online.clone()));
        let pods = Box::pin(pods::run(context, inputs));
        let devices = Box::pin(device_manager::run(parts.devices.clone()));
        let node_shutdown = Box::pin(node_shutdown::run(parts.node_shutdown()));
        let events = Box::pin(write_events(config, &parts, events));
        let pleg = Box::pin(pleg::run(parts.pleg(), config.sync.relist));
        let server = Box::pin(self.serve(&parts, shutdown.clone()));
        let (own, interval) = (parts.orphans(), config.sync.orphans);
        let orphans = Box::pin(orphans::run(own, progress.subscribe(), interval));
        let missing_pods = missing_pods::run(parts.missing_pods(), progress.subscribe());
        let missing_pods = Box::pin(missing_pods);
        let node_upkeep = Box::pin(node_upkeep(&parts, progress.subscribe()));
        let node = Box::pin(node::run(config, parts.node(), progress, heart));
        let liveness = Box::pin(check_liveness(triggers, heart.for_loop("pods")));
        let static_pods = Box::pin(static_pods(config, &parts));
        clock::select! {
            // cancel-safe: each part is level-triggered and starts from the current state.
            () = shutdown.cancelled() => {}
            // The caller cancels `shutdown` on an error, which ends the background tasks.
            ended = server => ended?,
            () = async { tokio::join!(pleg, orphans, missing_pods, node, pods, events, static_pods, node_upkeep, liveness, retry, devices, node_shutdown); } => {}
        }
        tokio::join!(parts.background.finish(), parts.runtime.finish());
        Ok(())
    }

    /// Makes the API available, and returns the future of the node's HTTP server, which never ends if none is configured.
    fn serve(
        &self,
        parts: &EdgedParts,
        shutdown: CancellationToken,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let (pages, address) = (parts.pages(), self.config.server);
        self.api.send_replace(Some(Arc::new(api::Deps {
            client: self.config.client.clone(),
            runtime: parts.runtime.clone(),
            pages: pages.clone(),
        })));
        async move {
            match address {
                Some(address) => Ok(server::run(address, pages, shutdown).await?),
                None => std::future::pending().await,
            }
        }
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heart: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Ok(Box::pin(self.run_restartable(&heart, shutdown)).await?)
    }
}

/// Checks periodically that the pod controller answers.
async fn check_liveness(triggers: mpsc::Sender<Trigger>, heart: Heartbeat) {
    loop {
        let rest = heart.idle();
        sleep(LIVENESS_INTERVAL).await;
        drop(rest);
        let echo = Arc::new(Notify::new());
        if triggers.send(Trigger::Echo(echo.clone())).await.is_err() {
            // The controller has ended, and so will all of EdgeD.
            return std::future::pending().await;
        }
        echo.notified().await;
    }
}

/// Returns the recorder of events, disabled if they are not reported, and the queue of events to write.
fn recorder(config: &Config) -> (Recorder, mpsc::Receiver<Box<PendingEvent>>) {
    let (recorder, events) = events::recorder();
    (
        if config.report_events {
            recorder
        } else {
            Recorder::disabled()
        },
        events,
    )
}

/// Writes events; normal ones wait while sandboxes are being created.
fn write_events(
    config: &Config,
    parts: &EdgedParts,
    events: mpsc::Receiver<Box<PendingEvent>>,
) -> impl Future<Output = ()> + use<> {
    let sandbox_limit = parts.sandbox_limit.clone();
    let wait_for_room = move || {
        let sandbox_limit = sandbox_limit.clone();
        async move { sandbox_limit.wait_for_room().await }
    };
    events::run(
        config.client.clone(),
        config.node_name.clone(),
        events,
        wait_for_room,
    )
}

async fn static_pods(config: &Config, parts: &EdgedParts) {
    if let Some(source) = config.static_pods.clone() {
        static_pods::run(parts.static_pods(), source).await;
    }
}

/// Runs housekeeping and eviction, which keep the node from running out of resources.
async fn node_upkeep(parts: &EdgedParts, progress: watch::Receiver<Progress>) {
    let keeper = parts.keeper();
    let evictor = parts.evictor(keeper.clone());
    tokio::join!(housekeeping::run(keeper, progress), eviction::run(evictor));
}
