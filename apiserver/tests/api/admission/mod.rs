//! Admission policies and webhooks: who else is asked about a write.

use serde_json::{Value, json};

mod long;
mod mutating;
mod pod_security;
mod policies;
mod slow_webhooks;
mod webhooks;

/// Rules that are about these operations on these resources.
pub(super) fn about(operations: &[&str], resources: &[&str]) -> Value {
    json!([{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}])
}
