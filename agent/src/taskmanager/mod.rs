//! TaskManager: carries out node jobs of the cloud on this node, and reports each action.
//!
//! In: the first action of a job with its spec, and its cancellation. Out: the outcome of each action, in order, until the connection has
//! taken it. Jobs and reports are stored: after a restart a job goes on at the action that was not reported, and reports that were not
//! sent are. A first action that comes again, as after a reconnect, is answered with the reports so far.
//!
//! | part | what |
//! |---|---|
//! | `jobs` | the jobs of this node, pure |
//! | `check_items` | the measured resources that a job asks for |
//! | `pull` | pulls images |
//! | `configuration` | changes edgecore.yaml, and restores it if the agent does not start or connect with it |
//! | `upgrade` | replaces the agent by another version, or keeps the one that runs |
//! | `journal` | the files with which both outlive a restart |
//! | `task` | the one owner: receives, works, reports |
//!
//! Source: KubeEdge's `edge/pkg/taskmanager`. Differences: nothing is lost at a restart, the credentials of a pull are found as kubelet
//! finds them, and an unknown action is answered.

mod check_items;
mod configuration;
mod jobs;
mod journal;
mod pull;
mod task;
#[cfg(test)]
mod tests;
mod upgrade;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use edged::{ImagePuller, Signals};
use kube::Client;
use objectstore::Store;

pub use self::configuration::Configuration;
pub(crate) use self::{
    configuration::{count_start, give_up_after},
    task::{NodeJobs, Task},
    upgrade::{AfterTrial, ImageFiles, Trial, Upgrade, follow_watcher, note_failure, own_program},
};
use crate::edgehub::EdgeHub;

/// Why a confirmation is refused while TaskManager runs, and without it.
pub(crate) const NONE_WAITS: &str = "no upgrade waits for a confirmation on this node";
pub(crate) const NO_JOBS: &str =
    "this node runs no jobs; set modules.taskManager.enable: true in edgecore.yaml";

/// What TaskManager needs.
#[derive(Debug)]
pub(crate) struct Config {
    /// The name of this node.
    pub(crate) node: String,
    /// The store of jobs and reports.
    pub(crate) store: Arc<dyn Store>,
    /// The connection to the cloud.
    pub(crate) hub: EdgeHub,
    /// The local API, which fetches Secrets from the cloud.
    pub(crate) client: ClientOfSecrets,
    /// Pulls images.
    pub(crate) images: ImagePuller,
    /// The measured memory and disks.
    pub(crate) signals: Arc<dyn Signals>,
    /// A directory on the disk of pods, if the processor and the disks of this machine are the node's; `None` for a simulated node.
    pub(crate) machine: Option<PathBuf>,
    /// edgecore.yaml; `None` for an agent without a file of its own.
    pub(crate) configuration: Option<Configuration>,
    /// The program of the agent; `None` for a simulated node.
    pub(crate) upgrade: Option<Upgrade>,
    /// Whether a job may change settings on which the connection to the cloud depends.
    pub(crate) may_disconnect: bool,
}

/// Returns the files that the jobs of an agent have left beside its configuration and its database.
pub(crate) fn files(config: &Path, database: &Path) -> Vec<PathBuf> {
    let mut all = upgrade::files(config, database);
    all.extend(configuration::files(config));
    all
}

/// A client that reads Secrets.
#[derive(Clone)]
pub(crate) struct ClientOfSecrets(pub(crate) Client);

impl std::fmt::Debug for ClientOfSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientOfSecrets")
    }
}
