//! Requests that wait for their answer, and messages that wait to be written, by message id.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use wire::Message;

use super::unreachable::Unreachable;

type Outcome = Result<Message, Unreachable>;
type Map = Arc<Mutex<HashMap<String, oneshot::Sender<Outcome>>>>;

/// The senders that wait until their message was written to the connection.
type Written = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

/// The tables of waiting requests and messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Map, Written);

/// One waiting request; removed from the table on drop.
#[derive(Debug)]
pub(super) struct PendingRequest {
    id: String,
    map: Map,
    answer: oneshot::Receiver<Outcome>,
}

impl Waiters {
    /// Starts to wait for the answer to `id`.
    pub(super) fn register(&self, id: &str) -> PendingRequest {
        let (sender, answer) = oneshot::channel();
        self.0.lock().insert(id.to_owned(), sender);
        PendingRequest {
            id: id.to_owned(),
            map: self.0.clone(),
            answer,
        }
    }

    /// Passes `answer` to the request that it names as parent; returns it if none waits.
    pub(super) fn deliver(&self, answer: Message) -> Result<(), Box<Message>> {
        let waiter = self.0.lock().remove(&answer.header.parent_msg_id);
        match waiter {
            Some(waiter) => match waiter.send(Ok(answer)) {
                Err(Ok(answer)) => Err(Box::new(answer)),
                Ok(()) | Err(Err(_)) => Ok(()),
            },
            None => Err(Box::new(answer)),
        }
    }

    /// Starts to wait until `id` was written; an error if it was not. An abandoned entry stays in the table until the message
    /// was written, or the connection has ended.
    pub(super) fn until_written(&self, id: &str) -> oneshot::Receiver<()> {
        let (sender, written) = oneshot::channel();
        self.1.lock().insert(id.to_owned(), sender);
        written
    }

    /// Records that `id` was written to the connection.
    pub(super) fn record_written(&self, id: &str) {
        if let Some(waiter) = self.1.lock().remove(id) {
            // the receiver may be gone
            let _ = waiter.send(());
        }
    }

    /// Records that the request `id` will not be sent, because a newer one with all its content replaced it.
    pub(super) fn supersede(&self, id: &str) {
        self.record_written(id);
        if let Some(waiter) = self.0.lock().remove(id) {
            // the receiver may be gone
            let _ = waiter.send(Err(Unreachable::Superseded));
        }
    }

    /// Fails all waiting requests after the end of the connection.
    pub(super) fn abandon(&self) {
        self.0.lock().clear();
        self.1.lock().clear();
    }
}

impl Future for PendingRequest {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer)
            .poll(cx)
            .map(|outcome| outcome.unwrap_or(Err(Unreachable::Offline)))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.map.lock().remove(&self.id);
    }
}
