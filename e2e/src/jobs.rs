//! Node jobs as the API shows them.

use anyhow::ensure;
use serde_json::Value;

use crate::{Cloud, until};

impl Cloud {
    /// Waits until a job of this kind, in the plural, is in this phase; returns its status.
    pub fn wait_job(&self, plural: &str, name: &str, phase: &str) -> anyhow::Result<Value> {
        until(&format!("{name} is in phase {phase}"), || {
            let path = format!("/apis/operations.kubeedge.io/v1alpha2/{plural}/{name}");
            let job = self.api.get(&path)?.unwrap_or_default();
            ensure!(job["status"]["phase"] == phase, "{}", job["status"]);
            Ok(job["status"].clone())
        })
    }
}

/// Returns the actions that the first node of a job has reported.
pub fn actions(status: &Value) -> Vec<String> {
    let flow = status["nodeStatus"][0]["actionFlow"].as_array();
    let name = |one: &Value| one["action"].as_str().unwrap_or_default().to_owned();
    flow.into_iter().flatten().map(name).collect()
}
