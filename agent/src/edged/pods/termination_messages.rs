//! The last words of containers that have ended, added to what the runtime says of them. They are read once, beside everything
//! else: where the disk does not answer, they are missing until it does, and nothing waits for them.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{cache::TerminationMessage, context::Context, trigger::Trigger};
use crate::edged::{
    moment,
    observed::{Container, Observed, State, TerminationMessageFiles},
    termination_message,
};

/// Disks answer in a fraction of this.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// By then a runtime has written the end of a log.
const LOG_WRITTEN_AFTER: Duration = Duration::from_secs(2);

/// Where the words are that have to be read: container id, place, exit code, and whether nothing is added any more.
type Unread = Vec<(String, TerminationMessageFiles, i32, bool)>;

/// Adds the last words of those that have ended, in a pod of so many `containers`.
pub(super) async fn add(context: &Context, pod: &Pod, observed: &mut Observed, containers: usize) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let unread = context
        .pod_cache
        .with(&uid, |state| unread(&mut state.termination_messages, observed, Timestamp::now()));
    if !unread.is_empty() {
        read(context, pod, uid.clone(), unread).await;
    }
    context.pod_cache.with(&uid, |state| {
        for container in &mut observed.containers {
            let State::Exited { message, .. } = &mut container.state else { continue };
            if let Some(TerminationMessage::Read { text, .. }) = state.termination_messages.get(&container.id)
            {
                termination_message::join(message, text, containers);
            }
        }
    });
}

fn unread(known: &mut HashMap<String, TerminationMessage>, observed: &Observed, now: Timestamp) -> Unread {
    known.retain(|id, _| observed.containers.iter().any(|container| container.id == *id));
    let is_known = |container: &&Container| match known.get(&container.id) {
        Some(
            TerminationMessage::Asked
            | TerminationMessage::Read { whole: true, .. }
            | TerminationMessage::Read { asked: true, .. },
        ) => true,
        Some(TerminationMessage::Read { whole: false, asked: false, .. }) | None => false,
    };
    let ended = observed.containers.iter().filter(|container| !is_known(container));
    let unread: Unread = ended
        .filter_map(|container| match (&container.state, &container.termination_message) {
            (State::Exited { finished_at, exit_code, .. }, Some(termination_message)) => {
                let whole = moment::since(*finished_at, now) >= LOG_WRITTEN_AFTER;
                Some((container.id.clone(), termination_message.clone(), *exit_code, whole))
            }
            _ => None,
        })
        .collect();
    for (id, ..) in &unread {
        if let TerminationMessage::Read { asked, .. } =
            known.entry(id.clone()).or_insert(TerminationMessage::Asked)
        {
            *asked = true;
        }
    }
    unread
}

/// Waits a moment for the disk; what comes later triggers the pod.
async fn read(context: &Context, pod: &Pod, uid: String, unread: Unread) {
    let mut reading = tokio::task::spawn_blocking(move || {
        let read = unread.into_iter().map(|(id, place, exit_code, whole)| {
            let text = termination_message::read(&place, exit_code);
            (id, TerminationMessage::Read { text, whole, asked: false })
        });
        read.collect::<Vec<_>>()
    });
    if let Ok(read) = tokio::time::timeout(READ_TIMEOUT, &mut reading).await {
        // A task that cannot be waited for is one of a program that ends.
        context.pod_cache.with(&uid, |state| state.termination_messages.extend(read.unwrap_or_default()));
        return;
    }
    tracing::warn!(
        pod = pod.metadata.name,
        "a disk does not answer: the last words of containers come later"
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

    fn ended(id: &str, at: i64) -> Container {
        let state = State::Exited {
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::from_second(at).unwrap(),
            exit_code: 1,
            reason: String::new(),
            message: String::new(),
        };
        let termination_message = TerminationMessageFiles { file: "/words".into(), log: None };
        Container {
            id: id.into(),
            state,
            termination_message: Some(termination_message),
            ..Container::test("web")
        }
    }

    #[test]
    fn words_are_read_once_when_nothing_is_added_any_more() {
        let mut known = HashMap::new();
        let observed = Observed::new(vec![], vec![ended("old", 10), ended("new", 99)]);
        let ids = |known: &mut HashMap<String, TerminationMessage>, now: i64| -> Vec<(String, bool)> {
            let unread = unread(known, &observed, Timestamp::from_second(now).unwrap());
            unread.into_iter().map(|(id, _, _, whole)| (id, whole)).collect()
        };
        let row = |id: &str, whole| (id.to_owned(), whole);
        assert_eq!(ids(&mut known, 100), [row("old", true), row("new", false)]);
        assert!(ids(&mut known, 100).is_empty(), "the disk was asked");
        let read = |whole| TerminationMessage::Read { text: String::new(), whole, asked: false };
        known.extend([("old".to_owned(), read(true)), ("new".to_owned(), read(false))]);
        assert_eq!(ids(&mut known, 101), [row("new", true)], "its log may not have been complete");
        assert!(ids(&mut known, 101).is_empty(), "the disk was asked again");
        known.insert("gone".to_owned(), TerminationMessage::Asked);
        ids(&mut known, 101);
        assert!(!known.contains_key("gone"));
    }
}
