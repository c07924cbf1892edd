//! The simulated container runtime: a CRI v1 server whose containers run without processes.
//!
//! An agent talks to it exactly as to containerd, over an in-process channel ([`SimRuntime::channel`]) or a unix
//! socket ([`SimRuntime::serve_unix`]). What a container does is written in its pod's annotations; without them, its command decides
//! when it ends and what it logs, as far as that is known (`docs/simulation.md`); an unknown command runs until it is asked to stop,
//! and then stops at once with exit code 0.
//!
//! `docs/simulation.md` has the rules.
//!
//! # Annotations: `sim.outrigger.dev/<container>.<name>`
//!
//! | name | value | meaning |
//! |---|---|---|
//! | `exit-after` | duration, `500ms` | ends by itself this long after its start (`0s` if only another `exit-…` is given) |
//! | `exit-code` | integer | … with this exit code, 0 unless given |
//! | `exit-reason` | word | … for this reason, such as `OOMKilled`; otherwise `Completed` or `Error` |
//! | `exit-attempts` | integer | … only in this many first attempts; later ones run on |
//! | `serve` | `true` | does not end by itself, whatever its command is |
//! | `start-delay` | duration | `StartContainer` takes this long |
//! | `start-error` | text | `StartContainer` fails with this message |
//! | `stop-time` | duration or `never` | how long it takes to end when asked to; killed (137) when the grace is over |
//! | `stop-code` | integer | exit code when it ends because it was asked to |
//! | `log-lines` | lines | written to its log at every start |
//! | `exec` | JSON object | command line → `{"code", "stdout", "stderr", "delay"}`, each optional |
//! | `ports` | `8080,9090` or `none` | the TCP ports at which it listens, instead of those that it declares |
//! | `listen-after` | duration | it begins to listen this long after its start |
//! | `http` | JSON object | path → `{"status", "body", "after", "delay"}`, each optional |
//! | `grpc` | JSON object | service → its health: `SERVING`, `NOT_SERVING`, … |
//!
//! An annotation of a container that is not in this table, or has a wrong value, makes `CreateContainer` fail.
//!
//! # Images
//! Every image exists, with a digest made from its name, unless its name says otherwise. Registry hosts under `.sim`
//! misbehave: `absent.sim/…` has no images, `denied.sim/…` wants credentials, `slow-<duration>.sim/…` takes that long.
//!
//! # Commands
//! Exec, `ExecSync`, Attach and `PortForward` work as with containerd, over [`streaming`]; [`command`] lists the commands. They see
//! the container's mounts and nothing else of the host.

mod answers;
mod attached;
mod behaviour;
mod calls;
mod clock;
mod command;
mod core;
mod duration;
mod error;
mod events;
mod exec;
mod files;
mod network;
mod options;
mod own_command;
mod persist;
mod serve;
mod server;
mod state;
mod streaming;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use cloudsim::tasks::TaskPanicked;
use tonic::Status;
use wire::cri;

use self::{core::Core, state::RuntimeState};
pub use self::{
    error::Error,
    options::{Options, SavedRecords},
    state::PodCidr,
};

/// A handle of a simulated runtime. The runtime lives as long as it has a handle, a channel or a server.
#[derive(Clone)]
pub struct SimRuntime {
    core: Arc<Core>,
}

impl SimRuntime {
    /// Starts a runtime with what was recorded in [`Options::root`] or [`Options::records`]. Must be called inside a tokio runtime.
    pub fn new(options: Options) -> Result<Self, Error> {
        let core = Core::open(options)?;
        clock::start(&core);
        own_command::start_all(&core);
        Ok(Self { core })
    }

    /// Waits until the runtime's clock panics; from then on containers do not end in time.
    pub async fn wait_panicked(&self) -> TaskPanicked {
        let tasks = self.core.tasks.clone();
        tasks.wait_panicked().await
    }

    /// Returns the tasks that run as long as the runtime.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> cloudsim::tasks::Tasks {
        self.core.tasks.clone()
    }

    /// Returns all containers, as `ListContainers` shows them.
    pub fn containers(&self) -> Vec<cri::Container> {
        self.core
            .read(|state| state.list_containers(&cri::ContainerFilter::default()))
    }

    /// Returns all sandboxes, containers and images as JSON, for [`Options::records`] of another runtime.
    pub fn records(&self) -> serde_json::Value {
        let records = self.core.read(RuntimeState::records);
        serde_json::to_value(records).unwrap_or_default()
    }

    /// Returns the ids of the containers of the pod with this UID, over all its sandboxes and attempts.
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

    /// Makes a running container end by itself now; returns false if there is no such running container.
    pub fn crash_container(&self, id: &str, exit_code: i32) -> bool {
        self.core
            .change(|state, now| state.crash(id, exit_code, now))
    }

    /// Returns how often a call has arrived, named as in the .proto: `calls("RunPodSandbox")`.
    pub fn calls(&self, rpc: &str) -> u64 {
        self.core.calls.count(rpc)
    }

    /// Makes the next such call (named as in the .proto) return `status` and do nothing. Several failures queue up.
    pub fn fail_next(&self, rpc: &str, status: Status) {
        self.core.calls.fail_next(rpc, status);
    }
}
