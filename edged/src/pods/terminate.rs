//! Terminates a pod that is being deleted: containers, last status, sandbox, files, and then the API object.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
    runtime::controller::Action,
};

use super::{
    context::Context,
    error::Error,
    identity::Identity,
    report::{StatusInputs, report},
    stop,
};
use crate::{
    observed::ObservedPod,
    plan::{self, Action as PlanAction, DesiredPod},
    volumes,
};

/// Continues the termination and returns when to sync the pod again. The API object is deleted last, so that an agent that stops
/// half-way finds the rest to do when it restarts.
pub(super) async fn terminate(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
) -> Result<Action, Error> {
    let observed = context.observe(pod).await?;
    context
        .probes
        .sync(pod, &observed, &context.pod_ip(pod, &observed));
    let back_off = BTreeMap::new();
    let alive = observed
        .containers
        .iter()
        .any(|container| container.is_alive());
    let inputs = StatusInputs {
        observed: &observed,
        back_off: &back_off,
        ended: !alive,
    };
    let forced = pod.metadata.deletion_grace_period_seconds == Some(0);
    if alive {
        let desired = DesiredPod::of(pod, clock::now());
        for action in plan::terminate(&desired, &observed).actions {
            if let PlanAction::StopContainer { id, why } = action {
                stop::stop_container(context, pod, &observed, &id, why);
            }
        }
        report(context, pod, identity, &inputs).await?;
        return Ok(context.requeue(None));
    }
    match report(context, pod, identity, &inputs).await {
        // The last status of a pod that was deleted by force need not be stored.
        Err(error) if forced => {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "failed to report the last status of a pod"
            )
        }
        other => other?,
    }
    remove_containers(context, &observed).await?;
    remove_files(context, identity).await?;
    context
        .pod_cache
        .with(identity.uid, |state| state.is_terminated = true);
    delete_object(context, identity).await?;
    context.probes.forget(identity.uid);
    context.pod_cache.forget(identity.uid);
    Ok(Action::await_change())
}

async fn remove_containers(context: &Context, observed: &ObservedPod) -> Result<(), Error> {
    for container in &observed.containers {
        context.runtime.remove_container(&container.id).await?;
    }
    for sandbox in &observed.sandboxes {
        context.runtime.stop_sandbox(&sandbox.id).await?;
        context.runtime.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

async fn remove_files(context: &Arc<Context>, identity: &Identity<'_>) -> Result<(), Error> {
    let (dirs, uid) = (context.dirs.clone(), identity.uid.to_owned());
    let logs = dirs.pod_logs(identity.namespace, identity.name, identity.uid);
    let groups = context.groups.clone();
    let done = componentbase::spawn_blocking(move || {
        // Before the files, by which an agent that was stopped here finds the group again.
        groups.remove(&uid)?;
        volumes::tear_down(&dirs, &uid)?;
        Ok(volumes::remove(&logs)?)
    });
    // Waiting for a task fails only when the program ends.
    done.await.unwrap_or(Ok(()))
}

async fn delete_object(context: &Context, identity: &Identity<'_>) -> Result<(), Error> {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(identity.uid.to_owned()),
            resource_version: None,
        }),
        ..Default::default()
    };
    let api = Api::<Pod>::namespaced(context.client.clone(), identity.namespace);
    match api.delete(identity.name, &params).await {
        Ok(_) => Ok(()),
        // The pod is gone, or another pod has its name.
        Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => Ok(()),
        Err(error) => Err(Error::Delete(error)),
    }
}
