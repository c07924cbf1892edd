//! How much is called at the same time. Each local server has a share, so that a slow one holds up nobody but its own callers.

use std::{collections::HashMap, sync::Arc};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::call::Refusal;

/// Calls under way or waiting, of all servers.
pub(super) const ALL: usize = 512;
/// Of one server: a quarter, so that three that hang leave room.
const OF_ONE: usize = ALL / 4;
/// Requests that one server has before it at a time; more wait for these.
const MAX_PER_SERVER: usize = 32;

/// The shares; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    all: usize,
    /// How many calls each port has, and its places.
    ports: HashMap<u16, (usize, Arc<Semaphore>)>,
}

/// A call's place; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    shares: Shares,
    port: u16,
    places: Arc<Semaphore>,
}

impl Shares {
    /// A place among the calls of a server, which may have to wait for its turn.
    pub(super) fn admit(&self, port: u16) -> Result<Place, Refusal> {
        let mut table = self.0.lock();
        let full = |what: String| Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, what));
        if table.all >= ALL {
            return full(format!("{ALL} calls of services on this node are under way; call again later"));
        }
        let (count, places) =
            table.ports.entry(port).or_insert_with(|| (0, Arc::new(Semaphore::new(MAX_PER_SERVER))));
        if *count >= OF_ONE {
            return full(format!("{OF_ONE} calls of port {port} are under way; call again later"));
        }
        *count += 1;
        let places = places.clone();
        table.all += 1;
        Ok(Place { shares: self.clone(), port, places })
    }

    /// Calls under way or waiting.
    pub(super) fn under_way(&self) -> usize {
        self.0.lock().all
    }
}

impl Place {
    /// Waits for the server to be free for this call. Cancel-safe.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().acquire_owned().await.ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.shares.0.lock();
        table.all = table.all.saturating_sub(1);
        if let Some((count, _)) = table.ports.get_mut(&self.port) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                table.ports.remove(&self.port);
            }
        }
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
        assert_eq!(shares.admit(1).unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        for port in 2..=4 {
            places.extend((0..OF_ONE).map(|_| shares.admit(port).unwrap()));
        }
        assert_eq!(shares.under_way(), ALL);
        assert!(shares.admit(5).unwrap_err().why.contains("services"));
        drop(places);
        assert_eq!(shares.under_way(), 0);
        assert!(shares.0.lock().ports.is_empty());
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
