//! The observed state of one pod: its sandboxes and containers, newest first, as the runtime, probes and hooks report them.

use std::{cmp::Reverse, collections::BTreeSet, path::PathBuf, time::Duration};

use jiff::Timestamp;
use wire::cri;

use super::timestamps;

/// Exit code of a process that SIGKILL ended, also used for containers that have vanished.
pub(crate) const SIGKILL_EXIT_CODE: i32 = 137;
/// How long after a container's exit the runtime may take to know why it was killed.
const EXIT_REASON_DELAY: Duration = Duration::from_secs(2);

/// The sandboxes and containers of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedPod {
    /// Newest first.
    pub(crate) sandboxes: Vec<Sandbox>,
    /// Newest first.
    pub(crate) containers: Vec<Container>,
}

/// Id and state of a sandbox or container, as the runtime's lists contain them. Observations with the same items are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedItem {
    id: String,
    state: &'static str,
}

/// A sandbox or container that was created since the pod was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CreatedItem {
    /// A sandbox; `attempt` is the number of sandboxes before it.
    Sandbox { id: String, attempt: u32 },
    /// A container in a sandbox.
    Container { id: String, sandbox_id: String },
}

/// A pod sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// The runtime's id.
    pub(crate) id: String,
    /// How many sandboxes the pod had before.
    pub(crate) attempt: u32,
    /// Whether containers can run in it.
    pub(crate) ready: bool,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// Its IP addresses; empty on the host's network.
    pub(crate) ips: Vec<String>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    /// The runtime's id.
    pub(crate) id: String,
    /// Id of its sandbox.
    pub(crate) sandbox_id: String,
    /// Its name in the pod.
    pub(crate) name: String,
    /// How many containers of this name the pod had before.
    pub(crate) attempt: u32,
    /// Hash of what it was made from, if it has that annotation.
    pub(crate) hash: Option<String>,
    /// How many restarts in a row led to it.
    pub(crate) restart_step: u32,
    /// The image as the pod names it.
    pub(crate) image: String,
    /// The image's id in the runtime.
    pub(crate) image_id: String,
    /// Paths of its recursive read-only mounts.
    pub(crate) recursive_read_only: Vec<String>,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// Its state.
    pub(crate) state: ObservedState,
    /// Where its termination message is.
    pub(crate) termination_message: Option<TerminationMessageFiles>,
    /// What probes and hooks report of it.
    pub(crate) health: Health,
    /// Whether it was stopped to be started again with other resources.
    pub(crate) replaced: bool,
}

/// Where the termination message of a container is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TerminationMessageFiles {
    /// The file on the host that the container sees at its termination message path.
    pub(crate) file: PathBuf,
    /// Its log, if the end of it may be used after a failure.
    pub(crate) log: Option<PathBuf>,
}

/// What probes and hooks report of a running container. Without probes and hooks it is started and ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// Whether its postStart hook still runs: it does not count as running yet.
    pub(crate) starting: bool,
    /// Whether its startup probe has succeeded.
    pub(crate) started: bool,
    /// Whether it has started and its readiness probe succeeds.
    pub(crate) ready: bool,
    /// The failure for which it has to be stopped.
    pub(crate) failure: Option<HealthFailure>,
}

/// Why a running container has to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthFailure {
    /// Its liveness probe failed too often.
    Liveness,
    /// Its startup probe failed too often.
    Startup,
    /// Its postStart hook failed.
    PostStart,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            starting: false,
            started: true,
            ready: true,
            failure: None,
        }
    }
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObservedState {
    /// Created but not started, left behind when the agent ended in between. It is removed and created again.
    Created,
    /// Running; ends as [`ObservedState::Exited`].
    Running {
        /// When it started.
        started_at: Timestamp,
    },
    /// Exited. This is final: a restart is a new container.
    Exited {
        /// When it started; `None` if it never ran.
        started_at: Option<Timestamp>,
        /// When it ended.
        finished_at: Timestamp,
        /// 0 is success.
        exit_code: i32,
        /// `Completed`, `Error`, `OOMKilled`, …
        reason: String,
        /// Message for people.
        message: String,
    },
    /// The runtime does not know the state; the container is stopped to make sure.
    Unknown,
}

impl ListedItem {
    pub(crate) fn sandbox(id: String, ready: bool) -> Self {
        Self {
            id,
            state: if ready { "ready" } else { "not ready" },
        }
    }

    pub(crate) fn container(id: String, state: cri::ContainerState) -> Self {
        Self {
            id,
            state: state.as_str_name(),
        }
    }

    /// Reports whether the item has this id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.id == id
    }

    /// Reports whether the item is a container that has exited and was running in the list `before`.
    pub(crate) fn has_exited_since(&self, before: &BTreeSet<Self>) -> bool {
        let running = || Self::container(self.id.clone(), cri::ContainerState::ContainerRunning);
        self.state == cri::ContainerState::ContainerExited.as_str_name()
            && before.contains(&running())
    }
}

