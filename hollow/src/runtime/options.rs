//! The options of a simulated runtime.

use std::{path::PathBuf, time::Duration};

use edged::SIMULATED_RUNTIME;

use super::state::PodCidr;

/// The options of a simulated runtime; with [`Options::default`] it is fast, forgets everything at its end and never fails.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long `RunPodSandbox` and `StartContainer` take at least.
    pub start_latency: Duration,
    /// The runtime's name in the answer to `Version`.
    pub name: String,
    /// The runtime's version in the answer to `Version`.
    pub version: String,
    /// The directory in which sandboxes, containers and images are recorded, so that the next runtime on it goes on with them.
    /// `None` records nothing.
    pub root: Option<PathBuf>,
    /// The records of another runtime to begin with, if `root` is `None`; `None` for an empty runtime.
    pub records: Option<SavedRecords>,
    /// The addresses of pods, until `UpdateRuntimeConfig` gives others.
    pub pod_cidr: PodCidr,
    /// How many events a reader of `GetContainerEvents` may be behind before it is cut off.
    pub event_buffer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start_latency: Duration::ZERO,
            name: SIMULATED_RUNTIME.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            root: None,
            records: None,
            pod_cidr: PodCidr::default(),
            // 1,000 pods that start at once cause 4 events each.
            event_buffer: 4096,
        }
    }
}

/// The records of a runtime of another node, or of the same one at another place.
#[derive(Clone, Debug)]
pub struct SavedRecords {
    /// What [`SimRuntime::records`](super::SimRuntime::records) returned.
    pub records: serde_json::Value,
    /// The directory of that node, with its logs and volumes.
    pub from: PathBuf,
    /// The directory of this node.
    pub to: PathBuf,
}
