//! When a certificate is renewed.
//!
//! As EdgeCore does it: somewhere between 70 and 90 % of its lifetime, so that a fleet enrolled on one day does not renew on one
//! day; then again and again until it works, also after it has expired: the cloud may allow it, and clocks may be wrong.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;
use tracing::warn;

use super::{super::Config, Identity, renew};
use crate::rt::Backoff;

/// The first part of the lifetime at whose end the renewal may begin.
const EARLIEST: f64 = 0.7;
/// From there on it begins within this part.
const SPREAD: f64 = 0.2;
/// The waits after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(32);
/// A clock that is set, or a machine that slept, is noticed within this time.
const LOOK: Duration = Duration::from_secs(600);

/// The renewal of one certificate.
#[derive(Debug)]
pub(in crate::edgehub) struct Renewal {
    due: SystemTime,
    backoff: Backoff,
    failed: bool,
}

impl Renewal {
    pub(in crate::edgehub) fn new(identity: &Identity) -> Self {
        let (begin, end) = identity.validity;
        let due = due(begin, end, rand::random());
        Self { due, backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT), failed: false }
    }

    /// The new certificate, once the old one is good for no connection.
    pub(in crate::edgehub) async fn after_expiry(
        &mut self,
        config: &Config,
        identity: &Identity,
    ) -> Identity {
        while let Ok(left) = identity.validity.1.duration_since(SystemTime::now()) {
            sleep(left.min(LOOK)).await;
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
            if self.failed {
                sleep(self.backoff.next(rand::random_range(0.5..1.0))).await;
            }
            while let Ok(left) = self.due.duration_since(SystemTime::now()) {
                sleep(left.min(LOOK)).await;
            }
            self.failed = true;
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
}

/// The instant of the renewal, given `unit` drawn uniformly from 0.0..1.0.
fn due(begin: SystemTime, end: SystemTime, unit: f64) -> SystemTime {
    let lifetime = end.duration_since(begin).unwrap_or_default();
    begin + lifetime.mul_f64(EARLIEST + SPREAD * unit.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_lie_between_seventy_and_ninety_percent_of_the_lifetime() {
        let day = Duration::from_secs(24 * 60 * 60);
        let begin = SystemTime::UNIX_EPOCH + day * 1000;
        let end = begin + day * 100;
        for (unit, days) in [(0.0, 70), (0.5, 80), (1.0, 90), (7.0, 90)] {
            let at = due(begin, end, unit).duration_since(begin).unwrap();
            assert_eq!((at.as_secs_f64() / day.as_secs_f64()).round() as u64, days, "{unit}");
        }
        assert_eq!(due(end, begin, 0.5), end, "a certificate that was never valid is renewed");
    }
}
