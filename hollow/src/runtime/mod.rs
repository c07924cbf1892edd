//! The simulated container runtime: a CRI v1 server whose containers run without processes.
//!
//! An agent talks to it exactly as to containerd, over an in-process channel ([`SimRuntime::channel`]) or a unix
//! socket ([`SimRuntime::serve_unix`]). What a container does is written in its pod's annotations; without any, its command says
//! when it ends and what it logs, as far as that is known (`docs/simulation.md`); what is not known runs until it is asked to stop,
//! and then stops at once with exit code 0.
//!
//! `docs/simulation.md` has the rules.
//!
//! # Annotations: `sim.outrigger.dev/<container>.<name>`
//!
//! | name | value | meaning |
//! |---|---|---|
//! | `exit-after` | duration, `500ms` | ends by itself so long after its start (`0s` when only another `exit-…` is given) |
//! | `exit-code` | integer | … with this exit code, 0 unless given |
//! | `exit-reason` | word | … for this reason, as `OOMKilled`; else `Completed` or `Error` |
//! | `exit-attempts` | integer | … only in the first so many attempts; later ones run on |
//! | `serve` | `true` | does not end by itself, whatever its command is |
//! | `start-delay` | duration | StartContainer takes so long |
//! | `start-error` | text | StartContainer fails with this message |
//! | `stop-time` | duration or `never` | how long it takes to end when asked to; killed (137) when the grace is over |
//! | `stop-code` | integer | exit code when it ends because it was asked to |
//! | `log-lines` | lines | written to its log at every start |
//! | `exec` | JSON object | command line → `{"code", "stdout", "stderr", "delay"}`, each optional |
//! | `ports` | `8080,9090` or `none` | the TCP ports at which it listens, in place of those that it declares |
//! | `listen-after` | duration | it listens so long after its start |
//! | `http` | JSON object | path → `{"status", "body", "after", "delay"}`, each optional |
//! | `grpc` | JSON object | service → `SERVING`, `NOT_SERVING`, … as its health |
//!
//! An annotation of a container that is not in this table, or has a wrong value, makes CreateContainer fail.
//!
//! # Images
//! Every image exists, with a digest made from its name, unless its name says otherwise. Registry hosts under `.sim`
//! misbehave: `absent.sim/…` has no images, `denied.sim/…` wants credentials, `slow-<duration>.sim/…` takes that long.
//!
//! # Commands
//! Exec, ExecSync, Attach and PortForward work as with containerd, over [`streaming`]; [`command`] has what commands there are. They see
//! the container's mounts, and nothing else of the host.

mod attached;
mod behaviour;
mod calls;
mod clock;
mod command;
mod core;
mod events;
mod exec;
mod files;
mod network;
mod persist;
mod serve;
mod server;
mod state;
mod streaming;

#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc, time::Duration};

use cloudsim::tasks::TaskPanicked;
use tonic::Status;
use wire::cri;

use self::core::Core;
pub use self::state::PodCidr;

/// What a simulated runtime is like; [`Options::default`] is fast, forgets everything at its end and never fails.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long RunPodSandbox and StartContainer take at least.
    pub start_latency: Duration,
    /// Answered by Version.
    pub name: String,
    /// Answered by Version.
    pub version: String,
    /// Where sandboxes, containers and images are recorded, so that the next runtime on this directory goes on with
    /// them. Nothing is recorded without it.
    pub root: Option<PathBuf>,
    /// The addresses of pods, until UpdateRuntimeConfig tells of others.
    pub pod_cidr: PodCidr,
    /// How many events a reader of GetContainerEvents may be behind before it is cut off.
    pub event_buffer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start_latency: Duration::ZERO,
            name: "outrigger-sim".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            root: None,
            pod_cidr: PodCidr::default(),
            // 1,000 pods that start at once make 4 events each.
            event_buffer: 4096,
        }
    }
}

/// Why the runtime could not start, or not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recorded state cannot be read.
    #[error("cannot read the runtime's state at {path}: make it readable, or choose another directory")]
    Load {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The recorded state is not what this version writes.
    #[error("{path} is not a record of the simulated runtime: remove it, or choose another directory")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where it is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {path}: is its directory writable, and no other runtime on it?")]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The server gave up.
    #[error("the runtime's server on {path} failed")]
    Serve {
        /// The socket.
        path: PathBuf,
        /// What it died of.
        #[source]
        source: tonic::transport::Error,
    },
}

/// A handle of a simulated runtime. The runtime lives as long as a handle, a channel or a server of it.
#[derive(Clone)]
pub struct SimRuntime {
    core: Arc<Core>,
}

impl SimRuntime {
    /// Starts a runtime, with what it had recorded in [`Options::root`]. To be called inside a tokio runtime.
    pub fn new(options: Options) -> Result<Self, Error> {
        let core = Core::start(options)?;
        attached::go_on(&core);
        Ok(Self { core })
    }

    /// Waits until its clock panics: containers do not end in time any more.
    pub async fn panicked(&self) -> TaskPanicked {
        let tasks = self.core.tasks.clone();
        tasks.panicked().await
    }

    /// The tasks that run as long as it does.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> cloudsim::tasks::Tasks {
        self.core.tasks.clone()
    }

    /// All containers, as ListContainers shows them.
    pub fn containers(&self) -> Vec<cri::Container> {
        self.core.read(|state| state.list_containers(&cri::ContainerFilter::default()))
    }

    /// Ids of the containers of the pod with this UID, over all its sandboxes and attempts.
    pub fn container_ids_of(&self, pod_uid: &str) -> Vec<String> {
        self.core.read(|state| state.container_ids_of(pod_uid))
    }

    /// Runs a command in a container of this runtime, as the CRI's `ExecSync` does.
    pub(crate) async fn exec(
        &self,
        id: &str,
        words: &[String],
        limit: Duration,
    ) -> Result<cri::ExecSyncResponse, Status> {
        exec::run(&self.core, id, words, Some(limit)).await
    }

    /// Makes a running container end by itself now; false when there is no such running container.
    pub fn crash_container(&self, id: &str, exit_code: i32) -> bool {
        self.core.change(|state, now| state.crash(id, exit_code, now))
    }

    /// How often a call has arrived, named as in the .proto: `calls("RunPodSandbox")`.
    pub fn calls(&self, rpc: &str) -> u64 {
        self.core.calls.count(rpc)
    }

    /// The next such call (named as in the .proto) is answered with `status` and does nothing. Several queue up.
    pub fn fail_next(&self, rpc: &str, status: Status) {
        self.core.calls.fail_next(rpc, status);
    }
}
