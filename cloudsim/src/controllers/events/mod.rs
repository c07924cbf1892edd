//! Events: what controllers did and why, for `kubectl describe` and `kubectl events`.
//!
//! Telling costs nothing and never waits: occurrences go through a bounded channel to one task, which merges those that say
//! the same and writes the rest. When the channel is full or the task is gone, an occurrence is dropped: events are told as well
//! as can be, as everywhere.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

mod correlate;
mod expire;
pub(crate) mod token_bucket;
mod write;

/// How many occurrences may wait: those of a deployment of thousands, or of its nodes going away at once.
const QUEUE_LENGTH: usize = 8192;

/// Who tells, by the names of Kubernetes' own programs and controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Component {
    Scheduler,
    Node,
    TaintEviction,
    Deployment,
    ReplicaSet,
    ReplicationController,
    DaemonSet,
    StatefulSet,
    Job,
    CronJob,
    Disruption,
    PersistentVolume,
    Device,
}

impl Component {
    /// The name in the event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "default-scheduler",
            Self::Node => "node-controller",
            Self::TaintEviction => "taint-eviction-controller",
            Self::Deployment => "deployment-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
            Self::DaemonSet => "daemonset-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::Job => "job-controller",
            Self::CronJob => "cronjob-controller",
            Self::Disruption => "controllermanager",
            Self::PersistentVolume => "persistentvolume-controller",
            Self::Device => "devicecontroller",
        }
    }
}

/// An event to record: who says it, whether it warns, its reason and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    by: Component,
    warns: bool,
    reason: &'static str,
    message: String,
}

impl NewEvent {
    /// As it should be.
    pub(crate) fn normal(by: Component, reason: &'static str, message: String) -> Self {
        Self { by, warns: false, reason, message }
    }

    /// Something that somebody may have to see to.
    pub(crate) fn warning(by: Component, reason: &'static str, message: String) -> Self {
        Self { by, warns: true, reason, message }
    }
}

struct Occurrence {
    about: ObjectReference,
    told: NewEvent,
}

/// Tells. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Occurrence>);

impl std::fmt::Debug for Occurrence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.told)
    }
}

impl Recorder {
    /// Starts what writes events, and what deletes them after an hour, until `stop`.
    pub fn spawn(tasks: &Tasks, client: &Client, stop: &CancellationToken) -> Self {
        tasks.spawn("expiry of events", expire::run(client.clone(), stop.child_token()));
        Self::spawn_writer(tasks, client, stop)
    }

    /// The same where events expire by themselves, as a cluster's do.
    pub fn spawn_writer(tasks: &Tasks, client: &Client, stop: &CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        let writer = write::run(client.clone(), receiver);
        let stopping = stop.child_token();
        tasks.spawn("events", async move {
            stopping.run_until_cancelled(writer).await;
        });
        Self(sender)
    }

    /// Records an event about `object`; it is dropped where too many wait.
    pub(crate) fn record<K: Resource<DynamicType = ()>>(&self, object: &K, told: NewEvent) {
        // a full channel means that nobody could read them all anyway
        let _ = self.0.try_send(Occurrence { about: object.object_ref(&()), told });
    }
}

#[cfg(test)]
mod tests;
