//! The renewal of a certificate: when it is time, then again and again until it works, also after it has expired: the cloud may
//! allow it, and clocks may be wrong.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{super::Config, Identity, renew};
use crate::rt::{Backoff, renewal::due};

/// The waits after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(32);
/// A clock that is set, or a machine that slept, is noticed within this time.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// The renewal of one certificate.
#[derive(Debug)]
pub(in crate::edgehub) struct Renewal {
    due: SystemTime,
    backoff: Backoff,
    failed: bool,
    /// Drawn once for each failure: sessions that end meanwhile neither begin the wait anew nor make it longer.
    again_at: Option<Instant>,
}

impl Renewal {
    pub(in crate::edgehub) fn new(identity: &Identity) -> Self {
        let (begin, end) = identity.validity;
        let due = due(begin, end, rand::random());
        Self { due, backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT), failed: false, again_at: None }
    }

    /// The new certificate, once the old one is good for no connection.
    pub(in crate::edgehub) async fn after_expiry(
        &mut self,
        config: &Config,
        identity: &Identity,
    ) -> Identity {
        while let Ok(left) = identity.validity.1.duration_since(SystemTime::now()) {
            sleep(left.min(CHECK_INTERVAL)).await;
        }
        self.next(config, identity).await
    }

    /// The new certificate, when it is time and the cloud gives one. For ever, where certificates are not renewed.
    /// Called again, it waits a little: what it gave before was of no use. Cancel-safe: a failure is remembered.
    pub(in crate::edgehub) async fn next(&mut self, config: &Config, identity: &Identity) -> Identity {
        if !config.rotate_certificates {
            return std::future::pending().await;
        }
        loop {
            self.rest().await;
            while let Ok(left) = self.due.duration_since(SystemTime::now()) {
                sleep(left.min(CHECK_INTERVAL)).await;
            }
            (self.failed, self.again_at) = (true, None);
            match renew(config, identity).await {
                Ok(renewed) => return renewed,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "the node's certificate is not renewed yet"
                    );
                }
            }
        }
    }

    /// The wait after what has failed. Cancel-safe: it goes on where it was.
    async fn rest(&mut self) {
        if self.failed {
            let wait = || Instant::now() + self.backoff.next(rand::random_range(0.5..1.0));
            sleep_until(*self.again_at.get_or_insert_with(wait)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_goes_on_over_sessions() {
        let backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut renewal = Renewal { due: SystemTime::UNIX_EPOCH, backoff, failed: true, again_at: None };
        let begun = Instant::now();
        // each session is shorter than the shortest wait
        while timeout(FIRST_WAIT / 4, renewal.rest()).await.is_err() {
            assert!(begun.elapsed() <= FIRST_WAIT, "each session waits anew");
        }
    }
}
