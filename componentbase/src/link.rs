//! The state of the connection to the cloud, as modules other than EdgeHub see it.

use tokio::sync::watch;

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Not connected.
    Down,
    /// Connected; the number counts the connections since the start.
    Up(u64),
}

/// The reconnections to the cloud; each holder sees every one.
#[derive(Clone, Debug)]
pub struct Reconnections(watch::Receiver<Link>);

impl Reconnections {
    /// Creates the reconnections from the state of the connection.
    pub fn new(link: watch::Receiver<Link>) -> Self {
        Self(link)
    }

    /// Waits for the next connection that this holder has not seen. Cancel-safe: one that is not returned yet is returned by
    /// the next call.
    pub async fn next(&mut self) {
        loop {
            if self.0.changed().await.is_err() {
                // EdgeHub has ended
                return std::future::pending().await;
            }
            if *self.0.borrow() != Link::Down {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn every_connection_is_returned_once_even_after_a_missed_disconnect() {
        let (link, receiver) = watch::channel(Link::Down);
        let mut reconnections = Reconnections::new(receiver);
        let mut told = || reconnections.next().now_or_never().is_some();
        assert!(!told());
        link.send_replace(Link::Up(1));
        assert_eq!((told(), told()), (true, false));
        link.send_replace(Link::Down);
        assert!(!told());
        link.send_replace(Link::Up(2));
        assert!(told());
        link.send_replace(Link::Down);
        link.send_replace(Link::Up(3));
        assert_eq!((told(), told()), (true, false));
    }
}
