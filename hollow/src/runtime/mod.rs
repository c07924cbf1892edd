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

use self::core::Core;
pub use self::{error::Error, options::Options, state::PodCidr};

/// A handle of a simulated runtime. The runtime lives as long as a handle, a channel or a server of it.
#[derive(Clone)]
pub struct SimRuntime {
    core: Arc<Core>,
}

impl SimRuntime {
    /// Starts a runtime, with what it had recorded in [`Options::root`]. To be called inside a tokio runtime.
    pub fn new(options: Options) -> Result<Self, Error> {
        let core = Core::open(options)?;
        clock::start(&core);
        own_command::start_all(&core);
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
