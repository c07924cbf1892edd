//! The controller of pods: every trigger leads to one look at the pod, whatever it was.
//!
//! ```text
//! pods ───────────────┐
//! ConfigMaps, Secrets ┼─▶ reconcile: observe ─▶ plan ─▶ act ─▶ observe … ─▶ report
//! runtime, own tasks ─┘
//! ```

mod act;
mod admission;
mod cache;
mod claims;
mod clear;
mod fetch;
mod hooks;
mod image_name;
mod images;
mod record_event;
mod refuse;
mod registry;
mod report;
pub(crate) mod retry;
mod sandbox_limit;
mod start;
mod stop;
mod strays;
mod sync;
mod terminate;
mod termination_messages;
mod tokens;
mod triggers;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client,
    runtime::{
        controller::{self, Action},
        reflector::{ObjectRef, Store, store::Writer},
    },
};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    task::JoinError,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use wire::cri;

pub(crate) use self::{
    admission::Admitter,
    cache::{PodCache, Termination},
    sandbox_limit::SandboxLimit,
    strays::tell as tell_strays,
};
use super::{
    Progress,
    convert::{self, Means, NodeDns},
    downward::Allocatable,
    events::Recorder,
    gc::removing::Removing,
    groups::{self, Groups},
    housekeeping,
    metrics::Metrics,
    names::Dirs,
    node::Addresses,
    observed::{Made, Observed},
    pressure::Pressure,
    probes::Probes,
    runtime::{CallError, Runtime},
};
use crate::metamanager::PodsWhole;

/// Triggers that wait to be taken. The controller takes them at once and merges those of one pod, so that a full channel is
/// only a short wait for whoever triggers.
pub(crate) const MAX_TRIGGERS: usize = 1024;
/// A pod that cannot be looked at is looked at again after this, doubled with each failure …
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// … up to this.
const MAX_RETRY: Duration = Duration::from_secs(30);

/// What every part of the controller uses.
pub(crate) struct Context {
    /// The API.
    pub(crate) client: Client,
    /// The API as it has Services.
    pub(crate) services: Client,
    /// An authority of the API, PEM, that pods are told of beside the cluster's.
    pub(crate) api_ca: Option<Arc<str>>,
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// The pods' control groups.
    pub(crate) groups: Groups,
    /// Where pods live on disk.
    pub(crate) dirs: Dirs,
    /// This node.
    pub(crate) node_name: String,
    /// How pods resolve names.
    pub(crate) dns: NodeDns,
    /// How the node itself does.
    pub(crate) resolv_conf: PathBuf,
    /// Permits to pull images, where only so many are pulled at the same time.
    pub(crate) pulls: Option<Arc<Semaphore>>,
    /// Permits to make sandboxes.
    pub(crate) sandbox_limit: SandboxLimit,
    /// This node's addresses.
    pub(crate) addresses: Addresses,
    /// What a container may use that sets no limit.
    pub(crate) allocatable: Allocatable,
    /// The machine, as far as it counts for what containers may use.
    pub(crate) means: Means,
    /// Lets pods in.
    pub(crate) admitter: Admitter,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// What is remembered of pods between two looks.
    pub(crate) pod_cache: PodCache,
    /// Told what happens.
    pub(crate) events: Recorder,
    /// Told how long it takes.
    pub(crate) metrics: Metrics,
    /// The probes of all pods.
    pub(crate) probes: Arc<Probes>,
    /// What the node is short of.
    pub(crate) pressure: Pressure,
    /// Something was started or has ended: wakes whoever looks at what runs.
    pub(crate) moved: Notify,
    /// Wakes whoever looks for what pods left behind.
    pub(crate) orphaned: Notify,
    /// What is being removed of pods that are gone.
    pub(crate) removing: Removing,
    /// Wakes whoever waits for a pod to go.
    pub(crate) gone: Notify,
    /// Whether the API has all pods.
    pub(crate) pods_whole: PodsWhole,
    /// To the controller itself.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Ends what runs in the background.
    pub(crate) shutdown: CancellationToken,
    /// Stops and pulls, which take long.
    pub(crate) background: TaskTracker,
    /// Each pod is looked at this often, without any trigger.
    pub(crate) resync: Duration,
}

