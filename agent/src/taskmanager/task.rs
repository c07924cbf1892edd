//! The one owner of this node's jobs: receives them, carries out their actions one after the other, and reports.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use componentbase::{Heartbeat, Link, Part, PartError};
use parking_lot::Mutex;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::{
    Down, Downstream, Message, Upstream,
    node_job::{Action, ActionStatus, JobKind, JobPath},
    text::printable_short,
};

use super::{
    Config, check_items,
    configuration::{Configuration, Journal},
    jobs::{Job, Jobs, Received, connect_limit},
    pull, upgrade,
};
use crate::{config, metamanager::RouterMessages, name_set::NameSet};

/// The collection of jobs; none of EdgeCore's tables has jobs that could go on.
const STORED: NameSet = NameSet::new("jobs.outrigger.dev", "jobs", "node_jobs");
/// Why a simulated node refuses a job.
const SIMULATED: &str =
    "this agent has no program and no edgecore.yaml of its own: it is a simulated node";
/// The wait after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long an action that ends this process waits until the reports before it are sent.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the agent must run with a new configuration after it has connected.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Carries out jobs.
#[derive(Debug)]
pub(crate) struct Task {
    messages: RouterMessages,
    worker: Arc<Worker>,
}

/// The jobs of this node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct NodeJobs(Arc<Worker>);

#[derive(Debug)]
struct Worker {
    config: Config,
    jobs: Mutex<Jobs>,
    /// Told when a job is new or gone.
    received: Notify,
    /// Told when there is something to report.
    reported: Notify,
    /// Told when a report was sent, and held while one is.
    sent: Notify,
    sending: tokio::sync::Mutex<()>,
}

