//! What runs in a pod's control group and is not alive as far as the runtime knows: a runtime that is killed in the middle of a start
//! or a stop may say of a container that it has ended, or know nothing of it, while its processes run on. Two of one container
//! must not run side by side, so it is ended at the next sync of its pod, and each pod that has any is synced.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::Store;
use tokio::sync::mpsc;
use wire::cri;

use super::{cache::PodCache, context::Context, trigger::Trigger};
use crate::edged::{
    groups::Groups,
    observed::{Observed, State},
    runtime::{CallError, Runtime},
};

/// Ends what the runtime has lost of this pod. Nobody starts anything of it meanwhile: a pod has one sync at a time.
pub(super) async fn end(context: &Context, pod: &Arc<Pod>, observed: &Observed) {
    // before the first, a sandbox may be on its way that an agent before this one has asked for
    if observed.sandboxes.is_empty() {
        return;
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    // Most syncs find that nothing has ended and that no strays were suspected.
    let suspected = context.pod_cache.with(uid, |state| !std::mem::replace(&mut state.no_strays, true));
    if !suspected && observed.containers.iter().all(|one| one.exit_code().is_none()) {
        return;
    }
    let alive = alive(observed);
    let (groups, pod) = (context.groups.clone(), pod.clone());
    let found = tokio::task::spawn_blocking(move || groups.strangers(&pod, |id| alive.contains(id))).await;
    // A task that cannot be waited for is one of a program that ends.
    for id in found.unwrap_or_default() {
        tracing::warn!(uid, id, "what the container runtime has lost sight of is ended");
        context.end_lost(uid, &id).await;
    }
}

/// What may run: one that was made and not started has processes already with some runtimes.
fn alive(observed: &Observed) -> BTreeSet<String> {
    let sandboxes = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
    let containers = observed.containers.iter();
    let containers = containers.filter(|one| one.is_alive() || one.state == State::Created);
    sandboxes.map(|one| one.id.clone()).chain(containers.map(|one| one.id.clone())).collect()
}

/// Where strays are looked for, and the pods that may have them.
#[derive(Clone, Copy)]
pub(crate) struct Deps<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) groups: &'a Groups,
    pub(crate) pods: &'a Store<Pod>,
    pub(crate) pod_cache: &'a PodCache,
    pub(crate) triggers: &'a mpsc::Sender<Trigger>,
}

/// Triggers the pods of which something runs that the runtime does not know, or believes to have ended.
pub(crate) async fn trigger_pods(deps: Deps<'_>) -> Result<(), CallError> {
    let Deps { runtime, groups, pods, pod_cache, triggers } = deps;
    let (sandboxes, containers) = tokio::try_join!(runtime.sandboxes(None), runtime.containers(None))?;
    let ready = sandboxes.into_iter().filter(|one| one.state() == cri::PodSandboxState::SandboxReady);
    let alive = containers.into_iter().filter(|one| one.state() != cri::ContainerState::ContainerExited);
    let alive: BTreeSet<String> = ready.map(|one| one.id).chain(alive.map(|one| one.id)).collect();
    let (groups, all) = (groups.clone(), pods.state());
    let found = tokio::task::spawn_blocking(move || {
        let strays = |pod: &Arc<Pod>| !groups.strangers(pod, |id| alive.contains(id)).is_empty();
        all.into_iter().filter(strays).collect::<Vec<_>>()
    });
    for pod in found.await.unwrap_or_default() {
        pod_cache.with(pod.metadata.uid.as_deref().unwrap_or_default(), |state| state.no_strays = false);
        // Fails only where nobody syncs pods any more.
        let _ = triggers.send(Trigger::of(&pod)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::edged::observed::{Container, Sandbox};

    #[test]
    fn what_has_ended_may_not_run() {
        let sandbox = |id: &str, ready| Sandbox {
            id: id.into(),
            attempt: 0,
            ready,
            created_at: Timestamp::UNIX_EPOCH,
            ips: Vec::new(),
        };
        let container = |id: &str, state| Container { id: id.into(), state, ..Container::test("web") };
        let ended = State::Exited {
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::UNIX_EPOCH,
            exit_code: 255,
            reason: "Unknown".into(),
            message: String::new(),
        };
        let observed = Observed::new(
            vec![sandbox("s", true), sandbox("old", false)],
            vec![
                container("made", State::Created),
                container("runs", State::Running { started_at: Timestamp::UNIX_EPOCH }),
                container("unknown", State::Unknown),
                container("ended", ended),
            ],
        );
        assert_eq!(alive(&observed).into_iter().collect::<Vec<_>>(), ["made", "runs", "s", "unknown"]);
    }
}
