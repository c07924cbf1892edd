//! Tells the API, one event after the other.

use std::pin::pin;

use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::sync::mpsc;

use super::{
    MAX_WAITING, Occurrence, Severity,
    series::{Series, Write},
};

/// Tells until there is nobody left who could record. What is as it should be waits, with its time, until `wait_for_room` ends;
/// a warning never does, nor what was before it.
pub(crate) async fn run<F: Future<Output = ()>>(
    client: Client,
    node_name: String,
    mut occurrences: mpsc::Receiver<Occurrence>,
    wait_for_room: impl Fn() -> F,
) {
    let mut series = Series::new(node_name);
    while let Some(occurrence) = occurrences.recv().await {
        for occurrence in held(occurrence, &mut occurrences, wait_for_room()).await {
            let Some(write) = series.take(occurrence) else { continue };
            if let Err(error) = send(&client, write).await {
                // An event about an event would be one too many.
                tracing::debug!(error = &error as &dyn std::error::Error, "an event is lost");
            }
        }
    }
}

/// This one and what comes after it, until there is room.
async fn held(
    first: Occurrence,
    occurrences: &mut mpsc::Receiver<Occurrence>,
    wait_for_room: impl Future<Output = ()>,
) -> Vec<Occurrence> {
    let mut wait_for_room = pin!(wait_for_room);
    let mut next = Some(first);
    let mut all = Vec::new();
    while let Some(one) = next {
        let waits = one.severity == Severity::Normal && all.len() + 1 < MAX_WAITING;
        all.push(one);
        if !waits {
            break;
        }
        next = tokio::select! {
            biased;
            // cancel-safe, both: nothing is taken that is not kept
            () = &mut wait_for_room => None,
            next = occurrences.recv() => next,
        };
    }
    all
}

async fn send(client: &Client, write: Write) -> kube::Result<()> {
    let (Write::Create(event) | Write::Patch(event)) = &write;
    let api =
        Api::<Event>::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"));
    if let Write::Patch(event) = &write {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        // All of it: whoever passes it on must see whose it is without having the event.
        match api.patch(name, &PatchParams::default(), &Patch::Merge(event)).await {
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

    fn occurrence(severity: Severity, message: &str) -> Occurrence {
        let object = ObjectReference::default();
        Occurrence {
            object,
            severity,
            reason: "Started".into(),
            message: message.into(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// The messages that are told when the first of them comes and the others wait, if any is told at all.
    fn told(all: &[(Severity, &str)], wait_for_room: impl Future<Output = ()>) -> Option<String> {
        let (sender, mut receiver) = mpsc::channel(MAX_WAITING);
        for (severity, message) in all {
            sender.try_send(occurrence(*severity, message)).unwrap();
        }
        let first = receiver.try_recv().unwrap();
        let held = held(first, &mut receiver, wait_for_room).now_or_never()?;
        Some(held.into_iter().map(|one| one.message).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn only_what_is_as_it_should_be_waits_until_there_is_room() {
        use Severity::{Normal, Warning};
        assert_eq!(told(&[(Normal, "a"), (Normal, "b")], ready(())).as_deref(), Some("a"));
        assert_eq!(told(&[(Normal, "a"), (Normal, "b")], pending()), None);
        let warned = [(Normal, "a"), (Normal, "b"), (Warning, "c"), (Normal, "d")];
        assert_eq!(told(&warned, pending()).as_deref(), Some("a b c"), "in order");
        let many = told(&[(Normal, "a"); MAX_WAITING], pending());
        assert_eq!(many.map(|all| all.len()), Some(MAX_WAITING * 2 - 1), "no more than there is room for");
    }
}
