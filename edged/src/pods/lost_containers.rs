//! Ends processes in a pod's control group that belong to no container that runs according to the runtime. A runtime that is
//! killed in the middle of a start or a stop may report a container as ended, or not know it, while its processes run on. As two
//! instances of a container must not run side by side, they are ended at the next sync of their pod, and each pod that has any is
//! synced.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc;
use wire::cri;

use super::{cache::PodCache, context::Context};
use crate::{
    cgroups::Cgroups,
    observed::{ObservedPod, ObservedState},
    runtime::{CallError, Runtime},
    trigger::Trigger,
};

/// Ends the lost containers of this pod. None of its containers is started meanwhile, as a pod has one sync at a time.
pub(super) async fn kill(context: &Context, pod: &Arc<Pod>, observed: &ObservedPod) {
    // before the first sandbox, one requested by a previous agent may be being created
    if observed.sandboxes.is_empty() {
        return;
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    // Most syncs find no ended container and had no suspicion.
    let suspected = context.pod_cache.with(uid, |state| {
        !std::mem::replace(&mut state.no_lost_containers, true)
    });
    if !suspected
        && observed
            .containers
            .iter()
            .all(|one| one.exit_code().is_none())
    {
        return;
    }
    let alive = alive(observed);
    let (groups, pod) = (context.groups.clone(), pod.clone());
    let found = componentbase::spawn_blocking(move || {
        groups.unknown_containers(&pod, |id| alive.contains(id))
    })
    .await;
    // Waiting for a task fails only when the program ends.
    for id in found.unwrap_or_default() {
        tracing::warn!(
            uid,
            id,
            "container lost by the runtime is still running; stopping the container"
        );
        context.end_lost_task(uid, &id).await;
    }
}

/// Returns the ids of sandboxes and containers that may run. With some runtimes a created container has processes already.
fn alive(observed: &ObservedPod) -> BTreeSet<String> {
    let sandboxes = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
    let containers = observed.containers.iter();
    let containers = containers.filter(|one| one.is_alive() || one.state == ObservedState::Created);
    sandboxes
        .map(|one| one.id.clone())
        .chain(containers.map(|one| one.id.clone()))
        .collect()
}

/// What the search for lost containers needs.
#[derive(Clone, Copy)]
pub(crate) struct Deps<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) groups: &'a Cgroups,
    pub(crate) pods: &'a Store<Pod>,
    pub(crate) pod_cache: &'a PodCache,
    pub(crate) triggers: &'a mpsc::Sender<Trigger>,
}

/// Triggers the pods with processes that the runtime does not know or believes to have ended.
pub(crate) async fn trigger_pods(deps: Deps<'_>) -> Result<(), CallError> {
    let Deps {
        runtime,
        groups,
        pods,
        pod_cache,
        triggers,
    } = deps;
    let (sandboxes, containers) =
        tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    let ready = sandboxes
        .into_iter()
        .filter(|one| one.state() == cri::PodSandboxState::SandboxReady);
    let alive = containers
        .into_iter()
        .filter(|one| one.state() != cri::ContainerState::ContainerExited);
    let alive: BTreeSet<String> = ready
        .map(|one| one.id)
        .chain(alive.map(|one| one.id))
        .collect();
    let (groups, all) = (groups.clone(), pods.state());
    let found = componentbase::spawn_blocking(move || {
        let has_lost = |pod: &Arc<Pod>| {
            !groups
                .unknown_containers(pod, |id| alive.contains(id))
                .is_empty()
        };
        all.into_iter().filter(has_lost).collect::<Vec<_>>()
    });
    for pod in found.await.unwrap_or_default() {
        pod_cache.with(pod.metadata.uid.as_deref().unwrap_or_default(), |state| {
            state.no_lost_containers = false
        });
        // Fails only if the pod controller has ended.
        let _ = triggers.send(Trigger::of(&pod)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::observed::{Container, Sandbox};

    #[test]
    fn ended_container_is_not_known_alive() {
        let sandbox = |id: &str, ready| Sandbox {
            id: id.into(),
            attempt: 0,
            ready,
            created_at: Timestamp::UNIX_EPOCH,
            ips: Vec::new(),
        };
        let container = |id: &str, state| Container {
            id: id.into(),
            state,
            ..Container::test("web")
        };
        let ended = ObservedState::Exited {
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::UNIX_EPOCH,
            exit_code: 255,
            reason: "Unknown".into(),
            message: String::new(),
        };
        let observed = ObservedPod::new(
            vec![sandbox("s", true), sandbox("old", false)],
            vec![
                container("made", ObservedState::Created),
                container(
                    "runs",
                    ObservedState::Running {
                        started_at: Timestamp::UNIX_EPOCH,
                    },
                ),
                container("unknown", ObservedState::Unknown),
                container("ended", ended),
            ],
        );
        assert_eq!(
            alive(&observed).into_iter().collect::<Vec<_>>(),
            ["made", "runs", "s", "unknown"]
        );
    }
}
