//! Events: what controllers did and why, for `kubectl describe` and `kubectl events`.
//!
//! Recording is cheap and never waits: occurrences go through a bounded channel to one task, which merges repeated ones and writes the
//! rest. If the channel is full or the task is gone, an occurrence is dropped, as events are best-effort.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::tasks::Tasks;

mod expire;
mod write;

/// The name of the provisioner of this cloud, by which it reports its events.
pub(crate) const PROVISIONER: &str = "outrigger.dev/local-path";
/// The capacity of the channel: a deployment of thousands of pods, or its nodes' failure, causes as many at once.
const QUEUE_LENGTH: usize = 8192;

/// The reporting component, by the names of Kubernetes' programs and controllers.
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
    Provisioner,
    Device,
    CloudHub,
    TaskManager,
    EdgeApplication,
}

impl Component {
    /// Returns the name in events.
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
            Self::Provisioner => PROVISIONER,
            Self::Device => "devicecontroller",
            Self::CloudHub => "cloudhub",
            Self::TaskManager => "taskmanager",
            Self::EdgeApplication => "edgeapplication-controller",
        }
    }
}

/// An event to record: its component, type, reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    by: Component,
    warns: bool,
    reason: &'static str,
    message: String,
}

impl NewEvent {
    /// Creates an event of type Normal.
    pub(crate) fn normal(by: Component, reason: &'static str, message: String) -> Self {
        Self {
            by,
            warns: false,
            reason,
            message,
        }
    }

    /// Creates an event of type Warning.
    pub(crate) fn warning(by: Component, reason: &'static str, message: String) -> Self {
        Self {
            by,
            warns: true,
            reason,
            message,
        }
    }
}

struct Occurrence {
    about: ObjectReference,
    new_event: NewEvent,
}

/// Records events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Occurrence>);

impl std::fmt::Debug for Occurrence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.new_event)
    }
}

impl Recorder {
    /// Starts the writer of events, and their deletion after an hour, until `stop`.
    pub fn spawn(tasks: &Tasks, client: &Client, stop: &CancellationToken) -> Self {
        tasks.spawn(
            "expiry of events",
            expire::run(client.clone(), stop.child_token()),
        );
        Self::spawn_writer(tasks, client, stop)
    }

    /// Starts only the writer, for a cluster that deletes old events itself.
    pub fn spawn_writer(tasks: &Tasks, client: &Client, stop: &CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        let writer = write::run(client.clone(), receiver);
        let stopping = stop.child_token();
        tasks.spawn("events", async move {
            stopping.run_until_cancelled(writer).await;
        });
        Self(sender)
    }

    /// Records an event about `object`; it is dropped if too many are waiting.
    pub(crate) fn record<K: Resource<DynamicType = ()>>(&self, object: &K, new_event: NewEvent) {
        self.record_about(object.object_ref(&()), new_event);
    }

    /// Records an event about the object that `about` names.
    pub(crate) fn record_about(&self, about: ObjectReference, new_event: NewEvent) {
        // if the channel is full, nobody could read all events anyway
        let _ = self.0.try_send(Occurrence { about, new_event });
    }
}

#[cfg(test)]
mod tests;
