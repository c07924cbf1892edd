//! Writes events to the API, one after the other.

use std::pin::pin;

use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::sync::mpsc;

use super::{
    EventType, PendingEvent, QUEUE_CAPACITY,
    build::{EventBuilder, EventWrite},
};

/// Writes events until all recorders are gone. Normal events wait until `wait_for_room` ends and keep their time; a warning is
/// written at once, after the events before it.
pub async fn run<F: Future<Output = ()>>(
    client: Client,
    node_name: String,
    mut events: mpsc::Receiver<Box<PendingEvent>>,
    wait_for_room: impl Fn() -> F,
) {
    let mut builder = EventBuilder::new(node_name);
    while let Some(event) = events.recv().await {
        for event in collect_until_room(*event, &mut events, wait_for_room()).await {
            let Some(write) = builder.build(event, clock::Instant::now()) else {
                continue;
            };
            if let Err(error) = Box::pin(send(&client, write)).await {
                // No event is recorded about a lost event, and no error is raised.
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "failed to write an event; event dropped"
                );
            }
        }
    }
}

/// Collects `first` and the events after it until `wait_for_room` ends or a warning comes.
async fn collect_until_room(
    first: PendingEvent,
    events: &mut mpsc::Receiver<Box<PendingEvent>>,
    wait_for_room: impl Future<Output = ()>,
) -> Vec<PendingEvent> {
    let mut wait_for_room = pin!(wait_for_room);
    let mut next = Some(first);
    let mut all = Vec::new();
    while let Some(one) = next {
        let waits = one.event_type == EventType::Normal && all.len() + 1 < QUEUE_CAPACITY;
        all.push(one);
        if !waits {
            break;
        }
        next = clock::select! {
            biased;
            // cancel-safe: no event is taken from the queue and lost
            () = &mut wait_for_room => None,
            next = events.recv() => next.map(|event| *event),
        };
    }
    all
}

async fn send(client: &Client, write: EventWrite) -> kube::Result<()> {
    let (EventWrite::Create(event) | EventWrite::Patch(event)) = &write;
    let api = Api::<Event>::namespaced(
        client.clone(),
        event.metadata.namespace.as_deref().unwrap_or("default"),
    );
    if let EventWrite::Patch(event) = &write {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        // The patch is the whole event, so that components between here and the API see its object without having the event.
        match api
            .patch(name, &PatchParams::default(), &Patch::Merge(event))
            .await
        {
            Err(kube::Error::Api(answer)) if answer.code == StatusCode::NOT_FOUND.as_u16() => {}
            other => return other.map(drop),
        }
    }
    api.create(&PostParams::default(), event).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt;
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn event(event_type: EventType, message: &str) -> PendingEvent {
        let object = ObjectReference::default();
        PendingEvent {
            object,
            event_type,
            reason: "Started".into(),
            message: message.into(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// The messages that are told when the first of them comes and the others wait, if any is told at all.
    fn collect_messages(
        all: &[(EventType, &str)],
        wait_for_room: impl Future<Output = ()>,
    ) -> Option<String> {
        let (sender, mut receiver) = mpsc::channel(QUEUE_CAPACITY);
        for (event_type, message) in all {
            sender
                .try_send(Box::new(event(*event_type, message)))
                .unwrap();
        }
        let first = *receiver.try_recv().unwrap();
        let held = collect_until_room(first, &mut receiver, wait_for_room).now_or_never()?;
        Some(
            held.into_iter()
                .map(|one| one.message)
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    #[test]
    fn only_normal_events_wait_until_there_is_room() {
        use EventType::{Normal, Warning};
        assert_eq!(
            collect_messages(&[(Normal, "a"), (Normal, "b")], ready(())).as_deref(),
            Some("a")
        );
        assert_eq!(
            collect_messages(&[(Normal, "a"), (Normal, "b")], pending()),
            None
        );
        let warned = [(Normal, "a"), (Normal, "b"), (Warning, "c"), (Normal, "d")];
        assert_eq!(
            collect_messages(&warned, pending()).as_deref(),
            Some("a b c"),
            "in order"
        );
        let many = collect_messages(&[(Normal, "a"); QUEUE_CAPACITY], pending());
        assert_eq!(
            many.map(|all| all.len()),
            Some(QUEUE_CAPACITY * 2 - 1),
            "no more than there is room for"
        );
    }
}
