//! The sessions' part of the task manager: sends nodes the first action of their jobs, and writes what they report.

use std::{sync::Arc, time::Duration};

use clock::HashMap;
use crds::operations::{ConfigUpdateJob, ImagePrePullJob, NodeJob, NodeUpgradeJob};
use kube::{Api, Client, ResourceExt};
use limits::Repeated;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use wire::{
    Downstream, Header, Message, ResourcePath, Source,
    node_job::{Action, ActionStatus, JobKind, JobPath},
    text::printable_short,
};

use super::{
    due::{Due, NodeAtWork, Task},
    plan::{IN_PROGRESS, is_in},
    report,
};
use crate::{
    controllers::{
        events::Recorder,
        informers::{Change, Reflector},
        panics::catch_panic,
        workloads::patch_status,
    },
    delivery::Reply,
};

/// How long a node may accept no message.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a report is written again after a conflict.
const MAX_ATTEMPTS: u32 = 10;
/// The pause after a conflict.
const PAUSE: Duration = Duration::from_millis(20);
/// How long after a report could not be written its node is asked to repeat it.
const REPEAT_DELAY: Duration = Duration::from_secs(2);
/// The action that ends a deleted job on a node; for agents of ours alone, since EdgeCore panics on unknown actions.
const CANCEL: &str = "Cancel";

/// Reports whether a node's agent is `edge-agent`.
type OwnAgents = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The jobs for the nodes of this cloud's sessions; cheap to clone. One serves all replicas of the hub.
#[derive(Clone)]
pub struct NodeJobs(Arc<Inner>);

struct Inner {
    client: Client,
    events: Recorder,
    own_agents: OwnAgents,
    due: Mutex<Due>,
    sessions: Mutex<Sessions>,
    ignored: Mutex<Repeated>,
    /// Held while a report is written: many nodes report at once, and the writes would conflict with each other.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Sessions {
    last: u64,
    nodes: HashMap<String, (u64, mpsc::Sender<Box<Reply>>)>,
}

/// A node's session. Dropping it removes it, unless a newer one of the node has replaced it.
pub struct OpenNode {
    jobs: NodeJobs,
    node: String,
    session: u64,
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        let mut sessions = self.jobs.0.sessions.lock();
        if sessions
            .nodes
            .get(&self.node)
            .is_some_and(|known| known.0 == self.session)
        {
            sessions.nodes.remove(&self.node);
        }
    }
}