impl Task {
    /// Creates it; it does nothing before it runs.
    pub(crate) fn new(config: Config, messages: RouterMessages) -> Self {
        Self {
            messages,
            worker: Arc::new(Worker {
                config,
                jobs: Mutex::default(),
                received: Notify::new(),
                reported: Notify::new(),
                sent: Notify::new(),
                sending: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// Returns the handle of its jobs.
    pub(crate) fn jobs(&self) -> NodeJobs {
        NodeJobs(self.worker.clone())
    }
}

impl NodeJobs {
    /// Lets the upgrade continue that waits for a confirmation; returns the name of its job, `None` if no upgrade waits.
    pub(crate) async fn confirm_upgrade(&self) -> Option<String> {
        let job = self.0.jobs.lock().confirm()?;
        info!(job = job.path, "upgrade confirmed");
        self.0.store(&job.path, Some(&job)).await;
        self.0.received.notify_one();
        JobPath::parse(&job.path).map(|path| path.job)
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        let Self { messages, worker } = self;
        worker.load().await;
        // an action may take as long as a download
        let _rest = heartbeat.idle();
        clock::select! {
            // cancel-safe: an action that was not recorded is done again after the next start
            () = shutdown.cancelled() => {}
            () = async {
                tokio::join!(worker.receive(messages), worker.work(), worker.report());
            } => {}
        }
        Ok(())
    }
}

impl Worker {
    /// Reads the stored jobs; without them the cloud's time for the jobs passes.
    async fn load(&self) {
        let stored = STORED.load_details(&self.config.store).await;
        let stored = stored.unwrap_or_else(|error| {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to read the stored node jobs"
            );
            Default::default()
        });
        let jobs = stored
            .into_values()
            .filter_map(|job| serde_json::from_value(job).ok());
        *self.jobs.lock() = Jobs::of(jobs);
    }

    /// Stores a job. If the disk fails, the job goes on in memory.
    async fn store(&self, path: &str, job: Option<&Job>) {
        let detail = job.map(|job| json!(job));
        if let Err(error) = STORED.set_detail(&self.config.store, path, detail).await {
            warn!(
                job = path,
                error = &error as &dyn std::error::Error,
                "failed to store a node job; a restart of the agent begins it again or loses it"
            );
        }
    }

    async fn receive(&self, messages: &mut RouterMessages) {
        while let Some(Down { header, body }) = messages.next().await {
            let Downstream::Job {
                action, path, spec, ..
            } = body
            else {
                continue;
            };
            let received = self.jobs.lock().receive(
                &self.config.node,
                &header.msg_id,
                path.as_str(),
                &action,
                spec,
            );
            match received {
                Received::Changed(job, forgotten) => {
                    info!(job = job.path, action, "node job received");
                    self.store(&job.path, Some(&job)).await;
                    if let Some(forgotten) = forgotten {
                        self.store(&forgotten.path, None).await;
                    }
                }
                Received::Removed(job) => {
                    let path = &job.path;
                    info!(
                        job = path,
                        "node job cancelled: it was deleted in the cloud"
                    );
                    self.store(path, None).await;
                    if let Some(upgrade) = &self.config.upgrade {
                        upgrade.cancel(&job.id);
                    }
                }
                Received::Ignored(why) => {
                    warn!(
                        job = printable_short(&path),
                        reason = why,
                        "message of a node job ignored"
                    );
                }
            }
            self.received.notify_waiters();
            self.received.notify_one();
            self.reported.notify_one();
        }
    }

    /// Carries out the actions of all jobs.
    async fn work(&self) {
        loop {
            let due = self.jobs.lock().due();
            let Some(job) = due else {
                self.received.notified().await;
                continue;
            };
            let outcome = clock::select! {
                outcome = Box::pin(self.act(&job)) => outcome,
                // cancel-safe: the job is gone
                () = self.wait_cancelled(&job) => continue,
            };
            if !outcome.succ {
                warn!(
                    job = job.path,
                    action = outcome.action,
                    reason = outcome.reason,
                    "action of a node job failed"
                );
            }
            let done = self.jobs.lock().record(&job, outcome);
            if let Some(job) = done {
                self.store(&job.path, Some(&job)).await;
                self.reported.notify_one();
            }
        }
    }

    /// Returns when the job is gone.
    async fn wait_cancelled(&self, job: &Job) {
        loop {
            let told = self.received.notified();
            if !self.jobs.lock().has(job) {
                return;
            }
            told.await;
        }
    }

    /// Returns when all reports were sent and that is stored: a report that is sent again after a restart is shown twice by CloudCore.
    async fn wait_sent(&self) {
        loop {
            let sent = self.sent.notified();
            {
                let _sending = self.sending.lock().await;
                if self.jobs.lock().unsent().is_none() {
                    return;
                }
            }
            sent.await;
        }
    }

    /// Carries out the next action of a job.
    async fn act(&self, job: &Job) -> ActionStatus {
        let name = job.next.clone().unwrap_or_default();
        let kind = JobPath::parse(&job.path).map(|path| path.kind);
        let (nothing, action) = (String::new(), Action::parse(&name));
        if let Some(Action::Upgrade | Action::Update | Action::RollBack) = action {
            // without a connection they are sent later
            let _: Result<(), _> = timeout(REPORT_TIMEOUT, self.wait_sent()).await;
        }
        let (outcome, extend) = match (kind, action) {
            (Some(JobKind::ImagePrePull), Some(action)) => self.pull(action, &job.spec).await,
            (Some(JobKind::ConfigUpdate), Some(action)) => {
                (self.update(action, job).await, nothing)
            }
            (Some(JobKind::NodeUpgrade), Some(action)) => self.upgrade(action, job).await,
            _ => (
                Err("its path is not that of a node job".to_owned()),
                nothing,
            ),
        };
        ActionStatus {
            action: name,
            succ: outcome.is_ok(),
            finish_time: clock::now().to_string(),
            reason: outcome.err().unwrap_or_default(),
            extend,
        }
    }

    /// Carries out an action of a pull; returns its outcome, and that of each image as JSON text.
    async fn pull(&self, action: Action, spec: &Value) -> (Result<(), String>, String) {
        let spec: pull::Spec = match parse_spec(spec) {
            Ok(spec) => spec,
            Err(why) => return (Err(why), String::new()),
        };
        let (template, config) = (spec.image_pre_pull_template, &self.config);
        if action == Action::Check {
            let checked = self.check_items(&template.check_items).await;
            return (checked, String::new());
        }
        let (images, whole) = pull::pull(&template, &config.images, &config.client).await;
        (whole, json!(images).to_string())
    }

    /// Checks the measured resources that a job names.
    async fn check_items(&self, items: &[String]) -> Result<(), String> {
        let config = &self.config;
        let disks = match &config.machine {
            Some(root) => {
                let images = config.images.image_root().await;
                Some([root.clone()].into_iter().chain(images).collect())
            }
            None => None,
        };
        check_items::check(items, &*config.signals, disks).await
    }

    /// Carries out an action of an upgrade; returns its outcome, and the versions before and after it.
    async fn upgrade(&self, action: Action, job: &Job) -> (Result<(), String>, String) {
        let Some(upgrade) = &self.config.upgrade else {
            return (Err(SIMULATED.to_owned()), String::new());
        };
        let spec: upgrade::Spec = match parse_spec(&job.spec) {
            Ok(spec) => spec,
            Err(why) => return (Err(why), String::new()),
        };
        let outcome = match action {
            Action::Check => match self.check_items(&spec.check_items).await {
                Ok(()) => upgrade.check(&job.id, &spec, &self.config.images).await,
                failed => failed,
            },
            Action::WaitingConfirmation => Ok(()),
            Action::BackUp => upgrade.back_up().await,
            Action::Upgrade => {
                upgrade
                    .upgrade(&job.id, &spec, wait_connected(self.config.hub.link()))
                    .await
            }
            Action::RollBack => {
                upgrade.clean_up(&job.id);
                Ok(())
            }
            Action::Pull | Action::Update => Err("a NodeUpgradeJob has no such action".to_owned()),
        };
        let versions = upgrade.versions(&job.id, action, outcome.is_ok());
        (outcome, versions)
    }

    /// Carries out an action of an update of the configuration. A changed configuration is confirmed by the agent that starts with it.
    async fn update(&self, action: Action, job: &Job) -> Result<(), String> {
        let Some(file) = &self.config.configuration else {
            return Err(SIMULATED.to_owned());
        };
        let spec: UpdateSpec = parse_spec(&job.spec)?;
        let updated = || {
            let text = std::fs::read_to_string(file.path())
                .map_err(|error| format!("cannot read {}: {error}", file.path().display()))?;
            let may_disconnect = self.config.may_disconnect;
            let new = config::update(file.path(), &text, &spec.update_fields, may_disconnect)?;
            Ok::<_, String>((new != text).then_some(new))
        };
        match action {
            Action::Check => updated().map(drop),
            Action::BackUp => file.back_up(),
            Action::Update => match file.journal(&job.id) {
                Some(Journal {
                    failed: Some(why), ..
                }) => Err(why),
                Some(_) => {
                    let limit = connect_limit(spec.timeout_seconds);
                    self.confirm(file, limit).await
                }
                None => match updated()? {
                    None => Ok(()),
                    Some(text) => {
                        file.change(&job.id, &text)?;
                        // this process ends
                        pending().await
                    }
                },
            },
            Action::RollBack => match file.roll_back()? {
                true => pending().await,
                false => Ok(()),
            },
            Action::WaitingConfirmation | Action::Upgrade | Action::Pull => {
                Err("a ConfigUpdateJob has no such action".to_owned())
            }
        }
    }

    /// Waits until the node is connected with the new configuration.
    async fn confirm(&self, file: &Configuration, limit: Duration) -> Result<(), String> {
        match timeout(limit, wait_connected(self.config.hub.link())).await {
            Ok(()) => {
                // a module that cannot start ends the agent, perhaps a moment after the connection
                sleep(SETTLE_TIME).await;
                file.confirm();
                Ok(())
            }
            _ => Err(format!(
                "the node has not reached the cloud within {} s with the new configuration",
                limit.as_secs()
            )),
        }
    }

    /// Sends reports in their order, each until the connection has taken it.
    async fn report(&self) {
        let mut link = self.config.hub.link();
        loop {
            let unsent = self.jobs.lock().unsent();
            let Some((job, status)) = unsent else {
                self.reported.notified().await;
                continue;
            };
            // ends only with the connection's owner, as this does
            if link.wait_for(|link| *link != Link::Down).await.is_err() {
                return;
            }
            let sending = self.sending.lock().await;
            let delivered = Box::pin(self.config.hub.deliver(message(&job, &status))).await;
            if delivered.is_err() {
                drop(sending);
                sleep(STORE_RETRY_DELAY).await;
                continue;
            }
            let sent = self.jobs.lock().confirm_sent(&job);
            if let Some(job) = sent {
                self.store(&job.path, Some(&job)).await;
            }
            drop(sending);
            self.sent.notify_waiters();
        }
    }
}

/// Waits until the node is connected to the cloud. While the agent stops, it waits until its future is dropped: a change of this node must
/// not be confirmed then.
pub(super) async fn wait_connected(mut link: watch::Receiver<Link>) {
    if link.wait_for(|link| *link != Link::Down).await.is_err() {
        pending().await
    }
}

/// The spec of an update.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateSpec {
    update_fields: BTreeMap<String, String>,
    #[serde(default)]
    timeout_seconds: Option<u64>,
}

/// Reads the spec of a job.
fn parse_spec<T: DeserializeOwned>(spec: &Value) -> Result<T, String> {
    T::deserialize(spec).map_err(|error| format!("the spec of the job is invalid: {error}"))
}

/// Builds the message of a report. It names the message that began the job, so that the cloud can tell jobs of one name apart.
fn message(job: &Job, status: &ActionStatus) -> Message {
    let body = Upstream::ActionStatus {
        path: job.path.as_str().into(),
        status: json!(status),
    };
    body.into_message(clock::unix_millis()).answering(&job.id)
}