/// A reason to look at pods again.
#[derive(Clone, Debug)]
pub(crate) enum Trigger {
    /// At one.
    Pod(ObjectRef<Pod>),
    /// At all: something may have been missed.
    All,
    /// At none: whoever sent it wants to know that triggers are taken.
    Echo(Arc<Notify>),
}

/// Why a pod could not be brought closer to what is wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] CallError),
    /// The API refused a status.
    #[error("the pod's status was not stored: {}", super::api_message(.0))]
    Report(#[source] kube::Error),
    /// The API refused the deletion.
    #[error("the pod has ended but is still in the API: {}", super::api_message(.0))]
    Delete(#[source] kube::Error),
    /// A status cannot be written as JSON.
    #[error("the pod's status cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The pod's directories stay.
    #[error(transparent)]
    Volumes(#[from] super::volumes::Error),
    /// The pod's control group stays.
    #[error(transparent)]
    Group(#[from] groups::Stays),
    /// The pod has an identity that no pod can have.
    #[error("the pod has no usable uid, namespace or name")]
    Identity,
}

impl Context {
    /// All that there is of the pod, and what probes and hooks say of it.
    async fn observe(&self, pod: &Arc<Pod>) -> Result<Observed, CallError> {
        let observed = self.runtime.observe(pod.metadata.uid.as_deref().unwrap_or_default()).await?;
        Ok(self.judge(pod, observed).await)
    }

    /// The same of a pod that is to run. A runtime is not asked for what a new one has: lists cost it the more the more pods it
    /// has, and this one has nothing. One that is to end is always looked for, so that nothing of it stays.
    async fn observe_first(&self, pod: &Arc<Pod>, identity: &Identity<'_>) -> Result<Observed, CallError> {
        if self.pod_cache.is_new(identity.uid) {
            return Ok(self.judge(pod, Observed::default()).await);
        }
        self.observe(pod).await
    }

    /// The same of a pod that has only got what was `made` since the last look.
    async fn observe_made(
        &self,
        pod: &Arc<Pod>,
        last: Observed,
        made: Vec<Made>,
    ) -> Result<Observed, CallError> {
        let observed = self.runtime.observe_made(last, made).await?;
        Ok(self.judge(pod, observed).await)
    }

    /// Adds to what the runtime says what others know.
    async fn judge(&self, pod: &Arc<Pod>, mut observed: Observed) -> Observed {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.pod_cache.saw(uid, observed.items());
        for id in self.pod_cache.with(uid, |state| state.unsettled(&observed)) {
            self.end_lost(uid, &id).await;
        }
        strays::end(self, pod, &observed).await;
        termination_messages::add(self, pod, &mut observed, containers(pod)).await;
        self.probes.judge(pod, &mut observed);
        self.pod_cache.with(uid, |state| {
            state.note_ended(&observed);
            hooks::judge(&mut state.hooks, &mut observed);
        });
        observed
    }

    /// Ends a container of which the runtime does not say what has become of it.
    async fn end_lost(&self, uid: &str, id: &str) {
        self.runtime.end_lost(id).await;
        self.groups.end_container(uid, id).await;
    }

    /// Forgets a container that has ended, and its log.
    pub(crate) async fn remove_container(&self, id: &str) -> Result<(), CallError> {
        let log = self.runtime.log_path(id).await?;
        self.runtime.remove_container(id).await?;
        // Only what is where logs of pods are: the path is the runtime's word.
        let log = log.map(std::path::PathBuf::from).filter(|log| log.starts_with(&self.dirs.logs));
        if let Some(log) = log {
            housekeeping::remove_log(log).await;
        }
        Ok(())
    }

    /// The configuration of the pod's `attempt`th sandbox.
    async fn sandbox_config(&self, pod: &Pod, attempt: u32) -> cri::PodSandboxConfig {
        // Where neither the pod nor the cluster adds to the node's, the runtime has it already.
        let merged = self.dns.own
            || !self.dns.servers.is_empty()
            || pod.spec.as_ref().is_some_and(|spec| spec.dns_config.is_some());
        let nodes = if merged { tokio::fs::read_to_string(&self.resolv_conf).await.ok() } else { None };
        let nodes = convert::parse_resolv_conf(&nodes.unwrap_or_default());
        let mut config = convert::sandbox(pod, attempt, &self.dirs, &NodeDns { nodes, ..self.dns.clone() });
        if let Some(linux) = &mut config.linux {
            linux.cgroup_parent = self.groups.parent(pod).await;
        }
        config
    }

    /// The addresses at which the pod can be reached.
    fn pod_ips(&self, pod: &Pod, observed: &Observed) -> Vec<String> {
        if convert::is_host_network(pod) { self.addresses.ips() } else { observed.ips().to_vec() }
    }

    /// The first of them; empty when it has none.
    fn pod_ip(&self, pod: &Pod, observed: &Observed) -> String {
        self.pod_ips(pod, observed).into_iter().next().unwrap_or_default()
    }
}

/// How many containers of all kinds the pod has.
fn containers(pod: &Pod) -> usize {
    let Some(spec) = &pod.spec else { return 0 };
    let rest =
        [spec.init_containers.as_ref().map(Vec::len), spec.ephemeral_containers.as_ref().map(Vec::len)];
    spec.containers.len() + rest.into_iter().flatten().sum::<usize>()
}

/// Runs the controller until it is dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    (reader, writer): (Store<Pod>, Writer<Pod>),
    received: mpsc::Receiver<Trigger>,
    concurrency: u16,
    progress: &watch::Sender<Progress>,
) {
    let queue = triggers::all(&context, &reader, writer, received, progress.clone());
    let config = controller::Config::default().concurrency(concurrency);
    let reconciled = kube::runtime::applier(
        |pod, context| Box::pin(apart(pod, context)),
        again,
        context,
        reader,
        queue,
        config,
    );
    reconciled
        .for_each(async |result| match result {
            Ok(_) => {}
            // The pod has ended and is gone; what triggered was older than that.
            Err(controller::Error::ObjectNotFound(_)) => {}
            Err(controller::Error::ReconcilerFailed(error, pod)) => {
                tracing::warn!(pod = %pod, error = &error as &dyn std::error::Error, "pod not in its wanted state");
            }
            Err(controller::Error::QueueError(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a watch is interrupted");
            }
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "pods are not reconciled"),
        })
        .await;
}

/// A look as a task of its own: the controller wakes for each step of each look, and then asks all of them.
async fn apart(pod: Arc<Pod>, context: Arc<Context>) -> Result<Action, Error> {
    let background = context.background.clone();
    let look = AbortOnDropHandle::new(background.spawn(sync::reconcile(pod, context)));
    match look.await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // with the whole program
        Err(Err(_cancelled)) => std::future::pending().await,
    }
}

/// When a pod that failed is looked at again.
fn again(pod: Arc<Pod>, _error: &Error, context: Arc<Context>) -> Action {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let failures = context.pod_cache.with(uid, |state| {
        state.failures = state.failures.saturating_add(1);
        state.failures
    });
    Action::requeue(cache::doubled(FIRST_RETRY, failures, MAX_RETRY))
}

/// The pod's identity, if it can be part of paths and URLs.
struct Identity<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> Identity<'a> {
    fn of(pod: &'a Pod) -> Result<Self, Error> {
        let text = |field: &'a Option<String>| {
            field.as_deref().filter(|text| super::component::is_component(text)).ok_or(Error::Identity)
        };
        let meta = &pod.metadata;
        Ok(Self { namespace: text(&meta.namespace)?, name: text(&meta.name)?, uid: text(&meta.uid)? })
    }
}

/// The instant at which something may be tried again, or the next look for its own sake.
fn requeue(context: &Context, wake: Option<Timestamp>) -> Action {
    let wait = wake.map_or(context.resync, |at| super::moment::until(at, Timestamp::now()));
    Action::requeue(wait.min(context.resync))
}
