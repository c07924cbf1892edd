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

type Map = Arc<Mutex<HashMap<String, oneshot::Sender<Message>>>>;

/// The table of waiting requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters(Map);

/// One waiting request; leaves the table when dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    id: String,
    map: Map,
    answer: oneshot::Receiver<Message>,
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
            Some(waiter) => waiter.send(answer).map_err(Box::new),
            None => Err(Box::new(answer)),
        }
    }

    /// The link is gone: nobody will be answered any more.
    pub(super) fn abandon(&self) {
        self.0.lock().clear();
    }
}

impl Future for Waiting {
    /// `None`: the link broke.
    type Output = Option<Message>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(Result::ok)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.map.lock().remove(&self.id);
    }
}