impl ObservedState {
    fn as_cri(&self) -> cri::ContainerState {
        match self {
            Self::Created => cri::ContainerState::ContainerCreated,
            Self::Running { .. } => cri::ContainerState::ContainerRunning,
            Self::Exited { .. } => cri::ContainerState::ContainerExited,
            Self::Unknown => cri::ContainerState::ContainerUnknown,
        }
    }
}

impl Container {
    /// Reports whether the container may still use resources.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(
            self.state,
            ObservedState::Running { .. } | ObservedState::Unknown
        )
    }

    /// Reports whether the container has exited without having run: its start failed.
    pub(crate) fn never_ran(&self) -> bool {
        matches!(
            self.state,
            ObservedState::Exited {
                started_at: None,
                ..
            }
        )
    }

    /// Returns the exit code of a container that has exited.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        if let ObservedState::Exited { exit_code, .. } = self.state {
            Some(exit_code)
        } else {
            None
        }
    }
}

impl ObservedPod {
    /// Sorts lists in any order, newest first.
    pub(crate) fn new(mut sandboxes: Vec<Sandbox>, mut containers: Vec<Container>) -> Self {
        sandboxes.sort_by_key(|sandbox| Reverse((sandbox.attempt, sandbox.created_at)));
        containers.sort_by_key(|container| Reverse((container.attempt, container.created_at)));
        Self {
            sandboxes,
            containers,
        }
    }

    /// Returns all sandboxes and containers as list items.
    pub(crate) fn items(&self) -> BTreeSet<ListedItem> {
        let sandboxes = self
            .sandboxes
            .iter()
            .map(|one| ListedItem::sandbox(one.id.clone(), one.ready));
        let containers = self
            .containers
            .iter()
            .map(|one| ListedItem::container(one.id.clone(), one.state.as_cri()));
        sandboxes.chain(containers).collect()
    }

    /// Returns the sandbox in which containers can be started: the newest, if it is ready.
    pub(crate) fn ready_sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// Returns all containers of a name, newest first.
    pub(crate) fn containers_named<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Container> {
        self.containers
            .iter()
            .filter(move |container| container.name == name)
    }

    /// Returns the IP addresses of the ready sandbox.
    pub(crate) fn ips(&self) -> &[String] {
        self.ready_sandbox()
            .map(|sandbox| sandbox.ips.as_slice())
            .unwrap_or_default()
    }

    /// Returns when to observe again a container that was killed just now: some runtimes learn a moment later that it was killed
    /// for lack of memory, and send no event.
    pub(crate) fn recheck_at(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self
            .containers
            .iter()
            .filter_map(|container| match &container.state {
                ObservedState::Exited {
                    exit_code: SIGKILL_EXIT_CODE,
                    finished_at,
                    reason,
                    ..
                } if reason != "OOMKilled" => {
                    Some(timestamps::after(*finished_at, EXIT_REASON_DELAY))
                }
                _ => None,
            });
        ends.filter(|at| *at > now && *at <= timestamps::after(now, EXIT_REASON_DELAY))
            .min()
    }

    /// Returns the newest container of a name.
    pub(crate) fn latest(&self, name: &str) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.name == name)
    }
}

#[cfg(test)]
impl Container {
    /// Returns a container of this name that was created and not started.
    pub(crate) fn test(name: &str) -> Self {
        Self {
            id: String::new(),
            sandbox_id: String::new(),
            name: name.to_owned(),
            attempt: 0,
            hash: None,
            restart_step: 0,
            image: String::new(),
            image_id: String::new(),
            recursive_read_only: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
            state: ObservedState::Created,
            termination_message: None,
            health: Health::default(),
            replaced: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killed_container_is_observed_again() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let container = |exit_code, reason: &str| Container {
            state: ObservedState::Exited {
                started_at: Some(at(1)),
                finished_at: at(10),
                exit_code,
                reason: reason.into(),
                message: String::new(),
            },
            ..Container::test("web")
        };
        let settles = |exit_code, reason, now| {
            ObservedPod::new(vec![], vec![container(exit_code, reason)])
                .recheck_at(at(now))
                .map(|at| at.as_second())
        };
        assert_eq!(settles(SIGKILL_EXIT_CODE, "Error", 11), Some(12));
        assert_eq!(settles(SIGKILL_EXIT_CODE, "Error", 12), None, "late enough");
        assert_eq!(
            settles(SIGKILL_EXIT_CODE, "Error", 0),
            None,
            "the clock was set back"
        );
        assert_eq!(
            (
                settles(SIGKILL_EXIT_CODE, "OOMKilled", 11),
                settles(1, "Error", 11)
            ),
            (None, None)
        );
    }
}
