//! The queue between the senders and the connection.

use std::sync::Arc;

use limits::Rate;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep_until};
use wire::Message;

use super::lanes::{Lanes, Offered, SendCondition};

/// The shared lanes; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lanes: Mutex<Lanes>,
    /// A message was queued.
    work: Notify,
    /// A message was taken.
    room: Notify,
}

impl Queue {
    /// Queues a message if there is space now.
    pub(super) fn offer(&self, message: Message) -> Offered {
        let offered = self.0.lanes.lock().offer(message);
        self.0.work.notify_one();
        offered
    }

    /// Waits for space that becomes free after this call. Cancel-safe.
    pub(super) fn space(&self) -> impl Future<Output = ()> {
        self.0.room.notified()
    }

    /// Waits for the next message that `rate` lets go. There is one caller at a time. Cancel-safe: a message is taken last.
    pub(super) async fn next(&self, rate: &mut Rate) -> Message {
        loop {
            let due = self.0.lanes.lock().due().map(|due| match due {
                SendCondition::Exempt => clock::Instant::now(),
                SendCondition::RateLimited => rate.ready_at(),
                SendCondition::LowPriority => rate.spare_at(),
            });
            let now = clock::Instant::now();
            match due {
                Some(due) if due <= now => {
                    if let Some((due, message)) = self.take() {
                        if due != SendCondition::Exempt {
                            rate.record(now);
                        }
                        return message;
                    }
                }
                Some(due) => clock::select! {
                    // cancel-safe: both arms hold no data; a new message may have to go earlier
                    () = sleep_until(due) => {}
                    () = self.0.work.notified() => {}
                },
                None => self.0.work.notified().await,
            }
        }
    }

    /// Reports how full the lanes are.
    pub(super) fn queues(&self) -> Vec<componentbase::Queue> {
        self.0.lanes.lock().queues()
    }

    fn take(&self) -> Option<(SendCondition, Message)> {
        let taken = self.0.lanes.lock().take();
        self.0.room.notify_waiters();
        taken
    }

    /// Removes all messages; senders that wait for space check again.
    pub(super) fn clear(&self) {
        self.0.lanes.lock().clear();
        self.0.room.notify_waiters();
    }
}