impl NodeJobs {
    /// Creates it; `own_agents` reports whether a node's agent is `edge-agent`.
    pub fn new(
        client: Client,
        events: Recorder,
        own_agents: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            events,
            own_agents: Box::new(own_agents),
            due: Mutex::default(),
            sessions: Mutex::default(),
            ignored: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }))
    }

    /// Creates it for the nodes of `sessions`.
    pub fn of_sessions(
        client: &Client,
        events: &Recorder,
        sessions: &crate::sessions::Sessions,
    ) -> Self {
        let agents = sessions.clone();
        let is_own_agent = move |node: &str| agents.is_own_agent(node);
        Self::new(client.clone(), events.clone(), is_own_agent)
    }

    /// Follows the jobs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        tokio::join!(
            self.follow::<NodeUpgradeJob>(JobKind::NodeUpgrade, |_| None, &stop),
            self.follow::<ImagePrePullJob>(JobKind::ImagePrePull, secret, &stop),
            self.follow::<ConfigUpdateJob>(JobKind::ConfigUpdate, |_| None, &stop),
        );
    }

    async fn follow<J: NodeJob>(
        &self,
        kind: JobKind,
        secret: impl Fn(&J) -> Option<(String, String)> + Sync,
        stop: &CancellationToken,
    ) {
        let jobs = Reflector::<J>::default();
        let following = async {
            let all = jobs.wait_synced().await;
            let mut changes = all.listen();
            for job in all.all() {
                self.observe(kind, &*job, &secret).await;
            }
            while let Some(Change {
                object,
                gone,
                before,
                ..
            }) = changes.recv().await
            {
                let uid = |job: &J| job.meta().uid.clone().unwrap_or_default();
                let replaced = before
                    .map(|before| uid(&before))
                    .filter(|old| *old != uid(&object));
                if let Some(old) = replaced {
                    self.cancel(&old).await;
                }
                if gone || object.meta().deletion_timestamp.is_some() {
                    self.cancel(&uid(&object)).await;
                } else {
                    self.observe(kind, &*object, &secret).await;
                }
            }
        };
        tokio::join!(jobs.run(self.0.client.clone(), stop.child_token()), async {
            let _: Option<()> = stop.run_until_cancelled(Box::pin(following)).await;
        },);
    }

    async fn observe<J: NodeJob>(
        &self,
        kind: JobKind,
        job: &J,
        secret: &(impl Fn(&J) -> Option<(String, String)> + Sync),
    ) {
        let setting = async { self.set(task(kind, job, secret(job))).await };
        // logged there
        let _: Result<(), _> = catch_panic("node jobs", &job.name_any(), setting).await;
    }

    async fn set(&self, task: Task) {
        let nodes: Vec<String> = task.nodes.keys().cloned().collect();
        self.0.due.lock().set(task);
        for node in nodes {
            self.send_unsent(&node).await;
        }
    }

    /// Tells the nodes of a deleted job that it is gone.
    async fn cancel(&self, uid: &str) {
        let Some(task) = self.0.due.lock().remove(uid) else {
            return;
        };
        for node in task.nodes.keys().filter(|node| (self.0.own_agents)(node)) {
            let sender = self
                .0
                .sessions
                .lock()
                .nodes
                .get(node)
                .map(|known| known.1.clone());
            if let Some(sender) = sender {
                send(&sender, message(&task, CANCEL, node)).await;
            }
        }
    }

    /// Begins a session of `node`; `replies` sends to it.
    pub(crate) fn open(&self, node: &str, replies: mpsc::Sender<Box<Reply>>) -> OpenNode {
        let session = {
            let mut sessions = self.0.sessions.lock();
            sessions.last += 1;
            let session = sessions.last;
            sessions.nodes.insert(node.to_owned(), (session, replies));
            session
        };
        let (this, name) = (self.clone(), node.to_owned());
        tokio::spawn(async move { this.send_unsent(&name).await });
        OpenNode {
            jobs: self.clone(),
            node: node.to_owned(),
            session,
        }
    }

    /// Sends the node the first actions that it was not sent in its session.
    async fn send_unsent(&self, node: &str) {
        let Some((session, sender)) = self.0.sessions.lock().nodes.get(node).cloned() else {
            return;
        };
        let is_own_agent = (self.0.own_agents)(node);
        let tasks = self.0.due.lock().take_unsent(node, session, is_own_agent);
        for task in tasks {
            let first = message(&task, Action::Check.as_str(), node);
            if !send(&sender, first).await {
                self.0.due.lock().put_back(&task.uid, node);
            }
        }
    }

    /// Asks an agent of ours to repeat its reports, once in a session; reports whether it is asked now.
    fn ask_again(&self, uid: &str, node: &str) -> bool {
        let session = self.0.sessions.lock().nodes.get(node).map(|known| known.0);
        let Some(session) = session.filter(|_| (self.0.own_agents)(node)) else {
            return false;
        };
        let is_asked = self.0.due.lock().ask_again(uid, node, session);
        if is_asked {
            let (this, name) = (self.clone(), node.to_owned());
            tokio::spawn(async move { this.send_unsent(&name).await });
        }
        is_asked
    }

    /// Reports whether a job at work on the node names this Secret, so that the node may read it.
    pub(crate) fn has_secret(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.0.due.lock().has_secret(node, namespace, name)
    }

    /// Reports whether a job is at work on the node.
    #[cfg(test)]
    pub(super) fn knows(&self, node: &str) -> bool {
        self.0.due.lock().knows(node)
    }

    /// Handles a report of `node` about the job at `path`.
    pub(crate) async fn report(
        &self,
        node: &str,
        header: &Header,
        path: &ResourcePath,
        status: Value,
    ) {
        let outcome = match (
            JobPath::parse(path.as_str()),
            serde_json::from_value(status),
        ) {
            (Some(path), Ok(_)) if path.node != node => Err("it names another node".to_owned()),
            (Some(path), Ok(report)) => self.write(&path, header, &report).await,
            (None, _) => Err("its path is not that of a node job".to_owned()),
            (_, Err(error)) => Err(format!("its content is invalid: {error}")),
        };
        let Err(why) = outcome else { return };
        if why == report::REPEATED {
            debug!(node, "repeated report of a node job ignored");
            return;
        }
        if let Some(times) = self.0.ignored.lock().count(&why, clock::Instant::now()) {
            let path = printable_short(path);
            warn!(
                node,
                path,
                times,
                reason = why,
                "report of a node job ignored"
            );
        }
    }

    async fn write(
        &self,
        path: &JobPath,
        header: &Header,
        report: &ActionStatus,
    ) -> Result<(), String> {
        match path.kind {
            JobKind::NodeUpgrade => {
                self.write_kind::<NodeUpgradeJob>(path, header, report)
                    .await
            }
            JobKind::ImagePrePull => {
                self.write_kind::<ImagePrePullJob>(path, header, report)
                    .await
            }
            JobKind::ConfigUpdate => {
                self.write_kind::<ConfigUpdateJob>(path, header, report)
                    .await
            }
        }
    }

    /// Adds a report to the stored status. After a conflict, mostly with the report of another node, it is read again.
    async fn write_kind<J: NodeJob>(
        &self,
        path: &JobPath,
        header: &Header,
        report: &ActionStatus,
    ) -> Result<(), String> {
        let api = Api::<J>::all(self.0.client.clone());
        let begun = Instant::now();
        let _writing = self.0.writing.lock().await;
        for attempt in 1.. {
            let job = match api.get_opt(&path.job).await {
                Ok(job) => job,
                Err(error) => return Err(self.repeat_later(header, path, &error)),
            };
            let job = job.ok_or("the job does not exist")?;
            // our agents answer the message that has the uid of the job as its id
            let answered = header.parent_msg_id.as_str();
            if !answered.is_empty() && job.uid().as_deref() != Some(answered) {
                return Err("it is about an earlier job of this name".to_owned());
            }
            let old = job.status();
            let known = old.cloned().unwrap_or_default();
            let uid = job.uid().unwrap_or_default();
            if report::misses_earlier(path.kind, &known, &path.node, report)
                && self.ask_again(&uid, &path.node)
            {
                return Ok(());
            }
            let status = report::apply(path.kind, &known, &path.node, report, clock::now())?;
            match patch_status(&api, &job, old, &status).await {
                Ok(_) => {
                    for event in super::events(&known, &status) {
                        self.0.events.record(&job, event);
                    }
                    return Ok(());
                }
                Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < MAX_ATTEMPTS => {
                    debug!(job = path.job, attempt, took = ?begun.elapsed(), "job has changed meanwhile; retrying");
                    sleep(PAUSE * attempt).await;
                }
                Err(error) => return Err(self.repeat_later(header, path, &error)),
            }
        }
        Ok(())
    }

    /// Lets the node repeat its reports after a moment: the API server may be away. An agent that is not ours cannot. Returns why.
    fn repeat_later(&self, header: &Header, path: &JobPath, error: &kube::Error) -> String {
        let (this, uid, node) = (
            self.clone(),
            header.parent_msg_id.clone(),
            path.node.clone(),
        );
        if (self.0.own_agents)(&node) {
            tokio::spawn(async move {
                sleep(REPEAT_DELAY).await;
                this.0.due.lock().put_back(&uid, &node);
                this.send_unsent(&node).await;
            });
        }
        error.to_string()
    }
}

