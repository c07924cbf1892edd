//! The pod controller: every trigger leads to a sync of its pod, whatever the trigger is.
//!
//! Source: kube-rs, `Controller`, of which this is the inner part.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{
    controller::{self, Action},
    reflector::{Store, store::Writer},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinError,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    cache,
    context::Context,
    error::Error,
    sync,
    trigger_stream::{self, Sources},
};
use crate::{Progress, trigger::Trigger};

/// First delay before a pod whose sync failed is synced again, doubled with each failure …
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// … up to this maximum.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// What the controller needs to run.
pub(crate) struct Inputs {
    /// The store of this node's pods, and its writer.
    pub(crate) store: (Store<Pod>, Writer<Pod>),
    /// The watches that trigger syncs.
    pub(crate) sources: Sources,
    /// Triggers from other parts of EdgeD.
    pub(crate) triggers: mpsc::Receiver<Trigger>,
    /// Maximum number of pods synced at the same time.
    pub(crate) concurrency: u16,
    /// Receives that the first list of pods is complete.
    pub(crate) progress: watch::Sender<Progress>,
}

/// Runs the controller until it is dropped.
pub(crate) async fn run(context: Arc<Context>, inputs: Inputs) {
    let Inputs {
        store: (reader, writer),
        sources,
        triggers,
        concurrency,
        progress,
    } = inputs;
    let queue = trigger_stream::all_triggers(sources, &reader, writer, triggers, progress);
    let config = controller::Config::default().concurrency(concurrency);
    let synced = kube::runtime::applier(
        |pod, context| Box::pin(sync_in_task(pod, context)),
        error_policy,
        context,
        reader,
        queue,
        config,
    );
    synced
        .for_each(async |result| match result {
            Ok(_) => {}
            // The pod is gone already; the trigger was older.
            Err(controller::Error::ObjectNotFound(_)) => {}
            Err(controller::Error::ReconcilerFailed(error, pod)) => {
                let namespace = pod.namespace.unwrap_or_default();
                tracing::warn!(
                    namespace,
                    pod = pod.name,
                    error = &error as &dyn std::error::Error,
                    "failed to sync pod"
                );
            }
            Err(controller::Error::QueueError(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "watch of pods interrupted"
                );
            }
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot reconcile pods"
            ),
        })
        .await;
}

/// Syncs the pod in its own task: the controller itself would wake for every step of every sync and poll all of them.
async fn sync_in_task(pod: Arc<Pod>, context: Arc<Context>) -> Result<Action, Error> {
    let background = context.background.clone();
    let task = AbortOnDropHandle::new(background.spawn(sync::reconcile(pod, context)));
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(Some(done)) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The program ends.
        Ok(None) | Err(Err(_)) => std::future::pending().await,
    }
}

/// Returns when a pod whose sync failed is synced again.
fn error_policy(pod: Arc<Pod>, _error: &Error, context: Arc<Context>) -> Action {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let failures = context.pod_cache.with(uid, |state| {
        state.failures = state.failures.saturating_add(1);
        state.failures
    });
    Action::requeue(cache::exponential_delay(
        FIRST_RETRY_DELAY,
        failures,
        MAX_RETRY_DELAY,
    ))
}
