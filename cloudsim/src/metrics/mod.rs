//! What a cloud counts beside its API: CloudHub, stream tunnels, the relay, the queues of its controllers, its scheduler. Each part holds
//! its own counters; `cloud/metrics.rs` writes them all onto the API's `/metrics`. They are described in `docs/metrics-cloudsim.md`. Names are Kubernetes' and KubeEdge's where they have one.
//!
//! No label has a node's or an object's name: there are as many series with a thousand nodes as with one.

mod hub;
mod relay;
mod scheduler;
mod streams;
mod workqueue;

pub(crate) use self::{
    hub::{HubMetrics, Refusal},
    relay::RelayMetrics,
    scheduler::{Attempt, SchedulerMetrics},
    streams::StreamMetrics,
    workqueue::{WorkQueue, WorkQueues},
};
