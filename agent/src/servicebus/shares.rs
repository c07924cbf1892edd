//! How much is called at the same time. Each local server has a share, so that a slow one holds up nobody but its own callers.

use std::sync::Arc;

use http::StatusCode;
use limits::{NoShare, Share, ShareLimits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::call::Refusal;

/// Calls under way or waiting, of all servers.
pub(super) const ALL: usize = 512;
/// Of one server: a quarter, so that three that hang leave room.
const OF_ONE: usize = ALL / 4;
/// Requests that one server has before it at a time; more wait for these.
const MAX_PER_SERVER: usize = 32;

/// The shares, by port; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Shares(limits::Shares<u16, Arc<Semaphore>>);

/// A call's place; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place(Share<u16, Arc<Semaphore>>);

impl Default for Shares {
    fn default() -> Self {
        Self(limits::Shares::new(ShareLimits { all: ALL, each: OF_ONE }))
    }
}

impl Shares {
    /// A place among the calls of a server, which may have to wait for its turn.
    pub(super) fn admit(&self, port: u16) -> Result<Place, Refusal> {
        self.0.admit_with(port, || Arc::new(Semaphore::new(MAX_PER_SERVER))).map(Place).map_err(|full| {
            let under_way = match full {
                NoShare::All => format!("{ALL} calls of services on this node"),
                NoShare::Each => format!("{OF_ONE} calls of port {port}"),
            };
            let why = format!("{under_way} are under way; call again later");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
        })
    }

    /// Calls under way or waiting.
    pub(super) fn under_way(&self) -> usize {
        self.0.under_way()
    }
}

impl Place {
    /// Waits for the server to be free for this call. Cancel-safe.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.value().clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_server_takes_no_more_than_its_share() {
        let shares = Shares::default();
        let mut places: Vec<Place> = (0..OF_ONE).map(|_| shares.admit(1).unwrap()).collect();
        let refused = shares.admit(1).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.why.contains("port 1"), "{}", refused.why);
        for port in 2..=4 {
            places.extend((0..OF_ONE).map(|_| shares.admit(port).unwrap()));
        }
        assert_eq!(shares.under_way(), ALL);
        assert!(shares.admit(5).unwrap_err().why.contains("services"));
        drop(places);
        assert_eq!(shares.under_way(), 0);
    }

    #[test]
    fn a_few_calls_are_before_a_server_and_the_others_wait() {
        let shares = Shares::default();
        let places: Vec<Place> = (0..=MAX_PER_SERVER).map(|_| shares.admit(1).unwrap()).collect();
        let mut turns: Vec<_> =
            places[1..].iter().map(|place| place.turn().now_or_never().unwrap()).collect();
        assert!(places[0].turn().now_or_never().is_none());
        turns.pop();
        assert!(places[0].turn().now_or_never().is_some());
        assert!(shares.admit(2).unwrap().turn().now_or_never().is_some(), "another server is free");
    }
}
