//! Dials, serves one tunnel, waits, and dials again.

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    Answers, Config,
    dial::{self, DialError},
    tunnel::{self, Ended},
};
use crate::{
    edgehub::{Cause, Redial},
    rt::{Heart, Part, PartError, Repeated, now},
};

/// See [`super::new`].
#[derive(Debug)]
pub(crate) struct Task<A> {
    config: Config,
    api: A,
}

impl<A: Answers> Task<A> {
    pub(super) fn new(config: Config, api: A) -> Self {
        Self { config, api }
    }

    async fn run(&self, shutdown: &CancellationToken) {
        let mut redial = Redial::new(now());
        let mut faults = Repeated::default();
        loop {
            let begun = now();
            let dialled = tokio::select! {
                // cancel-safe: a dial that is given up is none
                () = shutdown.cancelled() => return,
                dialled = dial::connect(&self.config) => dialled,
            };
            match dialled {
                Ok((stream, window)) => {
                    faults = Repeated::default();
                    info!(server = %self.config.server, "the stream tunnel stands");
                    let ended = tunnel::run(stream, window, &self.config, &self.api, shutdown).await;
                    redial.ended(begun, now(), true);
                    match ended {
                        Ended::Shutdown => return,
                        Ended::Closed(why) => warn!(why, "the cloud closed the stream tunnel"),
                        Ended::Lost(error) => info!(%error, "the stream tunnel has ended"),
                    }
                    redial.because(Cause::Cloud);
                }
                Err(error) => {
                    tell(&error, &mut faults);
                    redial.because(error.cause());
                }
            }
            tokio::select! {
                // cancel-safe: neither holds data
                () = shutdown.cancelled() => return,
                () = sleep(redial.wait(rand::random(), now())) => {}
            }
        }
    }
}

fn tell(error: &DialError, faults: &mut Repeated) {
    if error.is_too_early() {
        debug!(error = error as &dyn std::error::Error, "no stream tunnel before the node has joined");
    } else if let Some(times) = faults.count(&error.to_string(), now()) {
        warn!(times, error = error as &dyn std::error::Error, "no stream tunnel yet");
    }
}

impl<A: Answers> Part for Task<A> {
    async fn run(&mut self, _heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        Self::run(self, &shutdown).await;
        Ok(())
    }
}
