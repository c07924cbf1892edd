//! The one reader of the cloud's messages: stores each, then acknowledges it.

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

/// The task that [`super::new`] builds.
pub struct Task {
    pub(super) inbound: Inbound,
    pub(super) hub: EdgeHub,
    pub(super) desired: Desired,
    pub(super) reporter: Reporter,
    pub(super) judge: Judge,
    /// Events that wait for the cloud.
    pub(super) outbox: Outbox<Item>,
    /// Repairs damaged objects from the cloud.
    pub(super) remote: Remote,
    /// Handles messages of the dynamic controller; `None` where MetaServer is disabled.
    pub(super) watched: Option<WatchedChanges>,
    /// Forwards messages about devices, topics and services.
    pub(super) others: Others,
    /// Answers messages that no module handles.
    pub(super) unhandled: Unhandled,
    /// The Service by which pods find the API.
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

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again: a message that was not
    /// acknowledged comes again.
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

/// The modules that handle messages that are not stored here.
#[derive(Clone, Copy)]
struct Handlers<'a> {
    watched: Option<&'a WatchedChanges>,
    others: &'a Others,
    unhandled: &'a Unhandled,
}

/// Whether a message was handled and may be acknowledged, and the answer to send beside the acknowledgement.
type Taken = (bool, Option<Message>);

async fn receive(desired: &Desired, handlers: Handlers<'_>, hub: &EdgeHub, heart: &Heart, message: Message) {
    let acknowledgement = needs_ack(&message).then(|| message.acknowledgement(unix_millis()));
    let (is_taken, answer) = store(desired, handlers, heart, message).await;
    for message in acknowledgement.filter(|_| is_taken).into_iter().chain(answer) {
        // disconnected by now: the cloud sends the message again, and it is recognized then
        let _rest = heart.rest();
        let _ = hub.send(message).await;
    }
}

/// Handles a message, or logs why not.
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
        // an answer that came after its request timed out
        Downstream::Answer { path, answer: Answer::Found(object) } => {
            Put::new(Change::Update, &path, object, &down.header)
        }
        // none of these waits for an acknowledgement
        other => {
            // the reader of the queue has a heartbeat of its own
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

/// Stores an object that a client on this node watches, if it is the node's own.
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
        // without an acknowledgement it would be sent for ever and block everything behind it
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
