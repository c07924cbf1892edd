//! The one owner of the connection: enrol, dial, run, wait, again.

use std::{sync::Arc, time::Duration};

use rustls::ClientConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Config, Error, Link, dial, enroll, session, session::Ends};
use crate::rt::Backoff;

/// The first wait after a failed dial; short, since most failures are a cloud that restarts.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between dials: a returning cloud is found within this time.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A connection that lasted so long starts the waits over.
const STABLE: Duration = Duration::from_secs(2);

/// See [`super::new`].
#[derive(Debug)]
pub struct Task {
    config: Config,
    ends: Ends,
    link: watch::Sender<Link>,
}

impl Task {
    pub(super) fn new(config: Config, ends: Ends, link: watch::Sender<Link>) -> Self {
        Self { config, ends, link }
    }

    /// Runs until `shutdown`. An error means that a person must help: the cloud refused to enrol this node.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut sessions = 0;
        let mut tls = None;
        while !shutdown.is_cancelled() {
            let Some(config) = self.identity(&mut tls, &shutdown).await? else {
                wait(&mut backoff, &shutdown).await;
                continue;
            };
            match dial::dial(&self.config, config).await {
                Ok(socket) => {
                    sessions += 1;
                    self.serve(socket, sessions, &mut backoff, &shutdown).await;
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "no connection to the cloud yet")
                }
            }
            wait(&mut backoff, &shutdown).await;
        }
        Ok(())
    }

    /// The TLS configuration with this node's certificate, enrolling first where there is none. `None`: try again later.
    async fn identity(
        &self,
        cached: &mut Option<Arc<ClientConfig>>,
        shutdown: &CancellationToken,
    ) -> Result<Option<Arc<ClientConfig>>, Error> {
        if cached.is_none() {
            let enrolled = tokio::select! {
                // cancel-safe: enrolment that is cut off is begun anew at the next start
                () = shutdown.cancelled() => return Ok(None),
                enrolled = enroll::identity(&self.config) => enrolled,
            };
            match enrolled {
                Ok(config) => *cached = Some(config),
                Err(error) if error.may_pass() => {
                    warn!(error = &error as &dyn std::error::Error, "not enrolled yet");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(cached.clone())
    }

    async fn serve(
        &mut self,
        socket: dial::Socket,
        number: u64,
        backoff: &mut Backoff,
        shutdown: &CancellationToken,
    ) {
        info!(cloud = %self.config.websocket, "connected");
        let begun = tokio::time::Instant::now();
        // what was queued for an older connection is stale: whoever sent it sends its newest state anew
        while self.ends.outgoing.try_recv().is_ok() || self.ends.in_background.try_recv().is_ok() {}
        self.link.send_replace(Link::Up(number));
        let ended = session::run(&self.config, socket, &mut self.ends, shutdown).await;
        self.link.send_replace(Link::Down);
        self.ends.waiters.abandon();
        if begun.elapsed() >= STABLE {
            backoff.reset();
        }
        if !shutdown.is_cancelled() {
            warn!(error = &ended as &dyn std::error::Error, "disconnected");
        }
    }
}

async fn wait(backoff: &mut Backoff, shutdown: &CancellationToken) {
    let pause = backoff.next(rand::random());
    tokio::select! {
        // cancel-safe: both arms hold no data
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(pause) => {}
    }
}
