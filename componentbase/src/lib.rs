//! What the modules of a node share: tasks and their supervision, health, metrics, and the state that one module publishes for
//! another. The crate `edged` and all modules of `agent` build on it.
//!
//! An item belongs here if EdgeD and at least one module of the agent use it. What only the agent needs (its configuration, the
//! protocol of the cloud, TLS files) stays in `agent`. What only pods need stays in `edged`. Limits that servers of the cloud
//! share, too, are in `limits`, and names and formats of the protocol in `wire`.
//!
//! | file | what |
//! |---|---|
//! | `supervise`, `optional` | runs modules, and restarts them |
//! | `heartbeat` | finds modules that hang |
//! | `metric` | metrics and queues of modules for `/metrics` |
//! | `spawn` | tasks in the span of their node |
//! | `backoff` | waits between retries |
//! | `file` | files that are written atomically |
//! | `link`, `pods_complete` | state of the connection to the cloud, and of the store |
//! | [`addresses`], [`static_pods`], [`yaml`] | addresses of the machine, annotations of static pods, the parser of YAML |

pub mod addresses;
mod backoff;
mod file;
mod heartbeat;
mod link;
mod metric;
mod optional;
mod pods_complete;
mod spawn;
pub mod static_pods;
mod supervise;
pub mod yaml;

pub use self::{
    backoff::Backoff,
    file::{rename_file, replace_file},
    heartbeat::{HealthMonitor, Heartbeat, Idle, PartHealth, PartMonitor},
    link::{Link, Reconnections},
    metric::{Collector, Metric, MetricKind, Queue},
    pods_complete::{CompletenessPublisher, PodsComplete},
    spawn::{in_span, spawn, spawn_blocking},
    supervise::{Error as PartError, Part, Supervisor, UnexpectedEnd},
};
