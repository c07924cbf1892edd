//! Node jobs of `operations.kubeedge.io/v1alpha2`: which actions a node runs one after the other, where the messages go, and what a node
//! reports.
//!
//! The cloud sends the first action, [`Action::Check`], with the job's spec ([`crate::Downstream::Job`]); the node continues by itself and
//! reports each action ([`crate::Upstream::ActionStatus`]). Source: `pkg/nodetask` of KubeEdge. Differences: a rollback ends the job as
//! failed, also if it succeeds.

use std::fmt;

use serde::{Deserialize, Serialize};

mod grammar;
#[cfg(test)]
mod tests;

pub use grammar::{check_image, check_items, check_name, check_version};

/// The group and version in the paths of messages.
const PREFIX: &str = "operations.kubeedge.io/v1alpha2";

/// The kinds of node jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Upgrades the agent.
    NodeUpgrade,
    /// Pulls images.
    ImagePrePull,
    /// Changes edgecore.yaml.
    ConfigUpdate,
}

/// An action of a node job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Checks whether the job can run.
    Check,
    /// Waits until somebody on the node confirms the upgrade.
    WaitingConfirmation,
    /// Backs up the database, the configuration and the program.
    BackUp,
    /// Replaces the program.
    Upgrade,
    /// Pulls the images.
    Pull,
    /// Changes the configuration.
    Update,
    /// Restores the backup.
    RollBack,
}

/// What follows an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another action.
    Action(Action),
    /// Nothing: the job has ended on the node; whether it succeeded.
    End(bool),
}

/// The rows of a job: an action, the next one after its success, and the next one after its failure.
type Flow = [(Action, Option<Action>, Option<Action>)];

const UPGRADE: &Flow = &[
    (Action::Check, Some(Action::WaitingConfirmation), None),
    (Action::WaitingConfirmation, Some(Action::BackUp), None),
    (Action::BackUp, Some(Action::Upgrade), None),
    (Action::Upgrade, None, Some(Action::RollBack)),
    (Action::RollBack, None, None),
];
const PREPULL: &Flow = &[
    (Action::Check, Some(Action::Pull), None),
    (Action::Pull, None, None),
];
const UPDATE: &Flow = &[
    (Action::Check, Some(Action::BackUp), None),
    (Action::BackUp, Some(Action::Update), None),
    (Action::Update, None, Some(Action::RollBack)),
    (Action::RollBack, None, None),
];

impl JobKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::NodeUpgrade, Self::ImagePrePull, Self::ConfigUpdate];

    /// Returns the kind of the API's object.
    pub fn kind(self) -> &'static str {
        match self {
            Self::NodeUpgrade => "NodeUpgradeJob",
            Self::ImagePrePull => "ImagePrePullJob",
            Self::ConfigUpdate => "ConfigUpdateJob",
        }
    }

    /// Returns the word in the paths of messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::NodeUpgrade => "nodeupgradejob",
            Self::ImagePrePull => "imageprepulljob",
            Self::ConfigUpdate => "configupdatejob",
        }
    }

    fn flow(self) -> &'static Flow {
        match self {
            Self::NodeUpgrade => UPGRADE,
            Self::ImagePrePull => PREPULL,
            Self::ConfigUpdate => UPDATE,
        }
    }

    /// Returns what follows an action; `None` if jobs of this kind do not have the action.
    pub fn next(self, action: Action, succeeded: bool) -> Option<Next> {
        let (_, then, otherwise) = self.flow().iter().find(|row| row.0 == action)?;
        let next = if succeeded { then } else { otherwise };
        Some(match next {
            Some(next) => Next::Action(*next),
            None => Next::End(succeeded && action != Action::RollBack),
        })
    }
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 7] = [
        Self::Check,
        Self::WaitingConfirmation,
        Self::BackUp,
        Self::Upgrade,
        Self::Pull,
        Self::Update,
        Self::RollBack,
    ];

    /// Returns the action of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }

    /// Returns the name in messages and in the job's status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Check => "Check",
            Self::WaitingConfirmation => "WaitingConfirmation",
            Self::BackUp => "BackUp",
            Self::Upgrade => "Upgrade",
            Self::Pull => "Pull",
            Self::Update => "Update",
            Self::RollBack => "RollBack",
        }
    }
}

/// Where the messages of a job for one node go: `operations.kubeedge.io/v1alpha2/KIND/JOB/node/NODE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobPath {
    /// The kind of the job.
    pub kind: JobKind,
    /// The name of the job.
    pub job: String,
    /// The name of the node.
    pub node: String,
}

impl JobPath {
    /// Parses the resource of a message; `None` if it is not that of a node job.
    pub fn parse(resource: &str) -> Option<Self> {
        let parts: Vec<&str> = resource.strip_prefix(PREFIX)?.split('/').collect();
        let ["", kind, job, "node", node] = parts.as_slice() else {
            return None;
        };
        let kind = JobKind::ALL.into_iter().find(|one| one.word() == *kind)?;
        let (job, node) = ((*job).to_owned(), (*node).to_owned());
        (!job.is_empty() && !node.is_empty()).then_some(Self { kind, job, node })
    }
}

impl fmt::Display for JobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, job, node } = self;
        write!(f, "{PREFIX}/{}/{job}/node/{node}", kind.word())
    }
}

/// The outcome of an action of a node job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActionStatus {
    /// The action.
    pub action: String,
    /// Whether it succeeded.
    pub succ: bool,
    /// When it ended, RFC 3339; empty for an update of the configuration.
    #[serde(default)]
    pub finish_time: String,
    /// Why it failed.
    #[serde(default)]
    pub reason: String,
    /// For an upgrade `FROM,TO`; for images JSON text with a list of `{image, status, reason}`.
    #[serde(default)]
    pub extend: String,
}

/// The outcome of pulling an image, in [`ActionStatus::extend`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageOutcome {
    /// The image.
    pub image: String,
    /// `True` or `False`.
    pub status: String,
    /// Why it could not be pulled.
    #[serde(default)]
    pub reason: String,
}
