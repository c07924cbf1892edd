//! The machinery that every room stands on: waiting between tries, the clock, running tasks that must neither vanish silently nor hang, files
//! that are whole, certificates that are renewed in time, faults that are not told too often, the names under which
//! local servers are asked.

mod backoff;
mod clock;
pub(crate) mod file;
mod heart;
mod metric;
pub(crate) mod renewal;
mod supervise;
pub(crate) mod tls_files;

pub(crate) use backoff::Backoff;
pub(crate) use clock::{now, unix_millis};
pub(crate) use heart::{Heart, Vital, Vitals};
pub use limits::Repeated;
pub(crate) use metric::{Collector, Metric, MetricKind, Queue};
pub(crate) use supervise::{Ended, Error as PartError, Part, Supervisor};
