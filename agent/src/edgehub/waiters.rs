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

use super::Unreachable;

type Outcome = Result<Message, Unreachable>;
type Map = Arc<Mutex<HashMap<String, oneshot::Sender<Outcome>>>>;

/// Who waits until a message was written to the connection.
type Written = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

/// The tables of those who wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Map, Written);

/// One waiting request; leaves the table when dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    id: String,
    map: Map,
    answer: oneshot::Receiver<Outcome>,
}

impl Waiters {
    /// Waits from now on for the answer to `id`.
    pub(super) fn register(&self, id: &str) -> Waiting {
        let (sender, answer) = oneshot::channel();
        self.0.lock().insert(id.to_owned(), sender);
        Waiting { id: id.to_owned(), map: self.0.clone(), answer }
    }

    /// Hands `answer` to the request it names as parent; gives it back where none waits.
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

    /// Waits from now on until `id` was written; an error where it was not. One that nobody waits for any more stays in the table
    /// until it was written, or the connection has ended.
    pub(super) fn until_written(&self, id: &str) -> oneshot::Receiver<()> {
        let (sender, written) = oneshot::channel();
        self.1.lock().insert(id.to_owned(), sender);
        written
    }

    /// `id` was written to the connection.
    pub(super) fn written(&self, id: &str) {
        if let Some(waiter) = self.1.lock().remove(id) {
            // whoever waited has left already
            let _ = waiter.send(());
        }
    }

    /// The request `id` will not be sent: a newer one took its place, and says all that it would have said.
    pub(super) fn supersede(&self, id: &str) {
        self.written(id);
        if let Some(waiter) = self.0.lock().remove(id) {
            // whoever asked has left already
            let _ = waiter.send(Err(Unreachable::Superseded));
        }
    }

    /// The link is gone: nobody will be answered any more.
    pub(super) fn abandon(&self) {
        self.0.lock().clear();
        self.1.lock().clear();
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(|outcome| outcome.unwrap_or(Err(Unreachable::Offline)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.map.lock().remove(&self.id);
    }
}
