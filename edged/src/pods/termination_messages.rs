//! Adds the termination messages of ended containers to the observed pod. They are read once, in the background: if the disk does
//! not answer, they are missing until it does, and nothing waits for them.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{cache::TerminationMessage, context::Context};
use crate::{
    observed::{Container, ObservedPod, ObservedState, TerminationMessageFiles},
    termination_message, timestamps,
    trigger::Trigger,
};

/// How long a sync waits for the disk, which normally takes a fraction of it.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after a container's end within which the runtime writes the end of its log.
const LOG_WRITTEN_AFTER: Duration = Duration::from_secs(2);

/// A termination message that has to be read.
struct UnreadMessage {
    container_id: String,
    files: TerminationMessageFiles,
    exit_code: i32,
    /// Whether the runtime has written everything.
    is_complete: bool,
}

/// Adds the termination messages of ended containers, in a pod of so many `containers`.
pub(super) async fn add(
    context: &Context,
    pod: &Pod,
    observed: &mut ObservedPod,
    containers: usize,
) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let unread = context.pod_cache.with(&uid, |state| {
        unread(&mut state.termination_messages, observed, clock::now())
    });
    if !unread.is_empty() {
        read(context, pod, uid.clone(), unread).await;
    }
    context.pod_cache.with(&uid, |state| {
        for container in &mut observed.containers {
            let ObservedState::Exited { message, .. } = &mut container.state else {
                continue;
            };
            if let Some(TerminationMessage::Read { text, .. }) =
                state.termination_messages.get(&container.id)
            {
                termination_message::append(message, text, containers);
            }
        }
    });
}

fn unread(
    known: &mut HashMap<String, TerminationMessage>,
    observed: &ObservedPod,
    now: Timestamp,
) -> Vec<UnreadMessage> {
    known.retain(|id, _| {
        observed
            .containers
            .iter()
            .any(|container| container.id == *id)
    });
    let is_known = |container: &&Container| match known.get(&container.id) {
        Some(
            TerminationMessage::Reading
            | TerminationMessage::Read {
                is_complete: true, ..
            }
            | TerminationMessage::Read {
                is_reread: true, ..
            },
        ) => true,
        Some(TerminationMessage::Read {
            is_complete: false,
            is_reread: false,
            ..
        })
        | None => false,
    };
    let ended = observed
        .containers
        .iter()
        .filter(|container| !is_known(container));
    let unread: Vec<UnreadMessage> = ended
        .filter_map(
            |container| match (&container.state, &container.termination_message) {
                (
                    ObservedState::Exited {
                        finished_at,
                        exit_code,
                        ..
                    },
                    Some(files),
                ) => {
                    let is_complete = timestamps::since(*finished_at, now) >= LOG_WRITTEN_AFTER;
                    Some(UnreadMessage {
                        container_id: container.id.clone(),
                        files: files.clone(),
                        exit_code: *exit_code,
                        is_complete,
                    })
                }
                _ => None,
            },
        )
        .collect();
    for message in &unread {
        if let TerminationMessage::Read { is_reread, .. } = known
            .entry(message.container_id.clone())
            .or_insert(TerminationMessage::Reading)
        {
            *is_reread = true;
        }
    }
    unread
}

/// Reads the messages and waits for a moment. If they come later, they trigger the pod.
async fn read(context: &Context, pod: &Pod, uid: String, unread: Vec<UnreadMessage>) {
    let mut reading = componentbase::spawn_blocking(move || {
        let read = unread.into_iter().map(|message| {
            let text = termination_message::read(&message.files, message.exit_code);
            let is_complete = message.is_complete;
            (
                message.container_id,
                TerminationMessage::Read {
                    text,
                    is_complete,
                    is_reread: false,
                },
            )
        });
        read.collect::<Vec<_>>()
    });
    if let Ok(read) = tokio::time::timeout(READ_TIMEOUT, &mut reading).await {
        // Waiting for a task fails only when the program ends.
        context.pod_cache.with(&uid, |state| {
            state.termination_messages.extend(read.unwrap_or_default())
        });
        return;
    }
    tracing::warn!(
        pod = pod.metadata.name,
        "disk not responding; termination messages of containers postponed"
    );
    let (pod_cache, triggers) = (context.pod_cache.clone(), context.triggers.clone());
    let trigger = Trigger::of(pod);
    context.background.spawn(async move {
        if let Ok(read) = reading.await {
            pod_cache.with(&uid, |state| state.termination_messages.extend(read));
            let _ = triggers.send(trigger).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_container(id: &str, at: i64) -> Container {
        let state = ObservedState::Exited {
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::from_second(at).unwrap(),
            exit_code: 1,
            reason: String::new(),
            message: String::new(),
        };
        let termination_message = TerminationMessageFiles {
            file: "/words".into(),
            log: None,
        };
        Container {
            id: id.into(),
            state,
            termination_message: Some(termination_message),
            ..Container::test("web")
        }
    }

    #[test]
    fn complete_termination_message_is_read_once() {
        let mut known = HashMap::new();
        let observed = ObservedPod::new(
            vec![],
            vec![ended_container("old", 10), ended_container("new", 99)],
        );
        let ids =
            |known: &mut HashMap<String, TerminationMessage>, now: i64| -> Vec<(String, bool)> {
                let unread = unread(known, &observed, Timestamp::from_second(now).unwrap());
                unread
                    .into_iter()
                    .map(|one| (one.container_id, one.is_complete))
                    .collect()
            };
        let row = |id: &str, whole| (id.to_owned(), whole);
        assert_eq!(ids(&mut known, 100), [row("old", true), row("new", false)]);
        assert!(ids(&mut known, 100).is_empty(), "the disk was asked");
        let read = |is_complete| TerminationMessage::Read {
            text: String::new(),
            is_complete,
            is_reread: false,
        };
        known.extend([
            ("old".to_owned(), read(true)),
            ("new".to_owned(), read(false)),
        ]);
        assert_eq!(
            ids(&mut known, 101),
            [row("new", true)],
            "its log may not have been complete"
        );
        assert!(ids(&mut known, 101).is_empty(), "the disk was asked again");
        known.insert("gone".to_owned(), TerminationMessage::Reading);
        ids(&mut known, 101);
        assert!(!known.contains_key("gone"));
    }
}
