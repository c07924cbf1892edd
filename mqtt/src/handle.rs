//! The broker's interface for this process, without sockets.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    confirmation::{Confirmation, Delivered},
    core::Command,
    counters::{Counters, Counts},
    error::PublishError,
    message::{Message, QoS},
    topic,
};

/// A handle with which this process uses the broker. Access rules apply to clients; this process may do everything.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) room: Arc<Notify>,
    pub(crate) addresses: Arc<[SocketAddr]>,
}

impl Handle {
    /// Publishes a message. At QoS 0 it returns when the broker has the message. Above, it returns when every persistent subscriber's copy
    /// is on disk and every receiver of this process has it, or with [`PublishError::Full`] if one of them makes no room within
    /// [`Limits::patience`](crate::Limits::patience).
    ///
    /// Messages on one topic and QoS are delivered in the order in which the broker received them. Futures that are polled concurrently run
    /// in no order, so use [`Handle::begin_publish`] to publish several messages at once.
    ///
    /// A task that reads a [`Subscription`] should not itself publish above QoS 0 to that subscription's topics: it would wait for itself.
    pub async fn publish(
        &self,
        topic: impl Into<Arc<str>>,
        payload: impl Into<Bytes>,
        qos: QoS,
        retain: bool,
    ) -> Result<(), PublishError> {
        self.begin_publish(topic, payload, qos, retain)
            .await?
            .wait_published()
            .await
    }

    /// Gives the broker a message and returns; [`Publishing::wait_published`] then waits for what [`Handle::publish`]
    /// waits for. Messages that are given one after the other keep their order.
    pub async fn begin_publish(
        &self,
        topic: impl Into<Arc<str>>,
        payload: impl Into<Bytes>,
        qos: QoS,
        retain: bool,
    ) -> Result<Publishing, PublishError> {
        let topic = topic.into();
        topic::check_name(&topic).map_err(PublishError::Topic)?;
        let message = Message::new(topic, payload.into(), qos, retain);
        let (done, answer) = (qos > QoS::AtMostOnce).then(oneshot::channel).unzip();
        self.send(Command::Publish { message, done }).await?;
        Ok(Publishing(answer))
    }

    /// Subscribes with a queue of `capacity` messages (at least 1); retained messages come first. When the queue is full, QoS 0 messages
    /// are dropped and counted, and publishers above QoS 0 wait.
    pub async fn subscribe(
        &self,
        filter: &str,
        capacity: usize,
    ) -> Result<Subscription, PublishError> {
        self.subscribe_with(filter, capacity, false).await
    }

    /// Subscribes as [`Handle::subscribe`] does, with acknowledgements that wait: a client that publishes above QoS 0 gets PUBACK or PUBREC
    /// when this subscription has confirmed the message, which [`Subscription::next_delivered`] returns with its confirmation.
    pub async fn subscribe_confirming(
        &self,
        filter: &str,
        capacity: usize,
    ) -> Result<Subscription, PublishError> {
        self.subscribe_with(filter, capacity, true).await
    }

    async fn subscribe_with(
        &self,
        filter: &str,
        capacity: usize,
        confirms: bool,
    ) -> Result<Subscription, PublishError> {
        topic::parse_filter(filter).map_err(PublishError::Topic)?;
        let capacity = capacity.max(1);
        let (receiver, messages) = mpsc::channel(capacity);
        let (done, answer) = oneshot::channel();
        self.send(Command::Subscribe {
            filter: filter.to_owned(),
            receiver,
            confirms,
            done,
        })
        .await?;
        let receiver = answer.await.map_err(|_| PublishError::Stopped)?;
        let filters = Filters {
            handle: self.clone(),
            receiver,
        };
        Ok(Subscription {
            messages,
            capacity,
            room: Arc::clone(&self.room),
            filters,
        })
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Returns the addresses that clients connect to, in the order of the configured listeners.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    async fn send(&self, command: Command) -> Result<(), PublishError> {
        self.commands
            .send(command)
            .await
            .map_err(|_| PublishError::Stopped)
    }
}

/// A publication that the broker has received but may not have finished.
#[derive(Debug)]
#[must_use = "an error would not be heard of"]
pub struct Publishing(Option<oneshot::Receiver<Result<(), PublishError>>>);

impl Publishing {
    /// Waits until the message is published, as [`Handle::publish`] does.
    pub async fn wait_published(self) -> Result<(), PublishError> {
        match self.0 {
            None => Ok(()),
            Some(answer) => answer.await.unwrap_or(Err(PublishError::Stopped)),
        }
    }
}

/// Changes the filters of a [`Subscription`]; cheap to clone. It does not keep the subscription alive: without it, it does nothing.
#[derive(Debug, Clone)]
pub struct Filters {
    handle: Handle,
    receiver: u64,
}

impl Filters {
    /// Subscribes to another filter; retained messages come first. A message that several filters match is delivered once.
    pub async fn add(&self, filter: &str) -> Result<(), PublishError> {
        topic::parse_filter(filter).map_err(PublishError::Topic)?;
        self.set(filter, true).await
    }

    /// Unsubscribes from a filter. Messages that wait already are still received.
    pub async fn remove(&self, filter: &str) -> Result<(), PublishError> {
        self.set(filter, false).await
    }

    async fn set(&self, filter: &str, on: bool) -> Result<(), PublishError> {
        let (done, answer) = oneshot::channel();
        let command = Command::Filter {
            receiver: self.receiver,
            filter: filter.to_owned(),
            on,
            done,
        };
        self.handle.send(command).await?;
        answer.await.map_err(|_| PublishError::Stopped)
    }
}

/// A subscription to one or more filters; it ends when this value is dropped.
#[derive(Debug)]
pub struct Subscription {
    messages: mpsc::Receiver<Delivered>,
    capacity: usize,
    room: Arc<Notify>,
    filters: Filters,
}

impl Subscription {
    /// Returns the filters that it subscribes to.
    #[must_use]
    pub fn filters(&self) -> Filters {
        self.filters.clone()
    }

    /// Returns the next message; `None` when the broker has ended. Cancel-safe: no message is lost with a dropped future.
    pub async fn recv(&mut self) -> Option<Arc<Message>> {
        let Delivered {
            message,
            confirmation,
        } = self.next_delivered().await?;
        confirmation.into_iter().for_each(Confirmation::confirm);
        Some(message)
    }

    /// Returns the next message with its confirmation, if its publisher waits for one; `None` when the broker has ended. Cancel-safe.
    pub async fn next_delivered(&mut self) -> Option<Delivered> {
        let delivered = self.messages.recv().await;
        self.tell();
        delivered
    }

    /// Appends up to `limit` messages to `into` and returns their number; 0 when the broker has ended. Cancel-safe.
    pub async fn recv_many(&mut self, into: &mut Vec<Arc<Message>>, limit: usize) -> usize {
        let mut delivered = Vec::new();
        let count = self.messages.recv_many(&mut delivered, limit).await;
        self.tell();
        into.extend(delivered.into_iter().map(
            |Delivered {
                 message,
                 confirmation,
             }| {
                confirmation.into_iter().for_each(Confirmation::confirm);
                message
            },
        ));
        count
    }

    /// Notifies publishers that wait for room: early enough, and not for each message.
    fn tell(&self) {
        if self.messages.is_empty() || self.messages.len() + 1 >= self.capacity {
            self.room.notify_one();
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.messages.close();
        self.room.notify_one();
    }
}
