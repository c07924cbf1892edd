//! What a simulated runtime is like.

use std::{path::PathBuf, time::Duration};

use super::state::PodCidr;

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
