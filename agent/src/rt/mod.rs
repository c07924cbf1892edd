//! The runtime of all modules: backoff, clocks, supervised tasks, tasks in the span of their node, atomic files,
//! renewal of certificates, TLS files.

mod backoff;
mod certificate_fault;
mod clock;
pub(crate) mod file;
mod heartbeat;
mod metric;
mod optional;
pub(crate) mod renewal;
mod spawn;
mod supervise;
pub(crate) mod tls_files;

pub(crate) use backoff::Backoff;
pub(crate) use certificate_fault::CertificateFault;
pub(crate) use clock::{now, unix_millis};
pub(crate) use heartbeat::{HealthMonitor, Heartbeat, PartHealth};
pub use limits::Repeated;
pub(crate) use metric::{Collector, Metric, MetricKind, Queue};
pub(crate) use spawn::{in_span, spawn, spawn_blocking};
pub(crate) use supervise::{Error as PartError, Part, Supervisor, UnexpectedEnd};
