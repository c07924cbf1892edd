//! CloudCore's controllers, and those of a cluster that standalone mode needs: kube-rs programs against a `kube::Client`
//! which cannot tell whether it is served by this process or by a real API server.

pub mod binder;
pub mod edge;
pub mod namespaces;
pub mod node_lifecycle;
pub mod sync;
