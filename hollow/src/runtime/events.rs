//! The readers of `GetContainerEvents`, and how far each may be behind.

use tokio::sync::mpsc::{self, Receiver, Sender};
use wire::cri::ContainerEventResponse;

/// The readers of events, each with a bounded queue. A reader whose queue is full is cut off: it must list everything and read
/// again, which it has to do after any end of the stream anyway.
pub(super) struct Subscribers {
    capacity: usize,
    // boxed, as a channel reserves space for many
    senders: Vec<Sender<Box<ContainerEventResponse>>>,
}

impl Subscribers {
    pub(super) fn new(capacity: usize) -> Self {
        // A tokio channel must have a capacity of at least 1.
        Self {
            capacity: capacity.max(1),
            senders: Vec::new(),
        }
    }

    /// Adds a reader. Readers that have gone are removed here at the latest.
    pub(super) fn add(&mut self) -> Receiver<Box<ContainerEventResponse>> {
        let (sender, receiver) = mpsc::channel(self.capacity);
        self.senders.retain(|sender| !sender.is_closed());
        self.senders.push(sender);
        receiver
    }

    pub(super) fn notify(&mut self, events: Vec<ContainerEventResponse>) {
        for event in events {
            self.senders
                .retain(|sender| sender.try_send(Box::new(event.clone())).is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str) -> ContainerEventResponse {
        ContainerEventResponse {
            container_id: id.into(),
            ..Default::default()
        }
    }

    #[test]
    fn a_slow_reader_is_cut_off_and_hinders_no_other() {
        let mut subscribers = Subscribers::new(2);
        let (mut slow, mut fast) = (subscribers.add(), subscribers.add());
        for id in ["a", "b", "c"] {
            subscribers.notify(vec![event(id)]);
            assert_eq!(fast.try_recv().unwrap().container_id, id);
        }
        assert_eq!(slow.try_recv().unwrap().container_id, "a");
        assert_eq!(slow.try_recv().unwrap().container_id, "b");
        assert_eq!(
            slow.try_recv(),
            Err(mpsc::error::TryRecvError::Disconnected)
        );
        assert_eq!(subscribers.senders.len(), 1);
    }

    #[test]
    fn readers_that_left_are_forgotten() {
        let mut subscribers = Subscribers::new(1);
        for _ in 0..100 {
            drop(subscribers.add());
        }
        assert_eq!(subscribers.senders.len(), 1);
    }
}
