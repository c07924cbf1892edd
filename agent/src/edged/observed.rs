//! What there is of one pod: sandboxes and containers, newest first, as the runtime, probes and hooks know them.

use std::{cmp::Reverse, collections::BTreeSet, path::PathBuf, time::Duration};

use jiff::Timestamp;
use wire::cri;

use super::moment;

/// The exit code of what SIGKILL has ended, and of what has vanished.
pub(crate) const KILLED: i32 = 137;
/// By then a runtime knows why it was killed.
const SETTLING: Duration = Duration::from_secs(2);

/// All that the runtime has of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Newest first.
    pub(crate) sandboxes: Vec<Sandbox>,
    /// Newest first.
    pub(crate) containers: Vec<Container>,
}

/// A sandbox or container in a state, as the runtime's lists tell of it: two observations with the same items are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    id: String,
    state: &'static str,
}

/// What was made for a pod since it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// A sandbox, after so many others.
    Sandbox { id: String, attempt: u32 },
    /// A container in a sandbox.
    Container { id: String, sandbox_id: String },
}

/// A pod sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// The runtime's id.
    pub(crate) id: String,
    /// How many the pod had before.
    pub(crate) attempt: u32,
    /// Containers can run in it.
    pub(crate) ready: bool,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// Its addresses; empty on the host's network.
    pub(crate) ips: Vec<String>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    /// The runtime's id.
    pub(crate) id: String,
    /// The sandbox it is in.
    pub(crate) sandbox_id: String,
    /// Its name in the pod.
    pub(crate) name: String,
    /// How many of this name the pod had before.
    pub(crate) attempt: u32,
    /// What it was made from, if it says so.
    pub(crate) hash: Option<String>,
    /// How many restarts in a row led to it.
    pub(crate) step: u32,
    /// The image as it was asked for.
    pub(crate) image: String,
    /// The image as the runtime knows it.
    pub(crate) image_id: String,
    /// Paths of its mounts that are read-only with all that is mounted below.
    pub(crate) recursive_read_only: Vec<String>,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// What it does.
    pub(crate) state: State,
    /// Where its last words are.
    pub(crate) termination_message: Option<TerminationMessageFiles>,
    /// What the runtime cannot know.
    pub(crate) health: Health,
}

/// Where a container that has ended left a message for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TerminationMessageFiles {
    /// The file on the host that it sees as its termination log.
    pub(crate) file: PathBuf,
    /// Its log, if the end of that may stand in after a failure.
    pub(crate) log: Option<PathBuf>,
}

/// What probes and hooks say of a running container. Without any, it is as well as can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// Its postStart hook still runs: it does not count as running yet.
    pub(crate) starting: bool,
    /// Its startup probe has succeeded.
    pub(crate) started: bool,
    /// It has started, and its readiness probe says so.
    pub(crate) ready: bool,
    /// Why it has to be stopped.
    pub(crate) fault: Option<Fault>,
}

/// Why a running container has to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its liveness probe failed too often.
    Liveness,
    /// Its startup probe failed too often.
    Startup,
    /// Its postStart hook failed.
    PostStart,
}

impl Default for Health {
    fn default() -> Self {
        Self { starting: false, started: true, ready: true, fault: None }
    }
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Made, not started; left behind when the agent ended in between. It is removed and made anew.
    Created,
    /// Runs; ends as [`State::Exited`].
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Has ended, for good: a restart is a new container.
    Exited {
        /// Missing when it never ran.
        started_at: Option<Timestamp>,
        /// When it ended.
        finished_at: Timestamp,
        /// 0 is success.
        exit_code: i32,
        /// `Completed`, `Error`, `OOMKilled`, …
        reason: String,
        /// For people.
        message: String,
    },
    /// The runtime cannot tell; the container is stopped to make sure.
    Unknown,
}

impl Item {
    pub(crate) fn sandbox(id: String, ready: bool) -> Self {
        Self { id, state: if ready { "ready" } else { "not ready" } }
    }

    pub(crate) fn container(id: String, state: cri::ContainerState) -> Self {
        Self { id, state: state.as_str_name() }
    }

    /// Whether it has this id.
    pub(crate) fn is(&self, id: &str) -> bool {
        self.id == id
    }

