//! Requests that wait for their answer, by message id.

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

/// The table of waiting requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Map);

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

    /// The request `id` will not be sent: a newer one took its place.
    pub(super) fn supersede(&self, id: &str) {
        if let Some(waiter) = self.0.lock().remove(id) {
            // whoever asked has left already
            let _ = waiter.send(Err(Unreachable::Superseded));
        }
    }

    /// The link is gone: nobody will be answered any more.
    pub(super) fn abandon(&self) {
        self.0.lock().clear();
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
