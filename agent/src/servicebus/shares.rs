//! Limits the concurrent calls. Each local server has a share, so that a slow one delays its own callers only.

use std::sync::Arc;

use http::StatusCode;
use limits::{NoShare, Share, ShareLimits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::call::CallError;

/// The most running or waiting calls of all servers.
pub(super) const MAX_CALLS: usize = 512;
/// The most of one server: a quarter, so that three hanging servers leave capacity.
const MAX_CALLS_PER_SERVER: usize = MAX_CALLS / 4;
/// The most concurrent requests to one server; further ones wait.
const MAX_CONCURRENT_PER_SERVER: usize = 32;

/// The shares, by port; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ConcurrencyLimits(limits::Shares<u16, Arc<Semaphore>>);

/// The permit of a call; dropping it returns the permit.
#[derive(Debug)]
pub(super) struct CallPermit(Share<u16, Arc<Semaphore>>);

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        Self(limits::Shares::new(ShareLimits {
            all: MAX_CALLS,
            each: MAX_CALLS_PER_SERVER,
        }))
    }
}

impl ConcurrencyLimits {
    /// Admits a call to a server, which may have to wait for its turn.
    pub(super) fn admit(&self, port: u16) -> Result<CallPermit, CallError> {
        self.0
            .admit_with(port, || Arc::new(Semaphore::new(MAX_CONCURRENT_PER_SERVER)))
            .map(CallPermit)
            .map_err(|full| {
                let under_way = match full {
                    NoShare::All => format!("{MAX_CALLS} calls of services on this node"),
                    NoShare::Each => format!("{MAX_CALLS_PER_SERVER} calls of port {port}"),
                };
                let why = format!("{under_way} are under way; call again later");
                CallError::new(StatusCode::SERVICE_UNAVAILABLE, why)
            })
    }

    /// Returns the number of running and waiting calls.
    pub(super) fn under_way(&self) -> usize {
        self.0.under_way()
    }
}

impl CallPermit {
    /// Waits until the server can take this call. Cancel-safe.
    pub(super) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.0.value().clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_server_takes_no_more_than_its_share() {
        let shares = ConcurrencyLimits::default();
        let mut permits: Vec<CallPermit> = (0..MAX_CALLS_PER_SERVER)
            .map(|_| shares.admit(1).unwrap())
            .collect();
        let refused = shares.admit(1).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.why.contains("port 1"), "{}", refused.why);
        for port in 2..=4 {
            permits.extend((0..MAX_CALLS_PER_SERVER).map(|_| shares.admit(port).unwrap()));
        }
        assert_eq!(shares.under_way(), MAX_CALLS);
        assert!(shares.admit(5).unwrap_err().why.contains("services"));
        drop(permits);
        assert_eq!(shares.under_way(), 0);
    }

    #[test]
    fn a_few_calls_are_before_a_server_and_the_others_wait() {
        let shares = ConcurrencyLimits::default();
        let permits: Vec<CallPermit> = (0..=MAX_CONCURRENT_PER_SERVER)
            .map(|_| shares.admit(1).unwrap())
            .collect();
        let mut turns: Vec<_> = permits[1..]
            .iter()
            .map(|permit| permit.acquire().now_or_never().unwrap())
            .collect();
        assert!(permits[0].acquire().now_or_never().is_none());
        turns.pop();
        assert!(permits[0].acquire().now_or_never().is_some());
        assert!(
            shares.admit(2).unwrap().acquire().now_or_never().is_some(),
            "another server is free"
        );
    }
}
