//! The one reader of the cloud's messages: stores each, then acknowledges it.

use componentbase::{Heartbeat, Part, PartError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::{
    Answer, Change, Down, Downstream, Header, Message, ResourcePath, Source, lane::needs_ack,
    text::printable_short,
};

use super::{
    desired::{ApplyError, CloudChange, Desired},
    devices::ModuleForwarder,
    pods_complete::CompletenessTracker,
    remote::Remote,
    report::Reporter,
    server::{WatchedChanges, service_object},
    unhandled::Unhandled,
    watched::{Ownership, ownership},
};
use crate::{
    edgehub::{EdgeHub, Inbound},
    outbox::{Item, Outbox},
};

/// The task that [`super::new`] builds.
pub struct Task {
    pub(super) inbound: Inbound,
    pub(super) hub: EdgeHub,
    pub(super) desired: Desired,
    pub(super) reporter: Reporter,
    pub(super) completeness: CompletenessTracker,
    /// Events that wait for the cloud.
    pub(super) outbox: Outbox<Box<Item>>,
    /// Repairs damaged objects from the cloud.
    pub(super) remote: Remote,
    /// Handles messages of the dynamic controller; `None` where MetaServer is disabled.
    pub(super) watched: Option<WatchedChanges>,
    /// Forwards messages about devices, topics and services.
    pub(super) forwarder: ModuleForwarder,
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
        self.run_restartable(&Heartbeat::unmonitored(), shutdown)
            .await;
    }

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again: a message that was not
    /// acknowledged comes again.
    async fn run_restartable(&mut self, heartbeat: &Heartbeat, shutdown: CancellationToken) {
        let Self {
            inbound,
            hub,
            desired,
            reporter,
            completeness,
            outbox,
            remote,
            watched,
            forwarder,
            unhandled,
            service,
        } = self;
        heartbeat.beat();
        if let Err(error) = desired.set(&service_object::key(), service.clone()).await {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to store the API address for new pods"
            );
        }
        let receive = async {
            loop {
                let rest = heartbeat.idle();
                let message = inbound.next().await;
                drop(rest);
                let Some(message) = message else { return };
                let handlers = Handlers {
                    watched: watched.as_ref(),
                    forwarder,
                    unhandled,
                };
                // boxed, as the others: while it waits, this task needs little memory
                Box::pin(receive(desired, handlers, hub, heartbeat, message)).await;
            }
        };
        clock::select! {
            // cancel-safe: a message that was not acknowledged is sent again
            () = shutdown.cancelled() => {}
            () = async {
                let reporter = Box::pin(reporter.clone().run());
                let repairer = Box::pin(remote.clone().repair_damaged());
                tokio::join!(receive, reporter, completeness.run(), outbox.run(), repairer);
            } => {}
        }
        outbox.finish().await;
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        self.run_restartable(&heartbeat, shutdown).await;
        Ok(())
    }
}

/// The modules that handle messages that are not stored here.
#[derive(Clone, Copy)]
struct Handlers<'a> {
    watched: Option<&'a WatchedChanges>,
    forwarder: &'a ModuleForwarder,
    unhandled: &'a Unhandled,
}

/// The result of handling a message.
struct Handled {
    /// Whether the message may be acknowledged.
    may_acknowledge: bool,
    /// The answer to send beside the acknowledgement.
    answer: Option<Message>,
}

impl Handled {
    fn without_answer(may_acknowledge: bool) -> Self {
        Self {
            may_acknowledge,
            answer: None,
        }
    }
}

async fn receive(
    desired: &Desired,
    handlers: Handlers<'_>,
    hub: &EdgeHub,
    heartbeat: &Heartbeat,
    message: Message,
) {
    let acknowledgement =
        needs_ack(&message).then(|| message.acknowledgement(clock::unix_millis()));
    let Handled {
        may_acknowledge,
        answer,
    } = handle(desired, handlers, heartbeat, message).await;
    for message in acknowledgement
        .filter(|_| may_acknowledge)
        .into_iter()
        .chain(answer)
    {
        // disconnected by now: the cloud sends the message again, and it is recognized then
        let _rest = heartbeat.idle();
        let _ = hub.send(message).await;
    }
}

/// Handles a message, or logs why not.
async fn handle(
    desired: &Desired,
    handlers: Handlers<'_>,
    heartbeat: &Heartbeat,
    message: Message,
) -> Handled {
    let Handlers {
        watched,
        forwarder,
        unhandled,
    } = handlers;
    let down = Down::from(message);
    let put = match down.body {
        Downstream::Object {
            origin: Source::DynamicController,
            change,
            path,
            object,
        } => {
            if let Some(watched) = watched
                && let Err(error) = watched.change(change, &object).await
            {
                return Handled::without_answer(is_stored(Err(error.into())));
            }
            let stored = store_own(desired, change, &path, object, &down.header).await;
            return Handled::without_answer(is_stored(stored));
        }
        Downstream::Object {
            change,
            path,
            object,
            ..
        } => CloudChange::new(change, &path, object, &down.header),
        // an answer that came after its request timed out
        Downstream::Answer {
            path,
            answer: Answer::Found(object),
        } => CloudChange::new(Change::Update, &path, object, &down.header),
        // none of these waits for an acknowledgement
        other @ (Downstream::Answer { .. }
        | Downstream::RootCa(_)
        | Downstream::TwinConfirmed(_)
        | Downstream::Membership(_)
        | Downstream::MembershipDetail(_)
        | Downstream::TwinDesired { .. }
        | Downstream::Subscription { .. }
        | Downstream::Publish { .. }
        | Downstream::ServiceTarget { .. }
        | Downstream::ServiceCall { .. }
        | Downstream::UploadAnswer { .. }
        | Downstream::Application(_)
        | Downstream::WatchSync(_)
        | Downstream::Job { .. }
        | Downstream::Volume { .. }
        | Downstream::Unknown { .. }) => {
            // the reader of the queue has a heartbeat of its own
            let _rest = heartbeat.idle();
            let unread = forwarder.forward(&down.header, other).await;
            let node = desired.node_name();
            let answer = unread.and_then(|unread| unhandled.answer(node, &down.header, unread));
            return Handled {
                may_acknowledge: true,
                answer,
            };
        }
    };
    let stored = match put {
        Ok(put) => desired.apply(put).await,
        Err(refused) => Err(refused),
    };
    Handled::without_answer(is_stored(stored))
}

/// Stores an object that a client on this node watches, if it is the node's own.
async fn store_own(
    desired: &Desired,
    change: Change,
    path: &ResourcePath,
    object: Value,
    header: &Header,
) -> Result<(), ApplyError> {
    let Some(place) = path.as_object() else {
        return Ok(());
    };
    let own = ownership(desired.node_name(), change, &place.kind, &object);
    if own == Ownership::No {
        return Ok(());
    }
    let put = CloudChange::new(change, path, object, header)?;
    if own == Ownership::Yes || desired.is_known(&put).await? {
        desired.apply(put).await?;
    }
    Ok(())
}

fn is_stored(stored: Result<(), ApplyError>) -> bool {
    match stored {
        Ok(()) => true,
        // without an acknowledgement it would be sent for ever and block everything behind it
        Err(refused @ ApplyError::Malformed(_)) => {
            warn!(
                error = printable_short(&refused),
                "message ignored: malformed content from the cloud"
            );
            true
        }
        Err(refused) => {
            error!(
                error = &refused as &dyn std::error::Error,
                "failed to store a message from the cloud; the cloud resends the message"
            );
            false
        }
    }
}

#[cfg(test)]
mod tests;
