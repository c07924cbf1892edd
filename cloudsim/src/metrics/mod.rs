//! Metrics of a cloud besides its API's: CloudHub, stream tunnels, the relay, controllers' queues and the scheduler. Each part holds its
//! own counters; `cloud/metrics.rs` writes all of them to the API's `/metrics`. They are described in `docs/metrics-cloudsim.md`. Names
//! are Kubernetes' and KubeEdge's where they have one.
//!
//! No label has a node's or an object's name, so the number of series does not grow with the number of nodes.

mod hub;
mod relay;
mod scheduler;
mod streams;
mod workqueue;

pub(crate) use self::{
    hub::{HubMetrics, RefusalReason},
    relay::RelayMetrics,
    scheduler::{Attempt, SchedulerMetrics},
    streams::StreamMetrics,
    workqueue::{WorkQueue, WorkQueues},
};