    /// Whether it is a container that has exited, and ran when there was `before`.
    pub(crate) fn ran(&self, before: &BTreeSet<Self>) -> bool {
        let running = || Self::container(self.id.clone(), cri::ContainerState::ContainerRunning);
        self.state == cri::ContainerState::ContainerExited.as_str_name() && before.contains(&running())
    }
}

impl State {
    fn listed(&self) -> cri::ContainerState {
        match self {
            Self::Created => cri::ContainerState::ContainerCreated,
            Self::Running { .. } => cri::ContainerState::ContainerRunning,
            Self::Exited { .. } => cri::ContainerState::ContainerExited,
            Self::Unknown => cri::ContainerState::ContainerUnknown,
        }
    }
}

impl Container {
    /// Whether it may still use resources.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, State::Running { .. } | State::Unknown)
    }

    /// Whether it has ended without having begun: its start failed.
    pub(crate) fn never_ran(&self) -> bool {
        matches!(self.state, State::Exited { started_at: None, .. })
    }

    /// Whether it has ended, with the code.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        if let State::Exited { exit_code, .. } = self.state { Some(exit_code) } else { None }
    }
}

impl Observed {
    /// From lists in any order.
    pub(crate) fn new(mut sandboxes: Vec<Sandbox>, mut containers: Vec<Container>) -> Self {
        sandboxes.sort_by_key(|sandbox| Reverse((sandbox.attempt, sandbox.created_at)));
        containers.sort_by_key(|container| Reverse((container.attempt, container.created_at)));
        Self { sandboxes, containers }
    }

    /// All of it, as lists tell of it.
    pub(crate) fn items(&self) -> BTreeSet<Item> {
        let sandboxes = self.sandboxes.iter().map(|one| Item::sandbox(one.id.clone(), one.ready));
        let containers =
            self.containers.iter().map(|one| Item::container(one.id.clone(), one.state.listed()));
        sandboxes.chain(containers).collect()
    }

    /// The sandbox in which containers can be started: the newest, if it is ready.
    pub(crate) fn current(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// All containers of a name, newest first.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Container> {
        self.containers.iter().filter(move |container| container.name == name)
    }

    /// The addresses of the current sandbox.
    pub(crate) fn ips(&self) -> &[String] {
        self.current().map(|sandbox| sandbox.ips.as_slice()).unwrap_or_default()
    }

    /// When to observe again a container that was killed just now: some runtimes learn only a moment later that it was for
    /// want of memory, and tell nobody.
    pub(crate) fn settles_at(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.containers.iter().filter_map(|container| match &container.state {
            State::Exited { exit_code: KILLED, finished_at, reason, .. } if reason != "OOMKilled" => {
                Some(moment::after(*finished_at, SETTLING))
            }
            _ => None,
        });
        ends.filter(|at| *at > now && *at <= moment::after(now, SETTLING)).min()
    }

    /// The newest container of a name.
    pub(crate) fn latest(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|container| container.name == name)
    }
}

#[cfg(test)]
impl Container {
    /// One of this name that was made and did nothing yet.
    pub(crate) fn test(name: &str) -> Self {
        Self {
            id: String::new(),
            sandbox_id: String::new(),
            name: name.to_owned(),
            attempt: 0,
            hash: None,
            step: 0,
            image: String::new(),
            image_id: String::new(),
            recursive_read_only: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
            state: State::Created,
            termination_message: None,
            health: Health::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_killed_is_looked_at_once_more() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let container = |exit_code, reason: &str| Container {
            state: State::Exited {
                started_at: Some(at(1)),
                finished_at: at(10),
                exit_code,
                reason: reason.into(),
                message: String::new(),
            },
            ..Container::test("web")
        };
        let settles = |exit_code, reason, now| {
            Observed::new(vec![], vec![container(exit_code, reason)])
                .settles_at(at(now))
                .map(|at| at.as_second())
        };
        assert_eq!(settles(KILLED, "Error", 11), Some(12));
        assert_eq!(settles(KILLED, "Error", 12), None, "late enough");
        assert_eq!(settles(KILLED, "Error", 0), None, "the clock was set back");
        assert_eq!((settles(KILLED, "OOMKilled", 11), settles(1, "Error", 11)), (None, None));
    }
}
