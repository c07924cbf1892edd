//! The lanes between those who send and the one connection.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep_until};
use wire::Message;

use super::{
    lanes::{Due, Lanes, Offered},
    rate::Rate,
};
use crate::rt;

/// The lanes, shared; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lanes: Mutex<Lanes>,
    /// Something was offered.
    work: Notify,
    /// Something was taken.
    room: Notify,
}

impl Queue {
    /// Takes a message, where there is room now.
    pub(super) fn offer(&self, message: Message) -> Offered {
        let offered = self.0.lanes.lock().offer(message);
        self.0.work.notify_one();
        offered
    }

    /// Waits for room that comes after this call. Cancel-safe.
    pub(super) fn room(&self) -> impl Future<Output = ()> {
        self.0.room.notified()
    }

    /// The next message, as soon as `rate` lets it go. There is one caller at a time. Cancel-safe: a message is taken last.
    pub(super) async fn next(&self, rate: &mut Rate) -> Message {
        loop {
            let due = self.0.lanes.lock().due().map(|due| match due {
                Due::Now => rt::now(),
                Due::Rated => rate.ready_at(),
                Due::Spare => rate.spare_at(),
            });
            let now = rt::now();
            match due {
                Some(due) if due <= now => {
                    if let Some((due, message)) = self.take() {
                        if due != Due::Now {
                            rate.sent(now);
                        }
                        return message;
                    }
                }
                Some(due) => tokio::select! {
                    // cancel-safe: both arms hold no data; what comes in may have to go earlier
                    () = sleep_until(due.into()) => {}
                    () = self.0.work.notified() => {}
                },
                None => self.0.work.notified().await,
            }
        }
    }

    /// How full the lanes are.
    pub(super) fn queues(&self) -> Vec<rt::Queue> {
        self.0.lanes.lock().queues()
    }

    fn take(&self) -> Option<(Due, Message)> {
        let taken = self.0.lanes.lock().take();
        self.0.room.notify_waiters();
        taken
    }

    /// Forgets everything; whoever waits for room looks again.
    pub(super) fn clear(&self) {
        self.0.lanes.lock().clear();
        self.0.room.notify_waiters();
    }
}
