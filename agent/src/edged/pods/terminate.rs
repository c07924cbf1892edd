//! Ends a pod that is being deleted: containers, last status, sandbox, files, and then the object itself.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
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
    report::{Situation, report},
    stop,
};
use crate::edged::{
    observed::Observed,
    plan::{self, Action as Step, Desired},
    volumes,
};

/// Brings the pod closer to its end, and says when to sync it again. The object goes last, so that an agent that ends
/// half-way finds the rest to do when it comes back.
pub(super) async fn terminate(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
) -> Result<Action, Error> {
    let observed = context.observe(pod).await?;
    context.probes.follow(pod, &observed, &context.pod_ip(pod, &observed));
    let back_off = BTreeMap::new();
    let alive = observed.containers.iter().any(|container| container.is_alive());
    let situation = Situation { observed: &observed, back_off: &back_off, ended: !alive };
    let forced = pod.metadata.deletion_grace_period_seconds == Some(0);
    if alive {
        let desired = Desired::of(pod, Timestamp::now());
        for step in plan::terminate(&desired, &observed).actions {
            if let Step::StopContainer { id, why } = step {
                stop::container(context, pod, &observed, &id, why);
            }
        }
        report(context, pod, identity, &situation).await?;
        return Ok(context.requeue(None));
    }
    match report(context, pod, identity, &situation).await {
        // Nobody waits for the last words of a pod that was deleted by force.
        Err(error) if forced => tracing::debug!(error = &error as &dyn std::error::Error, "no last status"),
        other => other?,
    }
    remove(context, &observed).await?;
    clean_up(context, identity).await?;
    context.pod_cache.with(identity.uid, |state| state.ended = true);
    delete(context, identity).await?;
    context.probes.forget(identity.uid);
    context.pod_cache.forget(identity.uid);
    Ok(Action::await_change())
}

async fn remove(context: &Context, observed: &Observed) -> Result<(), Error> {
    for container in &observed.containers {
        context.runtime.remove_container(&container.id).await?;
    }
    for sandbox in &observed.sandboxes {
        context.runtime.stop_sandbox(&sandbox.id).await?;
        context.runtime.remove_sandbox(&sandbox.id).await?;
    }
    Ok(())
}

async fn clean_up(context: &Arc<Context>, identity: &Identity<'_>) -> Result<(), Error> {
    let (dirs, uid) = (context.dirs.clone(), identity.uid.to_owned());
    let logs = dirs.pod_logs(identity.namespace, identity.name, identity.uid);
    let groups = context.groups.clone();
    let done = tokio::task::spawn_blocking(move || {
        // Before the files, by which a group is found that an agent which ended here has left.
        groups.remove(&uid)?;
        volumes::tear_down(&dirs, &uid)?;
        Ok(volumes::remove_all(&logs)?)
    });
    // A task that cannot be waited for is one of a program that ends.
    done.await.unwrap_or(Ok(()))
}

async fn delete(context: &Context, identity: &Identity<'_>) -> Result<(), Error> {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: Some(identity.uid.to_owned()), resource_version: None }),
        ..Default::default()
    };
    let api = Api::<Pod>::namespaced(context.client.clone(), identity.namespace);
    match api.delete(identity.name, &params).await {
        Ok(_) => Ok(()),
        // It is gone, or it is another pod of the same name already.
        Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => Ok(()),
        Err(error) => Err(Error::Delete(error)),
    }
}
