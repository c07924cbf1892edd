//! The pod lifecycle event generator: what happens in the runtime triggers the pods that it happens to.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use wire::cri;

use super::{
    metrics::Metrics,
    names,
    pods::Trigger,
    runtime::{CallError, Runtime},
};

/// A stream of events that ended is asked for again after this; meanwhile the lists are compared.
const RESUBSCRIBE: Duration = Duration::from_secs(5);

/// Triggers pods until the receiver is gone. Events are best; while the runtime has none to offer, its lists are compared
/// every `relist`.
pub(super) async fn run(
    runtime: Runtime,
    triggers: mpsc::Sender<Trigger>,
    metrics: Metrics,
    relist: Duration,
) {
    let mut lists = Lists { last: Snapshot::default(), metrics };
    loop {
        let events = runtime.events();
        let stream = tokio::select! {
            stream = events => stream,
            // A runtime may answer only with its first event.
            () = lists.compare_for_ever(&runtime, &triggers, relist) => return,
        };
        let ended = match stream {
            Ok(stream) => follow(stream, &triggers).await,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "no events: lists are compared");
                Ended::Stream
            }
        };
        if matches!(ended, Ended::Receiver) {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(RESUBSCRIBE) => {}
            () = lists.compare_for_ever(&runtime, &triggers, relist) => return,
        }
    }
}

enum Ended {
    Stream,
    Receiver,
}

async fn follow(
    mut stream: tonic::Streaming<cri::ContainerEventResponse>,
    triggers: &mpsc::Sender<Trigger>,
) -> Ended {
    // What happened before the stream began is not in it.
    if triggers.send(Trigger::All).await.is_err() {
        return Ended::Receiver;
    }
    while let Ok(Some(event)) = stream.message().await {
        let Some(metadata) = event.pod_sandbox_status.and_then(|status| status.metadata) else { continue };
        let pod = ObjectRef::<Pod>::new(&metadata.name).within(&metadata.namespace);
        if triggers.send(Trigger::Pod(pod)).await.is_err() {
            return Ended::Receiver;
        }
    }
    Ended::Stream
}

/// Namespace and name → everything's id and state.
type Snapshot = BTreeMap<(String, String), BTreeSet<(String, i32)>>;

/// The lists as they were last.
struct Lists {
    last: Snapshot,
    metrics: Metrics,
}

impl Lists {
    /// Returns only when the receiver is gone.
    async fn compare_for_ever(
        &mut self,
        runtime: &Runtime,
        triggers: &mpsc::Sender<Trigger>,
        every: Duration,
    ) {
        loop {
            let begun = Instant::now();
            match snapshot(runtime).await {
                Ok(now) => {
                    self.metrics.relisted(begun.elapsed());
                    for pod in changed(&self.last, &now) {
                        if triggers.send(Trigger::Pod(pod)).await.is_err() {
                            return;
                        }
                    }
                    self.last = now;
                }
                Err(error) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "the runtime is not listed");
                }
            }
            tokio::time::sleep(every).await;
        }
    }
}

async fn snapshot(runtime: &Runtime) -> Result<Snapshot, CallError> {
    let (sandboxes, containers) = tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    let sandboxes = sandboxes.into_iter().map(|sandbox| (sandbox.labels, sandbox.id, sandbox.state));
    let containers =
        containers.into_iter().map(|container| (container.labels, container.id, container.state));
    let mut snapshot = Snapshot::new();
    for (mut labels, id, state) in sandboxes.chain(containers) {
        if let (Some(namespace), Some(name)) =
            (labels.remove(names::POD_NAMESPACE), labels.remove(names::POD_NAME))
        {
            snapshot.entry((namespace, name)).or_default().insert((id, state));
        }
    }
    Ok(snapshot)
}

fn changed(last: &Snapshot, now: &Snapshot) -> Vec<ObjectRef<Pod>> {
    let keys: BTreeSet<_> = last.keys().chain(now.keys()).collect();
    let changed = keys.into_iter().filter(|key| last.get(*key) != now.get(*key));
    changed.map(|(namespace, name)| ObjectRef::new(name).within(namespace)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_triggered_when_anything_of_it_came_went_or_changed() {
        let snapshot = |all: &[(&str, &str, i32)]| {
            let mut snapshot = Snapshot::new();
            for (name, id, state) in all {
                let key = ("ns".to_owned(), (*name).to_owned());
                snapshot.entry(key).or_default().insert(((*id).to_owned(), *state));
            }
            snapshot
        };
        let last = snapshot(&[("same", "1", 1), ("ended", "2", 1), ("gone", "3", 1), ("more", "4", 1)]);
        let now = snapshot(&[
            ("same", "1", 1),
            ("ended", "2", 2),
            ("more", "4", 1),
            ("more", "5", 1),
            ("new", "6", 0),
        ]);
        let names: Vec<String> = changed(&last, &now).into_iter().map(|pod| pod.name).collect();
        assert_eq!(names, ["ended", "gone", "more", "new"]);
    }
}
