//! The headings of options on help pages.

pub(super) const API: &str = "API and kubeconfig";
pub(super) const PORTS: &str = "Ports for nodes";
pub(super) const ROUTER: &str = "Router";
pub(super) const KUBELETS: &str = "Access from another API server";
pub(super) const STORAGE: &str = "Storage";
pub(super) const NODES: &str = "Simulated nodes";
pub(super) const TESTS: &str = "Faults and tests";
pub(super) const LIMITS: &str = "Limits";
pub(super) const CLUSTER: &str = "Cluster mode";
