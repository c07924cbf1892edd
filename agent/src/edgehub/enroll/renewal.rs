//! Renews a certificate when it is time, and retries until it succeeds, also after the expiry: the cloud may allow it, and
//! clocks may be wrong.

use std::time::{Duration, SystemTime};

use componentbase::Backoff;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{super::Config, Identity, renew};
use crate::tls::renewal::due;

/// The waits after a failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(32);
/// How often the clock is checked, because it may be set or the machine may sleep.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// The renewal of one certificate.
#[derive(Debug)]
pub(in crate::edgehub) struct Renewal {
    due: SystemTime,
    backoff: Backoff,
    failed: bool,
    /// The time of the next attempt, drawn once for each failure, so that sessions that end meanwhile neither restart nor
    /// extend the wait.
    retry_at: Option<Instant>,
}

impl Renewal {
    pub(in crate::edgehub) fn new(identity: &Identity) -> Self {
        let (begin, end) = identity.validity;
        let due = due(begin, end, clock::rng().random());
        Self {
            due,
            backoff: Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF),
            failed: false,
            retry_at: None,
        }
    }

    /// Waits until the certificate has expired, and returns a new one.
    pub(in crate::edgehub) async fn after_expiry(
        &mut self,
        config: &Config,
        identity: &Identity,
    ) -> Identity {
        while let Ok(left) = identity.validity.1.duration_since(clock::system_now()) {
            sleep(left.min(CHECK_INTERVAL)).await;
        }
        self.next(config, identity).await
    }

    /// Returns a new certificate when it is time and the cloud issues one; never, if certificates are not renewed. A further
    /// call waits first, because the previous result was of no use. Cancel-safe: a failure is remembered.
    pub(in crate::edgehub) async fn next(
        &mut self,
        config: &Config,
        identity: &Identity,
    ) -> Identity {
        if !config.rotate_certificates {
            return std::future::pending().await;
        }
        loop {
            self.wait_for_retry().await;
            while let Ok(left) = self.due.duration_since(clock::system_now()) {
                sleep(left.min(CHECK_INTERVAL)).await;
            }
            (self.failed, self.retry_at) = (true, None);
            match renew(config, identity).await {
                Ok(renewed) => return renewed,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to renew the node's certificate; retrying"
                    );
                }
            }
        }
    }

    /// Waits after a failure. Cancel-safe: the wait continues where it was.
    async fn wait_for_retry(&mut self) {
        if self.failed {
            let wait = || Instant::now() + self.backoff.next(clock::rng().random_range(0.5..1.0));
            sleep_until(*self.retry_at.get_or_insert_with(wait)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_continues_across_sessions() {
        let backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut renewal = Renewal {
            due: SystemTime::UNIX_EPOCH,
            backoff,
            failed: true,
            retry_at: None,
        };
        let begun = Instant::now();
        // each session is shorter than the shortest wait
        while timeout(INITIAL_BACKOFF / 4, renewal.wait_for_retry())
            .await
            .is_err()
        {
            assert!(
                begun.elapsed() <= INITIAL_BACKOFF,
                "each session waits anew"
            );
        }
    }
}
