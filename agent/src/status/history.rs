//! Since when the cloud is connected, or not.

use std::sync::Arc;

use componentbase::Link;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The state of the connection, and since when it is so; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LinkHistory(Arc<Mutex<LinkState>>);

/// A state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    /// Whether the cloud is connected.
    pub(super) is_up: bool,
    /// Since when.
    pub(super) since: Timestamp,
    /// The number of connections since the start.
    pub(super) connections: u64,
}

impl LinkHistory {
    /// Begins with a cloud that is not connected.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(LinkState {
            is_up: false,
            since: clock::now(),
            connections: 0,
        })))
    }

    /// Returns the state.
    pub(super) fn read(&self) -> LinkState {
        *self.0.lock()
    }

    /// Records changes until the connection has no owner.
    pub(super) async fn record(self, mut link: watch::Receiver<Link>) {
        loop {
            let now = *link.borrow_and_update();
            {
                let mut state = self.0.lock();
                let number = match now {
                    Link::Down => state.connections,
                    Link::Up(number) => number,
                };
                let is_up = now != Link::Down;
                if (is_up, number) != (state.is_up, state.connections) {
                    *state = LinkState {
                        is_up,
                        since: clock::now(),
                        connections: number,
                    };
                }
            }
            if link.changed().await.is_err() {
                return;
            }
        }
    }
}
