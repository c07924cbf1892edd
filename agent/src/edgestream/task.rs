//! The task: dials, serves one tunnel, waits, and dials again.

use std::time::Duration;

use componentbase::{Heartbeat, Part, PartError};
use limits::Repeated;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    Config, RequestHandler,
    dial::{self, DialError},
    tunnel::{self, TunnelEnd},
};
use crate::{
    edgehub::{Cause, Redial},
    short_connections::{Ended, ShortConnections},
};

/// How long the tunnel waits for the cloud to have the node. Longer, and something else is wrong: logs may help to find it.
const NODE_TIMEOUT: Duration = Duration::from_secs(60);
/// The shortest wait while the cloud ends each tunnel soon: another agent of this name may open its own each time.
const RIVAL_BACKOFF: Duration = Duration::from_secs(2);

/// The task that [`super::new`] builds.
#[derive(Debug)]
pub(crate) struct Task<A> {
    config: Config,
    api: A,
}

impl<A: RequestHandler> Task<A> {
    pub(super) fn new(config: Config, api: A) -> Self {
        Self { config, api }
    }

    async fn run(&self, shutdown: &CancellationToken) {
        let node = self.config.node.clone();
        let registered = async {
            match node {
                Some(mut node) => timeout(NODE_TIMEOUT, node.wait()).await.is_ok(),
                None => true,
            }
        };
        clock::select! {
            // cancel-safe: neither holds data
            () = shutdown.cancelled() => return,
            is_registered = registered => if !is_registered {
                debug!("node not confirmed by the cloud; opening the stream tunnel without confirmation");
            },
        }
        let mut redial = Redial::new(clock::Instant::now());
        // whether the last end of the tunnel was logged as a warning
        let (mut faults, mut is_closed) = (Repeated::default(), false);
        let mut connections = ShortConnections::default();
        loop {
            let begun = clock::Instant::now();
            let dialled = clock::select! {
                // cancel-safe: a dial that is dropped is closed
                () = shutdown.cancelled() => return,
                dialled = Box::pin(dial::connect(&self.config)) => dialled,
            };
            match dialled {
                Ok((stream, window)) => {
                    connections.establish(clock::Instant::now());
                    if connections.are_suspicious() {
                        debug!(server = %self.config.server, "stream tunnel established");
                    } else if faults.recover() || std::mem::take(&mut is_closed) {
                        info!(server = %self.config.server, "stream tunnel restored");
                    } else {
                        info!(server = %self.config.server, "stream tunnel established");
                    }
                    let ended =
                        tunnel::run(stream, window, &self.config, &self.api, shutdown).await;
                    redial.record_end(begun, clock::Instant::now(), true);
                    let lasted = connections.end(clock::Instant::now());
                    match (ended, lasted) {
                        (TunnelEnd::Shutdown, _) => return,
                        (_, Ended::Again(None)) => {}
                        (_, Ended::Again(Some(times))) => warn!(
                            server = %self.config.server, times,
                            "stream tunnel lost again, soon after it was established; another agent may have this node's name"
                        ),
                        (TunnelEnd::Closed(why), _) => {
                            warn!(reason = why, "stream tunnel closed by the cloud");
                            is_closed = true;
                        }
                        (TunnelEnd::Lost(error), _) => info!(%error, "stream tunnel closed"),
                    }
                    redial.record_cause(Cause::Cloud);
                }
                Err(error) => {
                    log_failure(&error, &mut faults);
                    redial.record_cause(error.cause());
                }
            }
            let wait = match connections.are_suspicious() {
                true => redial
                    .wait(clock::rng().random(), clock::Instant::now())
                    .max(RIVAL_BACKOFF),
                false => redial.wait(clock::rng().random(), clock::Instant::now()),
            };
            clock::select! {
                // cancel-safe: neither holds data
                () = shutdown.cancelled() => return,
                () = sleep(wait) => {}
            }
        }
    }
}

fn log_failure(error: &DialError, faults: &mut Repeated) {
    if error.is_not_enrolled_yet() {
        debug!(
            error = error as &dyn std::error::Error,
            "stream tunnel not opened before the node has joined"
        );
    } else if let Some(times) = faults.count(&error.to_string(), clock::Instant::now()) {
        warn!(
            times,
            error = error as &dyn std::error::Error,
            "failed to open the stream tunnel; retrying"
        );
    }
}

impl<A: RequestHandler> Part for Task<A> {
    async fn run(
        &mut self,
        _heart: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Self::run(self, &shutdown).await;
        Ok(())
    }
}
