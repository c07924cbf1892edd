//! The one reader of the cloud's messages: store, then acknowledge.

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::{Answer, Change, Down, Downstream, Header, Message, ResourcePath, Source, lane::needs_ack};

use super::{
    desired::{Desired, Put, Refused},
    devices::Others,
    pods_complete::Judge,
    remote::Remote,
    report::Reporter,
    server::{WatchedChanges, service_object},
    unhandled::Unhandled,
    watched::{Own, own},
};
use crate::{
    edgehub::{EdgeHub, Inbound},
    outbox::{Item, Outbox},
    rt::{Heart, Part, PartError, unix_millis},
};

/// See [`super::new`].
pub struct Task {
    pub(super) inbound: Inbound,
    pub(super) hub: EdgeHub,
    pub(super) desired: Desired,
    pub(super) reporter: Reporter,
    pub(super) judge: Judge,
    /// Events that wait for the cloud.
    pub(super) outbox: Outbox<Item>,
    /// Asks the cloud for what was damaged.
    pub(super) remote: Remote,
    /// Takes what the dynamic controller says; `None` where nobody has asked it.
    pub(super) watched: Option<WatchedChanges>,
    /// Takes what is about devices and topics.
    pub(super) others: Others,
    /// Answers what nobody takes.
    pub(super) unhandled: Unhandled,
    /// The service by which pods find the API.
    pub(super) service: Option<Value>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        self.run_again(&Heart::unheard(), shutdown).await;
    }

    /// The same for whoever may drop it in its middle, and call it again: a message that was not acknowledged comes again.
    async fn run_again(&mut self, heart: &Heart, shutdown: CancellationToken) {
        let Self {
            inbound,
            hub,
            desired,
            reporter,
            judge,
            outbox,
            remote,
            watched,
            others,
            unhandled,
            service,
        } = self;
        heart.beat();
        if let Err(error) = desired.set(&service_object::key(), service.clone()).await {
            warn!(error = &error as &dyn std::error::Error, "new pods are not told where the API is");
        }
        let receive = async {
            loop {
                let rest = heart.rest();
                let message = inbound.next().await;
                drop(rest);
                let Some(message) = message else { return };
                let handlers = Handlers { watched: watched.as_ref(), others, unhandled };
                receive(desired, handlers, hub, heart, message).await;
            }
        };
        tokio::select! {
            // cancel-safe: a message that was not acknowledged is sent again
            () = shutdown.cancelled() => {}
            () = async {
                tokio::join!(receive, reporter.clone().run(), judge.run(), outbox.run(), remote.clone().mend());
            } => {}
        }
        outbox.finish().await;
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        self.run_again(&heart, shutdown).await;
        Ok(())
    }
}

/// Who takes what this node does not run.
#[derive(Clone, Copy)]
struct Handlers<'a> {
    watched: Option<&'a WatchedChanges>,
    others: &'a Others,
    unhandled: &'a Unhandled,
}

/// Whether a message is dealt with and may be acknowledged, and what it is answered beside that.
type Taken = (bool, Option<Message>);

async fn receive(desired: &Desired, handlers: Handlers<'_>, hub: &EdgeHub, heart: &Heart, message: Message) {
    let acknowledgement = needs_ack(&message).then(|| message.acknowledgement(unix_millis()));
    let (is_taken, answer) = store(desired, handlers, heart, message).await;
    for message in acknowledgement.filter(|_| is_taken).into_iter().chain(answer) {
        // offline by now: the cloud sends the message again, and this one is known then
        let _rest = heart.rest();
        let _ = hub.send(message).await;
    }
}

/// Takes a message, or says why not.
async fn store(desired: &Desired, handlers: Handlers<'_>, heart: &Heart, message: Message) -> Taken {
    let Handlers { watched, others, unhandled } = handlers;
    let down = Down::from(message);
    let put = match down.body {
        Downstream::Object { origin: Source::DynamicController, change, path, object } => {
            if let Some(watched) = watched
                && let Err(error) = watched.change(change, &object).await
            {
                return (is_stored(Err(error.into())), None);
            }
            return (is_stored(take_own(desired, change, &path, object, &down.header).await), None);
        }
        Downstream::Object { change, path, object, .. } => Put::new(change, &path, object, &down.header),
        // an answer that came too late for whoever asked
        Downstream::Answer { path, answer: Answer::Found(object) } => {
            Put::new(Change::Update, &path, object, &down.header)
        }
        // none of these waits for an acknowledgement
        other => {
            // whoever takes it has a heart of its own
            let _rest = heart.rest();
            let unread = others.forward(&down.header, other).await;
            let node = desired.node_name();
            return (true, unread.and_then(|unread| unhandled.answer(node, &down.header, unread)));
        }
    };
    let stored = match put {
        Ok(put) => desired.apply(put).await,
        Err(refused) => Err(refused),
    };
    (is_stored(stored), None)
}

/// Stores an object of which somebody on this node has asked to be told, where it is the node's own.
async fn take_own(
    desired: &Desired,
    change: Change,
    path: &ResourcePath,
    object: Value,
    header: &Header,
) -> Result<(), Refused> {
    let Some(place) = path.as_object() else { return Ok(()) };
    let own = own(desired.node_name(), change, &place.kind, &object);
    if own == Own::No {
        return Ok(());
    }
    let put = Put::new(change, path, object, header)?;
    if own == Own::Yes || desired.knows(&put).await? {
        desired.apply(put).await?;
    }
    Ok(())
}

fn is_stored(stored: Result<(), Refused>) -> bool {
    match stored {
        Ok(()) => true,
        // not acknowledged, it would be sent for ever and keep everything behind it from coming
        Err(refused @ Refused::Malformed(_)) => {
            warn!(%refused, "a message of the cloud was left out");
            true
        }
        Err(refused) => {
            error!(
                error = &refused as &dyn std::error::Error,
                "not stored and not acknowledged; the cloud sends it again"
            );
            false
        }
    }
}

#[cfg(test)]
mod tests;