/// Returns what nodes need of a job.
fn task<J: NodeJob>(kind: JobKind, job: &J, secret: Option<(String, String)>) -> Task {
    let nodes = job
        .status()
        .map(|status| status.node_status.as_slice())
        .unwrap_or_default();
    let at_work = nodes.iter().filter(|node| is_in(node, IN_PROGRESS));
    Task {
        kind,
        name: job.name_any(),
        uid: job.uid().unwrap_or_default(),
        spec: job.spec_value(),
        nodes: at_work
            .filter_map(|node| {
                let at_work = NodeAtWork::new(!node.action_flow.is_empty());
                Some((node.node_name.clone()?, at_work))
            })
            .collect(),
        secret,
    }
}

/// Returns the Secret that a pull names.
fn secret(job: &ImagePrePullJob) -> Option<(String, String)> {
    let named = job
        .spec
        .image_pre_pull_template
        .as_ref()?
        .image_secrets
        .as_deref()?;
    let (namespace, name) = named.split_once('/')?;
    Some((namespace.to_owned(), name.to_owned()))
}

/// Builds the message of an action; its id is the uid of the job, so that a report can name the job that it is about.
fn message(task: &Task, action: &str, node: &str) -> Message {
    let path = JobPath {
        kind: task.kind,
        job: task.name.clone(),
        node: node.to_owned(),
    };
    let body = Downstream::Job {
        origin: Source::TaskManager,
        action: action.to_owned(),
        path: path.to_string().into(),
        spec: task.spec.clone(),
    };
    let mut message = body.into_message(clock::unix_millis());
    message.header.msg_id.clone_from(&task.uid);
    message
}

/// Hands a message to a session; reports whether it took it in time.
async fn send(sender: &mpsc::Sender<Box<Reply>>, message: Message) -> bool {
    matches!(
        timeout(SEND_TIMEOUT, sender.send(Box::new(Reply::Direct(message)))).await,
        Ok(Ok(()))
    )
}
